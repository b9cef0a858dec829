"""Every Python block of the README runs as it is printed, each in a directory and with a home of its own."""

import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    line: int
    heading: str
    language: str
    code: str


def blocks() -> list[Block]:
    text = README.read_text() if README.exists() else ""
    found = []
    for match in FENCE.finditer(text):
        headings = re.findall(r"^#+ +(.+)$", text[: match.start()], re.MULTILINE)
        # Blank lines in front make a traceback name the README's own line.
        line = text.count("\n", 0, match.start()) + 2
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        found.append(Block(line, headings[-1] if headings else "top", match["language"], body))
    return found


def identify(block: Block) -> str:
    return f"line-{block.line}-{re.sub(r'[^a-z0-9]+', '-', block.heading.lower()).strip('-')}"


BLOCKS = blocks()


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    home = {"HOME": str(directory), "XDG_STATE_HOME": str(directory / ".state"), "PYTHONWARNINGS": "default"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEDGEROW_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment | home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_readme_shows_python() -> None:
    assert any(block.language in {"python", "py"} for block in BLOCKS)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in {"python", "py"}], ids=identify)
def test_readme_block_runs(block: Block, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    # A block with tests in it is a test file; every other one is a program.
    is_test = re.search(r"^(async )?def test_", block.code, re.MULTILINE) is not None
    script = tmp_path / ("test_readme_block.py" if is_test else "README.md")
    script.write_text("\n" * (block.line - 1) + block.code)
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "--rootdir", str(work)]
    done = run([*(tests if is_test else []), str(script)], work)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert "never awaited" not in done.stderr, done.stderr


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "pycon"], ids=identify)
def test_readme_session_prints_what_it_shows(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    session = doctest.DocTestParser().get_doctest(block.code, {}, identify(block), str(README), block.line - 1)
    said: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=said.append)
    assert outcome.attempted
    assert not outcome.failed, "".join(said)


def test_readme_names_only_files_that_exist() -> None:
    text = README.read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (README.parent / target).exists(), target


def test_readme_names_only_make_targets_that_exist() -> None:
    makefile = README.parent.joinpath("Makefile").read_text()
    for target in re.findall(r"`make ([a-z-]+)`", README.read_text()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
