"""A real directory for programs that need one: the root itself, or a temporary copy of the tree."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ._call import at_once, finish, later

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._native import Workspace as Native


class Materialized:
    """Yields the directory to `with` and to `async with`; can be used once at a time."""

    __slots__ = ("_directory", "_native", "_ref")

    def __init__(self, native: Native, ref: str | None) -> None:
        """Remember what to show; nothing is made before the block begins."""
        self._native = native
        self._ref = ref
        self._directory: str | None = None

    def __enter__(self) -> Path:
        """Return the directory."""
        return finish(self._enter(at_once, at_once))

    def __exit__(self, *_: object) -> None:
        """Remove a temporary directory."""
        self._remove()

    async def __aenter__(self) -> Path:
        """Return the directory."""
        return await self._enter(later, asyncio.to_thread)

    async def __aexit__(self, *_: object) -> None:
        """Remove a temporary directory."""
        # Shielded: a cancelled task must not leave the copy behind.
        await asyncio.shield(asyncio.to_thread(self._remove))

    async def _enter(self, call: Callable[..., object], own: Callable[..., object]) -> Path:
        root = self._native.root
        if root is not None and self._ref is None:
            return Path(root)
        # 0700 from the start; the tree goes one level below, so that its own root may have any mode.
        self._directory = tempfile.mkdtemp(prefix="hedgerow-")
        target = os.path.join(self._directory, "tree")
        try:
            os.mkdir(target, 0o700)
            await call(self._native.materialize, target, ref=self._ref)  # type: ignore[misc]
        except BaseException:
            self._remove()
            raise
        return Path(target)

    def _remove(self) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            _rmtree(directory)


def _rmtree(directory: str) -> None:
    if sys.version_info >= (3, 12):
        shutil.rmtree(directory, onexc=_open_up)
    else:
        shutil.rmtree(directory, onerror=_open_up)


def _open_up(function: Callable[..., object], path: str, _: object) -> None:
    """Go on where permission bits of the tree forbid its own removal."""
    os.chmod(os.path.dirname(path), 0o700)
    if os.path.islink(path) or not os.path.isdir(path):
        if os.path.lexists(path):
            os.unlink(path)
        return
    os.chmod(path, 0o700)
    if function is os.rmdir:
        os.rmdir(path)
    else:
        _rmtree(path)
