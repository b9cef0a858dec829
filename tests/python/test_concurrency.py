"""Threads, tasks and processes on the same files: nothing is lost, numbered twice or seen half done."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from case_support import SLOWDOWN, fsck, opened, started
from hedgerow import Workspace

WORKER = """
    import json, sys, hedgerow
    root, store, name, number, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    ws = hedgerow.Workspace.open(root, store=store, id=name)
    print("ready", flush=True)
    sys.stdin.readline()
    made = []
    for turn in range(rounds):
        ws.edit("f", f"slot {number}.{turn};", f"done {number}.{turn};", author=f"p{number}")
        ws.write_text(f"own-{number}/{turn}", "x")
        ws.append_text("log", f"{number}.{turn}\\n")
        if turn % 3 == 0:
            made.append(ws.checkpoint(f"{number}.{turn}").id)
    print(json.dumps(made))
"""


def run_together(*jobs: tuple[Any, ...]) -> list[Any]:
    """Run programs that start at the same moment, and return what they printed as JSON."""
    processes = [started(source, *arguments) for source, *arguments in jobs]
    for process in processes:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", (line, process.communicate()[1])
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, ""), err
        answers.append(json.loads(out))
    return answers


@pytest.mark.row("S9", "S12", "B38")
@pytest.mark.timeout(180)
def test_case_j06_processes_on_one_root_and_store_lose_nothing(tmp_path: Path) -> None:
    root, store, count, rounds = tmp_path / "root", tmp_path / "store", 4, 12
    root.mkdir()
    (root / "f").write_text("".join(f"slot {n}.{t};\n" for n in range(count) for t in range(rounds)))
    made = run_together(*((WORKER, root, store, "w", n, rounds) for n in range(count)))
    assert (root / "f").read_text() == "".join(f"done {n}.{t};\n" for n in range(count) for t in range(rounds))
    assert sorted((root / "log").read_text().split()) == sorted(f"{n}.{t}" for n in range(count) for t in range(rounds))
    with opened(root, store) as ws:
        numbers = [record.sequence for record in ws.history()]
        assert numbers == list(range(1, len(numbers) + 1))
        for author in range(count):
            assert sum(record.kind == "edit" for record in ws.history(author=f"p{author}")) == rounds
        kept = {checkpoint.id: checkpoint for checkpoint in ws.checkpoints()}
        labels = {label for checkpoint in kept.values() for label in checkpoint.labels}
        assert labels >= {f"{n}.{t}" for n in range(count) for t in range(0, rounds, 3)}
        for mine in made:
            assert set(mine) <= set(kept)
        assert all(checkpoint.parent in kept for checkpoint in kept.values() if checkpoint.parent is not None)
        ws.checkpoint()
        assert not ws.status()
    fsck(store)


@pytest.mark.timeout(180)
def test_case_j06_processes_with_two_stores_on_one_root_lose_nothing(tmp_path: Path) -> None:
    root, count, rounds = tmp_path / "root", 4, 10
    root.mkdir()
    (root / "f").write_text("".join(f"slot {n}.{t};\n" for n in range(count) for t in range(rounds)))
    run_together(*((WORKER, root, tmp_path / f"store{n % 2}", f"w{n % 2}", n, rounds) for n in range(count)))
    assert (root / "f").read_text() == "".join(f"done {n}.{t};\n" for n in range(count) for t in range(rounds))
    assert sorted((root / "log").read_text().split()) == sorted(f"{n}.{t}" for n in range(count) for t in range(rounds))
    for number in range(2):
        with opened(root, tmp_path / f"store{number}", id=f"w{number}") as ws:
            numbers = [record.sequence for record in ws.history()]
            assert numbers == list(range(1, len(numbers) + 1))
        fsck(tmp_path / f"store{number}")


def test_processes_with_two_workspaces_in_one_store(tmp_path: Path) -> None:
    rounds = 9
    for number in range(3):
        (tmp_path / f"root{number}").mkdir()
        (tmp_path / f"root{number}/f").write_text("".join(f"slot {number}.{t};\n" for t in range(rounds)))
    run_together(*((WORKER, tmp_path / f"root{n}", tmp_path / "store", f"w{n}", n, rounds) for n in range(3)))
    for number in range(3):
        with opened(tmp_path / f"root{number}", tmp_path / "store", id=f"w{number}") as ws:
            assert "slot" not in ws.read_text("f")
            numbers = [record.sequence for record in ws.history()]
            assert numbers == list(range(1, len(numbers) + 1))
            assert ws.at(f"{number}.6").exists(f"own-{number}/6")
    fsck(tmp_path / "store")


@pytest.mark.row("S12")
@pytest.mark.parametrize("turn", range(5))
def test_case_l22_two_processes_checkpoint_at_once(tmp_path: Path, turn: int) -> None:
    source = """
        import json, os, sys, hedgerow
        root, store, number = sys.argv[1:]
        ws = hedgerow.Workspace.open(root, store=store, id="w")
        open(os.path.join(root, f"f{number}"), "w").write(number)
        print("ready", flush=True)
        sys.stdin.readline()
        made = []
        for turn in range(5):
            with open(os.path.join(root, f"f{number}"), "a") as file:
                file.write("x")
            made.append(ws.checkpoint(f"{number} {turn}").id)
        print(json.dumps([made, [c.id for c in ws.checkpoints()]]))
    """
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    one, two = run_together((source, root, store, 1), (source, root, store, 2))
    with opened(root, store) as ws:
        listed = [made.id for made in ws.checkpoints()]
        # What one process was about to save the other may have saved a moment before: then the head is returned.
        assert set(one[0]) | set(two[0]) <= set(listed)
        assert len(listed) == len(set(listed))
        labels = {label for made in ws.checkpoints() for label in made.labels}
        assert {f"{number} {turn}" for number in (1, 2) for turn in range(5)} <= labels
    fsck(store)


@pytest.mark.row("S20")
@pytest.mark.parametrize("face", ["threads", "tasks", "two workspaces"])
def test_twenty_race_for_one_new_file_and_one_wins(any_ws: Workspace, face: str, tmp_path: Path) -> None:
    count = 20
    for turn in range(20):
        path = f"new/{turn}"
        won: list[int] = []

        def make(number: int, ws: Workspace = any_ws, path: str = path, won: list[int] = won) -> None:
            try:
                ws.create(path, str(number))
            except hedgerow.AlreadyExistsError:
                return
            won.append(number)

        if face == "tasks":

            async def race(path: str = path, won: list[int] = won) -> None:
                async def one(number: int) -> None:
                    try:
                        await any_ws.aio.create(path, str(number))
                    except hedgerow.AlreadyExistsError:
                        return
                    won.append(number)

                await asyncio.gather(*(one(number) for number in range(count)))

            asyncio.run(race())
        else:
            other = any_ws
            if face == "two workspaces" and any_ws.root is not None:
                other = Workspace.open(any_ws.root, store=tmp_path / "other-store")
            barrier = threading.Barrier(count)

            def thread(number: int, other: Workspace = other, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                make(number, any_ws if number % 2 else other)

            with ThreadPoolExecutor(count) as pool:
                list(pool.map(thread, range(count)))
            if other is not any_ws:
                other.close()
        assert len(won) == 1
        assert any_ws.read_text(path) == str(won[0])


@pytest.mark.row("S9")
def test_sequence_numbers_of_threads_have_no_gap(any_ws: Workspace) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            any_ws.write_text(f"d{number}/{turn}", "x", author=f"a{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    history = any_ws.history()
    assert [record.sequence for record in history] == list(range(1, len(history) + 1))
    assert len([record for record in history if record.author is not None and record.author.startswith("a")]) == 160


@pytest.mark.parametrize("writer", ["write", "edit", "rollback", "append"])
def test_readers_never_see_a_torn_file(any_ws: Workspace, writer: str) -> None:
    size = 300_000

    def body(number: int) -> bytes:
        block = b"%07d\n" % number
        return block * (size // len(block))

    any_ws.write_bytes("f", body(0))
    first = any_ws.checkpoint("first")
    any_ws.write_bytes("f", body(1))
    second = any_ws.checkpoint("second")
    torn: list[str] = []
    stop = threading.Event()

    def check(content: bytes) -> None:
        lines = set(content.splitlines())
        if writer == "append":
            if not content.endswith(b"end\n"):
                torn.append(f"cut at {len(content)}")
        elif len(lines) != 1 or len(content) != len(body(0)):
            torn.append(f"{len(content)} bytes, {sorted(lines)[:3]}")

    def read(way: str) -> None:
        while not stop.is_set():
            content = {
                "whole": lambda: any_ws.read_bytes("f"),
                "pieces": lambda: b"".join(any_ws.iter_bytes("f", chunk=10_000)),
                "disk": lambda: (any_ws.root / "f").read_bytes() if any_ws.root else any_ws.read_bytes("f"),
            }[way]()
            check(content)

    if writer == "append":
        any_ws.write_bytes("f", b"end\n")
    threads = [threading.Thread(target=read, args=(way,)) for way in ("whole", "pieces", "disk", "whole")]
    for thread in threads:
        thread.start()
    end, turn = time.monotonic() + 1.5, 1
    while time.monotonic() < end:
        turn += 1
        match writer:
            case "write":
                any_ws.write_bytes("f", body(turn))
            case "edit":
                now = any_ws.read_text("f")[:8]
                any_ws.edit("f", now, f"{turn:07}\n", count=None)
            case "rollback":
                any_ws.rollback(first if turn % 2 else second)
            case _:
                any_ws.append_text("f", "x" * 5000 + "end\n")
    stop.set()
    for thread in threads:
        thread.join()
    assert torn == []


@pytest.mark.parametrize("calls", ["threads", "tasks"])
def test_case_q09_every_kind_of_call_at_once_ends_in_a_state_that_adds_up(any_ws: Workspace, calls: str) -> None:
    any_ws.write_text("f", "".join(f"<{number}>" for number in range(40)))
    start = any_ws.checkpoint("start")

    def jobs() -> list[Callable[[Workspace], object]]:
        found: list[Callable[[Workspace], object]] = []
        for number in range(40):
            found.append(lambda ws, n=number: ws.edit("f", f"<{n}>", f"[{n}]"))  # type: ignore[misc]
            found.append(lambda ws, n=number: ws.write_text(f"w/{n}", str(n)))  # type: ignore[misc]
            if number % 10 == 0:
                found.append(lambda ws, n=number: ws.checkpoint(f"c{n}"))  # type: ignore[misc]
                found.append(lambda ws: ws.status())
                found.append(lambda ws: ws.search("["))
        return found

    if calls == "threads":
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda job: job(any_ws), jobs()))
    else:

        async def run() -> None:
            await asyncio.gather(*(job(any_ws.aio) for job in jobs()))  # type: ignore[arg-type, call-overload]

        asyncio.run(run())
    assert any_ws.read_text("f") == "".join(f"[{number}]" for number in range(40))
    assert len(any_ws.list_dir("w")) == 40
    any_ws.rollback(start)
    assert [entry.path for entry in any_ws.walk()] == ["f"]


def test_case_q10_threads_open_the_same_root_at_the_same_moment(tmp_path: Path) -> None:
    for turn in range(5):
        root = tmp_path / f"root{turn}"
        root.mkdir()
        (root / "f").write_text("0")
        barrier = threading.Barrier(8)

        def work(number: int, root: Path = root, barrier: threading.Barrier = barrier, turn: int = turn) -> None:
            barrier.wait()
            with opened(root, tmp_path / f"store{turn}") as ws:
                for _ in range(5):
                    while True:
                        seen, now = ws.content_id("f"), ws.read_text("f")
                        try:
                            ws.write_text("f", str(int(now) + 1), if_hash=seen)
                        except hedgerow.EditError:
                            continue
                        break

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert (root / "f").read_text() == "40"
        with opened(root, tmp_path / f"store{turn}") as ws:
            assert sum(made.kind == "baseline" for made in ws.checkpoints()) == 1
        fsck(tmp_path / f"store{turn}")


async def test_case_q12_synchronous_call_inside_a_task_does_not_deadlock(disk: Workspace, root: Path) -> None:
    for number in range(300):
        (root / f"f{number}").write_text(str(number))
    task = asyncio.create_task(disk.aio.checkpoint())
    await asyncio.sleep(0)
    before = time.monotonic()
    disk.write_text("during", "x")
    assert time.monotonic() - before < 5 * SLOWDOWN
    await asyncio.wait_for(task, 30)


def test_readers_of_a_checkpoint_are_not_disturbed_by_writers(disk: Workspace) -> None:
    for number in range(50):
        disk.write_text(f"f{number}", str(number))
    kept = disk.checkpoint()
    wanted = hashlib.sha256(disk.export(ref=kept)).hexdigest()
    stop = threading.Event()

    def disturb() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            disk.write_text(f"f{turn % 50}", f"turn {turn}")
            if turn % 10 == 0:
                disk.checkpoint()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(30):
            assert hashlib.sha256(disk.export(ref=kept)).hexdigest() == wanted
            with disk.at(kept) as then:
                assert [then.read_text(f"f{number}") for number in range(50)] == [str(number) for number in range(50)]
    finally:
        stop.set()
        thread.join()
    assert os.path.exists(str(disk.store))
