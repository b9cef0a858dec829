"""The asynchronous workspace: the methods of `Workspace` as coroutines over the same handle.

A call first tries to finish at once: a read of what is in memory or in the page cache costs no thread. In a workspace
whose tree and store are both in memory, calls about one entry (`exists`, `stat`, `readlink`, `realpath`, `mkdir`,
`symlink`, `hardlink`, `chmod`, and writes of at most 64 KiB) cannot wait for a disk and run in place as well; a hop to
a thread costs 20 to 100 times as much as they do. Everything else, and everything that grows with the tree, runs on a
thread of the core; large results are turned into records on a thread too. The event loop never waits for a disk.

Cancelling a call asks its work to stop and returns at once. A read stops at its next check; a change either had not
reached its commit point, and nothing is changed, or it completes and is recorded.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from . import _convert as convert
from ._call import Pending, converted, later, later_reporting, turn
from ._errors import InvalidPathError
from ._progress import Reporter
from ._types import ByteStream
from ._workspace import (
    Workspace,
    _check_chunk,
    _check_range,
    _decode,
    _described,
    _memory,
    _open,
    _paths,
    _patterns,
    _ref,
    _ref_or_none,
    _sequence,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from typing import TypeVar

    from ._native import Workspace as Native
    from ._tools import Tool
    from ._types import (
        BlameLine,
        Checkpoint,
        CheckpointList,
        Diff,
        EditResult,
        LogEntry,
        Patch,
        Paths,
        Record,
        RollbackResult,
        SearchResult,
        Stat,
        StoreStats,
        Summary,
        TreeNode,
        Visit,
        Visits,
    )
    from ._workspace import Ignore, Progress, Ref, StrPath, Track
    from .fs import Disk, Memory

    T = TypeVar("T")

_SMALL = 1 << 16
"""Bytes that are copied into memory in less time than a hop to a thread takes."""

_JSON_ITEM = 64
"""Characters of JSON counted as one item when deciding whether to leave parsing to a thread."""


class AsyncWorkspace:
    """A [`Workspace`][hedgerow.Workspace] whose methods are coroutines.

    Example:
        >>> import asyncio
        >>> async def main() -> str:
        ...     async with AsyncWorkspace.memory() as ws:
        ...         await ws.write_text("a.txt", "text")
        ...         return await ws.read_text("a.txt")
        >>> asyncio.run(main())
        'text'
    """

    __slots__ = ("__weakref__", "_author", "_direct", "_native", "_owner")

    _native: Native
    _author: str | None
    _owner: bool
    _direct: bool

    # opening and closing

    def __init__(
        self,
        filesystem: Memory | Disk | None = None,
        *,
        store: StrPath | None = None,
        id: str | None = None,
        track: Track = "full",
        max_diff_bytes: int | None = None,
        ignore: Ignore = None,
    ) -> None:
        """Make a workspace as `Workspace(...)` does; for a real directory prefer `await AsyncWorkspace.open(...)`."""
        sync = Workspace(filesystem, store=store, id=id, track=track, max_diff_bytes=max_diff_bytes, ignore=ignore)
        self._hold(sync._native, None, True)

    @classmethod
    def memory(
        cls,
        *,
        store: StrPath | None = None,
        id: str | None = None,
        track: Track = "full",
        max_diff_bytes: int | None = None,
        ignore: Ignore = None,
    ) -> Self:
        """Make a workspace in memory, as [`memory`][hedgerow.Workspace.memory] does; nothing to await."""
        return cls._wrap(_memory(store, id, track, max_diff_bytes, ignore), None, True)

    @classmethod
    async def open(
        cls,
        root: StrPath,
        *,
        store: StrPath | None = None,
        id: str | None = None,
        track: Track = "full",
        max_diff_bytes: int | None = None,
        ignore: Ignore = None,
        create: bool = False,
        allow_large: bool = False,
        read_only: bool = False,
        resolver: Literal["auto", "kernel", "walk"] = "auto",
        progress: Progress = None,
    ) -> Self:
        """Await [`open`][hedgerow.Workspace.open]; same arguments, result and errors."""
        from ._progress import Reporter

        with Reporter(progress, "open") as report:
            native: Native = await later(
                _open,
                root,
                store,
                id,
                track,
                max_diff_bytes,
                ignore,
                create=create,
                allow_large=allow_large,
                read_only=read_only,
                resolver=resolver,
                progress=report,
            )
        return cls._wrap(native, None, True)

    @classmethod
    def _wrap(cls, native: Native, author: str | None, owner: bool) -> Self:
        self = object.__new__(cls)
        self._hold(native, author, owner)
        return self

    def _hold(self, native: Native, author: str | None, owner: bool) -> None:
        self._native = native
        self._author = author
        self._owner = owner
        self._direct = native.root is None and native.store is None and not native.is_read_only

    async def _quick(self, method: Callable[..., T], *args: object, **keywords: object) -> T:
        """Call something about one entry: in place where nothing can make it wait."""
        if self._direct:
            return method(*args, **keywords)
        return await later(method, *args, **keywords)

    async def _small(self, size: int, method: Callable[..., T], *args: object, **keywords: object) -> T:
        """Call something that costs what `size` bytes cost."""
        if self._direct and size <= _SMALL:
            await turn()
            return method(*args, **keywords)
        return await later(method, *args, **keywords)

    async def close(self) -> None:
        """Await [`close`][hedgerow.Workspace.close]; same arguments, result and errors."""
        await later(self._native.close)

    async def __aenter__(self) -> Self:
        """Return the workspace itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the workspace, unless this is one more handle of a workspace opened elsewhere."""
        if self._owner:
            await self.close()

    # what it is

    @property
    def id(self) -> str:
        """Name of the workspace in its store."""
        return self._native.id

    @property
    def author(self) -> str | None:
        """Who the changes of this handle are recorded for, unless a call says otherwise."""
        return self._author

    @property
    def root(self) -> Path | None:
        """The real directory of a disk workspace; `None` for every other kind."""
        return self.sync.root

    @property
    def store(self) -> Path | None:
        """The directory of the store; `None` when it is in memory."""
        return self.sync.store

    @property
    def is_read_only(self) -> bool:
        """Whether this handle refuses every change."""
        return self._native.is_read_only

    @property
    def is_closed(self) -> bool:
        """Whether the workspace was closed."""
        return self._native.is_closed

    @property
    def features(self) -> dict[str, bool]:
        """What the filesystem can do: `symlinks`, `hard_links`, `permissions`, `real_path`."""
        return self._native.features

    @property
    def sync(self) -> Workspace:
        """The same workspace with methods that block."""
        return Workspace._wrap(self._native, self._author, False)

    def __fspath__(self) -> str:
        """Return the root of a disk workspace, as `Workspace` does."""
        return self.sync.__fspath__()

    def __repr__(self) -> str:
        """Show kind, name and state; of a host path only its last part."""
        return _described("AsyncWorkspace", self._native, self._author)

    def _repr_html_(self) -> str:
        from ._display import workspace_html

        return workspace_html(self._native, repr(self))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    # other handles of the same workspace

    def read_only(self) -> Self:
        """Return a handle that can only read, as [`read_only`][hedgerow.Workspace.read_only] does."""
        return self._wrap(self._native.read_only(), self._author, False)

    def attributed(self, author: str | None) -> Self:
        """Return a handle whose changes carry `author`, as [`attributed`][hedgerow.Workspace.attributed] does."""
        return self._wrap(self._native, author, False)

    def writer(
        self, author: str, *, label: str | None = None, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Self]:
        """Be the only writer for a while, as [`writer`][hedgerow.Workspace.writer] does, for `async with`.

        A task cancelled inside takes its changes back before it gives up the lease, and is cancelled when that is
        done; one cancelled while it waits leaves the line.
        """
        from ._lease import WriterLease

        return WriterLease(self.attributed(author), author, label, timeout)

    def materialized(self, ref: Ref | None = None) -> AbstractAsyncContextManager[Path]:
        """Give a real directory as [`materialized`][hedgerow.Workspace.materialized] does, for `async with`."""
        from ._materialized import Materialized

        return Materialized(self._native, None if ref is None else _ref(ref))

    def tools(
        self,
        access: Literal["read", "write"] = "write",
        *,
        absolute: Literal["virtual", "reject"] = "virtual",
        author: str | None = None,
        max_output_bytes: int = 48 * 1024,
        max_write_bytes: int = 10 * 1024 * 1024,
        raise_errors: bool = False,
        protect: bool = True,
    ) -> list[Tool]:
        """Return the tools of [`tools`][hedgerow.Workspace.tools]; in an async program await their `acall`."""
        return self.sync.tools(
            access,
            absolute=absolute,
            author=author,
            max_output_bytes=max_output_bytes,
            max_write_bytes=max_write_bytes,
            raise_errors=raise_errors,
            protect=protect,
        )

    async def at(self, ref: Ref) -> Self:
        """Await [`at`][hedgerow.Workspace.at]; same arguments, result and errors."""
        return self._wrap(await later(self._native.at, _ref(ref)), self._author, True)

    async def read_text(self, path: StrPath, *, encoding: str = "utf-8") -> str:
        """Await [`read_text`][hedgerow.Workspace.read_text]; same arguments, result and errors."""
        if encoding != "utf-8":
            return _decode(await self.read_bytes(path), path, encoding)
        text = self._native.try_read_text(path)
        if text is None:
            return await later(self._native.read_text, path)
        await turn()
        return text

    async def read_bytes(self, path: StrPath, *, offset: int = 0, length: int | None = None) -> bytes:
        """Await [`read_bytes`][hedgerow.Workspace.read_bytes]; same arguments, result and errors."""
        _check_range(offset, length)
        data = self._native.try_read_bytes(path, offset, length)
        if data is None:
            return await later(self._native.read_bytes, path, offset, length)
        await turn()
        return data

    def iter_bytes(self, path: StrPath, *, chunk: int = 1 << 20) -> ByteStream:
        """Open a file as [`iter_bytes`][hedgerow.Workspace.iter_bytes] does, for `async for`.

        `await` it to have errors of opening at once; without, they come with the first piece.
        """
        _check_chunk(chunk)
        return ByteStream(None, chunk, lambda: later(self._native.open_reader, path))

    async def read_json(self, path: StrPath) -> Any:
        """Await [`read_json`][hedgerow.Workspace.read_json]; same arguments, result and errors."""
        from ._json import load

        text = await self.read_text(path)
        return await converted(lambda text: load(text, os.fspath(path)), text, len(text) // _JSON_ITEM)

    @overload
    async def read_many(self, paths: Iterable[StrPath], *, binary: Literal[False] = False) -> dict[str, str]: ...
    @overload
    async def read_many(self, paths: Iterable[StrPath], *, binary: Literal[True]) -> dict[str, bytes]: ...
    async def read_many(self, paths: Iterable[StrPath], *, binary: bool = False) -> dict[str, str] | dict[str, bytes]:
        """Await [`read_many`][hedgerow.Workspace.read_many]; same arguments, result and errors."""
        if binary:
            return {os.fspath(path): await self.read_bytes(path) for path in paths}
        return {os.fspath(path): await self.read_text(path) for path in paths}

    async def exists(self, path: StrPath) -> bool:
        """Await [`exists`][hedgerow.Workspace.exists]; same arguments, result and errors."""
        try:
            return await self._quick(self._native.exists, path)
        except InvalidPathError:
            return False

    async def stat(self, path: StrPath) -> Stat:
        """Await [`stat`][hedgerow.Workspace.stat]; same arguments, result and errors."""
        return convert.stat(await self._quick(self._native.stat, path))

    async def content_id(self, path: StrPath) -> str:
        """Await [`content_id`][hedgerow.Workspace.content_id]; same arguments, result and errors."""
        return await later(self._native.content_id, path)

    async def readlink(self, path: StrPath) -> str:
        """Await [`readlink`][hedgerow.Workspace.readlink]; same arguments, result and errors."""
        return await self._quick(self._native.readlink, path)

    async def realpath(self, path: StrPath) -> str:
        """Await [`realpath`][hedgerow.Workspace.realpath]; same arguments, result and errors."""
        return await self._quick(self._native.realpath, path)

    async def list_dir(self, path: StrPath = "/") -> list[Stat]:
        """Await [`list_dir`][hedgerow.Workspace.list_dir]; same arguments, result and errors."""
        raw = await later(self._native.list_dir, path)
        return await converted(convert.stats, raw, len(raw))

    async def walk(self, path: StrPath = "/", *, max_depth: int | None = None) -> list[Stat]:
        """Await [`walk`][hedgerow.Workspace.walk]; same arguments, result and errors."""
        raw = await later(self._native.walk, path, max_depth=max_depth)
        return await converted(convert.stats, raw, len(raw))

    async def tree(self, path: StrPath = "/", *, max_depth: int | None = None) -> TreeNode:
        """Await [`tree`][hedgerow.Workspace.tree]; same arguments, result and errors."""
        native = self._native
        entries = [] if max_depth == 0 else await later(native.walk, path, max_depth=max_depth)
        root = await later(native.stat, path)
        return await converted(lambda entries: convert.tree(root, entries, max_depth), entries, len(entries))

    async def summary(self, path: StrPath = "/") -> Summary:
        """Await [`summary`][hedgerow.Workspace.summary]; same arguments, result and errors."""
        return convert.summary(await later(self._native.summary, path))

    async def glob(self, pattern: str, path: StrPath = "/", *, max_results: int | None = None) -> Paths:
        """Await [`glob`][hedgerow.Workspace.glob]; same arguments, result and errors."""
        raw = await later(self._native.glob, pattern, path, max_results=max_results)
        return await converted(convert.glob, raw, len(raw["paths"]))

    async def search(
        self,
        pattern: str,
        path: StrPath = "/",
        *,
        regex: bool = False,
        ignore_case: bool = False,
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        context: int = 0,
        max_file_bytes: int = 1 << 20,
        max_files: int | None = 10000,
        max_matches: int = 1000,
        max_line_bytes: int = 2000,
    ) -> SearchResult:
        """Await [`search`][hedgerow.Workspace.search]; same arguments, result and errors."""
        raw = await later(
            self._native.search,
            pattern,
            path,
            regex=regex,
            ignore_case=ignore_case,
            include=_patterns(include),
            exclude=_patterns(exclude),
            context=context,
            max_file_bytes=max_file_bytes,
            max_files=max_files,
            max_matches=max_matches,
            max_line_bytes=max_line_bytes,
        )
        return await converted(convert.search, raw, len(raw["matches"]))

    async def write_text(
        self,
        path: StrPath,
        text: str,
        *,
        encoding: str = "utf-8",
        parents: bool = True,
        if_hash: str | None = None,
        author: str | None = None,
    ) -> int:
        """Await [`write_text`][hedgerow.Workspace.write_text]; same arguments, result and errors."""
        if encoding != "utf-8":
            data = text.encode(encoding)
            return await self.write_bytes(path, data, parents=parents, if_hash=if_hash, author=author)
        return await self._small(
            len(text),
            self._native.write_text,
            path,
            text,
            parents=parents,
            create_only=False,
            if_hash=if_hash,
            author=self._author if author is None else author,
        )

    async def write_bytes(
        self, path: StrPath, data: bytes, *, parents: bool = True, if_hash: str | None = None, author: str | None = None
    ) -> int:
        """Await [`write_bytes`][hedgerow.Workspace.write_bytes]; same arguments, result and errors."""
        return await self._small(
            len(data),
            self._native.write_bytes,
            path,
            data,
            parents=parents,
            create_only=False,
            if_hash=if_hash,
            author=self._author if author is None else author,
        )

    async def write_many(
        self, files: Mapping[str, str | bytes], *, parents: bool = True, author: str | None = None
    ) -> int:
        """Await [`write_many`][hedgerow.Workspace.write_many]; same arguments, result and errors."""
        total = 0
        for path, content in files.items():
            if isinstance(content, str):
                total += await self.write_text(path, content, parents=parents, author=author)
            else:
                total += await self.write_bytes(path, content, parents=parents, author=author)
        return total

    async def create(
        self, path: StrPath, content: str | bytes = b"", *, parents: bool = True, author: str | None = None
    ) -> int:
        """Await [`create`][hedgerow.Workspace.create]; same arguments, result and errors."""
        author = self._author if author is None else author
        if isinstance(content, str):
            return await self._small(
                len(content),
                self._native.write_text,
                path,
                content,
                parents=parents,
                create_only=True,
                if_hash=None,
                author=author,
            )
        return await self._small(
            len(content),
            self._native.write_bytes,
            path,
            content,
            parents=parents,
            create_only=True,
            if_hash=None,
            author=author,
        )

    async def append_text(self, path: StrPath, text: str, *, parents: bool = True, author: str | None = None) -> int:
        """Await [`append_text`][hedgerow.Workspace.append_text]; same arguments, result and errors."""
        return await self._small(
            len(text),
            self._native.append,
            path,
            text.encode(),
            parents=parents,
            author=self._author if author is None else author,
        )

    async def write_json(
        self,
        path: StrPath,
        value: object,
        *,
        indent: int | None = 2,
        sort_keys: bool = True,
        if_hash: str | None = None,
        author: str | None = None,
    ) -> int:
        """Await [`write_json`][hedgerow.Workspace.write_json]; same arguments, result and errors."""
        from ._json import dump

        return await self.write_text(path, dump(value, indent, sort_keys), if_hash=if_hash, author=author)

    async def mkdir(
        self, path: StrPath, *, parents: bool = True, exist_ok: bool | None = None, author: str | None = None
    ) -> None:
        """Await [`mkdir`][hedgerow.Workspace.mkdir]; same arguments, result and errors."""
        await self._quick(
            self._native.mkdir,
            path,
            parents=parents,
            exist_ok=parents if exist_ok is None else exist_ok,
            author=self._author if author is None else author,
        )

    async def copy(
        self,
        source: StrPath,
        destination: StrPath,
        *,
        overwrite: bool = False,
        recursive: bool = False,
        parents: bool = True,
        author: str | None = None,
    ) -> None:
        """Await [`copy`][hedgerow.Workspace.copy]; same arguments, result and errors."""
        await later(
            self._native.copy,
            source,
            destination,
            overwrite=overwrite,
            recursive=recursive,
            parents=parents,
            author=self._author if author is None else author,
        )

    async def move(
        self,
        source: StrPath,
        destination: StrPath,
        *,
        overwrite: bool = False,
        parents: bool = True,
        author: str | None = None,
    ) -> None:
        """Await [`move`][hedgerow.Workspace.move]; same arguments, result and errors."""
        await later(
            self._native.move,
            source,
            destination,
            overwrite=overwrite,
            parents=parents,
            author=self._author if author is None else author,
        )

    async def remove(
        self, path: StrPath, *, recursive: bool = False, missing_ok: bool = False, author: str | None = None
    ) -> None:
        """Await [`remove`][hedgerow.Workspace.remove]; same arguments, result and errors."""
        await later(
            self._native.remove,
            path,
            recursive=recursive,
            missing_ok=missing_ok,
            author=self._author if author is None else author,
        )

    async def symlink(self, path: StrPath, target: StrPath, *, parents: bool = True, author: str | None = None) -> None:
        """Await [`symlink`][hedgerow.Workspace.symlink]; same arguments, result and errors."""
        await self._quick(
            self._native.symlink,
            path,
            os.fspath(target),
            parents=parents,
            author=self._author if author is None else author,
        )

    async def hardlink(self, source: StrPath, path: StrPath, *, author: str | None = None) -> None:
        """Await [`hardlink`][hedgerow.Workspace.hardlink]; same arguments, result and errors."""
        await self._quick(self._native.hardlink, source, path, author=self._author if author is None else author)

    async def chmod(self, path: StrPath, mode: int, *, author: str | None = None) -> None:
        """Await [`chmod`][hedgerow.Workspace.chmod]; same arguments, result and errors."""
        await self._quick(self._native.chmod, path, mode, author=self._author if author is None else author)

    async def clear(self, *, author: str | None = None) -> None:
        """Await [`clear`][hedgerow.Workspace.clear]; same arguments, result and errors."""
        await later(self._native.clear, author=self._author if author is None else author)

    async def edit(
        self,
        path: StrPath,
        old: str,
        new: str,
        *,
        count: int | None = 1,
        if_hash: str | None = None,
        encoding: str | None = None,
        author: str | None = None,
    ) -> EditResult:
        """Await [`edit`][hedgerow.Workspace.edit]; same arguments, result and errors."""
        return convert.edit(
            await later(
                self._native.edit,
                path,
                old,
                convert.encodable(new, encoding),
                count=count,
                if_hash=if_hash,
                encoding=encoding,
                author=self._author if author is None else author,
            )
        )

    async def checkpoint(
        self, label: str | None = None, *, author: str | None = None, progress: Progress = None
    ) -> Checkpoint:
        """Await [`checkpoint`][hedgerow.Workspace.checkpoint]; same arguments, result and errors."""
        with Reporter(progress, "checkpoint") as report:
            return convert.checkpoint(
                await later_reporting(
                    self._native.checkpoint, report, label, author=self._author if author is None else author
                )
            )

    async def checkpoints(self) -> CheckpointList:
        """Await [`checkpoints`][hedgerow.Workspace.checkpoints]; same arguments, result and errors."""
        return convert.checkpoints(await later(self._native.checkpoints))

    @property
    def head(self) -> Pending[Checkpoint]:
        """Await [`head`][hedgerow.Workspace.head]: `await aws.head`."""

        async def head() -> Checkpoint:
            return convert.checkpoint(await later(self._native.head))

        return Pending(head)

    async def resolve(self, ref: Ref) -> Checkpoint:
        """Await [`resolve`][hedgerow.Workspace.resolve]; same arguments, result and errors."""
        return convert.checkpoint(await later(self._native.resolve, _ref(ref)))

    async def status(self) -> Diff:
        """Await [`status`][hedgerow.Workspace.status]; same arguments, result and errors."""
        return convert.diff(await later(self._native.diff, None, None))

    async def diff(
        self, a: Ref | None = None, b: Ref | None = None, *, path: StrPath = "/", progress: Progress = None
    ) -> Diff:
        """Await [`diff`][hedgerow.Workspace.diff]; same arguments, result and errors."""
        with Reporter(progress, "diff") as report:
            return convert.diff(
                await later_reporting(self._native.diff, report, _ref_or_none(a), _ref_or_none(b), path=path)
            )

    async def rollback(
        self,
        ref: Ref,
        *,
        paths: Sequence[str] | None = None,
        label: str | None = None,
        author: str | None = None,
        progress: Progress = None,
    ) -> RollbackResult:
        """Await [`rollback`][hedgerow.Workspace.rollback]; same arguments, result and errors."""
        with Reporter(progress, "rollback") as report:
            raw = await later_reporting(
                self._native.rollback,
                report,
                _ref(ref),
                paths=_paths(paths),
                label=label,
                author=self._author if author is None else author,
            )
        return await converted(convert.rollback, raw, len(raw["changes"]))

    async def history(
        self, *, after: int = 0, limit: int | None = None, path: StrPath | None = None, author: str | None = None
    ) -> list[Record]:
        """Await [`history`][hedgerow.Workspace.history]; same arguments, result and errors."""
        native = self._native
        raw = await later(native.history, after=after, limit=limit, path=path, author=author)
        return await converted(lambda raw: convert.records(raw, native.id), raw, len(raw))

    async def record_diff(self, record: Record | int, *, max_lines: int | None = None) -> Patch:
        """Await [`record_diff`][hedgerow.Workspace.record_diff]; same arguments, result and errors."""
        return convert.patch(await later(self._native.record_diff, _sequence(record), max_lines=max_lines))

    async def prune_history(self, through: int) -> int:
        """Await [`prune_history`][hedgerow.Workspace.prune_history]; same arguments, result and errors."""
        return await later(self._native.prune_history, through)

    async def flush(self) -> None:
        """Await [`flush`][hedgerow.Workspace.flush]; same arguments, result and errors."""
        await later(self._native.flush)

    async def log(self, path: StrPath, *, limit: int | None = None) -> list[LogEntry]:
        """Await [`log`][hedgerow.Workspace.log]; same arguments, result and errors."""
        return convert.log(await later(self._native.log, path, limit=limit))

    async def last_author(self, path: StrPath) -> str | None:
        """Await [`last_author`][hedgerow.Workspace.last_author]; same arguments, result and errors."""
        entries = await later(self._native.log, path, limit=1)
        return entries[0]["checkpoint"]["author"] if entries else None

    async def blame(self, path: StrPath) -> list[BlameLine]:
        """Await [`blame`][hedgerow.Workspace.blame]; same arguments, result and errors."""
        raw = await later(self._native.blame, path)
        return await converted(convert.blame, raw, len(raw))

    @overload
    async def changed_by(self, author: None = None) -> Visits: ...

    @overload
    async def changed_by(self, author: str) -> list[Visit]: ...

    async def changed_by(self, author: str | None = None) -> Visits | list[Visit]:
        """Await [`changed_by`][hedgerow.Workspace.changed_by]; same arguments, result and errors."""
        found = convert.visits(await later(self._native.changed_by))
        return found if author is None else found.get(author, [])

    async def stats(self) -> StoreStats:
        """Await [`stats`][hedgerow.Workspace.stats]; same arguments, result and errors."""
        return convert.store_stats(await later(self._native.stats))

    @overload
    async def export(
        self, path: StrPath = "/", destination: None = None, *, ref: Ref | None = None, progress: Progress = None
    ) -> bytes: ...

    @overload
    async def export(
        self, path: StrPath, destination: StrPath, *, ref: Ref | None = None, progress: Progress = None
    ) -> None: ...

    async def export(
        self,
        path: StrPath = "/",
        destination: StrPath | None = None,
        *,
        ref: Ref | None = None,
        progress: Progress = None,
    ) -> bytes | None:
        """Await [`export`][hedgerow.Workspace.export]; same arguments, result and errors."""
        target = None if destination is None else os.fspath(destination)
        with Reporter(progress, "export") as report:
            return await later_reporting(self._native.export, report, path, target, ref=_ref_or_none(ref))

    async def import_(
        self, archive: bytes | StrPath, path: StrPath = "/", *, author: str | None = None, progress: Progress = None
    ) -> int:
        """Await [`import_`][hedgerow.Workspace.import_]; same arguments, result and errors."""
        source = archive if isinstance(archive, bytes) else os.fspath(archive)
        with Reporter(progress, "import") as report:
            return await later_reporting(
                self._native.import_, report, source, path, author=self._author if author is None else author
            )
