"""Every example runs, each in a directory and with a home of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))
TESTS = sorted(EXAMPLES.glob("test_*.py"))


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    home = {"HOME": str(directory), "XDG_STATE_HOME": str(directory / "state"), "PYTHONWARNINGS": "default"}
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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example_runs_and_shows_something(script: Path, tmp_path: Path) -> None:
    done = run([str(script)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("script", TESTS, ids=lambda path: path.stem)
def test_example_of_the_plugin_passes(script: Path, tmp_path: Path) -> None:
    done = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(script)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_demo_tells_its_whole_story(tmp_path: Path) -> None:
    # pip keeps its cache in the home, which is why the home stays: a download each run is what the network is for.
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo" / "demo.py")],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "HEDGEROW_MODEL"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    if done.returncode == os.EX_TEMPFAIL:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) <= 120
    assert str(tmp_path.parent) not in done.stdout
    assert "hedgerow-demo-" not in done.stdout, "a host path is shown"
