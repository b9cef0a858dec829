"""The pytest plugin: a fixture for tests that need files.

Imports nothing of hedgerow until the fixture is used, because pytest loads every installed plugin in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hedgerow import Workspace


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """Return a fresh workspace in memory, closed after the test."""
    from hedgerow import Workspace

    with Workspace.memory() as made:
        yield made
