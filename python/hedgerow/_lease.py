"""The writer lease as a context manager, for `with` and `async with`.

The core keeps the line and says whose turn it is; waiting is done here, by a lock of Python in a thread and by a
future in a task, so that Ctrl-C, timeouts and cancellation are the ordinary ones and no thread waits for a task.
"""

from __future__ import annotations

import asyncio
import math
from _thread import TIMEOUT_MAX, allocate_lock, get_ident
from os import getpid
from typing import TYPE_CHECKING, Generic, TypeVar

from ._call import at_once, finish, later, through
from ._errors import ClosedError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    from ._async import AsyncWorkspace
    from ._native import Turn
    from ._workspace import Workspace

W = TypeVar("W", bound="Workspace | AsyncWorkspace")


class WriterLease(Generic[W]):
    """Holds the lease of one workspace from entering to leaving; can be used once at a time."""

    __slots__ = ("_author", "_handle", "_held", "_label", "_timeout")

    _handle: W
    _held: tuple[Turn, str, int] | None

    def __init__(self, handle: W, author: str, label: str | None, timeout: float | None) -> None:
        """Remember what to do; nothing happens before the block begins."""
        if timeout is not None and not timeout >= 0:
            raise InvalidArgumentError("invalid-argument", "timeout is a number of seconds, 0 or more", None, "")
        self._handle = handle
        self._author = author
        self._label = label
        self._timeout = None if timeout is None or math.isinf(timeout) else min(timeout, TIMEOUT_MAX)
        self._held = None

    def __enter__(self) -> W:
        """Wait for the lease, on this thread."""
        come = allocate_lock()
        come.acquire()
        turn = self._stand_in_line(blocks=True, wake=come.release)
        try:
            if not turn.has_come and not come.acquire(timeout=-1 if self._timeout is None else self._timeout):
                _check_come(turn)
            finish(self._begin(at_once, turn))
        except BaseException:
            turn.leave()
            raise
        return self._handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Checkpoint or take back, then give up the lease."""
        finish(self._end(at_once, failed=kind is not None))

    async def __aenter__(self) -> W:
        """Wait for the lease without holding up the loop."""
        loop = asyncio.get_running_loop()
        come: asyncio.Future[None] = loop.create_future()
        turn = self._stand_in_line(blocks=False, wake=lambda: loop.call_soon_threadsafe(_tell, come))
        try:
            if not turn.has_come:
                try:
                    async with asyncio.timeout(self._timeout):
                        await come
                except TimeoutError:
                    _check_come(turn)
            await self._begin(later, turn)
        except BaseException:
            turn.leave()
            raise
        return self._handle

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Checkpoint or take back, then give up the lease."""
        # To its end: a task cancelled here must neither leave its changes in place nor let the next one begin.
        await self._end(through, failed=kind is not None)

    def _stand_in_line(self, *, blocks: bool, wake: Callable[[], object]) -> Turn:
        if self._held is not None:
            raise RuntimeError("this lease is held already; call writer() again for another one")
        running = asyncio._get_running_loop()
        task = None if running is None else asyncio.current_task(running)
        return self._handle._native.stand_in_line(
            self._author, self._label, get_ident(), None if task is None else id(task), blocks, wake
        )

    async def _begin(self, call: Callable[..., Any], turn: Turn) -> None:
        self._held = (turn, await call(self._handle._native.begin_writer), getpid())

    async def _end(self, call: Callable[..., Any], *, failed: bool) -> None:
        if self._held is None:
            raise RuntimeError("this lease is not held")
        (turn, start, pid), self._held = self._held, None
        native = self._handle._native
        try:
            if pid != getpid():
                # A forked child leaves its copy of the block: what was written there is the parent's to keep or undo.
                if not failed:
                    raise ClosedError(
                        "used-after-fork",
                        "the lease belongs to the process that began it; no checkpoint was made",
                        None,
                        "Call writer() in the child for a lease of its own.",
                    )
            elif failed:
                await call(native.undo_writer, start, author=self._author)
            else:
                await call(native.checkpoint, self._label, author=self._author)
        finally:
            turn.leave()


def _tell(come: asyncio.Future[None]) -> None:
    # Cancelled meanwhile: leaving the line passes the turn on.
    if not come.done():
        come.set_result(None)


def _check_come(turn: Turn) -> None:
    # It may have come in the very moment the wait ended.
    if not turn.has_come:
        raise turn.timed_out() or RuntimeError("the place in the line is gone") from None
