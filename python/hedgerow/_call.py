"""The doorway between asyncio and the core.

A call of the core with a `Later` returns at once and completes a future from a worker thread. Cancelling the task
cancels the work and returns at once: a read stops at its next check; a change either had not reached its commit
point, and nothing is changed, or it completes and is recorded.

asyncio is imported at the first call: a synchronous program never pays for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

T = TypeVar("T")
R = TypeVar("R")

_POLL = 0.1
"""Seconds between two progress reports; a report is two loads, so the rate is for the eye alone."""


async def later(method: Callable[..., T], /, *args: object, **keywords: object) -> T:
    """Run one call of the core on a worker thread and await its result."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    handle = _native.Later(loop, future)
    method(*args, later=handle, **keywords)
    try:
        return await future
    except asyncio.CancelledError:
        handle.cancel()
        raise
    except _native.Stopped:
        return await later(method, *args, **keywords)


async def through(method: Callable[..., T], /, *args: object, **keywords: object) -> T:
    """Do what `later` does, to its end: a task cancelled meanwhile waits for that, and is cancelled then.

    Nothing here is a task of its own, so what cancels all tasks of a loop does not stop it either.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    method(*args, later=_native.Later(loop, future), **keywords)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        result = future.result()
    except _native.Stopped:
        result = await later(method, *args, **keywords)
    if cancelled is not None:
        raise cancelled
    return result


async def later_reporting(
    method: Callable[..., T], report: Callable[[int, int, int], object] | None, /, *args: object, **keywords: object
) -> T:
    """Do what `later` does, and report the progress ten times a second and once at the end."""
    if report is None:
        return await later(method, *args, **keywords)
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    handle = _native.Later(loop, future)

    async def poll() -> None:
        while True:
            await asyncio.sleep(_POLL)
            report(*handle.progress())

    method(*args, later=handle, **keywords)
    poller = loop.create_task(poll())
    try:
        racers: set[asyncio.Future[Any]] = {future, poller}
        await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        if poller.done() and (failure := poller.exception()) is not None:
            # The caller's function failed: its error ends the call, as it does in the synchronous one.
            raise failure
        result = await future
    except _native.Stopped:
        return await later(method, *args, **keywords)
    except BaseException:
        handle.cancel()
        future.cancel()
        raise
    finally:
        poller.cancel()
    report(*handle.progress())
    return result


_turns = 0


async def turn() -> None:
    """Let other tasks have a turn now and then.

    A call that ends at once never suspends, so a row of them would keep the loop to itself: every 32nd gives way,
    which costs a fraction of a microsecond a call.
    """
    global _turns
    _turns += 1
    if _turns % 32 == 0:
        import asyncio

        await asyncio.sleep(0)


class Pending(Generic[T]):
    """Something to await: what an asynchronous property returns. Nothing happens until it is awaited."""

    __slots__ = ("_start",)

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Keep the coroutine function that does the work."""
        self._start = start

    def __await__(self) -> Generator[Any, Any, T]:
        """Do the work."""
        return self._start().__await__()


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, and return its result.

    Bodies that the two faces share are coroutines over a caller: `at_once` in the synchronous face, `later` in the
    other. With `at_once` nothing ever suspends, so one step runs the whole body.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("a synchronous call tried to wait")


async def at_once(method: Callable[..., T], /, *args: object, **keywords: object) -> T:
    """Call the core and wait in place."""
    return method(*args, **keywords)


_MANY = 500
"""Items that are converted in well under a millisecond; more than that is left to a thread."""


async def converted(function: Callable[[R], T], raw: R, size: int) -> T:
    """Apply `function` to a result of `size` items without holding up the event loop."""
    if size <= _MANY:
        return function(raw)
    import asyncio

    return await asyncio.get_running_loop().run_in_executor(None, function, raw)
