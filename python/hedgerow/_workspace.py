"""The synchronous workspace.

A thin typed face: each method hands its arguments to the core, which checks them, confines every path and records
every change, and turns the answer into a record. It keeps no state but the author that its writes carry, and it
never opens a file of the tree itself. Python reads the environment (where the store is by default); the core never
does.

Handles are cheap: `attributed`, `read_only`, `aio` and `sync` share one workspace, and leaving a `with` block
closes only a workspace that was opened by name. All methods may be called from several threads.
"""

from __future__ import annotations

import os

from . import _native
from ._errors import InvalidArgumentError, InvalidPathError, NotSupportedError, _make
from ._lazy import LazyModule

TYPE_CHECKING = False  # `typing` costs more to import than this whole module
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any, Literal, Self, TypeAlias, overload

    from . import _convert as convert
    from ._async import AsyncWorkspace
    from ._native import Later
    from ._native import Workspace as Native
    from ._tools import Tool
    from ._types import (
        BlameLine,
        ByteStream,
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
    from .fs import Disk, Memory

    StrPath: TypeAlias = str | os.PathLike[str]
    Ref: TypeAlias = Checkpoint | str
    Progress: TypeAlias = Callable[[int, int, int], object] | bool | None
    Track: TypeAlias = Literal["full", "paths", "off"]
    Ignore: TypeAlias = Literal["gitignore"] | Sequence[str] | None
else:
    convert = LazyModule("hedgerow._convert")

    def overload(function: object) -> object:
        """Stand in for `typing.overload`, whose module costs too much to import."""
        return function


class Workspace:
    r"""A jailed tree of files in which every change is seen, named and undone.

    Paths are POSIX with the workspace root as `/`: `a` and `/a` are the same entry, and no path leads out of the
    root, whatever links the tree holds. Every change is recorded; `checkpoint` names a state, `rollback` goes back
    to one, and nothing is ever lost by either.

    Example:
        >>> ws = Workspace.memory()
        >>> ws.write_text("src/app.py", "print('hi')\n")
        12
        >>> first = ws.checkpoint("first")
        >>> ws.edit("src/app.py", "hi", "hello").replaced
        1
        >>> ws.diff(first).paths
        ('src/app.py',)
        >>> _ = ws.rollback("first")
        >>> ws.read_text("src/app.py")
        "print('hi')\n"
    """

    __slots__ = ("__weakref__", "_author", "_native", "_owner")

    _native: Native
    _author: str | None
    _owner: bool

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
        """Make a workspace over a filesystem.

        Args:
            filesystem: `hedgerow.fs.Memory()`, which is the default, or `hedgerow.fs.Disk(root)`.
            store: Directory for checkpoints and records, made if missing, shared by as many workspaces as you like.
                By default memory for a memory workspace, and the user's state directory for a disk workspace.
            id: Name of the workspace in the store: letters, digits, `-`, `_` and `.`. By default made from the root.
            track: What records keep: `full` contents, `paths` only, or `off`.
            max_diff_bytes: Contents larger than this are not kept in records.
            ignore: Paths that checkpoints leave out and rollbacks do not touch: patterns, or `gitignore` for the
                rules of the tree's own `.gitignore` files.

        Raises:
            InvalidArgumentError: A value outside its allowed ones (`invalid-argument`).
            NotFoundError: The root is missing (`directory-not-found`).
            LimitError: The root is a home directory or a whole machine (`root-too-large`).
        """
        if filesystem is None:
            self._native = _memory(store, id, track, max_diff_bytes, ignore)
        else:
            from .fs import Disk, Memory

            if isinstance(filesystem, Disk):
                self._native = _open(
                    filesystem.root,
                    store,
                    id,
                    track,
                    max_diff_bytes,
                    ignore,
                    create=filesystem.create,
                    allow_large=filesystem.allow_large,
                    resolver=filesystem.resolver,
                )
            elif isinstance(filesystem, Memory):
                self._native = _memory(store, id, track, max_diff_bytes, ignore)
            else:
                raise TypeError("filesystem must be hedgerow.fs.Memory or hedgerow.fs.Disk; for a path use open()")
        self._author = None
        self._owner = True

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
        """Make an empty workspace in memory.

        Args:
            store: Directory for checkpoints and records; by default they are in memory too.
            id: Name of the workspace in the store.
            track: What records keep: `full` contents, `paths` only, or `off`.
            max_diff_bytes: Contents larger than this are not kept in records.
            ignore: Paths that checkpoints leave out.

        Returns:
            The workspace.
        """
        return cls._wrap(_memory(store, id, track, max_diff_bytes, ignore), None, True)

    @classmethod
    def open(
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
        """Open a real directory as a workspace.

        Nothing is put into the directory. A `.git` in it is ordinary data: no git ever runs there. The first time,
        the state found is checkpointed as `baseline`, so that whatever happens from now on, through whomever, can
        be undone; that reads every file once (about 2 s for 50,000 files of 300 MB), later times none.

        Args:
            root: The directory.
            store: Directory for checkpoints and records, outside the root; by default `hedgerow` in the user's
                state directory (`$XDG_STATE_HOME`, else `~/.local/state`).
            id: Name of the workspace in the store: letters, digits, `-`, `_` and `.`. By default made from the root,
                so that opening the same directory again continues its history.
            track: What records keep: `full` contents, `paths` only, or `off`.
            max_diff_bytes: Contents larger than this are not kept in records.
            ignore: Paths that checkpoints leave out and rollbacks do not touch: patterns, or `gitignore`.
            create: Make the directory if it is missing.
            allow_large: Accept a home directory, `/` and the like.
            read_only: Refuse every change through this handle, and write nothing into the store either: no baseline
                is taken.
            resolver: How paths are confined: by the `kernel`, by `walk`, or `auto` for the kernel where it can.
            progress: A function of entries done, entries known so far and bytes done; `True` for a progress bar.

        Returns:
            The workspace.

        Raises:
            NotFoundError: The directory is missing (`directory-not-found`).
            DirectoryExpectedError: It is no directory (`not-a-directory`).
            LimitError: It is a home directory or a whole machine (`root-too-large`).
            StoreError: The store is damaged or was written by a newer version (`store-corrupt`, `store-version`).
        """
        from ._progress import Reporter

        with Reporter(progress, "open") as report:
            native = _open(
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
        self._native = native
        self._author = author
        self._owner = owner
        return self

    def close(self) -> None:
        """Close the workspace for all its handles; closing twice is harmless. Later calls are refused."""
        self._native.close()

    def __enter__(self) -> Self:
        """Return the workspace itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the workspace, unless this is one more handle of a workspace opened elsewhere."""
        if self._owner:
            self.close()

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
        root = self._native.root
        if root is None:
            return None
        from pathlib import Path

        return Path(root)

    @property
    def store(self) -> Path | None:
        """The directory of the store; `None` when it is in memory."""
        store = self._native.store
        if store is None:
            return None
        from pathlib import Path

        return Path(store)

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
    def aio(self) -> AsyncWorkspace:
        """The same workspace with `async` methods."""
        from ._async import AsyncWorkspace

        return AsyncWorkspace._wrap(self._native, self._author, False)

    def __fspath__(self) -> str:
        """Return the root, so that `os.fspath(ws)`, `open` and `subprocess` take a disk workspace.

        Raises:
            NotSupportedError: The workspace has no real directory (`not-supported`).
        """
        root = self._native.root
        if root is None:
            raise NotSupportedError(
                "not-supported",
                "this workspace is not a directory on disk",
                None,
                "Use `with ws.materialized() as directory:` to get a real directory.",
            )
        return os.fspath(root)

    def __repr__(self) -> str:
        """Show kind, name and state; of a host path only its last part."""
        return _described("Workspace", self._native, self._author)

    def _repr_html_(self) -> str:
        from ._display import workspace_html

        return workspace_html(self._native, repr(self))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    # other handles of the same workspace

    def read_only(self) -> Self:
        """Return a handle of the same workspace that can only read; the core refuses every change through it."""
        return self._wrap(self._native.read_only(), self._author, False)

    def attributed(self, author: str | None) -> Self:
        r"""Return a handle of the same workspace whose changes and checkpoints carry `author`.

        Example:
            >>> ws = Workspace.memory()
            >>> with ws.attributed("coder") as coder:
            ...     _ = coder.write_text("a.py", "x = 1\n")
            ...     _ = coder.checkpoint()
            >>> ws.changed_by().to_dict()
            {'coder': ['a.py']}
        """
        return self._wrap(self._native, author, False)

    def writer(
        self, author: str, *, label: str | None = None, timeout: float | None = None
    ) -> AbstractContextManager[Self]:
        r"""Be the only writer for a while, and leave one checkpoint or nothing.

        Inside the `with` block the changes of the handle it yields carry `author`. A block that ends well becomes one
        checkpoint under that name, taken before the next writer begins. One that ends with an exception, Ctrl-C
        included, takes back whatever changed since it began, whoever changed it, and makes no checkpoint; what was
        there stays in the records (`history`, `record_diff`). What was unsaved before is checkpointed first, so that
        it is neither put down to this writer nor lost with it.

        Where the checkpoint or the taking back fails (no space is left, a special file is in the way, Ctrl-C comes
        once more), that error is raised and the changes stay as they are, unsaved.

        Writers of one directory are served one at a time in the order they came, threads and tasks of this process
        alike. Single calls need no lease, do not wait for one, and are atomic without it. A child forked inside the
        block leaves it without a checkpoint and takes nothing back.

        Args:
            author: Who writes.
            label: A name for the checkpoint.
            timeout: Seconds to wait for the writers before; `None` waits as long as it takes.

        Returns:
            A context manager that yields a handle of this workspace.

        Raises:
            LockTimeoutError: Another writer is still at work (`lock-timeout`).
            DeadlockError: This thread or task holds the lease, or the loop that would have to give it up would be
                blocked (`would-deadlock`).
            ReadOnlyError: This handle can only read (`read-only-workspace`).

        Example:
            >>> ws = Workspace.memory()
            >>> with ws.writer("coder") as coder:
            ...     _ = coder.write_text("a.py", "x = 1\n")
            >>> ws.head.author
            'coder'
            >>> with ws.writer("tester") as tester:
            ...     _ = tester.write_text("a.py", "broken")
            ...     raise ValueError("the tests fail")
            Traceback (most recent call last):
            ValueError: the tests fail
            >>> ws.read_text("a.py"), ws.head.author
            ('x = 1\n', 'coder')
        """
        from ._lease import WriterLease

        return WriterLease(self.attributed(author), author, label, timeout)

    def at(self, ref: Ref) -> Self:
        """Open the state of a checkpoint as a workspace that can only be read.

        Contents are loaded from the store when they are read, not before.

        Args:
            ref: A checkpoint, its id, a unique prefix of it, a label or an author.

        Returns:
            The read-only workspace.

        Raises:
            CheckpointNotFoundError: Nothing matches (`checkpoint-not-found`), or several do
                (`checkpoint-ambiguous`; the message lists them).
        """
        return self._wrap(self._native.at(_ref(ref)), self._author, True)

    def materialized(self, ref: Ref | None = None) -> AbstractContextManager[Path]:
        """Give a real directory with the tree in it, for programs that need one.

        For a disk workspace and no `ref` that is the root itself: what happens there happens in the workspace. For
        everything else it is a temporary directory only its owner can enter, filled from the tree and removed at the
        end; **changes made there are not taken back**.

        Args:
            ref: A checkpoint to show instead of the present state.

        Returns:
            A context manager that yields the path.

        Example:
            >>> ws = Workspace.memory()
            >>> _ = ws.write_text("a.txt", "text")
            >>> with ws.materialized() as directory:
            ...     (directory / "a.txt").read_text()
            'text'
        """
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
        """Return the tools a model works with, for any framework.

        Each has a name, a description written for a model and a closed JSON schema; call it with keyword arguments,
        or await its `acall`. A mistake of the model (a bad path, a missing argument) comes back as text that begins
        with `Error:`, and never as an exception.

        Args:
            access: `write` for all tools, `read` for those that change nothing; their handle is read-only too, so
                that leaving tools out is not what keeps the tree safe. A read-only workspace offers `read` only.
            absolute: What an absolute path means. A host path inside the root is always mapped into the workspace;
                every other one is a path from the workspace root (`virtual`) or refused (`reject`).
            author: Who the changes are recorded for; by default the author of this handle.
            max_output_bytes: Longest answer; a longer one is cut and says how to get the rest. At least 256.
            max_write_bytes: Largest content `write_file` takes.
            raise_errors: Raise the errors instead of answering with text.
            protect: Refuse to change anything inside a `.git`, by whatever alias it is named: hooks and settings
                planted there run when somebody uses git in the tree.

        Returns:
            The tools, reading ones first.

        Raises:
            ValueError: `access` or `absolute` has another value (`invalid-argument`).

        Example:
            >>> ws = Workspace.memory()
            >>> tools = {tool.name: tool for tool in ws.tools()}
            >>> tools["write_file"](path="notes/a.txt", content="hello")
            'Written 5 bytes to notes/a.txt'
            >>> tools["read_file"](path="notes/a.txt")
            'hello'
        """
        from ._tools import make_tools

        return make_tools(
            self._native,
            access,
            absolute=absolute,
            author=self._author if author is None else author,
            max_output_bytes=max_output_bytes,
            max_write_bytes=max_write_bytes,
            raise_errors=raise_errors,
            protect=protect,
        )

    # read

    def read_text(self, path: StrPath, *, encoding: str = "utf-8") -> str:
        """Return a file as text, exactly as stored: line ends are not changed.

        Args:
            path: File inside the workspace.
            encoding: The encoding it is written in; bytes that do not fit are an error, never replaced.

        Returns:
            The text.

        Raises:
            NotFoundError: No such file (`file-not-found`).
            FileExpectedError: It is a directory (`is-a-directory`).
            NotUtf8Error: It is not valid in that encoding (`not-utf8`); also a `UnicodeDecodeError`.
            PathEscapeError: The path leaves the workspace (`path-escape`, `symlink-escape`).
            LookupError: There is no such encoding.
        """
        if encoding == "utf-8":
            return self._native.read_text(path)
        return _decode(self._native.read_bytes(path), path, encoding)

    def read_bytes(self, path: StrPath, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return the bytes of a file, or a range of them.

        Args:
            path: File inside the workspace.
            offset: First byte; past the end nothing is returned.
            length: Number of bytes, fewer at the end; `None` for the rest.

        Returns:
            The bytes.

        Raises:
            NotFoundError: No such file (`file-not-found`).
            FileExpectedError: It is a directory (`is-a-directory`).
            InvalidArgumentError: A negative `offset` or `length` (`invalid-argument`); also a `ValueError`.
        """
        _check_range(offset, length)
        return self._native.read_bytes(path, offset, length)

    def iter_bytes(self, path: StrPath, *, chunk: int = 1 << 20) -> ByteStream:
        """Open a file and return its bytes piece by piece.

        Args:
            path: File inside the workspace.
            chunk: Bytes of a piece; the last may be shorter.

        Returns:
            An iterator that closes the file at its end; it is a context manager too.

        Raises:
            NotFoundError: No such file (`file-not-found`), at this call and not at the first piece.
            InvalidArgumentError: `chunk` is not positive (`invalid-argument`); also a `ValueError`.
        """
        from ._types import ByteStream

        _check_chunk(chunk)
        return ByteStream(self._native.open_reader(path), chunk)

    def read_json(self, path: StrPath) -> Any:
        """Return the JSON value in a file.

        Args:
            path: File inside the workspace.

        Returns:
            The value.

        Raises:
            InvalidJsonError: The file is no JSON; also a `ValueError`. The text is `invalid JSON: path: why`.
            NotFoundError: No such file (`file-not-found`).
        """
        from ._json import load

        return load(self._native.read_text(path), os.fspath(path))

    @overload
    def read_many(self, paths: Iterable[StrPath], *, binary: Literal[False] = False) -> dict[str, str]: ...
    @overload
    def read_many(self, paths: Iterable[StrPath], *, binary: Literal[True]) -> dict[str, bytes]: ...
    def read_many(self, paths: Iterable[StrPath], *, binary: bool = False) -> dict[str, str] | dict[str, bytes]:
        """Return several files at once.

        Args:
            paths: Files inside the workspace.
            binary: Return bytes instead of text.

        Returns:
            The contents by path, in the order and spelling asked for.

        Raises:
            NotFoundError: One of them is missing (`file-not-found`).
            NotUtf8Error: One of them is not valid UTF-8 (`not-utf8`).
        """
        if binary:
            return {os.fspath(path): self._native.read_bytes(path) for path in paths}
        return {os.fspath(path): self._native.read_text(path) for path in paths}

    def exists(self, path: StrPath) -> bool:
        """Tell whether there is an entry; a link counts, wherever it leads.

        Args:
            path: Path inside the workspace.

        Returns:
            Whether it exists; `False` also for a text that cannot be a path.

        Raises:
            PathEscapeError: The path leaves the workspace (`path-escape`, `symlink-escape`).
        """
        try:
            return self._native.exists(path)
        except InvalidPathError:
            return False

    def stat(self, path: StrPath) -> Stat:
        """Return what is known of an entry; of a symbolic link, the link itself.

        Args:
            path: Path inside the workspace.

        Returns:
            Kind, size in bytes, permission bits and time of the last change.

        Raises:
            NotFoundError: No such entry (`file-not-found`).
        """
        return convert.stat(self._native.stat(path))

    def content_id(self, path: StrPath) -> str:
        """Return the id of a file's content, which is git's id of the same bytes as a blob.

        Args:
            path: File inside the workspace.

        Returns:
            40 hexadecimal digits; pass them as `if_hash` to change the file only if nobody else did.

        Raises:
            NotFoundError: No such file (`file-not-found`).
        """
        return self._native.content_id(path)

    def readlink(self, path: StrPath) -> str:
        """Return where a symbolic link leads, exactly as stored.

        Raises:
            UnsuitableEntryError: It is no link (`not-a-link`, errno `EINVAL`).
        """
        return self._native.readlink(path)

    def realpath(self, path: StrPath) -> str:
        """Return the path with every link followed.

        Raises:
            NotFoundError: No such entry (`file-not-found`).
            PathEscapeError: A link leads out of the workspace (`symlink-escape`).
            UnsuitableEntryError: The links lead in a circle (`symlink-loop`, errno `ELOOP`).
        """
        return self._native.realpath(path)

    def list_dir(self, path: StrPath = "/") -> list[Stat]:
        """Return the entries of one directory, sorted by name.

        Args:
            path: Directory inside the workspace.

        Returns:
            One `Stat` an entry.

        Raises:
            NotFoundError: No such directory (`directory-not-found`).
            DirectoryExpectedError: It is no directory (`not-a-directory`).
        """
        return convert.stats(self._native.list_dir(path))

    def walk(self, path: StrPath = "/", *, max_depth: int | None = None) -> list[Stat]:
        """Return everything below a directory, depth first, sorted; links are not followed.

        Args:
            path: Directory inside the workspace; not part of the result.
            max_depth: Levels to go down; 1 is the directory's own entries, `None` all.

        Returns:
            One `Stat` an entry.

        Raises:
            NotFoundError: No such directory (`directory-not-found`).
        """
        return convert.stats(self._native.walk(path, max_depth=max_depth))

    def tree(self, path: StrPath = "/", *, max_depth: int | None = None) -> TreeNode:
        """Return a directory with everything below it as nested nodes; `print` draws it.

        Args:
            path: Directory inside the workspace.
            max_depth: Levels of children; those of deeper directories are `None`.

        Returns:
            The node of `path`, children sorted by name, links not followed.

        Raises:
            NotFoundError: No such directory (`directory-not-found`).
        """
        native = self._native
        entries = [] if max_depth == 0 else native.walk(path, max_depth=max_depth)
        return convert.tree(native.stat(path), entries, max_depth)

    def summary(self, path: StrPath = "/") -> Summary:
        """Count the entries of a tree.

        Args:
            path: Directory inside the workspace.

        Returns:
            Numbers of files, directories (the directory itself is one), links and special files, and the bytes of
            the files.

        Raises:
            NotFoundError: No such directory (`directory-not-found`).
        """
        return convert.summary(self._native.summary(path))

    def glob(self, pattern: str, path: StrPath = "/", *, max_results: int | None = None) -> Paths:
        """Find entries by name.

        `*` and `?` match within one name, `**` any number of directories (also none), `[abc]` and `[!abc]` one
        character, `{a,b}` either. A pattern without any of them tells whether that path exists. Names that begin with a
        dot match like all others. Links to directories are not followed.

        Args:
            pattern: Pattern relative to `path`.
            path: Directory to search.
            max_results: Most paths to return; `None` for all.

        Returns:
            Paths relative to the root, sorted; `truncated` tells whether there were more.

        Raises:
            PathEscapeError: The pattern leaves the workspace (`path-escape`).
        """
        return convert.glob(self._native.glob(pattern, path, max_results=max_results))

    def search(
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
        max_files: int | None = 10_000,
        max_matches: int = 1_000,
        max_line_bytes: int = 2_000,
    ) -> SearchResult:
        """Find lines by their text.

        UTF-16 with a byte order mark is searched as the text it is; other files with a NUL byte near their beginning
        are left out as `binary`.

        Args:
            pattern: Text to find, exactly; with `regex` a regular expression, matched in linear time (no
                look-around and no back references).
            path: Directory or file to search; links are not followed.
            regex: Whether `pattern` is a regular expression.
            ignore_case: Whether upper and lower case are the same.
            include: Search only files that match one of these glob patterns.
            exclude: Leave out files that match one of these.
            context: Lines to show before and after each match.
            max_file_bytes: Leave out larger files, and say so in `skipped`.
            max_files: Stop after so many files.
            max_matches: Stop after so many matching lines.
            max_line_bytes: Show only a part of longer lines, around the match.

        Returns:
            Matches sorted by path and line, the files left out with the reason, and whether a limit ended the search.

        Raises:
            InvalidArgumentError: `pattern` is no regular expression (`invalid-argument`).
            NotFoundError: No such directory (`directory-not-found`).
        """
        return convert.search(
            self._native.search(
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
        )

    # write

    def write_text(
        self,
        path: StrPath,
        text: str,
        *,
        encoding: str = "utf-8",
        parents: bool = True,
        if_hash: str | None = None,
        author: str | None = None,
    ) -> int:
        """Write a file as text, replacing what it held.

        The file is replaced atomically: a reader sees the old content or the new one, never a mix. Permission bits
        are kept.

        Args:
            path: File inside the workspace.
            text: The whole new content.
            encoding: The encoding to write it in.
            parents: Make missing directories.
            if_hash: Content id from an earlier read; if the file changed since, the write is refused.
            author: Who the change is recorded for; by default the author of this handle.

        Returns:
            The number of bytes written.

        Raises:
            FileExpectedError: It is a directory (`is-a-directory`).
            NotFoundError: A directory is missing and `parents` is false (`directory-not-found`).
            EditError: `if_hash` is stale (`stale-content`).
            PathEscapeError: The path leaves the workspace (`path-escape`, `symlink-escape`).
            ReadOnlyError: This handle can only read (`read-only-workspace`).
            UnicodeEncodeError: The text cannot be written in that encoding; nothing was changed.
        """
        if encoding != "utf-8":
            return self.write_bytes(path, text.encode(encoding), parents=parents, if_hash=if_hash, author=author)
        return self._native.write_text(
            path,
            text,
            parents=parents,
            create_only=False,
            if_hash=if_hash,
            author=self._author if author is None else author,
        )

    def write_bytes(
        self,
        path: StrPath,
        data: bytes,
        *,
        parents: bool = True,
        if_hash: str | None = None,
        author: str | None = None,
    ) -> int:
        """Write a file, replacing what it held; in all else like `write_text`.

        Args:
            path: File inside the workspace.
            data: The whole new content.
            parents: Make missing directories.
            if_hash: Content id from an earlier read; if the file changed since, the write is refused.
            author: Who the change is recorded for; by default the author of this handle.

        Returns:
            The number of bytes written.

        Raises:
            FileExpectedError: It is a directory (`is-a-directory`).
            EditError: `if_hash` is stale (`stale-content`).
        """
        return self._native.write_bytes(
            path,
            data,
            parents=parents,
            create_only=False,
            if_hash=if_hash,
            author=self._author if author is None else author,
        )

    def write_many(self, files: Mapping[str, str | bytes], *, parents: bool = True, author: str | None = None) -> int:
        """Write several files, one after the other in the given order; each as `write_text` or `write_bytes` would.

        The first failure ends it; files written before stay written.

        Args:
            files: Content by path.
            parents: Make missing directories.
            author: Who the changes are recorded for; by default the author of this handle.

        Returns:
            The number of bytes written in all.

        Raises:
            FileExpectedError: One of the paths is a directory (`is-a-directory`).
            PathEscapeError: One of the paths leaves the workspace (`path-escape`, `symlink-escape`).
        """
        total = 0
        for path, content in files.items():
            if isinstance(content, str):
                total += self.write_text(path, content, parents=parents, author=author)
            else:
                total += self.write_bytes(path, content, parents=parents, author=author)
        return total

    def create(
        self, path: StrPath, content: str | bytes = b"", *, parents: bool = True, author: str | None = None
    ) -> int:
        """Make a new file; exactly one of several callers who race for the same path succeeds.

        Args:
            path: File inside the workspace.
            content: What it holds; text is written as UTF-8.
            parents: Make missing directories.
            author: Who the change is recorded for; by default the author of this handle.

        Returns:
            The number of bytes written.

        Raises:
            AlreadyExistsError: There is an entry already (`file-exists`); also a `FileExistsError`.
        """
        author = self._author if author is None else author
        if isinstance(content, str):
            return self._native.write_text(
                path, content, parents=parents, create_only=True, if_hash=None, author=author
            )
        return self._native.write_bytes(path, content, parents=parents, create_only=True, if_hash=None, author=author)

    def append_text(self, path: StrPath, text: str, *, parents: bool = True, author: str | None = None) -> int:
        """Add text to the end of a file; make the file if it is missing.

        Args:
            path: File inside the workspace; a link to a file in it is followed.
            text: What to add, as UTF-8.
            parents: Make missing directories.
            author: Who the change is recorded for; by default the author of this handle.

        Returns:
            The number of bytes added.

        Raises:
            FileExpectedError: It is a directory (`is-a-directory`).
        """
        return self._native.append(
            path, text.encode(), parents=parents, author=self._author if author is None else author
        )

    def write_json(
        self,
        path: StrPath,
        value: object,
        *,
        indent: int | None = 2,
        sort_keys: bool = True,
        if_hash: str | None = None,
        author: str | None = None,
    ) -> int:
        """Write a value as JSON: indented, keys sorted, one newline at the end.

        Args:
            path: File inside the workspace.
            value: JSON values, dataclasses, pydantic models, and the records of this package.
            indent: Spaces for each level; `None` for one line.
            sort_keys: Whether keys are sorted.
            if_hash: Content id from an earlier read; if the file changed since, the write is refused.
            author: Who the change is recorded for; by default the author of this handle.

        Returns:
            The number of bytes written.

        Raises:
            TypeError: Some value has no JSON form; nothing is written.
            ValueError: Some number is infinite or not a number; nothing is written.
        """
        from ._json import dump

        return self.write_text(path, dump(value, indent, sort_keys), if_hash=if_hash, author=author)

    def mkdir(
        self, path: StrPath, *, parents: bool = True, exist_ok: bool | None = None, author: str | None = None
    ) -> None:
        """Make a directory.

        Args:
            path: Directory inside the workspace.
            parents: Make missing directories above it too.
            exist_ok: Accept a directory that is there already; by default the same as `parents`.
            author: Who the change is recorded for; by default the author of this handle.

        Raises:
            AlreadyExistsError: There is an entry already (`file-exists`).
            NotFoundError: A directory above is missing and `parents` is false (`directory-not-found`).
            DirectoryExpectedError: A part of the path is a file (`not-a-directory`).
        """
        self._native.mkdir(
            path,
            parents=parents,
            exist_ok=parents if exist_ok is None else exist_ok,
            author=self._author if author is None else author,
        )

    def copy(
        self,
        source: StrPath,
        destination: StrPath,
        *,
        overwrite: bool = False,
        recursive: bool = False,
        parents: bool = True,
        author: str | None = None,
    ) -> None:
        """Copy a file, a link (as a link) or, with `recursive`, a directory.

        Args:
            source: What to copy.
            destination: The path of the copy itself, not of a directory to put it into.
            overwrite: Replace an existing file.
            recursive: Copy a directory with everything in it.
            parents: Make missing directories above the destination.
            author: Who the change is recorded for; by default the author of this handle.

        Raises:
            NotFoundError: No such source (`file-not-found`).
            AlreadyExistsError: The destination exists and `overwrite` is false (`file-exists`).
            FileExpectedError: The source is a directory and `recursive` is false (`is-a-directory`).
            InvalidArgumentError: The destination lies inside the source (`invalid-argument`).
        """
        self._native.copy(
            source,
            destination,
            overwrite=overwrite,
            recursive=recursive,
            parents=parents,
            author=self._author if author is None else author,
        )

    def move(
        self,
        source: StrPath,
        destination: StrPath,
        *,
        overwrite: bool = False,
        parents: bool = True,
        author: str | None = None,
    ) -> None:
        """Move or rename an entry; a link is moved itself, whatever it leads to.

        Args:
            source: What to move; moving it to itself does nothing.
            destination: Its new path, not a directory to put it into.
            overwrite: Replace an existing entry.
            parents: Make missing directories above the destination.
            author: Who the change is recorded for; by default the author of this handle.

        Raises:
            NotFoundError: No such source (`file-not-found`).
            AlreadyExistsError: The destination exists and `overwrite` is false (`file-exists`).
            InvalidArgumentError: The destination lies inside the source (`invalid-argument`).
        """
        self._native.move(
            source,
            destination,
            overwrite=overwrite,
            parents=parents,
            author=self._author if author is None else author,
        )

    def remove(
        self, path: StrPath, *, recursive: bool = False, missing_ok: bool = False, author: str | None = None
    ) -> None:
        """Delete a file, a link (never what it leads to) or a directory.

        Args:
            path: What to delete; the root is refused.
            recursive: Delete a directory with everything in it.
            missing_ok: Accept that there is nothing.
            author: Who the change is recorded for; by default the author of this handle.

        Raises:
            NotFoundError: No such entry and `missing_ok` is false (`file-not-found`).
            UnsuitableEntryError: The directory has entries and `recursive` is false (`directory-not-empty`).
        """
        self._native.remove(
            path, recursive=recursive, missing_ok=missing_ok, author=self._author if author is None else author
        )

    def symlink(self, path: StrPath, target: StrPath, *, parents: bool = True, author: str | None = None) -> None:
        """Make a symbolic link; where it leads is not checked, but nothing is ever read or written outside.

        Args:
            path: The link itself.
            target: Where it leads, stored as it is; relative to the directory of the link.
            parents: Make missing directories.
            author: Who the change is recorded for; by default the author of this handle.

        Raises:
            AlreadyExistsError: There is an entry already (`file-exists`).
        """
        self._native.symlink(
            path, os.fspath(target), parents=parents, author=self._author if author is None else author
        )

    def hardlink(self, source: StrPath, path: StrPath, *, author: str | None = None) -> None:
        """Give a file a second name. Every later write through either name parts them: the other keeps the old bytes.

        Args:
            source: An existing file.
            path: The new name.
            author: Who the change is recorded for; by default the author of this handle.

        Raises:
            NotFoundError: No such file (`file-not-found`).
            AlreadyExistsError: There is an entry at `path` already (`file-exists`).
        """
        self._native.hardlink(source, path, author=self._author if author is None else author)

    def chmod(self, path: StrPath, mode: int, *, author: str | None = None) -> None:
        """Set the permission bits.

        Args:
            path: Path inside the workspace.
            mode: At most `0o777`; other bits are refused.
            author: Who the change is recorded for; by default the author of this handle.

        Raises:
            NotFoundError: No such entry (`file-not-found`).
            InvalidArgumentError: Other bits than `0o777` (`invalid-argument`).
        """
        self._native.chmod(path, mode, author=self._author if author is None else author)

    def clear(self, *, author: str | None = None) -> None:
        """Delete every entry of a memory workspace; checkpoints stay.

        Args:
            author: Who the change is recorded for; by default the author of this handle.

        Raises:
            NotSupportedError: This is no memory workspace (`not-supported`).
        """
        self._native.clear(author=self._author if author is None else author)

    # edit

    def edit(
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
        r"""Replace exact text in one file.

        The match is exact, including indentation; nothing is interpreted as a pattern, in `new` neither. Bytes outside
        the match stay as they are. Text whose line ends differ from those of the file is found too, and new lines get
        the line ends of the place unless `old` or `new` holds a carriage return. The file is replaced atomically: a
        reader sees the old text or the new text, never a mix, and a failed edit changes nothing.

        Args:
            path: File inside the workspace.
            old: Text to find. Must occur exactly `count` times.
            new: Text to put in its place.
            count: Number of occurrences required and replaced; `None` replaces all (at least one).
            if_hash: Content id from an earlier read. If the file changed since, the edit is refused.
            encoding: Encoding of a file that is not UTF-8, by the name Python or the web has for it. With one byte a
                character what `read_text` shows can be `old`; multi-byte encodings are read as browsers read them.
                `new` must be possible in Python's encoding of that name too.
            author: Who the change is recorded for; by default the author of this handle.

        Returns:
            The new content id, the number of replacements and a unified diff (at most 200 lines; `truncated` tells
            when it was cut).

        Raises:
            NotFoundError: No such file (`file-not-found`).
            PathEscapeError: The path leaves the workspace (`path-escape`, `symlink-escape`).
            NotUtf8Error: `new` holds a character the encoding lacks (`not-utf8`).
            EditError: `old` is missing (`edit-no-match`), occurs more or less often than `count`
                (`edit-ambiguous`; of the one place, places that overlap count too), or `if_hash` is stale (`stale-content`).

        Example:
            >>> ws = Workspace.memory()
            >>> _ = ws.write_text("greet.py", "print('hi')\n")
            >>> ws.edit("greet.py", "hi", "hello").replaced
            1
        """
        return convert.edit(
            self._native.edit(
                path,
                old,
                convert.encodable(new, encoding),
                count=count,
                if_hash=if_hash,
                encoding=encoding,
                author=self._author if author is None else author,
            )
        )

    # past

    def checkpoint(
        self, label: str | None = None, *, author: str | None = None, progress: Progress = None
    ) -> Checkpoint:
        """Name the present state of the whole tree.

        Costs what changed since the last one. Empty directories, permission bits, links and names of any bytes are
        part of it; what could not be read is listed in `skipped`.

        Args:
            label: A name to find it by; several checkpoints may have the same.
            author: Who made the changes; by default the author of this handle.
            progress: A function of entries done, entries known so far and bytes done; `True` for a progress bar.

        Returns:
            The checkpoint.

        Raises:
            ReadOnlyError: This handle can only read (`read-only-workspace`).
            QuotaError: No space is left (`quota-exceeded`); no half checkpoint stays.
        """
        from ._progress import Reporter

        with Reporter(progress, "checkpoint") as report:
            return convert.checkpoint(
                self._native.checkpoint(label, author=self._author if author is None else author, progress=report)
            )

    def checkpoints(self) -> CheckpointList:
        """Return all checkpoints, oldest first; those a rollback went behind stay in the list."""
        return convert.checkpoints(self._native.checkpoints())

    @property
    def head(self) -> Checkpoint:
        """The newest checkpoint, which the next one will have as its parent."""
        return convert.checkpoint(self._native.head())

    def resolve(self, ref: Ref) -> Checkpoint:
        """Find a checkpoint.

        Args:
            ref: A checkpoint, its id, a unique prefix of it, a label or an author.

        Returns:
            The checkpoint.

        Raises:
            CheckpointNotFoundError: Nothing matches (`checkpoint-not-found`), or several do
                (`checkpoint-ambiguous`; the message lists them).
        """
        return convert.checkpoint(self._native.resolve(_ref(ref)))

    def status(self) -> Diff:
        """Return what changed since the newest checkpoint, whoever changed it."""
        return convert.diff(self._native.diff(None, None))

    def diff(
        self, a: Ref | None = None, b: Ref | None = None, *, path: StrPath = "/", progress: Progress = None
    ) -> Diff:
        r"""Compare two states; costs what differs, not the size of the tree.

        Args:
            a: The state before; `None` for the newest checkpoint.
            b: The state after; `None` for the present.
            path: Compare only what lies below.
            progress: A function of entries done, entries known so far and bytes done; `True` for a progress bar.

        Returns:
            The changes, sorted by path; `unified()` gives a patch.

        Raises:
            CheckpointNotFoundError: A ref matches nothing (`checkpoint-not-found`) or several
                (`checkpoint-ambiguous`).

        Example:
            >>> ws = Workspace.memory()
            >>> _ = ws.write_text("a.txt", "one\n")
            >>> [str(change) for change in ws.diff()]
            ['created a.txt']
        """
        from ._progress import Reporter

        with Reporter(progress, "diff") as report:
            return convert.diff(self._native.diff(_ref_or_none(a), _ref_or_none(b), path=path, progress=report))

    def rollback(
        self,
        ref: Ref,
        *,
        paths: Sequence[str] | None = None,
        label: str | None = None,
        author: str | None = None,
        progress: Progress = None,
    ) -> RollbackResult:
        """Make the tree what it was at a checkpoint.

        Nothing is lost: what no checkpoint holds yet is checkpointed first (`saved`), later checkpoints stay in the
        list, and the rollback is a new checkpoint itself. Only what differs is written. Ignored paths stay as they
        are.

        Args:
            ref: A checkpoint, its id, a unique prefix of it, a label or an author.
            paths: Put back only these files and directories; `None` for everything.
            label: Label of the new checkpoint.
            author: Who it is recorded for; by default the author of this handle.
            progress: A function of entries done, entries known so far and bytes done; `True` for a progress bar.

        Returns:
            The new checkpoint, the saved one and the changes.

        Raises:
            CheckpointNotFoundError: Nothing matches (`checkpoint-not-found`), or several do
                (`checkpoint-ambiguous`).
            ConflictError: It would replace what no checkpoint holds (`uncheckpointed-changes`), such as what somebody
                writes while it goes on; nothing was changed.
            StoreError: Contents are missing in the store (`store-corrupt`); nothing was changed.
        """
        from ._progress import Reporter

        with Reporter(progress, "rollback") as report:
            return convert.rollback(
                self._native.rollback(
                    _ref(ref),
                    paths=_paths(paths),
                    label=label,
                    author=self._author if author is None else author,
                    progress=report,
                )
            )

    def history(
        self,
        *,
        after: int = 0,
        limit: int | None = None,
        path: StrPath | None = None,
        author: str | None = None,
    ) -> list[Record]:
        """Return the records of what happened, oldest first: one for each call that changed something.

        Args:
            after: Only records with a higher sequence number.
            limit: Most records to return; `None` for all.
            path: Only records that touched this path or something below it.
            author: Only records of this author.

        Returns:
            The records.
        """
        native = self._native
        return convert.records(native.history(after=after, limit=limit, path=path, author=author), native.id)

    def record_diff(self, record: Record | int, *, max_lines: int | None = None) -> Patch:
        """Return what one recorded call changed in text files.

        Args:
            record: A record, or its sequence number.
            max_lines: Cut the text after so many lines, and say so in `truncated`.

        Returns:
            A git-style patch; empty where the record keeps no contents (see `track` and `max_diff_bytes`).

        Raises:
            InvalidArgumentError: No such record (`invalid-argument`).
        """
        return convert.patch(self._native.record_diff(_sequence(record), max_lines=max_lines))

    def prune_history(self, through: int) -> int:
        """Forget old records; checkpoints are not touched.

        Where a store keeps the history, records that no checkpoint holds yet stay: they say who changed what since,
        and of a workspace in memory they are all there is.

        Args:
            through: Newest sequence number to forget; the newest record of all always stays.

        Returns:
            The number of records removed.
        """
        return self._native.prune_history(through)

    def flush(self) -> None:
        """Make every write so far survive a power loss.

        A write that returned survives the end of this process, however it ends; the operating system may keep it in
        memory for some seconds, though. Checkpoints and rollbacks flush what they need by themselves, so this is for
        single writes that must not be lost with the machine. It waits for the disk: milliseconds, or as long as it
        takes to write what other programs left unwritten on the same filesystem. In memory there is nothing to do.

        Raises:
            ReadOnlyError: This handle can only read (`read-only-workspace`).
            FileSystemError: The disk failed (`io-error`): what was written since the last flush may be lost.
        """
        self._native.flush()

    def log(self, path: StrPath, *, limit: int | None = None) -> list[LogEntry]:
        """Return the checkpoints that changed a file, newest first, through renames.

        Args:
            path: File inside the workspace; it need not exist any more.
            limit: Most entries to return; `None` for all.

        Returns:
            For each the checkpoint, its author, the effect and the path the file had then.

        Raises:
            NotFoundError: No checkpoint ever held the file (`file-not-found`).
        """
        return convert.log(self._native.log(path, limit=limit))

    def last_author(self, path: StrPath) -> str | None:
        """Return who made the newest checkpoint that changed a file.

        Args:
            path: File inside the workspace; it need not exist any more.

        Returns:
            The author of that checkpoint.

        Raises:
            NotFoundError: No checkpoint ever held the file (`file-not-found`).
        """
        entries = self._native.log(path, limit=1)
        return entries[0]["checkpoint"]["author"] if entries else None

    def blame(self, path: StrPath) -> list[BlameLine]:
        """Return for each line of a text file who wrote it, and in which checkpoint.

        Args:
            path: File inside the workspace.

        Returns:
            The lines in order; lines no checkpoint holds yet have neither author nor checkpoint.

        Raises:
            NotFoundError: No such file (`file-not-found`).
            UnsuitableEntryError: The file is not text (`binary-file`).
        """
        return convert.blame(self._native.blame(path))

    @overload
    def changed_by(self, author: None = None) -> Visits: ...
    @overload
    def changed_by(self, author: str) -> list[Visit]: ...
    def changed_by(self, author: str | None = None) -> Visits | list[Visit]:
        """Return what each author changed, one visit a checkpoint, oldest first.

        An author who came twice has two visits; a visit without changes is there and empty.

        Args:
            author: Only this author; one nobody knows has no visits.

        Returns:
            The visits of the author, or of all authors by name; `.to_dict()` of the latter gives
            `{"coder": ["src/a.py"], …}`.
        """
        found = convert.visits(self._native.changed_by())
        return found if author is None else found.get(author, [])

    def stats(self) -> StoreStats:
        """Return how many checkpoints, records and objects the store holds, and its size in bytes."""
        return convert.store_stats(self._native.stats())

    @overload
    def export(
        self, path: StrPath = "/", destination: None = None, *, ref: Ref | None = None, progress: Progress = None
    ) -> bytes: ...
    @overload
    def export(
        self, path: StrPath, destination: StrPath, *, ref: Ref | None = None, progress: Progress = None
    ) -> None: ...
    def export(
        self,
        path: StrPath = "/",
        destination: StrPath | None = None,
        *,
        ref: Ref | None = None,
        progress: Progress = None,
    ) -> bytes | None:
        """Pack a file or directory into a tar archive.

        Of a directory it holds what a checkpoint would: no special files, nothing that is ignored or nobody may read.

        Args:
            path: What to pack.
            destination: A file on the host to write; `None` returns the archive.
            ref: A checkpoint to take it from instead of the present state.
            progress: A function of entries done, entries known so far and bytes done; `True` for a progress bar.

        Returns:
            The archive, or `None` if it was written to a file.

        Raises:
            NotFoundError: No such entry, or it is ignored (`file-not-found`).
            UnsuitableEntryError: `path` is a special file (`special-file`).
            ReadOnlyError: It may not be read (`permission-denied`).
        """
        from ._progress import Reporter

        target = None if destination is None else os.fspath(destination)
        with Reporter(progress, "export") as report:
            return self._native.export(path, target, ref=_ref_or_none(ref), progress=report)

    def import_(
        self,
        archive: bytes | StrPath,
        path: StrPath = "/",
        *,
        author: str | None = None,
        progress: Progress = None,
    ) -> int:
        """Unpack a tar archive; an archive with an entry that leaves `path` is refused as a whole.

        Args:
            archive: The bytes of an archive, or a file on the host.
            path: Directory to unpack into.
            author: Who the change is recorded for; by default the author of this handle.
            progress: A function of entries done, entries known so far and bytes done; `True` for a progress bar.

        Returns:
            The number of entries.

        Raises:
            PathEscapeError: An entry leaves the directory (`path-escape`, `symlink-escape`); nothing was changed.
        """
        from ._progress import Reporter

        source = archive if isinstance(archive, bytes) else os.fspath(archive)
        with Reporter(progress, "import") as report:
            return self._native.import_(
                source, path, author=self._author if author is None else author, progress=report
            )


# shared with the asynchronous face


def _decode(data: bytes, path: StrPath, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"not valid {encoding} at byte {error.start}"
        hint = "Read it as bytes, or pass the encoding it is written in."
        raise _make("not-utf8", message, os.fspath(path), hint, None) from None


def _memory(store: StrPath | None, id: str | None, track: Track, max_diff_bytes: int | None, ignore: Ignore) -> Native:
    return _native.Workspace.memory(
        store=None if store is None else os.fspath(store),
        id=id,
        track=track,
        max_diff_bytes=max_diff_bytes,
        ignore=_ignore(ignore),
    )


def _open(
    root: StrPath,
    store: StrPath | None,
    id: str | None,
    track: Track,
    max_diff_bytes: int | None,
    ignore: Ignore,
    *,
    create: bool,
    allow_large: bool,
    resolver: str,
    read_only: bool = False,
    progress: Callable[[int, int, int], object] | None = None,
    later: Later | None = None,
) -> Native:
    home = os.path.expanduser("~")
    return _native.Workspace.open(
        os.fspath(root),
        store=_default_store(home) if store is None else os.fspath(store),
        id=id,
        track=track,
        max_diff_bytes=max_diff_bytes,
        ignore=_ignore(ignore),
        create=create,
        allow_large=allow_large,
        home=home if os.path.isabs(home) else None,
        resolver=resolver,
        read_only=read_only,
        progress=progress,
        later=later,
    )


def _default_store(home: str) -> str:
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the XDG rules: a relative one counts as not set
        if not os.path.isabs(home):
            raise InvalidArgumentError(
                "invalid-argument", "there is no home directory to keep the store in", None, "Pass store=."
            )
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "hedgerow")


def _ignore(ignore: Ignore) -> str | list[str] | None:
    return ignore if ignore is None or isinstance(ignore, str) else list(ignore)


def _ref(ref: Ref) -> str:
    if isinstance(ref, str):
        return ref
    try:
        return ref.id
    except AttributeError:
        raise TypeError("a ref is a Checkpoint, or text: an id, a prefix of one, a label or an author") from None


def _ref_or_none(ref: Ref | None) -> str | None:
    return None if ref is None else _ref(ref)


def _sequence(record: Record | int) -> int:
    return record if isinstance(record, int) else record.sequence


def _paths(paths: Sequence[str] | None) -> list[str] | None:
    if paths is None:
        return None
    return [paths] if isinstance(paths, str) else [os.fspath(path) for path in paths]


def _patterns(patterns: str | Sequence[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _check_chunk(chunk: int) -> None:
    if chunk <= 0:
        raise InvalidArgumentError(
            "invalid-argument", "chunk must be positive", None, "Give the number of bytes of one piece."
        )


def _check_range(offset: int, length: int | None) -> None:
    if offset < 0 or (length is not None and length < 0):
        raise InvalidArgumentError(
            "invalid-argument", "offset and length must not be negative", None, "Count from the start of the file."
        )


def _described(name: str, native: Native, author: str | None) -> str:
    root = native.root
    parts = ["memory" if root is None else f"disk {os.path.basename(root)!r}", f"id={native.id!r}"]
    if author is not None:
        parts.append(f"author={author!r}")
    if native.is_closed:
        parts.append("closed")
    elif native.is_read_only:
        parts.append("read-only")
    return f"{name}({', '.join(parts)})"
