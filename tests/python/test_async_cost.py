"""The event loop waits for nobody: a watchdog measures how long it is away while calls are under way.

The watchdog task sleeps for no time at all and measures from one turn of the loop to the next. What stands in its
way is only what runs on the loop's own thread, so a debug build makes the loop slower by the little that runs there,
not by the work. A pause can also come from outside: another process on the core, the garbage collector. So the
measure is taken three times, and a real block shows in all three, while chance does not. In an unoptimised build the
conversion of results, which needs the interpreter, takes several times as long, so the bound there is four times the
promised 5 ms.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hedgerow import AsyncWorkspace, _native

BOUND = 0.005 if _native.build_profile == "release" else 0.020
FILES = 3_000


async def longest_pause(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the longest time the loop was away while `work` ran, in processor time of its thread, and how long that took.

    Processor time of the loop's own thread is what our code costs there; waiting for a lock or a disk would show as
    wall time without processor time, so both are looked at: the larger of processor time, and wall time less what
    the thread was ready to run but did not get (`/proc/self/task/…/schedstat`, in nanoseconds).
    """
    schedstat = f"/proc/self/task/{os.getpid()}/schedstat"

    def waited() -> float:
        with open(schedstat, "rb") as file:
            return int(file.read().split()[1]) / 1e9

    worst = 0.0
    task = asyncio.ensure_future(work())
    started = time.monotonic()
    while not task.done():
        queue, before = waited(), time.monotonic()
        await asyncio.sleep(0)
        worst = max(worst, time.monotonic() - before - (waited() - queue))
    await task
    return worst, time.monotonic() - started


async def bounded(work: Callable[[], Awaitable[object]], again: Callable[[], object]) -> None:
    """Measure up to three times; each time over the bound is a block."""
    seen = []
    gc.disable()
    switch = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    try:
        for _ in range(3):
            again()
            gc.collect()
            worst, _ = await longest_pause(work)
            seen.append(worst)
            if worst <= BOUND:
                return
    finally:
        gc.enable()
        sys.setswitchinterval(switch)
    pytest.fail(f"the loop was away for {[f'{pause * 1000:.1f} ms' for pause in seen]}")


@pytest.fixture
def big(root: Path) -> Path:
    """Return a root with a few thousand files."""
    for number in range(FILES):
        place = root / f"d{number % 40}/f{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"line {number}\n" * 30)
    return root


@pytest.mark.parametrize(
    "call", ["checkpoint", "rollback", "walk", "search", "glob", "status", "export", "tree", "summary", "history"]
)
@pytest.mark.timeout(180)
async def test_case_f02_loop_is_never_blocked(big: Path, tmp_path: Path, call: str) -> None:
    async with await AsyncWorkspace.open(big, store=tmp_path / "store") as ws:
        await ws.write_text("first", "x")
        kept = await ws.checkpoint("kept")
        turns = iter(range(100))
        if call == "history":
            for number in range(300):
                await ws.write_text(f"h{number % 7}", str(number))

        def change() -> None:
            turn = next(turns)
            for number in range(0, FILES, 2):
                (big / f"d{number % 40}/f{number}").write_text(f"turn {turn} {number}\n")

        works: dict[str, Callable[[], Awaitable[object]]] = {
            "checkpoint": lambda: ws.checkpoint(),
            "rollback": lambda: ws.rollback(kept),
            "walk": lambda: ws.walk(),
            "search": lambda: ws.search("line"),
            "glob": lambda: ws.glob("**/*"),
            "status": lambda: ws.status(),
            "export": lambda: ws.export(),
            "tree": lambda: ws.tree(),
            "summary": lambda: ws.summary(),
            "history": lambda: ws.history(),
        }
        await bounded(works[call], change if call in ("checkpoint", "rollback", "status") else lambda: None)


async def test_opening_and_closing_do_not_block_the_loop(big: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with await AsyncWorkspace.open(big, store=tmp_path / "store") as ws:
            await ws.read_text("d0/f0")
            await ws.head

    await bounded(work, lambda: None)


async def test_small_calls_go_on_while_a_checkpoint_runs(big: Path, tmp_path: Path) -> None:
    """A read waits for no checkpoint, and the loop serves both."""
    async with await AsyncWorkspace.open(big, store=tmp_path / "store") as ws:

        async def work() -> None:
            task = asyncio.ensure_future(ws.checkpoint())
            reads = 0
            while not task.done():
                assert (await ws.read_text("d0/f0")).startswith("line 0")
                reads += 1
                await asyncio.sleep(0)  # a read that is answered at once gives the loop no turn of its own
            await task
            assert reads > 5

        await bounded(work, lambda: None)


async def test_a_write_behind_a_held_lock_does_not_block_the_loop(big: Path, tmp_path: Path) -> None:
    async with await AsyncWorkspace.open(big, store=tmp_path / "store") as ws:

        async def work() -> None:
            await asyncio.gather(ws.checkpoint(), *(ws.write_text(f"new{number}", "x") for number in range(20)))

        await bounded(work, lambda: None)
