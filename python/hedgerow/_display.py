"""What notebooks show: a tree of files, a diff, a list of checkpoints.

Everything that comes from the tree or from a caller (names, labels, contents) is escaped: it may be hostile. No
scripts, no outside resources; colours are translucent over the page's own, so that dark and light themes both work.
Sizes are bounded, because a notebook stores what it shows.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from . import _convert as convert
from ._errors import WorkspaceError
from ._text import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._native import Workspace as Native
    from ._types import Checkpoint, Diff

_MAX_ENTRIES = 300
_MAX_LINES = 1_000
_MAX_CHECKPOINTS = 200

_MONO = "font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:90%"
_FAINT = "opacity:.65"
_COLOURS = {
    "+": "background:rgba(46,160,67,.22)",
    "-": "background:rgba(248,81,73,.22)",
    "@": "background:rgba(56,139,253,.18)",
}


def workspace_html(native: Native, title: str) -> str:
    """Return a workspace as a collapsible tree of at most a few hundred entries."""
    parts = [f'<div style="{_MONO}"><div><b>{_safe(title)}</b></div>']
    if not native.is_closed:
        budget = [_MAX_ENTRIES]
        try:
            parts.extend(_directory(native, "/", budget, 0))
        except WorkspaceError as error:
            parts.append(f'<div style="{_FAINT}">{_safe(error.message)}</div>')
        if budget[0] <= 0:
            parts.append(f'<div style="{_FAINT}">… only the first {_MAX_ENTRIES} entries are shown</div>')
    parts.append("</div>")
    return "".join(parts)


def _directory(native: Native, path: str, budget: list[int], depth: int) -> Iterable[str]:
    for raw in native.list_dir(path):
        if budget[0] <= 0:
            return
        budget[0] -= 1
        yield from _entry(native, raw, budget, depth)


def _entry(native: Native, raw: dict[str, Any], budget: list[int], depth: int) -> Iterable[str]:
    entry = convert.stat(raw)
    name = _safe(escaped(entry.name))
    indent = "margin-left:1.2em"
    if entry.is_directory:
        yield f'<details style="{indent}"{" open" if depth == 0 else ""}><summary>{name}/</summary>'
        try:
            if depth < 20:
                yield from _directory(native, entry.path, budget, depth + 1)
        except WorkspaceError as error:
            yield f'<div style="{indent};{_FAINT}">{_safe(error.message)}</div>'
        yield "</details>"
        return
    if entry.is_symlink:
        note = f"→ {_safe(escaped(entry.target or ''))}"
    elif entry.is_file:
        note = _bytes(entry.size)
    else:
        note = str(entry.kind)
    yield f'<div style="{indent}">{name} <span style="{_FAINT}">{note}</span></div>'


def diff_html(diff: Diff) -> str:
    """Return a diff: the changed paths, and the lines with their colours."""
    changes = diff.changes
    head = f"{len(changes)} {'change' if len(changes) == 1 else 'changes'}"
    listed = "".join(f"<div>{_safe(str(change))}</div>" for change in changes[:_MAX_ENTRIES])
    if len(changes) > _MAX_ENTRIES:
        listed += f'<div style="{_FAINT}">… {len(changes) - _MAX_ENTRIES} more</div>'
    patch = diff.unified(max_lines=_MAX_LINES)
    lines = "".join(_line(line) for line in patch.text.split("\n") if line)
    if patch.truncated:
        lines += f'<div style="{_FAINT}">… only the first {_MAX_LINES} lines are shown</div>'
    counts = f'<span style="{_FAINT}">+{patch.additions} -{patch.deletions}</span>'
    return (
        f'<div style="{_MONO}"><details><summary><b>{head}</b> {counts}</summary>{listed}</details>'
        f'<div style="white-space:pre;overflow-x:auto">{lines}</div></div>'
    )


def _line(line: str) -> str:
    colour = "" if line.startswith(("+++", "---")) else _COLOURS.get(line[:1], "")
    weight = "font-weight:bold" if line.startswith(("diff ", "+++", "---")) else ""
    return f'<div style="{colour or weight}">{_safe(_visible(line[:2_000]))}</div>'


def _visible(line: str) -> str:
    return "\t".join(escaped(part) for part in line.split("\t"))


def checkpoints_html(checkpoints: tuple[Checkpoint, ...]) -> str:
    """Return checkpoints as a table, newest first."""
    rows = "".join(_row(checkpoint) for checkpoint in reversed(checkpoints[-_MAX_CHECKPOINTS:]))
    more = len(checkpoints) - _MAX_CHECKPOINTS
    note = f'<div style="{_FAINT}">… {more} older ones</div>' if more > 0 else ""
    cells = "".join(
        f'<th style="text-align:left">{name}</th>' for name in ("id", "label", "author", "created", "kind", "changes")
    )
    return f'<div style="{_MONO}"><table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>{note}</div>'


def _row(checkpoint: Checkpoint) -> str:
    values = (
        checkpoint.id[:12],
        escaped(checkpoint.label or ""),
        escaped(checkpoint.author or ""),
        checkpoint.created.isoformat(" ", "seconds"),
        checkpoint.kind,
        str(checkpoint.changes),
    )
    cells = "".join(f'<td style="text-align:left">{_safe(value)}</td>' for value in values)
    return f"<tr>{cells}</tr>"


def _safe(text: str) -> str:
    return escape(text, quote=True)


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TB"
