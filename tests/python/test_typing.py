"""What type checkers see: the stub agrees with the module, the whole surface is typed, and misuse is found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# `# E: code` at the end of a line is the error that mypy must report there; every other line must be clean.
USE = """
import asyncio
from pathlib import Path

from typing_extensions import assert_type

from hedgerow import AsyncWorkspace, Checkpoint, EditResult, Workspace, WorkspaceError


def sync(ws: Workspace) -> None:
    assert_type(ws.read_text("a"), str)
    assert_type(ws.read_text(Path("a")), str)
    assert_type(ws.read_bytes("a", offset=1, length=2), bytes)
    assert_type(ws.edit("a", "b", "c"), EditResult)
    assert_type(ws.checkpoint("first", author="me"), Checkpoint)
    assert_type(ws.read_many(["a"]), dict[str, str])
    assert_type(ws.read_many(["a"], binary=True), dict[str, bytes])
    ws.read_text(b"a")  # E: arg-type
    ws.read_text("a", "b")  # E: call-arg
    ws.write_text("a", b"bytes")  # E: arg-type
    ws.read_bytes("a", 1)  # E: call-arg
    ws.tools("execute")  # E: arg-type
    ws.no_such_verb()  # E: attr-defined
    with ws as same:
        assert_type(same, Workspace)
    try:
        pass
    except WorkspaceError as error:
        assert_type(error.path, str | None)


async def asynchronous(ws: AsyncWorkspace) -> None:
    assert_type(await ws.read_text("a"), str)
    assert_type(await ws.checkpoint(), Checkpoint)
    ws.write_text("a", "b")  # E: unused-coroutine
    text: str = ws.read_text("a")  # E: assignment
    async with asyncio.TaskGroup() as group:
        assert_type(group.create_task(ws.read_text("a")), asyncio.Task[str])
    async with ws as same:
        assert_type(same, AsyncWorkspace)
"""


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    # pyright asks the first `python` of PATH where packages are, whatever it is told on its command line.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=directory,
        env=os.environ | {"PATH": path, "MYPYPATH": str(ROOT / "python"), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_stub_agrees_with_the_compiled_module() -> None:
    pytest.importorskip("mypy.stubtest")
    allowlist = str(ROOT / ".mypy-stubtest-allowlist")
    done = run(
        ["mypy.stubtest", "hedgerow._native", "--allowlist", allowlist, "--ignore-disjoint-bases"],
        ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubtest_allowlist_gives_a_reason_for_each_line() -> None:
    lines = ROOT.joinpath(".mypy-stubtest-allowlist").read_text().splitlines()
    for line in filter(None, lines):
        assert re.match(r"#|\S+ +# \S", line), f"no reason: {line}"


def test_mypy_finds_misuse_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    tmp_path.joinpath("use.py").write_text(USE)
    cache = str(ROOT / ".mypy_cache" / "use")  # its own: two runs at once must not share one
    done = run(
        ["mypy", "--strict", "--no-error-summary", "--hide-error-context", "--cache-dir", cache, "use.py"], tmp_path
    )
    reported = {
        (int(line), code) for line, code in re.findall(r"^use\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.M)
    }
    expected = {
        (number, match[1])
        for number, line in enumerate(USE.splitlines(), start=1)
        if (match := re.search(r"# E: ([a-z-]+)$", line))
    }
    assert reported == expected, done.stdout + done.stderr


def test_pyright_knows_the_type_of_every_public_name(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    done = run(["pyright", "--verifytypes", "hedgerow", "--ignoreexternal"], tmp_path)
    assert "Type completeness score: 100%" in done.stdout, done.stdout + done.stderr
