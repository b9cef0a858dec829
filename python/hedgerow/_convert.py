"""Turns the plain dicts of the core into the records of `_types`.

The only place that knows the core's field names. Imported at the first call that returns a record.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ._errors import _make
from ._text import escaped
from ._types import (
    BlameLine,
    Change,
    Checkpoint,
    CheckpointList,
    Diff,
    EditResult,
    Effect,
    Kind,
    LogEntry,
    Match,
    Paths,
    Record,
    RecordStatus,
    RollbackResult,
    SearchResult,
    Skipped,
    Stat,
    StoreStats,
    Summary,
    TreeNode,
    Visit,
    Visits,
)
from ._types import patch as patch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from . import _native

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def path(value: str | list[int]) -> str:
    """Return a path as text; a name that is not UTF-8 comes as byte values, the root as nothing."""
    if isinstance(value, str):
        return value or "/"
    return bytes(value).decode("utf-8", "surrogateescape")


def _path_or_none(value: str | list[int] | None) -> str | None:
    return None if value is None else path(value)


def time(nanoseconds: int) -> datetime:
    """Return nanoseconds since the epoch as an aware time, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def _time_or_none(nanoseconds: int | None) -> datetime | None:
    return None if nanoseconds is None else time(nanoseconds)


def stat(raw: dict[str, Any]) -> Stat:
    """Convert one stat dict."""
    return Stat(
        path=path(raw["path"]),
        kind=Kind(raw["kind"]),
        size=raw["size"],
        mode=raw["mode"],
        modified=_time_or_none(raw["modified"]),
        links=raw["links"],
        target=_path_or_none(raw["target"]),
    )


def stats(raw: list[dict[str, Any]]) -> list[Stat]:
    """Convert a listing."""
    return [stat(item) for item in raw]


def tree(root: dict[str, Any], entries: list[dict[str, Any]], max_depth: int | None) -> TreeNode:
    """Build a tree from the stat of its root and the walk below it."""
    top = stat(root)
    start = top.path.strip("/")
    below: dict[str, list[Stat]] = {}
    for entry in map(stat, entries):
        below.setdefault(entry.path.rpartition("/")[0], []).append(entry)

    # Children before parents and no recursion: a tree may be deeper than the interpreter's stack.
    nodes: dict[str, TreeNode] = {}
    order = [(top, start, 0)]
    for _, where, depth in order:
        if max_depth is None or depth < max_depth:
            order.extend((child, child.path, depth + 1) for child in below.get(where, ()))
    for entry, where, depth in reversed(order):
        children = None
        if entry.kind is Kind.DIRECTORY and (max_depth is None or depth < max_depth):
            children = tuple(nodes.pop(child.path) for child in below.get(where, ()))
        nodes[where] = TreeNode(entry.name, entry.path, entry.kind, entry.size, entry.target, children)
    return nodes[start]


def summary(raw: dict[str, Any]) -> Summary:
    """Convert the counts of a tree."""
    return Summary(raw["files"], raw["directories"], raw["symlinks"], raw["special"], raw["bytes"])


def glob(raw: dict[str, Any]) -> Paths:
    """Convert what a glob found."""
    return Paths(
        [path(item) for item in raw["paths"]],
        truncated=bool(raw["truncated"]),
        unreadable=[path(item) for item in raw["unreadable"]],
    )


def _skipped(raw: Iterable[dict[str, Any]]) -> tuple[Skipped, ...]:
    return tuple(Skipped(path(item["path"]), item["reason"]) for item in raw)


def search(raw: dict[str, Any]) -> SearchResult:
    """Convert what a search found."""
    matches = tuple(
        Match(
            path=path(item["path"]),
            line=item["line"],
            text=item["text"],
            start=item["start"],
            end=item["end"],
            before=tuple(item["before"]),
            after=tuple(item["after"]),
            clamped=item["clamped"],
        )
        for item in raw["matches"]
    )
    cut = raw["truncated"]
    return SearchResult(matches, raw["files_searched"], _skipped(raw["skipped"]), cut is not None, cut)


def edit(raw: dict[str, Any]) -> EditResult:
    """Convert the result of an edit."""
    return EditResult(
        path=path(raw["path"]),
        id=raw["id"],
        replaced=raw["replaced"],
        line=raw["line"],
        diff=raw["diff"],
        additions=raw["additions"],
        deletions=raw["deletions"],
        truncated=raw["truncated"],
    )


def checkpoint(raw: dict[str, Any]) -> Checkpoint:
    """Convert one checkpoint."""
    return Checkpoint(
        id=raw["id"],
        label=raw["label"],
        labels=tuple(raw["labels"]),
        author=raw["author"],
        created=time(raw["created"]),
        parent=raw["parent"],
        kind=raw["kind"],
        rollback_of=raw["rollback_of"],
        tree=raw["tree"],
        cursor=raw["cursor"],
        first_sequence=raw["first_sequence"],
        last_sequence=raw["last_sequence"],
        changes=raw["changes"],
        touched=tuple(path(item) for item in raw["touched"]),
        has_text_diffs=raw["has_text_diffs"],
        skipped=_skipped(raw["skipped"]),
    )


def checkpoints(raw: list[dict[str, Any]]) -> CheckpointList:
    """Convert all checkpoints."""
    return CheckpointList(checkpoint(item) for item in raw)


def change(raw: dict[str, Any]) -> Change:
    """Convert one change; a diff says old and new, a record before and after, a visit neither."""
    get = raw.get
    kind = get("kind")
    return Change(
        path=path(raw["path"]),
        effect=Effect(raw["effect"]),
        source=_path_or_none(get("source")),
        kind=None if kind is None else Kind(kind),
        before_id=get("before_id", get("old_id")),
        after_id=get("after_id", get("new_id")),
        before_size=get("before_size", get("old_size")),
        after_size=get("after_size", get("new_size")),
        before_mode=get("before_mode", get("old_mode")),
        after_mode=get("after_mode", get("new_mode")),
        real_path=_path_or_none(get("real_path")),
        has_content=get("has_content"),
    )


def _changes(raw: Iterable[dict[str, Any]]) -> tuple[Change, ...]:
    return tuple(change(item) for item in raw)


def encodable(text: str, encoding: str | None) -> str:
    """Return `text` if it can be written in an encoding as Python knows it; the core, which knows others, looks too."""
    if encoding is None:
        return text
    try:
        text.encode(encoding)
    except LookupError:
        return text
    except UnicodeEncodeError as error:
        character = text[error.start]
        raise _make(
            "not-utf8",
            f"new holds a character that {encoding} does not have: {escaped(character)} (U+{ord(character):04X})",
            hint="Nothing was changed; use characters of the file's encoding.",
        ) from None
    return text


def diff(raw: _native.Diff) -> Diff:
    """Wrap a diff."""
    return Diff(raw)


def rollback(raw: dict[str, Any]) -> RollbackResult:
    """Convert the result of a rollback."""
    saved, target = raw["saved"], raw["target"]
    return RollbackResult(
        checkpoint=checkpoint(raw["checkpoint"]),
        saved=None if saved is None else checkpoint(saved),
        target=target if isinstance(target, str) else target["id"],
        changes=_changes(raw["changes"]),
    )


def records(raw: list[dict[str, Any]], workspace: str) -> list[Record]:
    """Convert records of the workspace with the id `workspace`."""
    return [
        Record(
            sequence=item["sequence"],
            workspace=workspace,
            time=time(item["time"]),
            kind=item["kind"],
            author=item["author"],
            paths=tuple(path(name) for name in item["paths"]),
            status=RecordStatus(item["status"]),
            source=item["source"],
            checkpoint=item["checkpoint"],
            changes=_changes(item["changes"]),
        )
        for item in raw
    ]


def log(raw: list[dict[str, Any]]) -> list[LogEntry]:
    """Convert the history of a file."""
    return [
        LogEntry(
            checkpoint(item["checkpoint"]), Effect(item["effect"]), path(item["path"]), _path_or_none(item["source"])
        )
        for item in raw
    ]


def blame(raw: list[dict[str, Any]]) -> list[BlameLine]:
    """Convert the lines of a file with their authors."""
    return [
        BlameLine(item["line"], item["text"], item["author"], item["checkpoint"], _time_or_none(item["created"]))
        for item in raw
    ]


def visits(raw: list[dict[str, Any]]) -> Visits:
    """Group visits by author; what nobody signed is not listed."""
    found = Visits()
    for item in raw:
        author = item["author"]
        if author is not None:
            changes = sorted(_changes(item["changes"]), key=lambda change: change.path)
            found.setdefault(author, []).append(Visit(author, item["checkpoint"], tuple(changes)))
    return found


def store_stats(raw: dict[str, Any]) -> StoreStats:
    """Convert the size of the store."""
    return StoreStats(
        checkpoints=raw["checkpoints"],
        records=raw["records"],
        objects=raw["objects"],
        blobs=raw["blobs"],
        packs=raw["packs"],
        loose=raw["loose"],
        bytes=raw["bytes"],
    )
