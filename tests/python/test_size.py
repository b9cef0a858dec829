"""Large files: captured, restored and read in ranges without holding them, and not read again while unchanged.

The sparse file has 256 MB; `HEDGEROW_TEST_BIG=2048` makes it the two gigabytes of the bug reports.
"""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from case_support import SLOWDOWN, fsck, python
from hedgerow import InvalidPathError, Workspace

SPARSE = int(os.environ.get("HEDGEROW_TEST_BIG", "256")) << 20
RANDOM = 64 << 20

COMMON = """
    import hashlib, os, sys, time, hedgerow
    from hedgerow import Workspace, AsyncWorkspace
    root, store, sparse, random_part = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    big = os.path.join(root, "big")

    def status(key):
        return int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1]) << 10

    def reset_peak():
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")

    def bytes_read():
        return int(next(line for line in open("/proc/self/io") if line.startswith("rchar")).split()[1])

    def digest(path):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def make():
        with open(big, "wb") as file:
            for _ in range(random_part >> 20):
                file.write(os.urandom(1 << 20))
        os.truncate(big, random_part + sparse)

    LIMIT = 64 << 20
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty directory."""
    made = tmp_path / "root"
    made.mkdir()
    return made


@contextmanager
def restless(file: Path, how: str) -> Iterator[None]:
    """Change a file all the time; the appended one stays below 64 MB."""
    stop = threading.Event()

    def append() -> None:
        with open(file, "ab", buffering=0) as out:
            while not stop.wait(0.0005):
                if out.tell() < 64 << 20:
                    out.write(b"y" * 4096)

    def rewrite() -> None:
        size, turn = file.stat().st_size, 0
        with open(file, "r+b", buffering=0) as out:
            while not stop.is_set():
                turn += 1
                out.truncate(size - (1 << 20))
                out.seek(0)
                out.write(bytes([turn % 256]) * (size - 4096 * (turn % 7)))

    thread = threading.Thread(target=append if how == "appended to" else rewrite)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("how", ["appended to", "rewritten"])
def test_case_f_a_large_file_that_never_holds_still_costs_no_checkpoint(root: Path, tmp_path: Path, how: str) -> None:
    (root / "log").write_bytes(b"x" * (9 << 20))
    (root / "other").write_text("0")
    with Workspace.open(root, store=tmp_path / "store") as ws:
        with restless(root / "log", how):
            made = []
            for turn in range(3):
                (root / "other").write_text(str(turn))
                made.append(ws.checkpoint())
        for turn, checkpoint in enumerate(made):
            then = ws.at(checkpoint)
            assert then.read_text("other") == str(turn)
            if how == "appended to":
                data = then.read_bytes("log")
                assert data == b"x" * (9 << 20) + b"y" * (len(data) - (9 << 20))
            elif not then.exists("log"):
                assert [(skipped.path, skipped.reason) for skipped in checkpoint.skipped] == [("log", "changing")]
        last = ws.checkpoint()
        assert not last.skipped
        ws.rollback(made[0])
        assert ws.read_text("other") == "0"
        ws.rollback(last)
        assert ws.at(last).read_bytes("log") == (root / "log").read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_case_f03_large_file_is_captured_restored_and_not_read_again(root: Path, tmp_path: Path) -> None:
    done = python(
        COMMON
        + """
    make()
    before = digest(big)
    reset_peak(); base = status("VmRSS"); seen = []
    # Opening takes the first checkpoint, the baseline: that is where the file is read.
    with Workspace.open(root, store=store, id="w", progress=lambda *numbers: seen.append(numbers)) as ws:
        kept = ws.checkpoint("kept")
        grown = status("VmHWM") - base
        assert grown <= LIMIT, f"checkpoint: {grown >> 20} MiB"
        assert len(seen) >= 2 and seen[-1][2] >= random_part + sparse, seen[-1:]
        assert [n[2] for n in seen] == sorted(n[2] for n in seen)
        assert not kept.skipped

        for turn in range(10):
            ws.write_text(f"small{turn}", str(turn))
            start = bytes_read()
            ws.checkpoint()
            used = bytes_read() - start
            assert used < 4 << 20, f"turn {turn}: {used} bytes read"

        start = bytes_read(); reset_peak(); base = status("VmRSS")
        assert len(ws.read_bytes("big", offset=random_part - 100, length=200)) == 200
        assert ws.read_bytes("big", offset=random_part + sparse - 5) == bytes(5)
        assert bytes_read() - start < 1 << 20
        total = sum(map(len, ws.iter_bytes("big")))
        assert total == random_part + sparse
        assert status("VmHWM") - base <= LIMIT

        with open(big, "r+b") as file:
            file.seek(1000); file.write(b"changed"); file.truncate(random_part + 10)
        reset_peak(); base = status("VmRSS"); seen.clear()
        ws.rollback(kept, progress=lambda *numbers: seen.append(numbers))
        grown = status("VmHWM") - base
        assert grown <= LIMIT, f"rollback: {grown >> 20} MiB"
        assert seen
        assert digest(big) == before

        reset_peak(); base = status("VmRSS")
        with ws.at(kept) as then:
            assert len(then.read_bytes("big", offset=random_part - 10, length=20)) == 20
            ranged = status("VmHWM") - base
            assert ranged <= LIMIT, f"ranged read of a checkpoint: {ranged >> 20} MiB"
            digester = hashlib.sha256()
            for piece in then.iter_bytes("big"):
                digester.update(piece)
            assert digester.hexdigest() == before
        grown = status("VmHWM") - base
        assert grown <= LIMIT, f"read of a checkpoint: {grown >> 20} MiB"
    print("done")
        """,
        root,
        tmp_path / "store",
        SPARSE,
        RANDOM,
        timeout=590,
    )
    assert done.stdout == "done\n"
    fsck(tmp_path / "store")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_case_f02_large_checkpoint_is_cancelled_within_a_second(root: Path, tmp_path: Path) -> None:
    done = python(
        COMMON
        + """
    import asyncio
    make()
    async def main():
        async with await AsyncWorkspace.open(root, store=store, id="w") as ws:
            first = await ws.head
            with open(big, "r+b") as file:
                file.write(os.urandom(1 << 20))
            task = asyncio.create_task(ws.checkpoint("cancelled"))
            await asyncio.sleep(0.05)
            assert not task.done(), "too small a file to cancel anything"
            start = time.monotonic()
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            else:
                raise AssertionError("not cancelled")
            assert time.monotonic() - start < 1
            # The work itself has stopped as well: the next call gets the lock within a second.
            await ws.write_text("small", "x")
            waited = time.monotonic() - start
            assert waited < 1 * SLOW, f"{waited:.2f} s"
            assert [made.label for made in await ws.checkpoints()] == [made.label for made in [first]]
            kept = await ws.checkpoint("second")
            assert (await ws.stat("big")).size == random_part + sparse and not kept.skipped
    SLOW = int(sys.argv[5])
    asyncio.run(main())
    print("done")
        """,
        root,
        tmp_path / "store",
        SPARSE,
        RANDOM,
        SLOWDOWN,
        timeout=290,
    )
    assert done.stdout == "done\n"
    fsck(tmp_path / "store")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_progress_that_raises_ends_the_call_and_changes_nothing(root: Path, tmp_path: Path) -> None:
    done = python(
        COMMON
        + """
    class Stop(Exception):
        pass
    def stop(*numbers):
        raise Stop
    sparse, random_part = 0, 32 << 20
    with Workspace.open(root, store=store, id="w") as ws:
        head = ws.checkpoint()
        make()
        try:
            ws.checkpoint("stopped", progress=stop)
        except Stop:
            assert ws.head.id == head.id
            assert ws.checkpoint("again").label == "again"
        else:
            raise AssertionError("progress was never called, or its error was lost")
    print("done")
        """,
        root,
        tmp_path / "store",
        0,
        0,
        timeout=290,
    )
    assert done.stdout == "done\n"


def nest(at: Path, levels: int) -> None:
    """Make directories inside each other, deeper than a path can say."""
    here = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("f.txt", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.mark.timeout(180)
def test_a_tree_deeper_than_any_path_ends_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "other.txt").write_text("before")
    nest(root, 6_000)
    # In a process of its own: what is tried here may end it.
    python(
        """
        import sys, hedgerow
        with hedgerow.Workspace.open(sys.argv[1], store=sys.argv[2]) as ws:
            assert [skipped.reason for skipped in ws.head.skipped] == ["too deep"]
            ws.write_text("other.txt", "after")
            assert ws.diff().paths == ("other.txt",), ws.diff().paths
            assert ws.checkpoint("more").changes == 1
            ws.rollback("baseline")
            assert ws.read_text("other.txt") == "before"
            assert len(ws.search("before").matches) == 1
            assert ws.summary().directories > 2_000
            ws.copy("other.txt", "copied.txt")
            ws.remove("d", recursive=True)
            assert not ws.exists("d")
            assert ws.checkpoint("without").id
        """,
        root,
        tmp_path / "store",
    )


def test_moves_make_no_tree_deeper_than_any_path(any_ws: Workspace) -> None:
    long = "/".join(["d"] * 1_200)
    any_ws.mkdir(f"a/{long}", parents=True)
    any_ws.mkdir(f"b/{long}", parents=True)
    if any_ws.root is None:
        for call in (any_ws.move, partial(any_ws.copy, recursive=True)):
            with pytest.raises(InvalidPathError, match="2048 directories deep") as caught:
                call("a", f"b/{long}/a")
            assert caught.value.kind == "path-too-long"
    else:
        any_ws.move("a", f"b/{long}/a")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        deep = tarfile.TarInfo(long)
        deep.type = tarfile.DIRTYPE
        tar.addfile(deep)
    with pytest.raises(InvalidPathError, match="2048 directories deep"):
        any_ws.import_(archive.getvalue(), path=f"b/{long}")
    assert any_ws.checkpoint().id
    assert any_ws.rollback("baseline").checkpoint.id
    # What no capture can hold, no rollback removes; and nothing so deep may stay for `shutil` to fail on.
    if any_ws.exists("b"):
        assert any_ws.root is not None
        any_ws.remove("b", recursive=True)
    assert any_ws.list_dir() == []
