"""hedgerow gives an agent a place to work: a jailed tree of files, every change of which is seen, named and undone.

    from hedgerow import Workspace

    with Workspace.open("project") as ws:
        before = ws.checkpoint("before")
        agent(tools=ws.tools())
        print(ws.diff(before).patch())
        ws.rollback(before)

`Workspace` blocks, `AsyncWorkspace` has the same methods as coroutines. Every error is a `WorkspaceError`.

Only the errors are imported at once; everything else when it is first used, so that `import hedgerow` stays cheap
even where Python may not keep byte code (`make bench` measures it).
"""

from __future__ import annotations

import atexit as _atexit
import os as _os

from . import _native
from ._errors import (
    AlreadyExistsError,
    CheckpointNotFoundError,
    ClosedError,
    ConflictError,
    DeadlockError,
    DirectoryExpectedError,
    EditError,
    EntryKindError,
    ErrorKind,
    FileExpectedError,
    FileSystemError,
    InternalError,
    InvalidArgumentError,
    InvalidJsonError,
    InvalidPathError,
    LimitError,
    LockTimeoutError,
    MergeConflictError,
    NotFoundError,
    NotSupportedError,
    NotUtf8Error,
    PathEscapeError,
    QuotaError,
    ReadOnlyError,
    StoreError,
    UnsuitableEntryError,
    WorkspaceError,
    _make,
)

TYPE_CHECKING = False  # `typing` costs more to import than this whole package
if TYPE_CHECKING:
    from . import fs
    from ._async import AsyncWorkspace
    from ._tools import Tool
    from ._types import (
        BlameLine,
        ByteStream,
        Change,
        Checkpoint,
        CheckpointList,
        Diff,
        EditResult,
        Effect,
        Kind,
        LogEntry,
        Match,
        Patch,
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
    from ._workspace import Workspace

__all__ = [
    "AlreadyExistsError",
    "AsyncWorkspace",
    "BlameLine",
    "ByteStream",
    "Change",
    "Checkpoint",
    "CheckpointList",
    "CheckpointNotFoundError",
    "ClosedError",
    "ConflictError",
    "DeadlockError",
    "Diff",
    "DirectoryExpectedError",
    "EditError",
    "EditResult",
    "Effect",
    "EntryKindError",
    "ErrorKind",
    "FileExpectedError",
    "FileSystemError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidJsonError",
    "InvalidPathError",
    "Kind",
    "LimitError",
    "LockTimeoutError",
    "LogEntry",
    "Match",
    "MergeConflictError",
    "NotFoundError",
    "NotSupportedError",
    "NotUtf8Error",
    "Patch",
    "PathEscapeError",
    "Paths",
    "QuotaError",
    "ReadOnlyError",
    "Record",
    "RecordStatus",
    "RollbackResult",
    "SearchResult",
    "Skipped",
    "Stat",
    "StoreError",
    "StoreStats",
    "Summary",
    "Tool",
    "TreeNode",
    "UnsuitableEntryError",
    "Visit",
    "Visits",
    "Workspace",
    "WorkspaceError",
    "fs",
]

__version__: str = _native.__version__

_LATER = {
    "Workspace": "_workspace",
    "AsyncWorkspace": "_async",
    "Tool": "_tools",
    "fs": "fs",
}  # every other name is one of `_types`

_native._set_error_factory(_make)
_atexit.register(_native._shutdown, 2.0)


def _before_fork() -> None:
    # A module that another thread is importing while the process forks stays locked in the child for ever, so the
    # ones that calls import at their first use are made complete before; then calls under way are waited for.
    from . import _convert, _json, _progress, _types  # noqa: F401

    _native._before_fork()


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(
        before=_before_fork,
        after_in_parent=_native._after_fork_in_parent,
        after_in_child=_native._after_fork_in_child,
    )


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{_LATER.get(name, '_types')}")
    value: object = module if name == "fs" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return [*__all__, "__version__"]


if _native.build_profile != "release":
    import warnings as _warnings

    _warnings.warn(
        "this is a debug build of hedgerow: many times slower than a release build", RuntimeWarning, stacklevel=2
    )
