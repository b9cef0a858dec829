"""Filesystems: where the entries of a workspace are.

Workspace(hedgerow.fs.Memory())
Workspace(hedgerow.fs.Disk("/srv/project"))
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Literal

__all__ = ["Disk", "Memory"]


@dataclass(frozen=True, slots=True)
class Memory:
    """An empty tree in memory; it lasts as long as the workspace."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A real directory."""

    root: str | PathLike[str]
    create: bool = False
    """Make the directory if it is missing."""
    allow_large: bool = False
    """Accept a home directory, `/` and the like, which are refused because a checkpoint reads everything."""
    resolver: Literal["auto", "kernel", "walk"] = "auto"
    """How paths are confined: by the kernel where it can, or by walking; `auto` tries the kernel first."""
