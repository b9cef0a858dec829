"""What the calls return: frozen records with `to_dict()`.

Paths are relative to the workspace root, POSIX, `str` with surrogateescape for names that are not UTF-8. Times are
aware UTC. Sequences are tuples, sorted where no other order is named. `to_dict()` yields plain JSON values: enums
and times as text, tuples as lists.

The module is imported at the first call that returns one of these, not by `import hedgerow`: building the classes
costs more than the rest of the package together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self, overload

from ._text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from ._native import Diff as NativeDiff
    from ._native import Reader


class Kind(StrEnum):
    """What an entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"


class Effect(StrEnum):
    """What happened to a path."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"
    MOVED = "moved"
    COPIED = "copied"
    UNCHANGED = "unchanged"


class RecordStatus(StrEnum):
    """How a recorded call ended."""

    APPLIED = "applied"
    FAILED = "failed"


def _plain(value: object) -> object:
    if isinstance(value, _Model):
        return value.to_dict()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


class _Model:
    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Stat(_Model):
    """What is known of one entry; of a symbolic link, the link itself."""

    path: str
    kind: Kind
    size: int
    """Bytes; of a link, the length of its target."""
    mode: int
    """Permission bits, at most `0o7777`; what is set here is at most `0o777`."""
    modified: datetime | None
    links: int
    """Number of hard links."""
    target: str | None
    """Where a symbolic link leads, exactly as stored; `None` for everything else."""

    @property
    def name(self) -> str:
        """The last part of the path; empty for the root."""
        return self.path.strip("/").rpartition("/")[2]

    @property
    def is_file(self) -> bool:
        """Whether this is a regular file."""
        return self.kind is Kind.FILE

    @property
    def is_directory(self) -> bool:
        """Whether this is a directory."""
        return self.kind is Kind.DIRECTORY

    @property
    def is_symlink(self) -> bool:
        """Whether this is a symbolic link."""
        return self.kind is Kind.SYMLINK


@dataclass(frozen=True, slots=True)
class TreeNode(_Model):
    """One entry of a tree, with what lies below it."""

    name: str
    path: str
    kind: Kind
    size: int
    target: str | None
    children: tuple[TreeNode, ...] | None
    """Sorted by name; `None` for what is no directory, and for directories at the depth limit."""

    # None of what follows recurses: a tree may be deeper than the interpreter's stack.

    def __str__(self) -> str:
        """Draw the tree, one entry a line, names escaped."""
        marks = {Kind.DIRECTORY: "/", Kind.SYMLINK: "@"}
        return "\n".join(
            f"{'  ' * depth}{escaped(node.name)}{marks.get(node.kind, '')}" for depth, node in self._nodes()
        )

    def __repr__(self) -> str:
        """Show all fields, as every record does."""
        parts: list[str] = []
        todo: list[TreeNode | str] = [self]
        while todo:
            item = todo.pop()
            if isinstance(item, str):
                parts.append(item)
                continue
            own = ", ".join(f"{field.name}={getattr(item, field.name)!r}" for field in fields(item)[:-1])
            parts.append(f"{type(item).__qualname__}({own}, children=")
            if item.children is None:
                parts.append("None)")
                continue
            parts.append("(")
            todo.append(",))" if len(item.children) == 1 else "))")
            for number, child in reversed(list(enumerate(item.children))):
                todo.append(child)
                if number:
                    todo.append(", ")
        return "".join(parts)

    def __eq__(self, other: object) -> bool:
        """Compare everything below too."""
        if not isinstance(other, TreeNode):
            return NotImplemented
        # Rows that say how many children follow are the same only for the same tree.
        return all(mine == theirs for mine, theirs in zip(self._rows(), other._rows(), strict=False))

    def __hash__(self) -> int:
        """Hash everything below too."""
        return hash(tuple(self._rows()))

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Pickle and copy as a list of rows."""
        return _tree_of, (list(self._rows()),)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, children nested."""
        top: list[dict[str, Any]] = []
        todo: list[tuple[TreeNode, list[dict[str, Any]]]] = [(self, top)]
        while todo:
            node, siblings = todo.pop()
            item = {field.name: _plain(getattr(node, field.name)) for field in fields(node)[:-1]}
            below: list[dict[str, Any]] | None = None if node.children is None else []
            siblings.append(item | {"children": below})
            if below is not None:
                todo.extend((child, below) for child in reversed(node.children or ()))
        return top[0]

    def _nodes(self) -> Iterator[tuple[int, TreeNode]]:
        """Yield each node with its depth, before its children."""
        todo: list[tuple[int, TreeNode]] = [(0, self)]
        while todo:
            depth, node = todo.pop()
            yield depth, node
            todo.extend((depth + 1, child) for child in reversed(node.children or ()))

    def _rows(self) -> Iterator[tuple[object, ...]]:
        for _, node in self._nodes():
            count = None if node.children is None else len(node.children)
            yield node.name, node.path, node.kind, node.size, node.target, count


def _tree_of(rows: list[tuple[Any, ...]]) -> TreeNode:
    """Build a tree from its rows, each before those of its children."""
    nodes: list[TreeNode] = []
    for name, path, kind, size, target, count in reversed(rows):
        children = None if count is None else tuple(nodes.pop() for _ in range(count))
        nodes.append(TreeNode(name, path, kind, size, target, children))
    return nodes[0]


@dataclass(frozen=True, slots=True)
class Summary(_Model):
    """Counts of the entries of a tree, the directory at its top included; links are counted and not followed."""

    files: int
    directories: int
    symlinks: int
    special: int
    bytes: int
    """Sum of the sizes of regular files."""


class Paths(Sequence[str]):
    """Sorted paths; compares equal to any list or tuple of the same texts.

    Attributes:
        truncated: Whether there were more than were asked for.
        unreadable: Directories that could not be searched.
    """

    __slots__ = ("_paths", "truncated", "unreadable")

    truncated: bool
    unreadable: tuple[str, ...]

    def __init__(self, paths: Sequence[str] = (), *, truncated: bool = False, unreadable: Sequence[str] = ()) -> None:
        """Hold `paths` in the given order."""
        self._paths = tuple(paths)
        self.truncated = truncated
        self.unreadable = tuple(unreadable)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return one path, or a tuple of several."""
        return self._paths[index]

    def __len__(self) -> int:
        """Count the paths."""
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        """Yield the paths in order."""
        return iter(self._paths)

    def __contains__(self, path: object) -> bool:
        """Tell whether `path` is one of them."""
        return path in self._paths

    def __eq__(self, other: object) -> bool:
        """Compare with any list, tuple or `Paths`."""
        if isinstance(other, Paths):
            return self._paths == other._paths
        if isinstance(other, (list, tuple)):
            return self._paths == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        """Hash as the tuple of the paths."""
        return hash(self._paths)

    def __repr__(self) -> str:
        """Show the paths as a list, and whether it was cut."""
        return f"Paths({list(self._paths)!r}{', truncated=True' if self.truncated else ''})"

    def to_dict(self) -> dict[str, Any]:
        """Return the paths and what is said about them as plain JSON values."""
        return {"paths": list(self._paths), "truncated": self.truncated, "unreadable": list(self.unreadable)}


@dataclass(frozen=True, slots=True)
class Match(_Model):
    """One matching line."""

    path: str
    line: int
    """1-based."""
    text: str
    """The line without its end; a part around the match where the line is longer than the limit."""
    start: int
    """Where the first match begins in `text`."""
    end: int
    """Where it ends, exclusive."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    clamped: bool
    """Whether `text` is a part of the line only."""


@dataclass(frozen=True, slots=True)
class Skipped(_Model):
    """A path that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class SearchResult(_Model):
    """What a search found, sorted by path and line; iterates over the matches."""

    matches: tuple[Match, ...]
    files_searched: int
    skipped: tuple[Skipped, ...]
    truncated: bool
    truncated_by: str | None
    """`matches` or `files`: the limit that ended the search; `None` if it saw everything."""

    def __iter__(self) -> Iterator[Match]:
        """Yield the matches."""
        return iter(self.matches)

    def __len__(self) -> int:
        """Count the matches."""
        return len(self.matches)


@dataclass(frozen=True, slots=True)
class EditResult(_Model):
    """What an edit did."""

    path: str
    id: str
    """Content id of the file now; pass it as `if_hash`."""
    replaced: int
    line: int
    """1-based line of the first replacement."""
    diff: str
    """Unified diff, at most 200 lines."""
    additions: int
    deletions: int
    truncated: bool
    """Whether `diff` was cut."""


@dataclass(frozen=True, slots=True)
class Change(_Model):
    """What happened to one path; fields that do not apply are `None`."""

    path: str
    effect: Effect
    source: str | None = None
    """The path before, for what was renamed, moved or copied."""
    kind: Kind | None = None
    before_id: str | None = None
    after_id: str | None = None
    before_size: int | None = None
    after_size: int | None = None
    before_mode: int | None = None
    after_mode: int | None = None
    real_path: str | None = None
    """The file that changed, where `path` is a symbolic link it was written through."""
    has_content: bool | None = None
    """Whether a record holds the contents before and after, so that a diff can be shown."""

    def __str__(self) -> str:
        """Show the effect and the path."""
        arrow = f"{escaped(self.source)} -> " if self.source is not None else ""
        return f"{self.effect} {arrow}{escaped(self.path)}"

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        kind = raw.get("kind")
        return cls(**{**raw, "effect": Effect(raw["effect"]), "kind": None if kind is None else Kind(kind)})


@dataclass(frozen=True, slots=True)
class Checkpoint(_Model):
    """A named state of the whole tree, with its place in the line of states."""

    id: str
    """Git commit id, 40 hexadecimal digits."""
    label: str | None
    labels: tuple[str, ...]
    author: str | None
    created: datetime
    parent: str | None
    kind: str
    """`baseline`, `checkpoint`, `rollback`, `safety` (before a rollback or a writer) or `recovered`."""
    rollback_of: str | None
    """The checkpoint a rollback went back to."""
    tree: str
    """Git tree id."""
    cursor: int
    """Sequence number of the newest record this state holds."""
    first_sequence: int | None
    last_sequence: int | None
    """First and last record since the parent; `None` where there is none."""
    changes: int
    """Paths that differ from the parent."""
    touched: tuple[str, ...]
    """Those paths, sorted; at most 1000."""
    has_text_diffs: bool
    skipped: tuple[Skipped, ...]
    """What could not be captured, and why."""

    @property
    def truncated(self) -> bool:
        """Whether `touched` holds fewer paths than changed."""
        return len(self.touched) < self.changes

    def __str__(self) -> str:
        """Show the short id, label and author."""
        by = f" by {escaped(self.author)}" if self.author else ""
        return f"{self.id[:12]} {escaped(self.label) if self.label else '(no label)'}{by}"

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            **{
                **raw,
                "labels": tuple(raw["labels"]),
                "created": datetime.fromisoformat(raw["created"]),
                "touched": tuple(raw["touched"]),
                "skipped": tuple(Skipped(**item) for item in raw["skipped"]),
            }
        )


class CheckpointList(tuple[Checkpoint, ...]):
    """Checkpoints, oldest first; a table in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show one checkpoint a line."""
        return "\n".join(map(str, self)) or "(no checkpoints)"

    def _repr_html_(self) -> str:
        from ._display import checkpoints_html

        return checkpoints_html(self)


@dataclass(frozen=True, slots=True)
class Patch(_Model):
    """A git-style unified diff; `str()` is its text."""

    text: str
    """For people: bytes that are not UTF-8 are shown as `\ufffd`."""
    additions: int
    deletions: int
    truncated: bool
    data: bytes = field(default=b"", repr=False)
    """The same byte for byte, for `git apply` and `patch -p1`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, without `data`."""
        return {name: value for name, value in _Model.to_dict(self).items() if name != "data"}

    def __str__(self) -> str:
        """Return the text."""
        return self.text


class Diff:
    """What differs between two states; contents are read only when a text is asked for.

    Iterates over the changes, sorted by path; false when nothing differs. `str(diff)` is the whole patch. In an async
    program use `await diff.aunified()`: texts are read from the store.
    """

    __slots__ = ("_changes", "_native")

    def __init__(self, native: NativeDiff) -> None:
        """Wrap a diff of the core."""
        self._native = native
        self._changes: tuple[Change, ...] | None = None

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every path that differs, sorted by path."""
        if self._changes is None:
            from ._convert import change

            self._changes = tuple(change(raw) for raw in self._native.changes())
        return self._changes

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the changes."""
        return tuple(change.path for change in self.changes)

    def unified(self, paths: Sequence[str] | None = None, *, context: int = 3, max_lines: int | None = None) -> Patch:
        """Return the differences as a patch that `git apply` and `patch -p1` take: its `data`, if not all is UTF-8.

        Args:
            paths: Only these files; `None` for all.
            context: Unchanged lines around each change.
            max_lines: Cut the text after so many lines, and say so in `truncated`.

        Returns:
            The text with its counts of added and removed lines.
        """
        return patch(self._native.unified(paths=_listed(paths), context=context, max_lines=max_lines))

    async def aunified(
        self, paths: Sequence[str] | None = None, *, context: int = 3, max_lines: int | None = None
    ) -> Patch:
        """Await `unified`; same arguments and result."""
        from ._call import later

        return patch(await later(self._native.unified, paths=_listed(paths), context=context, max_lines=max_lines))

    def patch(self) -> str:
        """Return the whole patch as text."""
        return self.unified().text

    def to_dict(self) -> dict[str, Any]:
        """Return the changes as plain JSON values."""
        return {"changes": [change.to_dict() for change in self.changes]}

    def __iter__(self) -> Iterator[Change]:
        """Yield the changes."""
        return iter(self.changes)

    def __len__(self) -> int:
        """Count the changes."""
        return len(self.changes)

    def __bool__(self) -> bool:
        """Tell whether anything differs."""
        return bool(self.changes)

    def __str__(self) -> str:
        """Return the whole patch as text."""
        return self.patch()

    def __repr__(self) -> str:
        """Show the number of changes and the first of them."""
        shown = ", ".join(map(str, self.changes[:5]))
        return f"Diff({len(self)} changes{': ' if shown else ''}{shown}{', …' if len(self) > 5 else ''})"

    def _repr_html_(self) -> str:
        from ._display import diff_html

        return diff_html(self)


def _listed(paths: Sequence[str] | None) -> list[str] | None:
    if isinstance(paths, str):
        return [paths]
    return None if paths is None else list(paths)


def patch(raw: dict[str, Any]) -> Patch:
    """Convert a unified diff of the core."""
    return Patch(raw["text"], raw["additions"], raw["deletions"], raw["truncated"], raw["data"])


@dataclass(frozen=True, slots=True)
class RollbackResult(_Model):
    """What a rollback did."""

    checkpoint: Checkpoint
    """The new checkpoint the rollback made; its tree is the target's."""
    saved: Checkpoint | None
    """Holds what no checkpoint held before the rollback; roll back to it to undo. `None` if there was nothing."""
    target: str
    """Id of the checkpoint that was asked for."""
    changes: tuple[Change, ...]
    """What was put back, sorted by path."""


@dataclass(frozen=True, slots=True)
class Record(_Model):
    """One call that changed the workspace, or one change found on disk."""

    sequence: int
    workspace: str
    """Id of the workspace."""
    time: datetime
    kind: str
    """`write`, `append`, `create`, `mkdir`, `copy`, `move`, `remove`, `symlink`, `hardlink`, `chmod`, `edit`, `clear`,
    `import`, `rollback`, `undo` (of a writer that failed) or `external`."""
    author: str | None
    paths: tuple[str, ...]
    status: RecordStatus
    source: str | None
    """Where the change came from: our own calls, or `external`."""
    checkpoint: str | None
    changes: tuple[Change, ...]

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            **{
                **raw,
                "time": datetime.fromisoformat(raw["time"]),
                "paths": tuple(raw["paths"]),
                "status": RecordStatus(raw["status"]),
                "changes": tuple(Change.from_dict(item) for item in raw["changes"]),
            }
        )


@dataclass(frozen=True, slots=True)
class BlameLine(_Model):
    """One line and who wrote it."""

    line: int
    """1-based."""
    text: str
    author: str | None
    checkpoint: str | None
    """The checkpoint that brought the line; `None` for a line no checkpoint holds yet."""
    created: datetime | None


@dataclass(frozen=True, slots=True)
class LogEntry(_Model):
    """One checkpoint that changed a file."""

    checkpoint: Checkpoint
    effect: Effect
    path: str
    """What the file was called then."""
    source: str | None

    @property
    def author(self) -> str | None:
        """Who made the checkpoint."""
        return self.checkpoint.author


@dataclass(frozen=True, slots=True)
class Visit(_Model):
    """One checkpoint of an author, with what it changed; empty when the author changed nothing."""

    author: str | None
    checkpoint: str
    changes: tuple[Change, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The changed paths, sorted; a new directory is one too."""
        return tuple(change.path for change in self.changes)

    @property
    def files(self) -> tuple[str, ...]:
        """The changed paths that are no directories, sorted."""
        return tuple(change.path for change in self.changes if change.kind is not Kind.DIRECTORY)


class Visits(dict[str, list[Visit]]):
    """The visits of each author, oldest first."""

    __slots__ = ()

    def to_dict(self) -> dict[str, list[str]]:
        """Return for each author every file and link of all visits, sorted, each once."""
        return {author: sorted({path for visit in visits for path in visit.files}) for author, visits in self.items()}


@dataclass(frozen=True, slots=True)
class StoreStats(_Model):
    """How large the store is."""

    checkpoints: int
    records: int
    objects: int
    blobs: int
    packs: int
    loose: int
    bytes: int
    """Size of the store on disk, or in memory for a workspace without one."""


class ByteStream:
    """The bytes of one file, piece by piece; iterates with `for` and with `async for`.

    Each piece but the last has the asked length. The file is closed at the end, by `close()` or `await aclose()`, and
    by leaving a `with` or `async with` block. What `AsyncWorkspace.iter_bytes` returns is opened by `await`, or by the
    first piece.
    """

    __slots__ = ("_chunk", "_open", "_reader")

    def __init__(
        self, reader: Reader | None, chunk: int, opening: Callable[[], Coroutine[Any, Any, Reader]] | None = None
    ) -> None:
        """Wrap an open reader of the core, or the call that will open one."""
        self._reader = reader
        self._chunk = chunk
        self._open = opening

    def __iter__(self) -> Iterator[bytes]:
        """Return the stream itself."""
        return self

    def __next__(self) -> bytes:
        """Return the next piece."""
        if self._open is not None:
            raise TypeError("this stream comes from an AsyncWorkspace: await it first, or use `async for`")
        if self._reader is None:
            raise StopIteration
        piece = self._reader.read(self._chunk)
        if not piece:
            self.close()
            raise StopIteration
        return piece

    def __await__(self) -> Generator[Any, Any, Self]:
        """Open the file and return the stream."""
        return self._opened().__await__()

    async def _opened(self) -> Self:
        if self._open is not None:
            opening, self._open = self._open, None
            self._reader = await opening()
        return self

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        from ._call import later

        await self._opened()
        if self._reader is None:
            raise StopAsyncIteration
        piece = await later(self._reader.read, self._chunk)
        if not piece:
            self.close()
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        reader, self._reader, self._open = self._reader, None, None
        if reader is not None:
            reader.close()

    async def aclose(self) -> None:
        """Close the file; closing twice is harmless."""
        self.close()

    def __enter__(self) -> Self:
        """Return the stream itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    async def __aenter__(self) -> Self:
        """Open the file."""
        return await self._opened()

    async def __aexit__(self, *_: object) -> None:
        """Close the file."""
        self.close()
