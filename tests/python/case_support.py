"""What the acceptance suites share: pictures of a real tree, a git check of a store, and programs in clean processes."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from hedgerow import Workspace, _native

Picture = dict[bytes, tuple[str, int, bytes]]
"""Path → (kind, permission bits, content or target)."""

DEBUG_BUILD = _native.build_profile != "release"
SLOWDOWN = 4 if DEBUG_BUILD else 1
"""Time bounds are for a release build; a debug build may take so many times as long."""


def picture(root: str | os.PathLike[str]) -> Picture:
    """Return everything below `root` by the operating system alone, nothing followed."""
    top = os.fsencode(os.fspath(root))
    found: Picture = {}
    waiting = [b""]
    while waiting:
        at = waiting.pop()
        for entry in os.scandir(os.path.join(top, at)):
            path = os.path.join(at, entry.name)
            info = entry.stat(follow_symlinks=False)
            mode = stat.S_IMODE(info.st_mode)
            if entry.is_symlink():
                found[path] = ("link", 0, os.readlink(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                found[path] = ("dir", mode, b"")
                waiting.append(path)
            elif stat.S_ISREG(info.st_mode):
                with open(entry.path, "rb") as file:
                    found[path] = ("file", mode, file.read())
            else:
                found[path] = ("special", mode, b"%o" % stat.S_IFMT(info.st_mode))
    return found


def identities(root: str | os.PathLike[str]) -> dict[bytes, tuple[int, int]]:
    """Return inode and time of change of each regular file."""
    top = os.fsencode(os.fspath(root))
    found: dict[bytes, tuple[int, int]] = {}
    for directory, _, names in os.walk(top):
        for name in names:
            info = os.lstat(os.path.join(directory, name))
            if stat.S_ISREG(info.st_mode):
                found[os.path.relpath(os.path.join(directory, name), top)] = (info.st_ino, info.st_mtime_ns)
    return found


def plain_environment(**more: str) -> dict[str, str]:
    """Return an environment without any git setting of this machine."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "XDG_", "HYPOTHESIS"))}
    return {**kept, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C", **more}


def git(*arguments: str | os.PathLike[str], cwd: str | os.PathLike[str] | None = None, check: bool = True) -> str:
    """Run git undisturbed by the machine's configuration."""
    done = subprocess.run(
        [
            "git",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "init.defaultBranch=main",
            *map(os.fspath, arguments),  # type: ignore[arg-type]
        ],
        cwd=cwd,
        env=plain_environment(),
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done.stdout


def fsck(store: str | os.PathLike[str]) -> None:
    """Check that git finds nothing wrong in a store, not even a warning."""
    done = subprocess.run(
        ["git", "--git-dir", os.fspath(store), "fsck", "--strict", "--full", "--no-dangling"],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [
        line
        for line in (done.stdout + done.stderr).splitlines()
        if not line.startswith(("notice: HEAD points", "Checking"))
    ]
    assert (done.returncode, complaints) == (0, [])


def python(
    source: str,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = 60,
    check: bool = True,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own; its arguments are `sys.argv[1:]`."""
    done = subprocess.run(
        [
            *prefix,
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore::RuntimeWarning",
            "-W",
            "ignore::ResourceWarning",
            "-c",
            textwrap.dedent(source),
            *map(str, arguments),
        ],
        env=plain_environment() if env is None else dict(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=timeout,
        check=False,
    )
    if check:
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.stderr == ""
    return done


_programs: list[subprocess.Popen[str]] = []


def end_programs() -> None:
    """End what `started` left running: a test that failed must not slow down all others."""
    while _programs:
        with _programs.pop() as process:
            process.kill()


def started(source: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program in a process of its own, with pipes; it ends with the test at the latest."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::RuntimeWarning", "-c", textwrap.dedent(source), *map(str, arguments)],
        env=plain_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _programs.append(process)
    return process


def unprivileged() -> list[str]:
    """Return what to put before a program so that permission bits bind it, even when the tests run as root."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("running as root, and there is no setpriv to give that up")
    drop = "-dac_override,-dac_read_search"
    return [setpriv, f"--bounding-set={drop}", f"--inh-caps={drop}"]


def tools_of(ws: Workspace, **options: object) -> dict[str, object]:
    """Return the tools by name."""
    return {tool.name: tool for tool in ws.tools(**options)}  # type: ignore[arg-type]


@contextmanager
def opened(root: str | os.PathLike[str], store: str | os.PathLike[str], **options: object) -> Iterator[Workspace]:
    """Open a workspace named `w`."""
    with Workspace.open(root, store=store, **{"id": "w", **options}) as ws:  # type: ignore[arg-type]
        yield ws
