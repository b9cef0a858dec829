"""Measure hedgerow against the obvious ways of doing the same, in one run.

    make bench
    .venv/bin/python tests/bench/run.py [--quick] [--only NAME ...] [--strict]

Each row is a ratio to a rival measured in the same run, the two taking turns and each going first every other time, so
that what else the machine does meets both. Figures are medians; beside their ratio stand those of the minima and of the
processor time (child processes included), which tell more on a busy machine. The page cache is warm everywhere: what is
compared is the work, not the disk. Before each turn that writes much the disk is given time to finish what the turn
before left it to do.

Trees are cached in `.bench`; everything else is made in a temporary directory there, on the same filesystem, and
removed. The results go to `.bench/results.json` and, under the date, beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import rivals
import tree as trees

import hedgerow
from hedgerow import AsyncWorkspace, Workspace, _native

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".bench"
FILES, QUICK_FILES, FEW_FILES = 50_000, 10_000, 1_000
SMALL_FILES = 1_000
"""Files of the small trees whose reading and writing is measured; a few MB, so every one is in the page cache."""
HELD = 0.005
"""Longest time in seconds that the event loop may be held up."""


@dataclasses.dataclass
class Row:
    """One line of the table: figures of one piece of work, the rival's, and what is asked of them.

    Every bar given has to be met: on the ratio of the figures (medians, unless the worst counts), on the figure
    itself, and on the median of the differences, pair by pair.
    """

    name: str
    work: str
    rival: str
    ours: list[float] = dataclasses.field(default_factory=list)
    theirs: list[float] = dataclasses.field(default_factory=list)
    ours_processor: list[float] = dataclasses.field(default_factory=list)
    theirs_processor: list[float] = dataclasses.field(default_factory=list)
    unit: str = "s"
    ratio_bar: float | None = None
    limit: float | None = None
    difference_bar: float | None = None
    is_worst: bool = False
    """The largest figure counts instead of the median: for what must never happen."""
    missing: str = ""

    @property
    def figure(self) -> float:
        """What ours is shown as and judged by."""
        return max(self.ours) if self.is_worst else statistics.median(self.ours)

    @property
    def rival_figure(self) -> float:
        """The same of the rival."""
        return max(self.theirs) if self.is_worst else statistics.median(self.theirs)

    @property
    def ratio(self) -> float | None:
        """The ratio of the figures."""
        return self.figure / self.rival_figure if self.theirs and self.ours else None

    @property
    def ratio_of_minima(self) -> float | None:
        """The ratio of the smallest figures."""
        return min(self.ours) / min(self.theirs) if self.theirs and self.ours else None

    @property
    def ratio_of_processor(self) -> float | None:
        """The ratio of the medians of processor time, which a busy machine changes least."""
        if not self.ours_processor or not self.theirs_processor:
            return None
        return statistics.median(self.ours_processor) / max(1e-9, statistics.median(self.theirs_processor))

    @property
    def difference(self) -> float | None:
        """The median of what ours took more than the rival, pair by pair."""
        if not self.theirs or not self.ours:
            return None
        return statistics.median(ours - theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))

    @property
    def is_met(self) -> bool | None:
        """Whether every bar is met; `None` if nothing was measured."""
        measured = (
            (self.ratio, self.ratio_bar),
            (self.figure if self.ours else None, self.limit),
            (self.difference, self.difference_bar),
        )
        asked = [(value, bar) for value, bar in measured if bar is not None]
        if any(value is None for value, _ in asked):
            return None
        return all(value <= bar for value, bar in asked if value is not None)

    @property
    def bar(self) -> str:
        """The bars as the table shows them."""
        shown = [] if self.ratio_bar is None else [f"≤ {self.ratio_bar:.2f}"]
        if self.limit is not None:
            shown.append(f"≤ {amount(self.limit, self.unit)}")
        if self.difference_bar is not None:
            shown.append(f"≤ +{amount(self.difference_bar, self.unit)}")
        return ", ".join(shown)

    def to_json(self) -> dict[str, Any]:
        """The row with everything measured."""
        return dataclasses.asdict(self) | {
            "ratio": self.ratio,
            "ratio_of_minima": self.ratio_of_minima,
            "ratio_of_processor": self.ratio_of_processor,
            "difference": self.difference,
            "is_met": self.is_met,
        }


def amount(value: float, unit: str) -> str:
    """Write a figure with three digits and the unit that suits it."""
    scales: tuple[tuple[float, str], ...] = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
    if unit == "B":
        scales = ((1e6, "MB"), (1e3, "kB"))
    scale, name = next((pair for pair in scales if abs(value) >= pair[0]), scales[-1])
    scaled = value / scale
    return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {name}"


@dataclasses.dataclass
class Clock:
    """Times what is done inside it: on the wall, and in processors, those of awaited child processes included."""

    wall: float = 0.0
    processor: float = 0.0

    def __enter__(self) -> Clock:
        gc.collect()
        gc.disable()
        self.processor, self.wall = _processor_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self.wall
        self.processor = _processor_time() - self.processor
        gc.enable()


def _processor_time() -> float:
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def alternate(
    row: Row,
    rounds: int,
    ours: Callable[[int], object],
    theirs: Callable[[int], object],
    *,
    before: Callable[[int], object] | None = None,
    calls: int = 1,
) -> None:
    """Time both by turns, `calls` calls in each, and put the seconds of one call into the row.

    `before` runs before every turn, untimed.
    """
    turns = [(ours, row.ours, row.ours_processor), (theirs, row.theirs, row.theirs_processor)]
    for number in range(rounds):
        for act, wall, processor in reversed(turns) if number % 2 else turns:
            if before is not None:
                before(number)
            with Clock() as clock:
                act(number)
            wall.append(clock.wall / calls)
            processor.append(clock.processor / calls)


class Bench:
    """What the measurements share: sizes, a directory to work in, and trees."""

    def __init__(self, quick: bool, scratch: Path) -> None:
        self.quick = quick
        self.files = QUICK_FILES if quick else FILES
        self.scratch = scratch
        self._number = count()

    def rounds(self, full: int) -> int:
        """Return the rounds of a measurement: about half of them in a quick run, never less than three."""
        return max(3, full // 2) if self.quick else full

    def fresh(self, name: str) -> Path:
        """Return a path nothing is at yet."""
        return self.scratch / f"{name}-{next(self._number)}"

    @cached_property
    def tree(self) -> Path:
        """A copy of the large tree that may be changed."""
        target = self.scratch / "tree"
        subprocess.run(["cp", "-a", trees.cached(CACHE, self.files), target], check=True)
        os.sync()
        return target

    @cached_property
    def large(self) -> Workspace:
        """The large tree as a workspace, with a first checkpoint."""
        workspace = Workspace.open(self.tree, store=self.fresh("store"), id="bench")
        workspace.checkpoint("first")
        return workspace

    @cached_property
    def git(self) -> rivals.Git:
        """The same tree as a git repository, with a first commit."""
        repository = rivals.Git(self.tree, self.fresh("git"))
        repository.commit_all()
        return repository

    @cached_property
    def some_files(self) -> list[str]:
        """Paths of a hundred files all over the tree."""
        paths = sorted(str(path.relative_to(self.tree)) for path in self.tree.rglob("*.rs"))
        return paths[:: max(1, len(paths) // 100)][:100]

    def change(self, number: int) -> str:
        """Change one file of the tree behind everybody's back, another one each time."""
        path = self.some_files[number % len(self.some_files)]
        with (self.tree / path).open("a") as file:
            file.write(f"change {number}, {next(self._number)}\n")
        return path

    def small(self, name: str) -> Path:
        """Make a small tree of files of 4 KB."""
        root = self.fresh(name)
        for directory in {path.rpartition("/")[0] for path in small_paths()}:
            (root / directory).mkdir(parents=True)
        for path in small_paths():
            (root / path).write_text(four_kilobytes(0))
        return root


def small_paths() -> list[str]:
    """Return the paths in the small trees."""
    return [f"src/package_{number % 20}/module_{number}.py" for number in range(SMALL_FILES)]


def four_kilobytes(number: int) -> str:
    """Return 4 KB of text, another one for each number."""
    line = f"value_{number:09} = compute(first, second, third)\n"
    return (line * (4_096 // len(line) + 1))[:4_096]


Measurement = Callable[[Bench], Iterator[Row]]
MEASUREMENTS: dict[str, Measurement] = {}


def measurement(name: str) -> Callable[[Measurement], Measurement]:
    """Enter a function into the list of measurements, which run in the order of their definition."""

    def enter(function: Measurement) -> Measurement:
        MEASUREMENTS[name] = function
        return function

    return enter


@measurement("first-checkpoint")
def first_checkpoint(bench: Bench) -> Iterator[Row]:
    """Everything is read, hashed and stored, by both for the first time; ours when the workspace is opened."""
    tree, store, repository = bench.tree, bench.fresh("store"), bench.fresh("git")

    def before(_: int) -> None:
        for made in (store, repository):
            shutil.rmtree(made, ignore_errors=True)
        git[:] = [rivals.Git(tree, repository)]
        os.sync()

    def ours(_: int) -> None:
        with Workspace.open(tree, store=store, id="bench") as workspace:
            taken(workspace)

    git: list[rivals.Git] = []
    row = Row("first-checkpoint", f"first checkpoint, {bench.files:,} files", "git add -A; git commit", ratio_bar=0.30)
    alternate(row, bench.rounds(5), ours, lambda _: git[0].commit_all(), before=before)
    before(0)
    yield row


@measurement("peak-memory")
def peak_memory(bench: Bench) -> Iterator[Row]:
    """What the first checkpoint adds to a process of its own, at its highest."""
    program = """
import sys
from hedgerow import Workspace

def status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))

Workspace.memory().checkpoint("first")
idle = status("VmRSS")
# Opening takes the first checkpoint, so what is idle is told before.
workspace = Workspace.open(sys.argv[1], store=sys.argv[2], id="bench")
assert len(workspace.checkpoints()) == 1
print(status("VmHWM") - idle)
"""
    row = Row("peak-memory", f"memory of it above idle, {bench.files:,} files", "–", unit="B", limit=150e6)
    for _ in range(3):
        store = bench.fresh("store")
        row.ours.append(float(run_python(program, str(bench.tree), str(store))))
        shutil.rmtree(store)
    yield row


@measurement("changed-checkpoint")
def changed_checkpoint(bench: Bench) -> Iterator[Row]:
    """One file changes behind our back; both look at every file to find it."""
    large, git = bench.large, bench.git
    row = Row("changed-checkpoint", "checkpoint, one file changed", "git add -A; git commit", ratio_bar=0.45)
    # Both see the same change, and each is the first to see it every other time.
    changed: set[int] = set()

    def change(number: int) -> None:
        if number not in changed:
            changed.add(number)
            bench.change(number)

    alternate(row, bench.rounds(30), lambda _: large.checkpoint(), lambda _: git.commit_all(), before=change)
    yield row


@measurement("rollback")
def rollback(bench: Bench) -> Iterator[Row]:
    """One file changes behind our back and is put back; ours keeps the change in a checkpoint first, git loses it."""
    large, git = bench.large, bench.git
    bench.change(0)  # so that there is something to commit
    target = large.checkpoint("base")
    git.commit_all()
    commit = git.head()
    row = Row("rollback", "rollback, one file changed", "git checkout <commit> -- .", ratio_bar=1.0)
    alternate(
        row, bench.rounds(20), lambda _: large.rollback(target), lambda _: git.restore(commit), before=bench.change
    )
    yield row


@measurement("memory-checkpoint")
def memory_checkpoint(bench: Bench) -> Iterator[Row]:
    """A checkpoint in memory costs what changed, not what is there."""

    def loaded(files: int) -> tuple[Workspace, list[str]]:
        source = trees.cached(CACHE, files)
        workspace = Workspace.memory()
        paths = sorted(str(path.relative_to(source)) for path in source.rglob("*") if path.is_file())
        for path in paths:
            workspace.write_bytes(path, (source / path).read_bytes())
        workspace.checkpoint("first")
        return workspace, paths[:: max(1, len(paths) // 100)][:100]

    sides = loaded(bench.files), loaded(FEW_FILES)

    def change(number: int) -> None:
        for workspace, paths in sides:
            workspace.write_text(paths[number % len(paths)], four_kilobytes(next(numbers)))

    numbers = count()
    row = Row(
        "memory-checkpoint",
        f"checkpoint in memory, one of {bench.files:,} changed",
        f"the same, one of {FEW_FILES:,}",
        ratio_bar=1.5,
        limit=2e-3,
    )
    few, many = sides[1][0], sides[0][0]
    alternate(row, bench.rounds(100), lambda _: many.checkpoint(), lambda _: few.checkpoint(), before=change)
    yield row


@measurement("read")
def read(bench: Bench) -> Iterator[Row]:
    """A small file that is in the page cache."""
    root = bench.small("read")
    workspace = Workspace.open(root, store=bench.fresh("store"))
    names, paths = small_paths(), [root / path for path in small_paths()]

    def ours(_: int) -> None:
        for name in names:
            workspace.read_text(name)

    def theirs(_: int) -> None:
        for path in paths:
            path.read_text(encoding="utf-8")

    row = Row("read", "read_text, 4 KB", "Path.read_text", ratio_bar=0.45)
    alternate(row, bench.rounds(40), ours, theirs, calls=len(names))
    yield row


@measurement("async-read")
def async_read(bench: Bench) -> Iterator[Row]:
    """The same from a coroutine, and how long the loop is held up meanwhile, alone and beside a large checkpoint."""
    yield from asyncio.run(_async_read(bench))


async def _async_read(bench: Bench) -> list[Row]:
    root = bench.small("async")
    names, paths = small_paths(), [root / path for path in small_paths()]
    workspace = await AsyncWorkspace.open(root, store=bench.fresh("store"))

    async def ours() -> None:
        for name in names:
            await workspace.read_text(name)

    async def theirs() -> None:
        for path in paths:
            await asyncio.to_thread(path.read_text, encoding="utf-8")

    row = Row("async-read", "await read_text, 4 KB", "asyncio.to_thread(Path.read_text)", ratio_bar=0.20)
    await ours()
    await theirs()
    for number in range(bench.rounds(20)):
        turns = [(ours, row.ours, row.ours_processor), (theirs, row.theirs, row.theirs_processor)]
        for act, wall, processor in reversed(turns) if number % 2 else turns:
            with Clock() as clock:
                await act()
            wall.append(clock.wall / len(names))
            processor.append(clock.processor / len(names))

    held = Row(
        "async-read", f"longest hold of the loop, {len(names):,} of them in a row", row.rival, limit=HELD, is_worst=True
    )
    for _ in range(10):
        for act, into in ((ours, held.ours), (theirs, held.theirs)):
            async with Held(into):
                await act()

    async def nothing() -> None:
        await asyncio.sleep(0.01)

    async def reads() -> None:
        for name in names:
            await workspace.read_text(name)
            await asyncio.sleep(0)  # what reads without a pause hold up is the row above

    # The second figure is what the checkpoint, and the machine, do to a loop that does nothing else.
    beside = Row("async-read", "… beside a first checkpoint", "the checkpoint alone", limit=HELD, is_worst=True)
    closing = Row("async-read", "… by closing that workspace and letting go of it", "–", limit=HELD, is_worst=True)
    tree = bench.tree
    for act, into in ((reads, beside.ours), (nothing, beside.theirs)) * 3:
        store = bench.fresh("store")
        os.sync()
        async with Held(into):
            first = asyncio.create_task(AsyncWorkspace.open(tree, store=store))  # takes the first checkpoint
            while not first.done():
                await act()
            large = await first
        taken(large.sync)
        async with Held(closing.ours):
            await large.close()
            del large, first
        shutil.rmtree(store)
    return [row, held, beside, closing]


class Held:
    """Finds how long an event loop is held up: by a call that blocks, or by one that keeps the interpreter.

    A task asks to be woken each millisecond and sees how late that comes. Time the thread was ready and the system ran
    something else is subtracted: a busy machine is nobody's fault here.
    """

    def __init__(self, into: list[float]) -> None:
        self._into = into
        self._worst = 0.0
        self._done = False

    async def __aenter__(self) -> None:
        # Of this thread: processor time, time waiting for a processor, both in ns.
        self._statistics = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)  # it is asleep when the work begins, so its first waking already counts

    async def __aexit__(self, *_: object) -> None:
        self._done = True
        await self._task
        os.close(self._statistics)
        self._into.append(self._worst)

    def _waited(self) -> float:
        return int(os.pread(self._statistics, 100, 0).split()[1]) / 1e9

    async def _watch(self) -> None:
        tick = 0.001
        while not self._done:
            waited, start = self._waited(), time.perf_counter()
            await asyncio.sleep(tick)
            late = time.perf_counter() - start - tick
            self._worst = max(self._worst, late - (self._waited() - waited))


@measurement("write")
def write(bench: Bench) -> Iterator[Row]:
    """A small file is replaced, and a new one made; ours atomically and with a record of both contents."""
    our_root, their_root = bench.small("write"), bench.small("write")
    workspace = Workspace.open(our_root, store=bench.fresh("store"))
    workspace.checkpoint("first")
    names = small_paths()[:250]

    def before(_: int) -> None:
        os.sync()

    def ours(number: int) -> None:
        text = four_kilobytes(number + 1)
        for name in names:
            workspace.write_text(name, text)

    paths = [their_root / name for name in names]

    def theirs(number: int) -> None:
        text = four_kilobytes(number + 1)
        for path in paths:
            path.write_text(text, encoding="utf-8")

    row = Row("write", "write_text, 4 KB, replacing", "Path.write_text (not atomic)", ratio_bar=1.5)
    alternate(row, bench.rounds(20), ours, theirs, before=before, calls=len(names))
    yield row

    def directories(number: int) -> None:
        for root in (our_root, their_root):
            (root / f"new_{number}").mkdir(exist_ok=True)
        os.sync()

    def ours_new(number: int) -> None:
        text = four_kilobytes(number)
        for at in range(len(names)):
            workspace.write_text(f"new_{number}/module_{at}.py", text)

    def theirs_new(number: int) -> None:
        text = four_kilobytes(number)
        for at in range(len(names)):
            (their_root / f"new_{number}/module_{at}.py").write_text(text, encoding="utf-8")

    row = Row("write", "write_text, 4 KB, a new file", "Path.write_text (not atomic)", ratio_bar=1.5)
    alternate(row, bench.rounds(20), ours_new, theirs_new, before=directories, calls=len(names))
    yield row


@measurement("memory")
def memory(bench: Bench) -> Iterator[Row]:
    """Small files in memory; ours with a record of every write."""
    ours_memory, theirs_memory = Workspace.memory(), rivals.sandfs_workspace()
    names = [f"/{path}" for path in small_paths()]

    def ours_write(number: int) -> None:
        text = four_kilobytes(number)
        for name in names:
            ours_memory.write_text(name, text)

    def theirs_write(number: int) -> None:
        text = four_kilobytes(number)
        for name in names:
            theirs_memory.write(name, text)

    def ours_read(_: int) -> None:
        for name in names:
            ours_memory.read_text(name)

    def theirs_read(_: int) -> None:
        for name in names:
            theirs_memory.read_text(name)

    for directory in {name.rpartition("/")[0] for name in names}:
        theirs_memory.mkdir(directory, parents=True)
    ours_write(0)
    theirs_write(0)
    row = Row("memory", "memory, read_text, 4 KB", "sandfs read_text", ratio_bar=1.2)
    alternate(row, bench.rounds(40), ours_read, theirs_read, calls=len(names))
    yield row
    row = Row("memory", "memory, write_text, 4 KB", "sandfs write", ratio_bar=1.2)
    alternate(row, bench.rounds(20), ours_write, theirs_write, calls=len(names))
    yield row


@measurement("search")
def search(bench: Bench) -> Iterator[Row]:
    """Every file of the tree is searched for a word; both must find the same number of lines."""
    workspace, ripgrep = bench.large, rivals.Ripgrep(bench.tree)
    found = workspace.search(trees.NEEDLE, max_files=None)
    same("search", len(found.matches), ripgrep.search(trees.NEEDLE))
    row = Row("search", f"search for a word, {bench.files:,} files", "rg -F", ratio_bar=1.3)
    alternate(
        row,
        bench.rounds(20),
        lambda _: workspace.search(trees.NEEDLE, max_files=None),
        lambda _: ripgrep.search(trees.NEEDLE),
    )
    yield row


@measurement("glob")
def glob(bench: Bench) -> Iterator[Row]:
    """All names of the tree are looked at; both must find the same number of files."""
    workspace, ripgrep = bench.large, rivals.Ripgrep(bench.tree)
    same("glob", len(workspace.glob("**/*.txt")), ripgrep.files("*.txt"))
    row = Row("glob", 'glob("**/*.txt")', "rg --files -g '*.txt'", ratio_bar=1.3)
    alternate(row, bench.rounds(20), lambda _: workspace.glob("**/*.txt"), lambda _: ripgrep.files("*.txt"))
    yield row


@measurement("import")
def importing(bench: Bench) -> Iterator[Row]:
    """Whole interpreters are timed, from start to exit; the byte code of both modules is there."""
    for module in ("json", "hedgerow"):
        run_python(f"import {module}")
    row = Row("import", "python -c 'import hedgerow'", "python -c 'import json'", difference_bar=15e-3)
    alternate(row, bench.rounds(60), lambda _: run_python("import hedgerow"), lambda _: run_python("import json"))
    yield row


def taken(workspace: Workspace) -> None:
    """Refuse figures of a first checkpoint that was not taken where it was timed, or was taken twice."""
    if len(workspace.checkpoints()) != 1:
        raise SystemExit("first checkpoint: there should be one now; what was timed is something else")


def same(what: str, ours: int, theirs: int) -> None:
    """Refuse to compare work that is not the same."""
    if ours != theirs:
        raise SystemExit(f"{what}: hedgerow finds {ours}, the rival {theirs}; there is nothing to compare")


def run_python(program: str, *arguments: str) -> str:
    """Run a program in an interpreter of its own and return what it prints."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def machine(bench: Bench) -> dict[str, str]:
    """Return what the figures depend on."""

    def package(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "not installed"

    with open("/proc/cpuinfo") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": f"{len(os.sched_getaffinity(0))} cores, {models[0] if models else platform.machine()}",
        "kernel": platform.release(),
        "filesystem": filesystem(bench.scratch),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "hedgerow": f"{hedgerow.__version__} ({_native.build_profile})",
        "git": rivals.version("git"),
        "ripgrep": rivals.version("rg"),
        "sandfs": package("sandfs"),
        "files": f"{bench.files:,}",
    }


def filesystem(path: Path) -> str:
    """Return the kind of filesystem a path is on."""
    found, kind = "", "unknown"
    with open("/proc/self/mounts") as mounts:
        for line in mounts:
            _, where, name, *_ = line.split()
            if path.is_relative_to(where) and len(where) >= len(found):
                found, kind = where, name
    return kind


def table(rows: list[Row]) -> str:
    """Draw the rows in columns."""
    lines = [("work", "ours", "rival", "", "ratio", "of minima", "of CPU", "bar", "met")]
    for row in rows:
        if row.missing:
            lines.append((row.work, row.missing, "", "", "", "", "", "", "?"))
            continue
        ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
        if row.difference_bar is not None and row.difference is not None:
            ratio = f"+{amount(row.difference, row.unit)}"
        lines.append(
            (
                row.work,
                amount(row.figure, row.unit),
                amount(row.rival_figure, row.unit) if row.theirs else "–",
                row.rival,
                ratio,
                "–" if row.ratio_of_minima is None else f"{row.ratio_of_minima:.2f}",
                "–" if row.ratio_of_processor is None else f"{row.ratio_of_processor:.2f}",
                row.bar,
                {True: "yes", False: "NO", None: "?"}[row.is_met],
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def measure(bench: Bench, names: list[str]) -> list[Row]:
    """Run the measurements named, saying which one is under way."""
    rows: list[Row] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        try:
            rows.extend(MEASUREMENTS[name](bench))
        except rivals.MissingRivalError as error:
            rows.append(Row(name, name, "", missing=str(error)))
    return rows


def main() -> int:
    """Measure, print the table and write the results."""
    parser = argparse.ArgumentParser(description="Measure hedgerow against the obvious ways of doing the same.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_FILES:,} files and half the rounds")
    parser.add_argument("--only", action="append", choices=MEASUREMENTS, help="only this measurement; may be repeated")
    parser.add_argument("--strict", action="store_true", help="fail if a bar is not met")
    options = parser.parse_args()
    if _native.build_profile != "release":
        raise SystemExit("this is a debug build of hedgerow, which nobody should measure; use `make bench`")
    CACHE.mkdir(exist_ok=True)
    names = list(MEASUREMENTS) if options.only is None else [name for name in MEASUREMENTS if name in options.only]
    with tempfile.TemporaryDirectory(prefix="run-", dir=CACHE) as scratch:
        bench = Bench(options.quick, Path(scratch))
        facts = machine(bench)
        rows = measure(bench, names)
    print("\n" + table(rows) + "\n")
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    if options.quick:
        print(f"a quick run: the bars are meant for {FILES:,} files")
    results = json.dumps({"machine": facts, "rows": [row.to_json() for row in rows]}, indent=1, ensure_ascii=False)
    stamp = facts["date"].replace(":", "").replace("+0000", "Z")
    for path in (CACHE / "results.json", CACHE / f"results-{stamp}.json"):
        path.write_text(results)
    return 1 if options.strict and any(row.is_met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
