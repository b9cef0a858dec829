"""Forks, interpreters that end, tasks that are cancelled, signals, and many event loops."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from case_support import SLOWDOWN, fsck, opened, picture, plain_environment, python, started
from hedgerow import AsyncWorkspace, Workspace

# forks

FORK = """
    import asyncio, os, signal, sys, hedgerow
    from hedgerow import Workspace, AsyncWorkspace
    root, store, way = sys.argv[1:]
    ws = Workspace.open(root, store=store, id="w")
    ws.write_text("f", "parent")
    kept = ws.checkpoint("parent")
    asyncio.run(ws.aio.read_bytes("f"))          # the runtime is up
    asyncio.run(ws.aio.checkpoint())

    def fresh_sync():
        with Workspace.open(root, store=store, id="w") as mine:
            assert mine.read_text("f") == "parent"
            mine.write_text("child", "child"); mine.checkpoint("child"); mine.rollback("parent", paths=["f"])

    async def fresh_async_body():
        async with await AsyncWorkspace.open(root, store=store, id="w") as mine:
            await mine.write_text("child", "child")
            await mine.checkpoint("child")
            assert await mine.read_text("child") == "child"
            await asyncio.gather(*(mine.edit("child", "child", "child") for _ in range(5)))

    def inherited(call):
        # It works, or it says at once that it belongs to the parent; never silence.
        try:
            call()
        except hedgerow.ClosedError as error:
            assert error.kind == "used-after-fork", error.kind

    def inherited_async(call):
        async def body():
            return await asyncio.wait_for(call(), 10)
        inherited(lambda: asyncio.run(body()))

    def memory():
        own = Workspace.memory()
        own.write_text("a", "b"); own.checkpoint()
        async def body():
            await own.aio.write_text("a", "c"); return await own.aio.checkpoint()
        asyncio.run(body())

    def child():
        signal.alarm(25)
        {
            "fresh sync": fresh_sync,
            "fresh async": lambda: asyncio.run(fresh_async_body()),
            "inherited read": lambda: inherited(lambda: ws.read_text("f")),
            "inherited write": lambda: inherited(lambda: ws.write_text("child", "x")),
            "inherited checkpoint": lambda: inherited(lambda: ws.checkpoint("child")),
            "inherited async read": lambda: inherited_async(lambda: ws.aio.read_bytes("f")),
            "inherited async write": lambda: inherited_async(lambda: ws.aio.write_text("child", "x")),
            "inherited async checkpoint": lambda: inherited_async(lambda: ws.aio.checkpoint("x")),
            "inherited close": lambda: inherited(ws.close),
            "memory": memory,
        }[way]()

    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child()
            code = 0
        except BaseException:
            import traceback; traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with {status}"
    assert ws.read_text("f") == "parent"         # the parent goes on as if nothing was
    ws.write_text("f", "after"); ws.checkpoint("after")
    async def goes_on():
        await ws.aio.edit("f", "after", "later")
    asyncio.run(goes_on())
    assert ws.resolve("parent").id == kept.id
    print("done")
"""

WAYS = [
    "fresh sync", "fresh async", "inherited read", "inherited write", "inherited checkpoint", "inherited async read",
    "inherited async write",
    "inherited async checkpoint", "inherited close", "memory",
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_case_q02_q03_child_of_a_fork_works_or_is_told_at_once(tmp_path: Path, way: str) -> None:
    (tmp_path / "root").mkdir()
    done = python(FORK, tmp_path / "root", tmp_path / "store", way, timeout=50)
    assert done.stdout == "done\n"
    fsck(tmp_path / "store")


def test_case_q02_fork_while_other_threads_are_in_calls(tmp_path: Path) -> None:
    """Locks held by another thread at the moment of the fork are held for ever in the child: it must not wait for them."""
    (tmp_path / "root").mkdir()
    done = python(
        """
        import os, signal, sys, threading, hedgerow
        from hedgerow import Workspace
        root, store = sys.argv[1:]
        ws = Workspace.open(root, store=store, id="w")
        stop = threading.Event()
        def busy(number):
            turn = 0
            while not stop.is_set():
                turn += 1
                ws.write_text(f"f{number}", str(turn))
                if turn % 5 == 0:
                    ws.checkpoint()
        threads = [threading.Thread(target=busy, args=(n,)) for n in range(3)]
        for thread in threads: thread.start()
        for turn in range(6):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                try:
                    try:
                        ws.write_text("child", str(turn))
                    except hedgerow.ClosedError:
                        pass
                    with Workspace.open(root, store=store, id="w") as mine:
                        mine.write_text("child", str(turn))
                        mine.checkpoint(f"child {turn}")
                    own = Workspace.memory(); own.write_text("x", "y"); own.checkpoint()
                except BaseException:
                    import traceback; traceback.print_exc(); sys.stderr.flush()
                    os._exit(1)
                os._exit(0)
            _, status = os.waitpid(pid, 0)
            assert status == 0, (turn, status)
        stop.set()
        for thread in threads: thread.join()
        labels = {label for made in ws.checkpoints() for label in made.labels}
        assert {f"child {turn}" for turn in range(6)} <= labels, labels
        numbers = [record.sequence for record in ws.history()]
        assert numbers == list(range(1, len(numbers) + 1))
        print("done")
        """,
        tmp_path / "root",
        tmp_path / "store",
        timeout=55,
    )
    assert done.stdout == "done\n"
    fsck(tmp_path / "store")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_case_q04_multiprocessing_pools_read_and_write(tmp_path: Path, method: str) -> None:
    (tmp_path / "root").mkdir()
    program = tmp_path / "program.py"
    program.write_text(
        """
import asyncio, multiprocessing, sys, warnings
warnings.simplefilter("ignore")
from hedgerow import AsyncWorkspace, Workspace

def work(job):
    root, store, number = job
    async def body():
        async with await AsyncWorkspace.open(root, store=store, id="w") as ws:
            await ws.edit("f", f"<{number}>", f"[{number}]")
            return await ws.read_text("f")
    with Workspace.open(root, store=store, id="w") as ws:
        ws.write_text(f"own/{number}", "x")
    return f"[{number}]" in asyncio.run(body())

if __name__ == "__main__":
    root, store, method = sys.argv[1:]
    with Workspace.open(root, store=store, id="w") as ws:
        ws.write_text("f", "".join(f"<{n}>" for n in range(12)))
        asyncio.run(ws.aio.checkpoint())
        with multiprocessing.get_context(method).Pool(3) as pool:
            assert all(pool.map_async(work, [(root, store, n) for n in range(12)]).get(timeout=45))
            pool.close(); pool.join()
        assert ws.read_text("f") == "".join(f"[{n}]" for n in range(12))
        numbers = [record.sequence for record in ws.history()]
        assert numbers == list(range(1, len(numbers) + 1))
    print("done")
"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program, tmp_path / "root", tmp_path / "store", method],
        env=plain_environment(), capture_output=True, text=True, timeout=55, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# the end of the interpreter

EXIT = """
    import asyncio, os, sys, threading, time
    from hedgerow import Workspace
    root, store, way, pause = sys.argv[1:]
    ws = Workspace.open(root, store=store, id="w")
    if way == "sync thread":
        def work():
            for turn in range(10**9):
                ws.write_text(f"t{turn % 5}", str(turn)); ws.read_text("f0"); ws.checkpoint()
        threading.Thread(target=work, daemon=True).start()
    elif way == "daemon reader":
        for _ in range(3):
            threading.Thread(target=lambda: [ws.read_text("f0") for _ in range(10**9)], daemon=True).start()
    elif way == "iterating":
        threading.Thread(target=lambda: [list(ws.iter_bytes("f0", chunk=1)) for _ in range(10**9)], daemon=True).start()
    elif way == "pending tasks":
        async def main():
            for number in range(5):
                asyncio.get_running_loop().create_task(ws.aio.checkpoint(f"c{number}"))
                asyncio.get_running_loop().create_task(ws.aio.write_text("t", "x"))
            await asyncio.sleep(0)
        asyncio.run(main())
    elif way == "loop thread":
        async def main():
            while True:
                await asyncio.gather(ws.aio.read_bytes("f0"), ws.aio.write_text("t", "x"), ws.aio.checkpoint())
        threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
    elif way == "progress":
        def work():
            for turn in range(10**9):
                ws.write_text("t", str(turn)); ws.checkpoint(progress=lambda *numbers: None)
        threading.Thread(target=work, daemon=True).start()
    elif way == "abandoned loop":
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(ws.aio.checkpoint()), loop.create_task(ws.aio.walk())]
        loop.run_until_complete(asyncio.sleep(0))
        loop.call_soon(loop.stop); loop.run_forever()
        for task in tasks: task._log_destroy_pending = False
    time.sleep(float(pause))
    print("end", flush=True)
"""
ENDINGS = ["sync thread", "daemon reader", "iterating", "pending tasks", "loop thread", "progress", "abandoned loop"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", ENDINGS)
def test_case_q01_q13_q14_q15_interpreter_ends_with_calls_under_way(tmp_path: Path, way: str) -> None:
    runs = 15
    (tmp_path / "root").mkdir()
    for number in range(200):
        (tmp_path / f"root/f{number}").write_text(str(number) * 500)
    with opened(tmp_path / "root", tmp_path / "store") as ws:
        ws.checkpoint()

    def run(number: int) -> tuple[int, str, str, float]:
        before = time.monotonic()
        done = python(EXIT, tmp_path / "root", tmp_path / "store", way, (number % 5) * 0.008, check=False, timeout=30)
        return done.returncode, done.stdout, done.stderr, time.monotonic() - before

    with ThreadPoolExecutor(2) as pool:
        for code, out, err, seconds in pool.map(run, range(runs)):
            # asyncio itself says so of a task that nobody awaited and that was destroyed; it is not about us.
            said = "\n".join(line for line in err.splitlines() if "ResourceWarning" not in line)
            assert (code, out) == (0, "end\n"), err
            assert "panic" not in err
            assert "Fatal Python" not in err
            assert way == "abandoned loop" or said == "", err
            assert seconds < 5 * SLOWDOWN
    with opened(tmp_path / "root", tmp_path / "store") as ws:
        ws.write_text("t", "usable")
        ws.checkpoint("usable")
        assert not ws.status()
    fsck(tmp_path / "store")


def test_case_q13_what_is_awaited_while_the_interpreter_ends_runs_in_place(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    done = python(
        """
        import atexit, asyncio, sys, threading, time
        @atexit.register                        # before the import, so after hedgerow's own
        def last():
            time.sleep(0.3)                     # time enough for the daemon to meet the end
            asyncio.run(asyncio.wait_for(ws.aio.write_text("late", "x"), 10))
            print("daemon", "ended" if ended else "works")
            stop.set(); worker.join()           # as those do that have something to save
            print("daemon", "ended" if ended else "works", flush=True)
        from hedgerow import Workspace
        ws = Workspace.open(sys.argv[1], store=sys.argv[2])
        ended, begun, stop = [], threading.Event(), threading.Event()
        async def main():
            try:
                while not stop.is_set():
                    await asyncio.gather(ws.aio.write_text("t", "x"), ws.aio.checkpoint())
                    begun.set()
            finally:
                ended.append(True)
        worker = threading.Thread(target=lambda: asyncio.run(main()), daemon=True); worker.start()
        begun.wait()
        """,
        tmp_path / "root",
        tmp_path / "store",
    )
    assert done.stderr == ""
    assert done.stdout == "daemon works\ndaemon ended\n"
    with opened(tmp_path / "root", tmp_path / "store") as ws:
        assert ws.read_text("late") == "x"


# cancelled tasks


@pytest.mark.row("B40")
@pytest.mark.timeout(120)
async def test_case_q01_cancelled_at_random_the_tree_is_before_or_after(disk: Workspace, root: Path) -> None:
    chance = random.Random(11)
    ws = disk.aio
    before_text, after_text = "before\n" * 3000, "after!\n" * 3000
    await ws.write_text("f", before_text)
    for number in range(60):
        await ws.write_text(f"d/{number}", str(number))
    kept = await ws.checkpoint("kept")
    await ws.write_text("f", after_text)
    await ws.remove("d", recursive=True)
    other = await ws.checkpoint("other")
    state = {0: picture(root)}
    await ws.rollback(kept)
    state[1] = picture(root)
    calls: list[Callable[[], Any]] = [
        lambda: ws.rollback(kept),
        lambda: ws.rollback(other),
        lambda: ws.edit("f", "before", "before", count=None),
        lambda: ws.copy("d", "d", overwrite=True),
        lambda: ws.checkpoint(),
    ]
    cancelled = 0
    for turn in range(200):
        task = asyncio.create_task(calls[turn % len(calls)]())
        await asyncio.sleep(chance.choice([0, 0, 0.0001, 0.0005, 0.002, 0.006, 0.02]))
        task.cancel()
        started_at = time.monotonic()
        try:
            await task
        except asyncio.CancelledError:
            cancelled += 1
        except hedgerow.WorkspaceError:
            pass
        assert time.monotonic() - started_at < 0.2 * SLOWDOWN
        # A change past its commit point completes; the next change waits for it. Then one of the states stands.
        await asyncio.wait_for(ws.checkpoint(), 10)
        assert picture(root) in state.values()
    assert cancelled > 20
    numbers = [record.sequence for record in disk.history()]
    assert numbers == list(range(1, len(numbers) + 1))
    fsck(disk.store or "")


async def test_case_q01_cancelled_waiter_leaves_the_lock(any_ws: Workspace) -> None:
    ws = any_ws.aio
    await ws.write_text("f", "0")
    for _ in range(20):
        tasks = [asyncio.create_task(ws.write_text("f", str(number))) for number in range(30)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(ws.write_text("f", "free"), 5)
        assert await ws.read_text("f") == "free"


def test_case_q01_two_hundred_loops_left_at_once(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    done = python(
        """
        import asyncio, sys
        from hedgerow import Workspace
        ws = Workspace.open(sys.argv[1], store=sys.argv[2], id="w")
        for number in range(50):
            ws.write_text(f"f{number}", "x" * 100)
        sys.unraisablehook = lambda *args: print("unraisable", args)
        async def main(turn):
            asyncio.create_task(ws.aio.checkpoint(str(turn)))
            asyncio.create_task(ws.aio.write_text("f0", str(turn)))
            if turn % 3:
                await asyncio.sleep(0)
        for turn in range(200):
            asyncio.run(main(turn))
        ws.write_text("f1", "last")
        assert ws.checkpoint("last").label == "last" and not ws.status()
        print("done")
        """,
        tmp_path / "root",
        tmp_path / "store",
    )
    assert done.stdout == "done\n"
    fsck(tmp_path / "store")


def test_loop_closed_with_a_call_pending(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    done = python(
        """
        import asyncio, sys, time
        from hedgerow import Workspace
        ws = Workspace.open(sys.argv[1], store=sys.argv[2], id="w")
        for number in range(300):
            ws.write_text(f"f{number}", "x" * 100)
        sys.unraisablehook = lambda *args: print("unraisable", args)
        for turn in range(30):
            loop = asyncio.new_event_loop()
            coroutine = ws.aio.checkpoint(str(turn))
            task = loop.create_task(coroutine)
            task._log_destroy_pending = False
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()                       # the answer comes to a loop that is no more
            ws.write_text("f0", str(turn))
            ws.checkpoint()
        time.sleep(0.2)
        print("done")
        """,
        tmp_path / "root",
        tmp_path / "store",
    )
    assert done.stdout == "done\n"


# signals


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "call", ["checkpoint", "walk", "search", "rollback", "async checkpoint", "export", "lock wait"]
)
def test_ctrl_c_ends_a_long_call_within_a_second(tmp_path: Path, call: str) -> None:
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    with opened(root, store) as ws:
        ws.write_text("first", "x")
        ws.checkpoint("first")
    for number in range(12_000):
        place = root / f"d{number % 60}/f{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(os.urandom(2000))
    if call == "rollback":
        with opened(root, store) as ws:
            ws.checkpoint("full")
    before = picture(root)
    source = """
        import asyncio, fcntl, os, sys, time
        from hedgerow import Workspace
        root, store, call = sys.argv[1:]
        ws = Workspace.open(root, store=store, id="w")
        heads = [made.label for made in ws.checkpoints()]
        print("go", flush=True)
        sys.stdin.readline()
        try:
            {
                "checkpoint": lambda: ws.checkpoint("interrupted"),
                "walk": lambda: [ws.walk() for _ in range(10**6)],
                "search": lambda: [ws.search("[a-z]+[0-9]+zz", regex=True, max_files=None) for _ in range(10**6)],
                "rollback": lambda: ws.rollback("first"),
                "async checkpoint": lambda: asyncio.run(ws.aio.checkpoint("interrupted")),
                "export": lambda: [ws.export() for _ in range(10**6)],
                "lock wait": lambda: ws.write_text("x", "y"),
            }[call]()
        except KeyboardInterrupt:
            print("interrupted", time.monotonic(), flush=True)
        else:
            print("finished", time.monotonic(), flush=True)
        if call == "lock wait":
            raise SystemExit
        start = time.monotonic()
        assert ws.exists("first")
        assert "interrupted" not in [made.label for made in ws.checkpoints()] or call == "finished"
        ws.write_text("next", "works")
        print("next", time.monotonic() - start, flush=True)
        kept = ws.checkpoint("after")
        assert ws.at(kept).read_text("next") == "works"
        ws.remove("next")
        print("done", flush=True)
    """
    held = None
    process = started(source, root, store, call)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "go\n"
    if call == "lock wait":  # as another process of ours does
        held = os.open(root, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
    process.stdin.write("go\n")
    process.stdin.flush()
    time.sleep(0.05 if call == "rollback" else 0.15)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    words = process.stdout.readline().split()
    if held is not None:
        os.close(held)
    out, err = process.communicate(timeout=90)
    assert words[:1] == ["interrupted"], (words, err)
    assert float(words[1]) - sent < 1, float(words[1]) - sent
    assert (process.returncode, err) == (0, ""), err
    if call != "lock wait":
        assert out.endswith("done\n"), (out, err)
        after = picture(root)
        if call != "rollback":
            assert after == before
        else:
            assert after in (before, {b"first": before[b"first"]})
    fsck(store)


# many loops


def test_several_loops_in_threads_share_a_workspace(any_ws: Workspace) -> None:
    any_ws.write_text("f", "".join(f"<{number}>" for number in range(32)))

    def work(number: int) -> None:
        async def body() -> None:
            ws = any_ws.aio
            await asyncio.gather(*(ws.edit("f", f"<{n}>", f"[{n}]") for n in range(number * 4, number * 4 + 4)))
            await asyncio.gather(ws.checkpoint(), ws.read_text("f"), ws.walk(), ws.status())

        asyncio.run(body())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert any_ws.read_text("f") == "".join(f"[{number}]" for number in range(32))


async def test_workspace_made_in_one_loop_is_used_in_another(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    ws = await AsyncWorkspace.open(tmp_path / "root", store=tmp_path / "store")
    said: list[object] = []

    def other() -> None:
        async def body() -> None:
            await ws.write_text("f", "from another loop")
            said.append(await ws.read_text("f"))

        asyncio.run(body())

    thread = threading.Thread(target=other)
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.01)
        await ws.exists("f")
    assert said == ["from another loop"]
    await ws.close()


async def test_closing_while_calls_are_under_way(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    for turn in range(10):
        ws = await AsyncWorkspace.open(tmp_path / "root", store=tmp_path / "store")
        tasks = [asyncio.create_task(ws.write_text(f"f{n}", str(turn))) for n in range(20)] + [
            asyncio.create_task(ws.checkpoint())
        ]
        await asyncio.sleep(0)
        await asyncio.wait_for(ws.close(), 10)
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            assert not isinstance(answer, BaseException) or isinstance(answer, hedgerow.ClosedError), answer
    fsck(tmp_path / "store")
