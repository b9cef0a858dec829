"""The exceptions of hedgerow.

Every error is a `WorkspaceError` with a stable code, the workspace path it concerns, one sentence, and one
imperative hint for an agent. Most also derive from the builtin a Python programmer would catch:

    WorkspaceError (Exception)
    ├── PathEscapeError (PermissionError)         path-escape symlink-escape path-absolute reserved-name
    ├── InvalidPathError (ValueError)             path-empty path-nul path-encoding path-too-long
    ├── InvalidArgumentError (ValueError)         invalid-argument
    │   └── InvalidJsonError                      invalid-argument
    ├── NotFoundError (FileNotFoundError)         file-not-found directory-not-found
    ├── CheckpointNotFoundError (LookupError)     checkpoint-not-found checkpoint-ambiguous branch-not-found
    ├── AlreadyExistsError (FileExistsError)      file-exists branch-exists
    ├── EntryKindError
    │   ├── FileExpectedError (IsADirectoryError)        is-a-directory
    │   ├── DirectoryExpectedError (NotADirectoryError)  not-a-directory
    │   ├── UnsuitableEntryError (OSError)               directory-not-empty not-a-link special-file binary-file
    │   │                                                symlink-loop
    │   └── NotUtf8Error (UnicodeDecodeError)            not-utf8
    ├── ReadOnlyError (PermissionError)           read-only-workspace permission-denied
    ├── EditError (ValueError)                    edit-no-match edit-ambiguous stale-content
    ├── ConflictError                             base-moved uncheckpointed-changes path-race root-replaced
    │   └── MergeConflictError                    merge-conflict
    ├── LimitError                                file-too-large too-many-entries root-too-large
    │   └── QuotaError (OSError)                  quota-exceeded
    ├── LockTimeoutError (TimeoutError)           lock-timeout operation-timeout
    ├── DeadlockError (RuntimeError)              would-deadlock
    ├── ClosedError (ValueError)                  workspace-closed used-after-fork cancelled
    ├── StoreError                                store-corrupt store-version git-failed
    ├── NotSupportedError (OSError)               not-supported
    ├── FileSystemError (OSError)                 io-error
    └── InternalError (RuntimeError)              bug

`EntryKindError` itself is no `OSError`: an undecodable file is a `UnicodeDecodeError` to every Python programmer,
and CPython cannot lay out a class that is both. All its other members are.

Codes are append-only. No message holds a host path: the core never puts one in, and neither may this package.
A cancelled call is `asyncio.CancelledError` or `KeyboardInterrupt`; the code `cancelled` is seen only by a thread
whose call was cut off because the interpreter is ending.
"""

from __future__ import annotations

import errno
from enum import StrEnum

from ._text import escaped

TYPE_CHECKING = False  # `typing` costs more to import than this whole module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class ErrorKind(StrEnum):
    """The stable code of an error; compares equal to its text."""

    PATH_ESCAPE = "path-escape"
    SYMLINK_ESCAPE = "symlink-escape"
    PATH_ABSOLUTE = "path-absolute"
    RESERVED_NAME = "reserved-name"
    PATH_EMPTY = "path-empty"
    PATH_NUL = "path-nul"
    PATH_ENCODING = "path-encoding"
    PATH_TOO_LONG = "path-too-long"
    INVALID_ARGUMENT = "invalid-argument"
    FILE_NOT_FOUND = "file-not-found"
    DIRECTORY_NOT_FOUND = "directory-not-found"
    CHECKPOINT_NOT_FOUND = "checkpoint-not-found"
    CHECKPOINT_AMBIGUOUS = "checkpoint-ambiguous"
    BRANCH_NOT_FOUND = "branch-not-found"
    FILE_EXISTS = "file-exists"
    BRANCH_EXISTS = "branch-exists"
    IS_A_DIRECTORY = "is-a-directory"
    NOT_A_DIRECTORY = "not-a-directory"
    DIRECTORY_NOT_EMPTY = "directory-not-empty"
    NOT_A_LINK = "not-a-link"
    SPECIAL_FILE = "special-file"
    BINARY_FILE = "binary-file"
    NOT_UTF8 = "not-utf8"
    SYMLINK_LOOP = "symlink-loop"
    READ_ONLY_WORKSPACE = "read-only-workspace"
    PERMISSION_DENIED = "permission-denied"
    EDIT_NO_MATCH = "edit-no-match"
    EDIT_AMBIGUOUS = "edit-ambiguous"
    STALE_CONTENT = "stale-content"
    BASE_MOVED = "base-moved"
    UNCHECKPOINTED_CHANGES = "uncheckpointed-changes"
    MERGE_CONFLICT = "merge-conflict"
    FILE_TOO_LARGE = "file-too-large"
    TOO_MANY_ENTRIES = "too-many-entries"
    QUOTA_EXCEEDED = "quota-exceeded"
    ROOT_TOO_LARGE = "root-too-large"
    LOCK_TIMEOUT = "lock-timeout"
    WOULD_DEADLOCK = "would-deadlock"
    OPERATION_TIMEOUT = "operation-timeout"
    PATH_RACE = "path-race"
    ROOT_REPLACED = "root-replaced"
    WORKSPACE_CLOSED = "workspace-closed"
    USED_AFTER_FORK = "used-after-fork"
    STORE_CORRUPT = "store-corrupt"
    STORE_VERSION = "store-version"
    GIT_FAILED = "git-failed"
    NOT_SUPPORTED = "not-supported"
    IO_ERROR = "io-error"
    CANCELLED = "cancelled"
    BUG = "bug"


class WorkspaceError(Exception):
    """Any error of hedgerow.

    Attributes:
        kind: Stable code; compares equal to its text (`e.kind == "file-not-found"`).
        path: Path inside the workspace, or `None` where no path is concerned.
        message: One sentence without the path.
        hint: One imperative sentence for an agent, or an empty string.
    """

    kind: ErrorKind
    path: str | None
    message: str
    hint: str

    def __init__(self, kind: str, message: str, path: str | None = None, hint: str = "") -> None:
        """Make an error of the code `kind`."""
        super().__init__(message)
        self._describe(kind, message, path, hint)

    def _describe(self, kind: str, message: str, path: str | None, hint: str) -> None:
        try:
            self.kind = ErrorKind(kind)
        except ValueError:  # a core newer than this package
            self.kind = ErrorKind.BUG
        self.message = message
        self.path = path
        self.hint = hint

    def __str__(self) -> str:
        """Return `path: message`, or the message alone where no path is concerned; always one line."""
        return self.message if self.path is None else f"{escaped(self.path)}: {self.message}"

    def __repr__(self) -> str:
        """Show the class, the code and the text."""
        return f"{type(self).__name__}({str(self.kind)!r}, {str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by what was said, not by `args`, which differs between the builtin bases."""
        notes = getattr(self, "__notes__", None)
        state = {"__notes__": list(notes)} if notes else None
        return _restore, (type(self), str(self.kind), self.message, self.path, self.hint), state


class _SystemError(WorkspaceError, OSError):
    """A `WorkspaceError` with an errno; the base of the classes that are `OSError` too."""

    def __init__(self, kind: str, message: str, path: str | None = None, hint: str = "") -> None:
        OSError.__init__(self, _ERRNO.get(kind, errno.EIO), message)
        self._describe(kind, message, path, hint)
        if path is not None:
            self.filename = path


class PathEscapeError(_SystemError, PermissionError):
    """The path leaves the workspace, or names something that may not be touched."""


class InvalidPathError(WorkspaceError, ValueError):
    """The text is no path: empty, with a NUL, too long or not encodable."""


class InvalidArgumentError(WorkspaceError, ValueError):
    """An argument outside its allowed values."""


class InvalidJsonError(InvalidArgumentError):
    """A file that should hold JSON does not."""

    def __str__(self) -> str:
        """Return `invalid JSON: path: where and why`."""
        return f"invalid JSON: {escaped(self.path or '')}: {self.message}"


class NotFoundError(_SystemError, FileNotFoundError):
    """No such file or directory."""


class CheckpointNotFoundError(WorkspaceError, LookupError):
    """No checkpoint matches the ref, or several do; the message lists the candidates then."""


class AlreadyExistsError(_SystemError, FileExistsError):
    """The entry exists already."""


class EntryKindError(WorkspaceError):
    """The entry is not of the kind the call needs."""


class FileExpectedError(_SystemError, EntryKindError, IsADirectoryError):
    """A directory stands where a file is needed."""


class DirectoryExpectedError(_SystemError, EntryKindError, NotADirectoryError):
    """Something else stands where a directory is needed."""


class UnsuitableEntryError(_SystemError, EntryKindError):
    """A full directory, a special file, a binary file, a loop of links, or no link at all."""


class NotUtf8Error(EntryKindError, UnicodeDecodeError):
    """The file is not valid UTF-8."""

    def __init__(self, kind: str, message: str, path: str | None = None, hint: str = "") -> None:
        """Make the error; `object` stays empty, because a file may be larger than anybody wants in an exception."""
        UnicodeDecodeError.__init__(self, "utf-8", b"", 0, 1, message)
        self._describe(kind, message, path, hint)


class ReadOnlyError(_SystemError, PermissionError):
    """The workspace or handle can only read, or the operating system refused."""


class EditError(WorkspaceError, ValueError):
    """`old` is missing or ambiguous, or the content changed since it was read."""


class ConflictError(WorkspaceError):
    """Somebody else changed the same thing at the same time."""


class MergeConflictError(ConflictError):
    """Both sides changed the same thing."""


class LimitError(WorkspaceError):
    """A limit would be exceeded; nothing was changed."""


class QuotaError(LimitError, _SystemError):
    """No space is left, or a quota is used up."""


class LockTimeoutError(_SystemError, TimeoutError):
    """Somebody else holds the lock, or the operation took too long."""


class DeadlockError(WorkspaceError, RuntimeError):
    """Waiting would never end: whoever waits holds what he waits for."""


class ClosedError(WorkspaceError, ValueError):
    """The workspace is closed, or belongs to the process this one was forked from."""


class StoreError(WorkspaceError):
    """The store is damaged, too new, or git reported an error."""


class NotSupportedError(_SystemError):
    """This kind of workspace cannot do that."""


class FileSystemError(_SystemError):
    """The operating system reported an error that has no class of its own."""


class InternalError(WorkspaceError, RuntimeError):
    """A fault of hedgerow."""


_ERRNO = {
    "path-escape": errno.EACCES,
    "symlink-escape": errno.EACCES,
    "path-absolute": errno.EACCES,
    "reserved-name": errno.EPERM,
    "file-not-found": errno.ENOENT,
    "directory-not-found": errno.ENOENT,
    "file-exists": errno.EEXIST,
    "branch-exists": errno.EEXIST,
    "is-a-directory": errno.EISDIR,
    "not-a-directory": errno.ENOTDIR,
    "directory-not-empty": errno.ENOTEMPTY,
    "not-a-link": errno.EINVAL,
    "special-file": errno.ENXIO,
    "binary-file": errno.EINVAL,
    "symlink-loop": errno.ELOOP,
    "read-only-workspace": errno.EROFS,
    "permission-denied": errno.EACCES,
    "quota-exceeded": errno.ENOSPC,
    "lock-timeout": errno.ETIMEDOUT,
    "operation-timeout": errno.ETIMEDOUT,
    "not-supported": errno.ENOTSUP,
    "io-error": errno.EIO,
}

_CLASSES: dict[str, type[WorkspaceError]] = {
    "path-escape": PathEscapeError,
    "symlink-escape": PathEscapeError,
    "path-absolute": PathEscapeError,
    "reserved-name": PathEscapeError,
    "path-empty": InvalidPathError,
    "path-nul": InvalidPathError,
    "path-encoding": InvalidPathError,
    "path-too-long": InvalidPathError,
    "invalid-argument": InvalidArgumentError,
    "file-not-found": NotFoundError,
    "directory-not-found": NotFoundError,
    "checkpoint-not-found": CheckpointNotFoundError,
    "checkpoint-ambiguous": CheckpointNotFoundError,
    "branch-not-found": CheckpointNotFoundError,
    "file-exists": AlreadyExistsError,
    "branch-exists": AlreadyExistsError,
    "is-a-directory": FileExpectedError,
    "not-a-directory": DirectoryExpectedError,
    "directory-not-empty": UnsuitableEntryError,
    "not-a-link": UnsuitableEntryError,
    "special-file": UnsuitableEntryError,
    "binary-file": UnsuitableEntryError,
    "not-utf8": NotUtf8Error,
    "symlink-loop": UnsuitableEntryError,
    "read-only-workspace": ReadOnlyError,
    "permission-denied": ReadOnlyError,
    "edit-no-match": EditError,
    "edit-ambiguous": EditError,
    "stale-content": EditError,
    "base-moved": ConflictError,
    "uncheckpointed-changes": ConflictError,
    "merge-conflict": MergeConflictError,
    "file-too-large": LimitError,
    "too-many-entries": LimitError,
    "quota-exceeded": QuotaError,
    "root-too-large": LimitError,
    "lock-timeout": LockTimeoutError,
    "operation-timeout": LockTimeoutError,
    "would-deadlock": DeadlockError,
    "path-race": ConflictError,
    "root-replaced": ConflictError,
    "workspace-closed": ClosedError,
    "used-after-fork": ClosedError,
    "store-corrupt": StoreError,
    "store-version": StoreError,
    "git-failed": StoreError,
    "not-supported": NotSupportedError,
    "io-error": FileSystemError,
    "cancelled": ClosedError,
    "bug": InternalError,
}


def _make(
    kind: str, message: str, path: str | None = None, hint: str = "", detail: str | None = None
) -> WorkspaceError:
    """Make the exception of a code; called by the core for each error, and by this package for its own."""
    error = _CLASSES.get(kind, InternalError)(kind, message, path, hint)
    if detail:
        error.add_note(detail)
    return error


def _restore(
    make: Callable[[str, str, str | None, str], WorkspaceError], kind: str, message: str, path: str | None, hint: str
) -> WorkspaceError:
    return make(kind, message, path, hint)
