"""The writer lease: one writer at a time, one checkpoint or nothing, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from case_support import opened, started
from hedgerow import (
    AsyncWorkspace,
    ClosedError,
    DeadlockError,
    InvalidArgumentError,
    LockTimeoutError,
    ReadOnlyError,
    Workspace,
)


def files(ws: Workspace) -> dict[str, bytes]:
    """Return every file with its bytes."""
    return {path: ws.read_bytes(path) for path in ws.glob("**/*") if ws.stat(path).kind == "file"}


class OopsError(Exception):
    """Raised by a writer that fails."""


@pytest.mark.row("B11")
def test_a_writer_that_ends_well_is_one_checkpoint_under_its_name(any_ws: Workspace) -> None:
    before = len(any_ws.checkpoints())
    with any_ws.writer("coder", label="node: coder") as coder:
        assert coder.author == "coder"
        coder.write_text("src/a.py", "x = 1\n")
        assert len(any_ws.checkpoints()) == before
    assert len(any_ws.checkpoints()) == before + 1
    assert (any_ws.head.author, any_ws.head.label) == ("coder", "node: coder")
    assert any_ws.status().paths == ()
    assert any_ws.changed_by().to_dict() == {"coder": ["src/a.py"]}
    assert not coder.is_closed


@pytest.mark.row("B11")
@pytest.mark.parametrize("error", [OopsError, KeyboardInterrupt, SystemExit])
def test_a_writer_that_fails_leaves_no_checkpoint_and_no_file(any_ws: Workspace, error: type[BaseException]) -> None:
    any_ws.write_text("kept.txt", "one\n")
    any_ws.write_text("gone.txt", "here\n")
    any_ws.checkpoint("start")
    state, checkpoints = files(any_ws), any_ws.checkpoints()
    with pytest.raises(error), any_ws.writer("coder") as coder:
        coder.write_text("new/deep.txt", "a new file\n")
        coder.edit("kept.txt", "one", "two")
        coder.remove("gone.txt")
        coder.mkdir("empty")
        coder.move("kept.txt", "moved.txt")
        raise error
    assert files(any_ws) == state
    assert [entry.path for entry in any_ws.list_dir("/")] == ["gone.txt", "kept.txt"]
    assert any_ws.checkpoints() == checkpoints
    # What it did is known all the same, and its text can be had.
    last = any_ws.history()[-1]
    assert (last.kind, last.author) == ("undo", "coder")
    assert "-a new file" in any_ws.record_diff(last).text
    assert "+two" in "".join(any_ws.record_diff(record).text for record in any_ws.history(author="coder"))


@pytest.mark.row("B17")
def test_each_retry_starts_from_the_same_state(any_ws: Workspace) -> None:
    any_ws.write_text("count", "0")
    for _ in range(3):
        with pytest.raises(OopsError), any_ws.writer("coder") as coder:
            assert coder.read_text("count") == "0"
            coder.write_text("count", "1")
            raise OopsError
    with any_ws.writer("coder") as coder:
        coder.write_text("count", coder.read_text("count") + "!")
    assert any_ws.read_text("count") == "0!"
    assert any_ws.changed_by()["coder"] == any_ws.changed_by("coder")
    assert len(any_ws.changed_by("coder")) == 1


@pytest.mark.row("B17")
def test_what_was_unsaved_is_nobody_elses_and_stays(any_ws: Workspace) -> None:
    any_ws.attributed("ann").write_text("ann.txt", "hers")
    with any_ws.writer("coder") as coder:
        coder.write_text("coder.txt", "his")
    assert any_ws.changed_by().to_dict()["coder"] == ["coder.txt"]
    any_ws.attributed("ann").write_text("ann.txt", "more of hers")
    with pytest.raises(OopsError), any_ws.writer("coder"):
        raise OopsError
    assert any_ws.read_text("ann.txt") == "more of hers"


def test_a_writer_without_changes_names_the_state(any_ws: Workspace) -> None:
    with any_ws.writer("first") as first:
        first.write_text("a.txt", "a")
    with any_ws.writer("second"):
        pass
    assert any_ws.resolve("second").id == any_ws.resolve("first").id
    assert len(any_ws.checkpoints()) == 2


def test_changes_behind_our_back_go_too_and_can_be_had(disk: Workspace, root: Path) -> None:
    (root / "tool.txt").write_text("before\n")
    disk.checkpoint()
    with pytest.raises(OopsError), disk.writer("coder"):
        subprocess.run(["sh", "-c", "echo made >made.txt; echo after >tool.txt"], cwd=root, check=True)
        os.mkfifo(root / "pipe")
        raise OopsError
    assert (root / "tool.txt").read_text() == "before\n"
    assert not (root / "made.txt").exists()
    assert (root / "pipe").exists()
    told = [(record.kind, record.author, record.paths) for record in disk.history()]
    both = ("made.txt", "tool.txt")
    assert told == [
        ("external", "external", ("tool.txt",)),
        ("external", "external", both),
        ("undo", "coder", both),
    ]
    assert "-made" in disk.record_diff(disk.history()[-1]).text


@pytest.mark.parametrize("options", [{"track": "paths"}, {"track": "off"}, {"max_diff_bytes": 4}])
def test_where_records_keep_no_contents_a_checkpoint_keeps_what_goes(
    root: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    with Workspace.open(root, store=tmp_path / "store", **options) as ws:  # type: ignore[arg-type]
        ws.write_text("a.txt", "before")
        with pytest.raises(OopsError), ws.writer("coder") as coder:
            coder.write_text("a.txt", "hours of work")
            raise OopsError
        assert ws.read_text("a.txt") == "before"
        states = [ws.at(known).read_text("a.txt") for known in ws.checkpoints()[1:]]
        assert states == ["before", "hours of work", "before"]


def test_checkpoints_a_failed_writer_took_stay(any_ws: Workspace) -> None:
    with pytest.raises(OopsError), any_ws.writer("coder") as coder:
        coder.write_text("a.txt", "one")
        halfway = coder.checkpoint("halfway")
        coder.write_text("a.txt", "two")
        raise OopsError
    assert not any_ws.exists("a.txt")
    assert any_ws.at(halfway).read_text("a.txt") == "one"
    saved = any_ws.checkpoints()[-2]
    assert any_ws.at(saved).read_text("a.txt") == "two"


def test_writers_in_threads_take_turns_in_the_order_they_came(any_ws: Workspace) -> None:
    any_ws.write_text("log", "")
    inside: list[int] = []
    most: list[int] = []
    came = threading.Semaphore(0)

    def write(number: int) -> None:
        came.release()
        with any_ws.writer(f"w{number}") as mine:
            inside.append(number)
            most.append(len(inside))
            # Not atomic on purpose: only the lease makes it so.
            text = mine.read_text("log")
            time.sleep(0.002)
            mine.write_text("log", text + f"{number} ")
            inside.remove(number)

    with ThreadPoolExecutor(12) as pool, any_ws.writer("first"):
        done = []
        for number in range(12):
            done.append(pool.submit(write, number))
            came.acquire()
            time.sleep(0.03)  # so that it stands in line before the next one comes
    for future in done:
        future.result()
    assert any_ws.read_text("log") == "".join(f"{number} " for number in range(12))
    assert set(most) == {1}
    assert list(any_ws.changed_by())[-12:] == [f"w{number}" for number in range(12)]


def test_case_q09_two_hundred_tasks_are_never_inside_together(any_ws: Workspace) -> None:
    counts: list[int] = []
    inside = 0

    async def write(aws: AsyncWorkspace, number: int) -> None:
        nonlocal inside
        async with aws.writer(f"t{number}") as mine:
            inside += 1
            counts.append(inside)
            await mine.append_text("log", f"{number}\n")
            await asyncio.sleep(0)
            inside -= 1

    async def run() -> None:
        await asyncio.gather(*(write(any_ws.aio, number) for number in range(200)))

    asyncio.run(run())
    assert counts == [1] * 200
    assert any_ws.read_text("log") == "".join(f"{number}\n" for number in range(200))


def test_threads_and_loops_share_one_line(ws: Workspace) -> None:
    ws.write_text("n", "0")

    def in_thread() -> None:
        for _ in range(20):
            with ws.writer("thread") as mine:
                mine.write_text("n", str(int(mine.read_text("n")) + 1))

    async def in_task() -> None:
        for _ in range(20):
            async with ws.aio.writer("task") as mine:
                await mine.write_text("n", str(int(await mine.read_text("n")) + 1))

    async def loop() -> None:
        await asyncio.gather(in_task(), in_task())

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(in_thread), pool.submit(in_thread)]
        jobs += [pool.submit(asyncio.run, loop()), pool.submit(asyncio.run, loop())]
    for job in jobs:
        job.result()
    assert ws.read_text("n") == str(6 * 20)


def test_case_q12_a_blocking_writer_on_the_loop_of_another_is_told(any_ws: Workspace) -> None:
    async def run() -> None:
        entered, end = asyncio.Event(), asyncio.Event()

        async def holder() -> None:
            async with any_ws.aio.writer("holder") as mine:
                entered.set()
                await end.wait()
                await mine.write_text("a.txt", "a")

        task = asyncio.create_task(holder())
        await entered.wait()
        with pytest.raises(DeadlockError, match="holder") as caught, any_ws.writer("other"):
            pass
        assert caught.value.kind == "would-deadlock"
        # Single calls, and other tasks, go on.
        any_ws.write_text("b.txt", "b")
        waiter = asyncio.create_task(write(any_ws.aio, "waiter"))
        await asyncio.sleep(0)
        end.set()
        await asyncio.gather(task, waiter)

    asyncio.run(run())
    assert any_ws.head.author == "waiter"


async def write(aws: AsyncWorkspace, author: str) -> None:
    """Write something under the lease."""
    async with aws.writer(author) as mine:
        await mine.write_text(f"{author}.txt", author)


def test_asking_for_what_one_holds_is_an_error_and_no_hang(any_ws: Workspace) -> None:
    with any_ws.writer("outer") as outer:
        with pytest.raises(DeadlockError), outer.writer("inner"):
            pass
        with pytest.raises(DeadlockError), any_ws.writer("inner"):
            pass
        outer.write_text("a.txt", "a")
    assert any_ws.head.author == "outer"

    async def run() -> None:
        async with any_ws.aio.writer("outer") as mine:
            with pytest.raises(DeadlockError):
                async with mine.writer("inner"):
                    pass
        with any_ws.writer("sync outer"), pytest.raises(DeadlockError):
            async with any_ws.aio.writer("inner"):
                pass

    asyncio.run(run())
    lease = any_ws.writer("twice")
    with lease, pytest.raises(RuntimeError, match="held already"):
        lease.__enter__()
    with lease:
        pass


def test_a_wait_ends_at_its_timeout_and_names_who_is_at_work(any_ws: Workspace) -> None:
    def wait() -> None:
        for timeout in (0, 0.05):
            with pytest.raises(LockTimeoutError, match="slow one"), any_ws.writer("hasty", timeout=timeout):
                pass

    async def wait_too() -> None:
        for timeout in (0, 0.05):
            with pytest.raises(LockTimeoutError, match="slow one"):
                async with any_ws.aio.writer("hasty", timeout=timeout):
                    pass

    with ThreadPoolExecutor(1) as pool, any_ws.writer("slow one"):
        pool.submit(wait).result()
        pool.submit(asyncio.run, wait_too()).result()
    with any_ws.writer("hasty", timeout=0):
        pass
    with any_ws.writer("hasty", timeout=float("inf")):
        pass
    for timeout in (-1, float("nan")):
        with pytest.raises(InvalidArgumentError, match="timeout"):
            any_ws.writer("hasty", timeout=timeout)


def test_a_cancelled_holder_takes_back_and_a_cancelled_waiter_leaves_no_trace(any_ws: Workspace) -> None:
    async def run() -> None:
        aws = any_ws.aio
        entered = asyncio.Event()

        async def hold() -> None:
            async with aws.writer("holder") as mine:
                await mine.write_text("half.txt", "half done")
                entered.set()
                await asyncio.sleep(60)

        holder = asyncio.create_task(hold())
        await entered.wait()
        waiters = [asyncio.create_task(write(aws, f"w{number}")) for number in range(3)]
        await asyncio.sleep(0)
        waiters[0].cancel()
        waiters[1].cancel()
        await asyncio.wait(waiters[:2])
        holder.cancel()
        await asyncio.wait([holder, *waiters])
        assert holder.cancelled()
        assert [waiter.cancelled() for waiter in waiters] == [True, True, False]

    asyncio.run(run())
    assert files(any_ws) == {"w2.txt": b"w2"}
    assert any_ws.head.author == "w2"


def test_cancelling_at_any_moment_loses_no_turn(ws: Workspace) -> None:
    rng = random.Random(11)
    inside = 0

    async def run() -> None:
        aws = ws.aio

        async def write(number: int) -> None:
            nonlocal inside
            async with aws.writer(f"t{number}") as mine:
                inside += 1
                try:
                    assert inside == 1
                    await mine.write_text("f", str(number))
                    await asyncio.sleep(0)
                finally:
                    inside -= 1

        for round_ in range(150):
            tasks = [asyncio.create_task(write(number)) for number in range(6)]
            for _ in range(rng.randrange(12)):
                await asyncio.sleep(0 if rng.random() < 0.7 else 0.0003)
                rng.choice(tasks).cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            wrong = [r for r in results if isinstance(r, BaseException) and not isinstance(r, asyncio.CancelledError)]
            assert wrong == [], round_
        async with asyncio.timeout(20):
            await write(0)

    asyncio.run(run())
    assert ws.read_text("f") == "0"


@pytest.mark.parametrize("fails", [True, False])
def test_case_q01_a_loop_that_ends_while_a_block_ends_waits_for_it(any_ws: Workspace, fails: bool) -> None:
    for number in range(200):
        any_ws.write_text(f"d/{number}", "text")

    async def run(number: int) -> None:
        ended = asyncio.Event()

        async def work() -> None:
            async with any_ws.aio.writer(f"w{number}") as mine:
                await mine.write_text(f"new/{number}", "text")
                ended.set()
                if fails:
                    raise OopsError

        task = asyncio.create_task(work())
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await ended.wait()
        await asyncio.sleep(0.001 * (number % 4))

    for number in range(12):
        asyncio.run(run(number))
        assert any_ws.exists(f"new/{number}") is not fails
        assert (any_ws.head.author == f"w{number}") is not fails


@pytest.mark.parametrize(("end", "kind"), [(sys.exit, None), (lambda: None, "used-after-fork")])
def test_case_q02_a_child_forked_inside_a_block_neither_undoes_nor_checkpoints(
    any_ws: Workspace, end: Callable[[], None], kind: str | None
) -> None:
    caught: BaseException | None = None
    code = pid = -1
    try:
        with any_ws.writer("parent") as mine:
            mine.write_text("a.txt", "of the parent")
            pid = os.fork()
            if pid == 0:
                end()
            else:
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                assert mine.read_text("a.txt") == "of the parent"
    except BaseException as error:
        caught = error
    if pid == 0:
        os._exit(0 if caught is not None and getattr(caught, "kind", None) == kind else 1)
    assert (code, caught) == (0, None)
    assert [point.author for point in any_ws.checkpoints()][1:] == ["parent"]


def test_a_label_that_will_not_do_is_refused_before_any_work(any_ws: Workspace) -> None:
    for label, error in (("\ud800", InvalidArgumentError), (5, TypeError)):
        with pytest.raises(error), any_ws.writer("coder", label=label) as coder:  # type: ignore[arg-type]
            coder.write_text("a.txt", "hours of work")
        assert not any_ws.exists("a.txt")


def test_case_q10_a_root_opened_twice_has_one_line(disk: Workspace, root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    with opened(tmp_path / "alias", tmp_path / "other store") as twin:

        def wait() -> None:
            with pytest.raises(LockTimeoutError, match="first"), twin.writer("second", timeout=0.05):
                pass

        with ThreadPoolExecutor(1) as pool, disk.writer("first"):
            pool.submit(wait).result()
        with twin.writer("second", timeout=0) as second:
            second.write_text("a.txt", "a")
    with disk.writer("first", timeout=0):
        pass
    with opened(tmp_path / "elsewhere", tmp_path / "other store", create=True) as other, disk.writer("first"):
        with other.writer("second", timeout=0):
            pass


def test_a_waiter_whose_loop_is_gone_is_passed_over(ws: Workspace) -> None:
    loop = asyncio.new_event_loop()

    async def enter() -> None:
        await ws.aio.writer("ghost").__aenter__()

    with ThreadPoolExecutor(1) as pool:
        with ws.writer("first"):

            def abandon() -> asyncio.Task[None]:
                task = loop.create_task(enter())
                loop.run_until_complete(asyncio.sleep(0.01))
                loop.close()
                return task

            ghost = pool.submit(abandon).result()
        with ws.writer("next", timeout=10) as mine:
            mine.write_text("a.txt", "a")
    assert ws.head.author == "next"
    with pytest.raises(RuntimeError):
        ghost.get_coro().throw(RuntimeError("ended"))


def test_ctrl_c_ends_a_wait() -> None:
    source = """
        import _thread, threading, time, hedgerow
        ws = hedgerow.Workspace.memory()
        held, end = threading.Event(), threading.Event()
        def hold():
            with ws.writer("holder") as w:
                held.set(); end.wait()
                w.write_text("a.txt", "a")
        holder = threading.Thread(target=hold); holder.start(); held.wait()
        import os, signal
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            with ws.writer("waiter"):
                print("never")
        except KeyboardInterrupt:
            print("interrupted")
        end.set(); holder.join()
        with ws.writer("waiter", timeout=5) as w:
            print(w.read_text("a.txt"))
    """
    out, err = started(source).communicate(timeout=60)
    assert (out.split(), err) == (["interrupted", "a"], "")


def test_a_forked_child_does_not_wait_for_threads_of_its_parent(ws: Workspace) -> None:
    held, end = threading.Event(), threading.Event()

    def hold() -> None:
        with ws.writer("parent"):
            held.set()
            end.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with ws.writer("child", timeout=20) as mine:
                mine.write_text("a.txt", "a")
            code = 0 if ws.head.author == "child" else 2
        finally:
            os._exit(code)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        end.set()
        holder.join()


def test_who_may_not_write_gets_no_lease(any_ws: Workspace) -> None:
    with pytest.raises(ReadOnlyError), any_ws.read_only().writer("reader"):
        pass
    with pytest.raises(ReadOnlyError), any_ws.at(any_ws.head).writer("reader"):
        pass


def test_a_workspace_closed_inside_gives_the_lease_up(ws: Workspace) -> None:
    with pytest.raises(ClosedError), ws.writer("coder"):
        ws.close()
    with pytest.raises(ClosedError), ws.writer("next", timeout=5):
        pass
