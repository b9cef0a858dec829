"""The obvious ways of doing the same, each as a program would really use it.

git runs with a repository outside the tree and without the machine's settings; its automatic clean-up is off, because
it would run in the background of whatever is measured next. ripgrep is told to leave nothing out, as hedgerow's search
leaves nothing out. A rival that is not installed makes its rows say so, and the others are measured all the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


class MissingRivalError(Exception):
    """A rival is not installed; the text says which."""


def _program(name: str, hint: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise MissingRivalError(f"{name} is not installed ({hint})")
    return found


def version(program: str) -> str:
    """Return what `program --version` says of itself, or why it cannot."""
    try:
        path = _program(program, "no such program")
    except MissingRivalError as error:
        return str(error)
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


class Git:
    """A git repository in `directory` whose work tree is `tree`."""

    def __init__(self, tree: Path, directory: Path) -> None:
        self._git = _program("git", "the system's package")
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(directory.parent),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_DIR": str(directory),
            "GIT_WORK_TREE": str(tree),
            "LC_ALL": "C",
        }
        for role in ("AUTHOR", "COMMITTER"):
            self._environment |= {f"GIT_{role}_NAME": "bench", f"GIT_{role}_EMAIL": "bench@example.com"}
        self._tree = tree
        self._run("init", "--quiet")
        for setting in ("gc.auto", "maintenance.auto"):
            self._run("config", setting, "0" if setting == "gc.auto" else "false")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._git, *arguments],
            cwd=self._tree,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def commit_all(self) -> None:
        """Run `git add -A` and `git commit`."""
        self._run("add", "-A")
        self._run("commit", "--quiet", "-m", "bench")

    def head(self) -> str:
        """Return the id of the newest commit."""
        return self._run("rev-parse", "HEAD").strip()

    def restore(self, commit: str) -> None:
        """Run `git checkout <commit> -- .`."""
        self._run("checkout", "--quiet", commit, "--", ".")


class Ripgrep:
    """ripgrep over `tree`, a whole process a call."""

    def __init__(self, tree: Path) -> None:
        self._rg = _program("rg", "pip install ripgrep")
        self._tree = tree

    def _run(self, *arguments: str) -> bytes:
        return subprocess.run(
            [self._rg, "--no-config", "--no-ignore", "--hidden", *arguments],
            cwd=self._tree,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout

    def search(self, text: str) -> int:
        """Return the number of lines with `text` in them."""
        return self._run("--line-number", "--fixed-strings", text, ".").count(b"\n")

    def files(self, pattern: str) -> int:
        """Return the number of files that match a glob."""
        return self._run("--files", "--glob", pattern, ".").count(b"\n")


def sandfs_workspace() -> Any:
    """Return an empty workspace of sandfs, which keeps its files in memory."""
    try:
        import sandfs
    except ImportError:
        raise MissingRivalError("sandfs is not installed (pip install sandfs)") from None
    return sandfs.Workspace()
