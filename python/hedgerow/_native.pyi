"""The compiled core. Private: users import `hedgerow`, never this module.

Every call that works on files takes `later=None`. Without it the call blocks (GIL released) and returns its
result; with a `Later` it returns `None` at once and completes that object's future from a worker thread.
Paths are `str` with surrogateescape. Structured results are plain dicts and lists; a path in them is a `str`, or
a list of byte values when the name is not UTF-8 (`_convert.path` turns both into `str`). Times are integer
nanoseconds since the epoch. Ids are 40 hexadecimal digits.
"""

import asyncio
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

__all__: list[str]
__version__: str
build_profile: str  # "release" or "debug"

type _Path = str | PathLike[str]
type _Progress = Callable[[int, int, int], object] | None  # entries done, entries known so far, bytes done

def _all_error_kinds() -> list[tuple[str, str]]: ...  # (code, hint)
def _set_error_factory(factory: Callable[[str, str, str | None, str, str | None], BaseException]) -> None: ...
def _shutdown(timeout: float) -> None: ...  # atexit: cancel and wait with the GIL released, then never attach again
def _before_fork() -> None: ...  # waits, 2 s at most, until no other thread is in the core
def _after_fork_in_parent() -> None: ...
def _after_fork_in_child() -> None: ...

@final
class Later:
    """One pending call: the loop and future to complete, and the flag that cancels the work."""

    def __new__(cls, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> Later: ...
    def cancel(self) -> None: ...
    def progress(self) -> tuple[int, int, int]: ...

class Stopped(Exception):
    """The end of the interpreter stopped a call before anything happened; called again, it runs in place."""

@final
class Turn:
    """A place in the line for the writer lease; giving it up is `leave`."""

    @property
    def has_come(self) -> bool: ...
    def leave(self) -> None: ...
    def timed_out(self) -> BaseException | None: ...

@final
class Reader:
    """An open file, read from front to back."""

    @property
    def size(self) -> int: ...
    def read(self, size: int, *, later: Later | None = None) -> bytes: ...  # b"" at the end
    def close(self) -> None: ...

@final
class Diff:
    """Two trees and what differs; contents are read only when a text is asked for."""

    # {path, source, effect: created|modified|deleted|renamed, kind, old_mode, new_mode, old_id, new_id, old_size, new_size}
    def changes(self) -> list[dict[str, Any]]: ...
    # {text, additions, deletions, truncated}; the text is a git-style patch; paths = None for all
    def unified(self, *, paths: Sequence[str] | None = None, context: int = ..., max_lines: int | None = None, later: Later | None = None) -> dict[str, Any]: ...

@final
class Workspace:
    @staticmethod
    def memory(*, store: str | None, id: str | None, track: str, max_diff_bytes: int | None, ignore: str | list[str] | None) -> Workspace: ...
    @staticmethod
    def open(
        root: str, *, store: str, id: str | None, track: str, max_diff_bytes: int | None, ignore: str | list[str] | None,
        create: bool, allow_large: bool, home: str | None, resolver: str, read_only: bool = False, progress: _Progress = None, later: Later | None = None,
    ) -> Workspace: ...  # resolver: auto|kernel|walk; home: the directory that counts as "a home"
    @property
    def id(self) -> str: ...
    @property
    def root(self) -> str | None: ...  # host path of a disk workspace
    @property
    def store(self) -> str | None: ...  # host path of the store directory
    @property
    def is_read_only(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def features(self) -> dict[str, bool]: ...  # symlinks hard_links permissions real_path
    def read_only(self) -> Workspace: ...  # the same workspace; every writing call refused in the core
    def at(self, ref: str, *, later: Later | None = None) -> Workspace: ...  # a read-only workspace over a checkpoint's tree
    def close(self, *, later: Later | None = None) -> None: ...

    # reads
    def try_read_bytes(self, path: _Path, offset: int = 0, length: int | None = None) -> bytes | None: ...  # None: it would block
    def try_read_text(self, path: _Path) -> str | None: ...
    def read_bytes(self, path: _Path, offset: int = ..., length: int | None = None, *, later: Later | None = None) -> bytes: ...
    def read_text(self, path: _Path, *, later: Later | None = None) -> str: ...  # strict UTF-8
    def view(self, path: _Path, *, later: Later | None = None) -> dict[str, Any]: ...  # {text, lossy, encoding, bom, size, id}: what a model is shown
    def open_reader(self, path: _Path, *, later: Later | None = None) -> Reader: ...
    def exists(self, path: _Path, *, later: Later | None = None) -> bool: ...
    def stat(self, path: _Path, *, later: Later | None = None) -> dict[str, Any]: ...  # lstat: {path, kind: file|directory|symlink|fifo|socket|device, size, mode, modified: int|None, links, target: str|list|None}
    def content_id(self, path: _Path, *, later: Later | None = None) -> str: ...
    def readlink(self, path: _Path, *, later: Later | None = None) -> str: ...
    def realpath(self, path: _Path, *, later: Later | None = None) -> str: ...
    def list_dir(self, path: _Path, *, later: Later | None = None) -> list[dict[str, Any]]: ...  # stat dicts, sorted
    def walk(self, path: _Path, *, max_depth: int | None, later: Later | None = None) -> list[dict[str, Any]]: ...  # stat dicts, depth first, sorted; the start itself not included
    def summary(self, path: _Path, *, later: Later | None = None) -> dict[str, Any]: ...  # {files, directories, symlinks, special, bytes}
    def glob(self, pattern: str, path: _Path, *, max_results: int | None, later: Later | None = None) -> dict[str, Any]: ...  # {paths, truncated, unreadable}
    # {matches: [{path, line, text, start, end, before: [..], after: [..], clamped}], files_searched, skipped: [{path, reason}], truncated: None|matches|files}
    def search(
        self, pattern: str, path: _Path, *, regex: bool, ignore_case: bool, include: list[str], exclude: list[str], context: int,
        max_file_bytes: int, max_files: int | None, max_matches: int, max_line_bytes: int, later: Later | None = None,
    ) -> dict[str, Any]: ...

    # writes; author None means the workspace's default author. Each returns what is said behind it.
    def write_bytes(self, path: _Path, data: bytes, *, parents: bool, create_only: bool, if_hash: str | None, author: str | None, later: Later | None = None) -> int: ...  # bytes written
    def write_text(self, path: _Path, text: str, *, parents: bool, create_only: bool, if_hash: str | None, author: str | None, keep_encoding: bool = False, later: Later | None = None) -> int: ...  # UTF-8, or as the file there: UTF-16, byte order mark
    def append(self, path: _Path, data: bytes, *, parents: bool, author: str | None, later: Later | None = None) -> int: ...
    def mkdir(self, path: _Path, *, parents: bool, exist_ok: bool, author: str | None, later: Later | None = None) -> None: ...
    def copy(self, source: _Path, destination: _Path, *, overwrite: bool, recursive: bool, parents: bool, author: str | None, later: Later | None = None) -> None: ...
    def move(self, source: _Path, destination: _Path, *, overwrite: bool, parents: bool, author: str | None, later: Later | None = None) -> None: ...
    def remove(self, path: _Path, *, recursive: bool, missing_ok: bool, author: str | None, later: Later | None = None) -> None: ...
    def symlink(self, path: _Path, target: str, *, parents: bool, author: str | None, later: Later | None = None) -> None: ...
    def hardlink(self, source: _Path, path: _Path, *, author: str | None, later: Later | None = None) -> None: ...
    def chmod(self, path: _Path, mode: int, *, author: str | None, later: Later | None = None) -> None: ...
    def clear(self, *, author: str | None, later: Later | None = None) -> None: ...  # memory only: every entry goes
    def edit(
        self, path: _Path, old: str, new: str, *, count: int | None, if_hash: str | None, encoding: str | None, author: str | None, later: Later | None = None,
    ) -> dict[str, Any]: ...  # {path, id, replaced, line, diff, additions, deletions, truncated}

    # past
    # a checkpoint: {id, label, labels, author, created, parent, kind: baseline|checkpoint|rollback|safety|recovered, rollback_of, tree,
    #   cursor, first_sequence, last_sequence, changes, touched: [paths, at most 1000], has_text_diffs, skipped: [{path, reason}]}
    def checkpoint(self, label: str | None, *, author: str | None, progress: _Progress = None, later: Later | None = None) -> dict[str, Any]: ...
    def checkpoints(self, *, later: Later | None = None) -> list[dict[str, Any]]: ...  # oldest first
    def head(self, *, later: Later | None = None) -> dict[str, Any]: ...
    def resolve(self, ref: str, *, later: Later | None = None) -> dict[str, Any]: ...
    # a None: the head; b None: the present state
    def diff(self, a: str | None, b: str | None, *, path: _Path | None = None, progress: _Progress = None, later: Later | None = None) -> Diff: ...
    # wake() is called from any thread when the turn has come, unless it has come at once
    def stand_in_line(
        self, author: str, label: str | None, thread: int, task: int | None, blocks: bool, wake: Callable[[], object],
    ) -> Turn: ...  # the label is only looked at
    def begin_writer(self, *, later: Later | None = None) -> str: ...  # id of the checkpoint it starts from
    def undo_writer(self, start: str, *, author: str, later: Later | None = None) -> None: ...
    def rollback(
        self, ref: str, *, paths: list[str] | None, label: str | None, author: str | None, progress: _Progress = None, later: Later | None = None,
    ) -> dict[str, Any]: ...  # {checkpoint, saved: checkpoint|None, target, changes: [...]}
    # a record: {sequence, time, kind, author, paths, status: applied|failed, source, checkpoint, changes: [{path, real_path, source, effect, kind, before_id, after_id, before_size, after_size, before_mode, after_mode, has_content}]}
    def history(self, *, after: int, limit: int | None, path: _Path | None, author: str | None, later: Later | None = None) -> list[dict[str, Any]]: ...
    def record_diff(self, sequence: int, *, max_lines: int | None, later: Later | None = None) -> dict[str, Any]: ...  # as Diff.unified
    def flush(self, *, later: Later | None = None) -> None: ...
    def prune_history(self, through: int, *, later: Later | None = None) -> int: ...  # records removed; the newest always stays
    def log(self, path: _Path, *, limit: int | None, later: Later | None = None) -> list[dict[str, Any]]: ...  # [{checkpoint: {...}, effect, path, source}], newest first, through renames
    def blame(self, path: _Path, *, later: Later | None = None) -> list[dict[str, Any]]: ...  # [{line, text, author, checkpoint, created}]
    def changed_by(self, *, later: Later | None = None) -> list[dict[str, Any]]: ...  # [{author, checkpoint, changes: [{path, effect, source}]}], oldest first, one an own visit; authors of a no-change visit with []
    def stats(self, *, later: Later | None = None) -> dict[str, Any]: ...  # {checkpoints, records, objects, blobs, packs, loose, bytes}
    def export(self, path: _Path, destination: str | None, *, ref: str | None, progress: _Progress = None, later: Later | None = None) -> bytes | None: ...  # tar, to a host file or returned
    def import_(self, archive: bytes | str, path: _Path, *, author: str | None, progress: _Progress = None, later: Later | None = None) -> int: ...  # entries
    def materialize(self, directory: str, *, ref: str | None, later: Later | None = None) -> None: ...  # write the tree into an empty host directory
