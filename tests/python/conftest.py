"""Fixtures shared by all tests: workspaces of each kind, and a host directory to look for leaks of."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from case_support import end_programs
from hedgerow import Workspace

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass
else:
    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=slow)
    settings.register_profile("ci", max_examples=200, deadline=None, suppress_health_check=slow)
    settings.register_profile("nightly", max_examples=5_000, deadline=None, suppress_health_check=slow)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure() -> None:
    """Hear Ctrl-C, and let the programs of tests hear it, also where a job in the background was told not to."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _programs_end() -> Iterator[None]:
    yield
    end_programs()


@pytest.fixture
def ws() -> Iterator[Workspace]:
    """Return an empty workspace in memory."""
    with Workspace.memory() as made:
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with a name that is easy to find in a message."""
    directory = tmp_path / "secret-host-name" / "project"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def disk(root: Path, tmp_path: Path) -> Iterator[Workspace]:
    """Return a workspace over `root`."""
    with Workspace.open(root, store=tmp_path / "store", id="test") as made:
        yield made


@pytest.fixture(params=["memory", "disk"])
def any_ws(request: pytest.FixtureRequest) -> Workspace:
    """Return a workspace of each kind."""
    fixture: Workspace = request.getfixturevalue("ws" if request.param == "memory" else "disk")
    return fixture
