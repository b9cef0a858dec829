"""Public bug reports about jails, links, special files, names and encodings, as tests of the kind they stand for."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from case_support import SLOWDOWN, fsck, git, opened, picture, python, started, tools_of
from hedgerow import AsyncWorkspace, Workspace

SECRET = b"the secret of the outside\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory next to the root that no call may read or change."""
    made = tmp_path / "outside"
    (made / "tree/deep").mkdir(parents=True)
    for name in ("secret.txt", "f", "x", "y"):
        (made / name).write_bytes(SECRET)
    (made / "tree/deep/secret.txt").write_bytes(SECRET)
    return made


@pytest.fixture
def intact(outside: Path) -> Iterator[None]:
    """Check at the end that the outside is what it was."""
    before = picture(outside)
    yield
    assert picture(outside) == before


def writes(ws: Workspace, path: str) -> dict[str, Callable[[], object]]:
    """Return every call that changes what stands at or below `path`, following it."""
    tools: Any = tools_of(ws, raise_errors=True)
    return {
        "write_text": lambda: ws.write_text(path, "x"),
        "write_bytes": lambda: ws.write_bytes(path, b"x"),
        "write_many": lambda: ws.write_many({path: "x"}),
        "write_json": lambda: ws.write_json(path, 1),
        "append_text": lambda: ws.append_text(path, "x"),
        "edit": lambda: ws.edit(path, "secret", "x"),
        "chmod": lambda: ws.chmod(path, 0o777),
        "write_file": lambda: tools["write_file"](path=path, content="x"),
        "edit_file": lambda: tools["edit_file"](path=path, old="secret", new="x"),
    }


def reads(ws: Workspace, path: str) -> dict[str, Callable[[], object]]:
    """Return every call that reads through `path`."""
    tools: Any = tools_of(ws, raise_errors=True)
    return {
        "read_text": lambda: ws.read_text(path),
        "read_bytes": lambda: ws.read_bytes(path),
        "read_json": lambda: ws.read_json(path),
        "read_many": lambda: ws.read_many([path]),
        "iter_bytes": lambda: list(ws.iter_bytes(path)),
        "content_id": lambda: ws.content_id(path),
        "realpath": lambda: ws.realpath(path),
        "read_file": lambda: tools["read_file"](path=path),
    }


# A. path jail


@pytest.mark.usefixtures("intact")
@pytest.mark.row("B33")
@pytest.mark.parametrize(
    "target", ["absolute", "relative", "through a directory", "chain", "/etc/passwd", "/proc/self/environ"]
)
def test_case_a04_link_to_an_outside_file_is_refused_and_can_be_listed_and_deleted(
    disk: Workspace, root: Path, outside: Path, target: str
) -> None:
    leads = {
        "absolute": outside / "secret.txt",
        "relative": os.path.relpath(outside / "secret.txt", root),
        "through a directory": outside / "tree/deep/secret.txt",
        "chain": "second",
    }.get(target, target)
    (root / "second").symlink_to(outside / "secret.txt")
    (root / "tempfile").symlink_to(leads)  # type: ignore[arg-type]
    for name, call in reads(disk, "tempfile").items():
        with pytest.raises((hedgerow.PathEscapeError, hedgerow.NotFoundError)) as caught:
            call()
        assert str(outside) not in str(caught.value), name
    assert {entry.name: entry.kind for entry in disk.list_dir()} == {"second": "symlink", "tempfile": "symlink"}
    assert disk.readlink("tempfile") == os.fspath(leads)  # type: ignore[call-overload]
    assert not disk.search("secret").matches
    disk.remove("tempfile")
    assert not os.path.lexists(root / "tempfile")


@pytest.mark.usefixtures("intact")
@pytest.mark.parametrize(
    "target", ["{outside}/new.txt", "../../outside/new.txt", "{outside}/no/such/dir/new.txt", "next"]
)
def test_case_a05_dangling_link_lets_no_write_out(disk: Workspace, root: Path, outside: Path, target: str) -> None:
    (root / "next").symlink_to(outside / "new.txt")
    (root / "l").symlink_to(target.format(outside=outside))
    for name, call in writes(disk, "l").items():
        with pytest.raises(hedgerow.WorkspaceError):
            call()
        assert not (outside / "new.txt").exists(), name
    with pytest.raises(hedgerow.AlreadyExistsError):
        disk.create("l", "x")
    with pytest.raises(hedgerow.WorkspaceError):
        disk.write_text("l/deeper/file", "x")
    assert (root / "l").is_symlink()


@pytest.mark.parametrize("name", ["file.txt:payload", "a:b:c", ":", "C:", "C:\\x", "x\\..\\y", "::$DATA"])
def test_case_a06_colon_and_backslash_are_ordinary_on_linux(disk: Workspace, root: Path, name: str) -> None:
    disk.write_text(name, "x")
    assert (root / name).read_text() == "x"
    assert [entry.name for entry in disk.list_dir()] == [name]
    kept = disk.checkpoint()
    disk.remove(name)
    disk.rollback(kept)
    assert disk.read_text(name) == "x"


@pytest.mark.usefixtures("intact")
@pytest.mark.parametrize(
    "path", ["leak/secret.txt", "leak/tree/deep/secret.txt", "a/../leak/secret.txt", "a/up/outside/secret.txt"]
)
def test_case_a07_containment_is_not_lexical(disk: Workspace, root: Path, outside: Path, path: str) -> None:
    (root / "a").mkdir()
    (root / "leak").symlink_to(outside)
    (root / "a/up").symlink_to("../../..")
    for name, call in [*reads(disk, path).items(), *writes(disk, path).items()]:
        with pytest.raises(hedgerow.PathEscapeError):
            call()
        assert (outside / "secret.txt").read_bytes() == SECRET, name


def test_case_a07_link_that_comes_back_in_is_not_refused_falsely(disk: Workspace, root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/f").write_text("f")
    (root / "a/b/up").symlink_to("../f")
    assert disk.read_text("a/b/up") == "f"
    assert disk.read_text("a/b/../f") == "f"


@pytest.mark.usefixtures("intact")
@pytest.mark.row("B33")
@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "..",
        "a/../../outside/secret.txt",
        "/../outside/secret.txt",
        "./..//outside",
        "a/b/../../../x",
    ],
)
def test_case_a13_dot_dot_out_of_the_root_is_an_error(any_ws: Workspace, path: str) -> None:
    any_ws.mkdir("a/b")
    calls = {
        **reads(any_ws, path),
        **writes(any_ws, path),
        "create": lambda: any_ws.create(path),
        "mkdir": lambda: any_ws.mkdir(path),
        "list_dir": lambda: any_ws.list_dir(path),
        "walk": lambda: any_ws.walk(path),
        "tree": lambda: any_ws.tree(path),
        "glob": lambda: any_ws.glob("*", path),
        "search": lambda: any_ws.search("x", path),
        "stat": lambda: any_ws.stat(path),
        "exists": lambda: any_ws.exists(path),
        "remove": lambda: any_ws.remove(path, recursive=True),
        "symlink": lambda: any_ws.symlink(path, "x"),
        "readlink": lambda: any_ws.readlink(path),
        "summary": lambda: any_ws.summary(path),
        "export": lambda: any_ws.export(path),
        "history": lambda: any_ws.history(path=path),
    }
    for name, call in calls.items():
        with pytest.raises(hedgerow.PathEscapeError):
            call()  # type: ignore[no-untyped-call]
            pytest.fail(f"{name} took {path}")
    assert any_ws.read_only().exists("a/b")


def test_case_a13_absolute_paths_start_at_the_root(disk: Workspace, root: Path) -> None:
    disk.write_text("/etc/passwd", "ours")
    assert (root / "etc/passwd").read_text() == "ours"
    assert disk.read_text("etc/passwd") == "ours"


@pytest.mark.usefixtures("intact")
def test_case_a14_glob_finds_nothing_outside(disk: Workspace, root: Path, outside: Path) -> None:
    (root / "in.txt").write_text("in")
    (root / "leak").symlink_to(outside)
    (root / "etc").symlink_to("/etc")
    assert disk.glob("**/*") == ["etc", "in.txt", "leak"]
    assert disk.glob("**/*.txt") == ["in.txt"]
    assert disk.glob("/etc/*") == []
    assert disk.glob("leak/*") == []
    assert disk.glob("*/secret.txt") == []
    for pattern in ("../*", "a/../../*", "**/../../*", "leak/../../*", "{..,x}/*", "/../*"):
        with pytest.raises(hedgerow.PathEscapeError):
            disk.glob(pattern)
    assert not disk.search("secret", include="**/*").matches
    assert "secret" not in str(disk.tree())
    assert [entry.path for entry in disk.walk()] == ["etc", "in.txt", "leak"]


class Swapper:
    """Swaps a directory for a link to the outside and back, as fast as it can, in a process of its own."""

    SOURCE = """
        import os, sys
        place, aside, link = sys.argv[1:]
        print("ready", flush=True)
        while True:
            try:
                os.rename(place, aside); os.rename(link, place)
                os.rename(place, link); os.rename(aside, place)
            except OSError:
                pass
    """

    def __init__(self, place: Path, outside: Path, beside: Path) -> None:
        self.aside, self.link = beside / "aside", beside / "link"
        self.link.symlink_to(outside)
        self.place = place
        self.process = started(self.SOURCE, place, self.aside, self.link)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self) -> Swapper:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.usefixtures("intact")
@pytest.mark.row("B34")
@pytest.mark.parametrize("resolver", ["kernel", "walk"])
def test_case_a15_a16_swapped_directory_never_leads_out(
    root: Path, tmp_path: Path, outside: Path, resolver: Any
) -> None:
    (root / "d").mkdir()
    (root / "d/f").write_bytes(b"inside")
    (tmp_path / "beside").mkdir()
    before = picture(outside)
    with opened(root, tmp_path / "store", resolver=resolver) as ws, Swapper(root / "d", outside, tmp_path / "beside"):
        calls: list[Callable[[], object]] = [
            lambda: ws.read_bytes("d/f"),
            lambda: ws.write_text("d/f", "inside"),
            lambda: ws.edit("d/f", "inside", "inside"),
            lambda: ws.append_text("d/g", ""),
            lambda: ws.create("d/new", "inside"),
            lambda: ws.remove("d/new"),
            lambda: ws.mkdir("d/sub/deep"),
            lambda: ws.remove("d/sub", recursive=True),
            lambda: [m.text for m in ws.search("secret").matches],
            lambda: [e.path for e in ws.list_dir("d")],
            lambda: list(ws.glob("d/*")),
            lambda: ws.copy("d/f", "copied", overwrite=True),
            lambda: ws.move("copied", "d/moved", overwrite=True),
            lambda: ws.symlink("d/link", "x"),
            lambda: ws.remove("d/link"),
            lambda: ws.chmod("d/f", 0o600),
        ]
        allowed = (hedgerow.WorkspaceError,)
        end, rounds = time.monotonic() + 2.5, 0
        while time.monotonic() < end:
            for call in calls:
                try:
                    answer = call()
                except allowed as error:
                    assert error.kind != "bug"
                else:
                    assert SECRET not in repr(answer).encode()
                    assert "secret" not in repr(answer)
            rounds += 1
        assert rounds > 3
        assert picture(outside) == before


@pytest.mark.usefixtures("intact")
def test_case_a18_a23_deleting_and_rolling_back_while_an_inner_directory_is_swapped(
    root: Path, tmp_path: Path, outside: Path
) -> None:
    (root / "a/b").mkdir(parents=True)
    for name in ("x", "y", "tree"):
        (root / "a/b" / name).write_text("inside")
    (tmp_path / "beside").mkdir()
    before = picture(outside)
    with opened(root, tmp_path / "store") as ws:
        kept = ws.checkpoint("kept")
        with Swapper(root / "a/b", outside, tmp_path / "beside"):
            end = time.monotonic() + 2.5
            while time.monotonic() < end:
                for call in (
                    lambda: ws.remove("a/b/x", missing_ok=True),
                    lambda: ws.move("a/b/y", "a/b/z", overwrite=True),
                    lambda: ws.remove("a", recursive=True, missing_ok=True),
                    lambda: ws.rollback(kept),
                    lambda: ws.checkpoint(),
                ):
                    try:
                        call()
                    except hedgerow.WorkspaceError as error:
                        assert error.kind != "bug"
                assert picture(outside) == before


@pytest.mark.row("B34")
def test_case_a19_a20_write_through_a_hard_link_leaves_the_outside_file(
    disk: Workspace, root: Path, outside: Path
) -> None:
    def link(name: str) -> str:
        (root / name).unlink(missing_ok=True)
        os.link(outside / "secret.txt", root / name)
        return name

    kept = disk.checkpoint()
    disk.write_text(link("w"), "x")
    disk.edit(link("e"), "secret", "x")
    disk.append_text(link("a"), "more")
    disk.write_bytes(link("t"), b"")
    disk.copy("w", link("c"), overwrite=True)
    disk.move("w", link("m"), overwrite=True)
    tools: Any = tools_of(disk)
    tools["write_file"](path=link("tw"), content="x")
    tools["edit_file"](path=link("te"), old="secret", new="x")
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert (root / "a").read_bytes() == SECRET + b"more"
    disk.rollback(kept)
    link("r")
    kept = disk.checkpoint()
    (root / "r").unlink()
    (root / "r").write_text("other")
    disk.checkpoint()
    link("r")
    (root / "s").write_text("s")
    disk.rollback(kept)
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_case_a19_mode_of_an_outside_inode_is_left_or_refused(disk: Workspace, root: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", root / "h")
    before = stat.S_IMODE((outside / "secret.txt").stat().st_mode)
    try:
        disk.chmod("h", 0o777)
    except hedgerow.WorkspaceError:
        pass
    assert stat.S_IMODE((outside / "secret.txt").stat().st_mode) == before


@pytest.mark.usefixtures("intact")
@pytest.mark.parametrize("other", ["../x", "leak/x", "dangling", "../../outside/secret.txt", "leak/secret.txt"])
def test_case_a22_both_sides_of_two_path_calls_are_confined(
    disk: Workspace, root: Path, outside: Path, other: str
) -> None:
    (root / "in").write_text("in")
    (root / "dir").mkdir()
    (root / "leak").symlink_to(outside)
    (root / "dangling").symlink_to(outside / "fresh")
    for call in (disk.copy, disk.move, disk.hardlink):
        for source, destination in (("in", other), (other, "new")):
            if other == "dangling" and (destination == "new" or call is disk.move):
                continue  # the link itself is copied, moved or named again
            with pytest.raises(hedgerow.WorkspaceError):
                call(source, destination)
    assert (root / "in").read_text() == "in"
    assert not (root / "new").exists()
    disk.move("dangling", "moved")
    assert os.readlink(root / "moved") == str(outside / "fresh")
    disk.copy("moved", "copied")
    assert os.readlink(root / "copied") == str(outside / "fresh")
    assert not (outside / "fresh").exists()


# B. symlinks in walk, checkpoint and rollback


@pytest.mark.usefixtures("intact")
@pytest.mark.parametrize("child", ["secret.txt", "tree/deep/secret.txt"])
@pytest.mark.parametrize("scope", [None, ["d"]])
def test_case_b01_rollback_from_directory_to_link_deletes_nothing_behind_it(
    disk: Workspace, root: Path, outside: Path, child: str, scope: list[str] | None
) -> None:
    (root / "d").symlink_to(outside)
    kept = disk.checkpoint()
    (root / "d").unlink()
    (root / "d" / child).parent.mkdir(parents=True)
    (root / "d" / child).write_text("inside")
    later = disk.checkpoint()
    disk.rollback(kept, paths=scope)
    assert os.readlink(root / "d") == str(outside)
    assert (outside / child).read_bytes() == SECRET
    disk.rollback(later, paths=scope)
    assert not (root / "d").is_symlink()
    assert (root / "d" / child).read_text() == "inside"


@pytest.mark.usefixtures("intact")
def test_case_b02_rollback_of_a_file_over_a_link_and_back(disk: Workspace, root: Path, outside: Path) -> None:
    (root / "f").write_text("regular")
    first = disk.checkpoint()
    (root / "f").unlink()
    (root / "f").symlink_to(outside / "secret.txt")
    second = disk.checkpoint()
    for _ in range(2):
        disk.rollback(first)
        assert not (root / "f").is_symlink()
        assert (root / "f").read_text() == "regular"
        disk.rollback(second)
        assert os.readlink(root / "f") == str(outside / "secret.txt")


@pytest.mark.parametrize("leads", ["other", "../project/other", "."])
def test_case_b03_slot_that_became_a_link_becomes_a_directory_again(disk: Workspace, root: Path, leads: str) -> None:
    (root / "slot").mkdir()
    (root / "slot/child").write_text("old")
    (root / "other").mkdir()
    (root / "other/child").write_text("other's")
    kept = disk.checkpoint()
    shutil.rmtree(root / "slot")
    (root / "slot").symlink_to(leads)
    disk.rollback(kept)
    assert not (root / "slot").is_symlink()
    assert (root / "slot/child").read_text() == "old"
    assert (root / "other/child").read_text() == "other's"


@pytest.mark.usefixtures("intact")
def test_case_b04_only_the_link_is_captured(disk: Workspace, root: Path, tmp_path: Path, outside: Path) -> None:
    start = disk.checkpoint()
    (root / "link").symlink_to(outside / "tree")
    (root / "loop").symlink_to(".")
    (root / "self").symlink_to("self")
    kept = disk.checkpoint()
    assert disk.diff(start, kept).paths == ("link", "loop", "self")
    assert [entry.path for entry in disk.at(kept).walk()] == ["link", "loop", "self"]
    for name in ("link", "loop", "self"):
        (root / name).unlink()
    disk.rollback(kept)
    assert os.readlink(root / "link") == str(outside / "tree")
    assert os.readlink(root / "self") == "self"
    store = tmp_path / "store"
    listed = git("--git-dir", store, "cat-file", "--batch-all-objects", "--batch-check")
    blobs = [line.split()[0] for line in listed.splitlines() if " blob " in line]
    assert all(SECRET.decode() not in git("--git-dir", store, "cat-file", "blob", blob) for blob in blobs)


@pytest.mark.usefixtures("intact")
@pytest.mark.parametrize("change", ["link", "directory", "gone"])
def test_case_b05_b07_root_that_was_replaced_is_noticed(tmp_path: Path, outside: Path, change: str) -> None:
    real, root = tmp_path / "real", tmp_path / "root"
    real.mkdir()
    root.symlink_to(real)
    (real / "f").write_text("one")
    with opened(root, tmp_path / "store") as ws:
        kept = ws.checkpoint()
        (real / "f").write_text("two")
        root.unlink()
        if change == "link":
            root.symlink_to(outside)
        elif change == "directory":
            root.mkdir()
            (root / "precious").write_text("precious")
        try:
            ws.rollback(kept)
        except hedgerow.ConflictError as error:
            assert error.kind == "root-replaced"
            assert (real / "f").read_text() == "two"
        else:  # pinned by its handle: the rollback went to the directory that was opened
            assert (real / "f").read_text() == "one"
        if change == "directory":
            assert picture(root) == {b"precious": ("file", 0o644, b"precious")}


@pytest.mark.parametrize("now", ["file", "full directory", "empty directory", "other link", "fifo", "deep"])
def test_case_b06_link_replaces_whatever_stands_there(disk: Workspace, root: Path, now: str) -> None:
    (root / "l").symlink_to("target")
    kept = disk.checkpoint()
    (root / "l").unlink()
    match now:
        case "file":
            (root / "l").write_text("x")
        case "full directory":
            (root / "l").mkdir()
            (root / "l/x").write_text("x")
        case "empty directory":
            (root / "l").mkdir()
        case "other link":
            (root / "l").symlink_to("elsewhere")
        case "fifo":
            os.mkfifo(root / "l")
        case _:
            (root / "l/a/b/c").mkdir(parents=True)
            (root / "l/a/b/c/x").write_text("x")
    before = picture(root)
    try:
        disk.rollback(kept)
    except hedgerow.WorkspaceError:
        # A special file is held by no checkpoint, so to delete it could not be undone: refused, nothing changed.
        assert now == "fifo"
        assert picture(root) == before
    else:
        if now == "fifo" and not (root / "l").is_symlink():
            assert picture(root) == before
        else:
            assert os.readlink(root / "l") == "target"


# C. special files


@pytest.fixture(params=["fifo", "socket", "fifo with a writer"])
def special(request: pytest.FixtureRequest, root: Path) -> Iterator[Path]:
    """Return a special file in the root."""
    place = root / "p"
    if request.param == "socket":
        made = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(root)
        made.bind("p")
        os.chdir(here)
        yield place
        made.close()
        return
    os.mkfifo(place)
    if request.param == "fifo":
        yield place
        return
    handle = os.open(place, os.O_RDWR | os.O_NONBLOCK)
    yield place
    os.close(handle)


@pytest.mark.row("B33")
@pytest.mark.timeout(20)
def test_case_c01_special_file_is_an_error_at_once(disk: Workspace, special: Path) -> None:
    started_at = time.monotonic()
    for name, call in {**reads(disk, "p"), **writes(disk, "p")}.items():
        if name in ("realpath", "chmod"):
            continue
        with pytest.raises(hedgerow.UnsuitableEntryError) as caught:
            call()
        assert caught.value.kind == "special-file", name
        assert caught.value.path == "p"
    answer = tools_of(disk)["read_file"](path="p")  # type: ignore[operator]
    assert answer.startswith("Error")
    assert disk.stat("p").kind in ("fifo", "socket")
    assert disk.exists("p")
    assert stat.S_IFMT(special.lstat().st_mode) in (stat.S_IFIFO, stat.S_IFSOCK)
    assert time.monotonic() - started_at < 1 * SLOWDOWN


@pytest.mark.timeout(20)
async def test_case_c02_special_file_never_blocks_the_loop(disk: Workspace, special: Path) -> None:
    ws = disk.aio
    for call in (
        lambda: ws.read_bytes("p"),
        lambda: ws.read_text("p"),
        lambda: ws.write_text("p", "x"),
        lambda: ws.append_text("p", "x"),
        lambda: ws.edit("p", "a", "b"),
    ):
        before = time.monotonic()
        with pytest.raises(hedgerow.UnsuitableEntryError):
            await asyncio.wait_for(call(), 1)
        assert time.monotonic() - before < 0.25 * SLOWDOWN
    await asyncio.wait_for(ws.remove("p"), 1)
    assert not os.path.lexists(special)


@pytest.mark.timeout(20)
def test_case_c03_special_file_is_passed_over_by_search_and_checkpoint(
    disk: Workspace, root: Path, special: Path
) -> None:
    (root / "text").write_text("needle")
    found = disk.search("needle")
    assert [match.path for match in found] == ["text"]
    kept = disk.checkpoint()
    assert [(item.path) for item in kept.skipped] == ["p"]
    (root / "text").write_text("changed")
    disk.rollback(kept)
    assert (root / "text").read_text() == "needle"
    assert os.path.lexists(special)
    assert disk.summary().special == 1


@pytest.mark.timeout(20)
def test_case_c_special_file_is_named_by_every_call_that_needs_its_bytes(disk: Workspace, special: Path) -> None:
    disk.write_text("f", "x")
    for name, call in {
        "search": lambda: disk.search("x", "p"),
        "export": lambda: disk.export("p"),
        "copy": lambda: disk.copy("p", "q"),
        "hardlink": lambda: disk.hardlink("p", "q"),
        "copy over": lambda: disk.copy("f", "p", overwrite=True),
        "move over": lambda: disk.move("f", "p", overwrite=True),
    }.items():
        with pytest.raises(hedgerow.UnsuitableEntryError) as caught:
            call()  # type: ignore[no-untyped-call]
        assert (caught.value.kind, caught.value.path) == ("special-file", "p"), name
    packed = Workspace.memory()
    packed.write_text("p", "x")
    with pytest.raises(hedgerow.ConflictError) as refused:
        disk.import_(packed.export())
    assert (refused.value.path, "rollback" in str(refused.value)) == ("p", False)
    assert disk.stat("p").kind not in ("file", "directory")


# D. file names

ODD = [
    "公共.cpp", "a\tb", 'a"b', "a\nb", "a\\b", "é.txt", "é.txt", " lead.txt", "trail ", "-rf", "--", "报告.txt", "x\r", "\x01", "\x7f",
    "dir.", "x .", "aux", "con.txt", "nul", "NUL.tar.gz", "%2e", "%", "%47", "100%", ".gitmodules",
    ".gitattributes", ".gitignore", "🦔.txt",
    "'", "$HOME", "*", "?", "[a]", "#", "!x", "~", "a:b", ";", "|", "\u202egnp.exe", "\udce0.yml", "\udcff\udcfe", "A", "a",
    "git~1", ".GIT", ".git ", ".g\u200cit", "x" * 255, "é" * 127, "DCàD.yml", "HEAD", "refs", "objects", "...", "..x", "x..", ".hidden",
]  # fmt: skip


@pytest.mark.row("S20")
def test_case_d01_d02_d03_d12_odd_names_are_restored_byte_for_byte(disk: Workspace, root: Path, tmp_path: Path) -> None:
    for number, name in enumerate(ODD):
        (root / name).write_bytes(b"old %d" % number)
    before = picture(root)
    assert len(before) == len(set(ODD))
    kept = disk.checkpoint()
    assert not kept.skipped
    for name in ODD[::2]:
        (root / name).write_text("new")
    for name in ODD[1::2]:
        (root / name).unlink()
    (root / "ü.txt").write_text("created")
    changed = {change.path: change.effect for change in disk.diff(kept)}
    assert changed == {**dict.fromkeys(ODD[::2], "modified"), **dict.fromkeys(ODD[1::2], "deleted"), "ü.txt": "created"}
    disk.rollback(kept)
    assert picture(root) == before
    fsck(tmp_path / "store")


@pytest.mark.parametrize("name", ODD)
def test_case_d07_d13_names_go_round_through_every_call(any_ws: Workspace, name: str) -> None:
    any_ws.write_text(f"dir/{name}", "content")
    assert [entry.name for entry in any_ws.list_dir("dir")] == [name]
    assert [entry.path for entry in any_ws.walk()] == ["dir", f"dir/{name}"]
    assert any_ws.glob("dir/*") == [f"dir/{name}"]
    assert any_ws.read_text(any_ws.glob("dir/*")[0]) == "content"
    assert [match.path for match in any_ws.search("content")] == [f"dir/{name}"]
    assert any_ws.status().paths == ("dir", f"dir/{name}") or any_ws.status().paths == (f"dir/{name}",)
    any_ws.edit(f"dir/{name}", "content", "changed")
    kept = any_ws.checkpoint()
    assert f"dir/{name}" in kept.touched
    any_ws.move(f"dir/{name}", "plain")
    any_ws.copy("plain", f"{name}")
    assert any_ws.read_text(name) == "changed"
    any_ws.rollback(kept)
    assert [entry.path for entry in any_ws.walk()] == ["dir", f"dir/{name}"]
    assert any_ws.at(kept).read_text(f"dir/{name}") == "changed"
    assert any_ws.history(path=f"dir/{name}")


@pytest.mark.parametrize("name", ["公共.cpp", "a\nb", "a\tb", 'a"b', "\udce0.yml", "trail ", "-rf"])
def test_case_d01_patch_of_an_odd_name_applies(disk: Workspace, root: Path, tmp_path: Path, name: str) -> None:
    disk.write_text(name, "one\n")
    kept = disk.checkpoint()
    disk.write_text(name, "two\n")
    patch = disk.diff(kept).patch()
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / name).write_text("one\n")
    (tmp_path / "p").write_text(patch, errors="surrogateescape", newline="")
    git("apply", tmp_path / "p", cwd=copy)
    assert (copy / name).read_text() == "two\n"


def test_case_d04_composed_and_decomposed_names_are_two_files(any_ws: Workspace) -> None:
    composed, decomposed = "\u00e9.txt", "e\u0301.txt"
    any_ws.write_text(decomposed, "nfd")
    assert not any_ws.exists(composed)
    kept = any_ws.checkpoint()
    any_ws.write_text(composed, "nfc")
    assert any_ws.status().paths == (composed,)
    both = any_ws.checkpoint()
    any_ws.rollback(kept)
    assert [entry.name for entry in any_ws.list_dir()] == [decomposed]
    any_ws.rollback(both)
    assert (any_ws.read_text(composed), any_ws.read_text(decomposed)) == ("nfc", "nfd")


@pytest.mark.parametrize("name", ["dir.", "dir ", "aux", "con", "nul.d", "COM1", "a\nb", "\udcff", "..."])
def test_case_d05_d06_directories_of_such_names(disk: Workspace, root: Path, tmp_path: Path, name: str) -> None:
    disk.write_text(f"{name}/{name}/x .", "x")
    disk.mkdir(f"{name}/empty")
    before = picture(root)
    kept = disk.checkpoint()
    disk.remove(name, recursive=True)
    disk.rollback(kept)
    assert picture(root) == before
    fsck(tmp_path / "store")


@pytest.mark.parametrize("name", ["x\nincludes-ignored: true", "x\n\nparent 0000", "\udcff", "-rf", " ", "id=.. x"])
def test_case_d15_odd_root_names_inject_nothing(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    (root / "f").write_text("one")
    with Workspace.open(root, store=tmp_path / "store") as ws:
        kept = ws.checkpoint("a label")
        name_of = ws.id
        (root / "f").write_text("two")
        ws.rollback(kept)
        assert (root / "f").read_text() == "one"
    with Workspace.open(root, store=tmp_path / "store") as ws:
        assert ws.id == name_of
        assert ws.resolve("a label") == kept
    fsck(tmp_path / "store")


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines",
        "x\n\ntree 000\nparent 111",
        "\u2028",
        " lead and trail ",
        "tab\t",
        "\udcff",
        "é" * 1000,
        "a\rb",
        "-m",
        "",
    ],
)
def test_case_d15_labels_and_authors_are_stored_exactly_or_refused(disk: Workspace, tmp_path: Path, text: str) -> None:
    disk.write_text("f", "x")
    try:
        kept = disk.checkpoint(text)
    except hedgerow.InvalidArgumentError:
        pass
    else:
        assert kept.label == text or (text == "" and kept.label is None)
        assert [made.label for made in disk.checkpoints()][-1] == kept.label
    try:
        disk.write_text("g", "x", author=text)
    except hedgerow.InvalidArgumentError:
        assert not disk.exists("g")
    else:
        assert disk.history()[-1].author == text
    fsck(tmp_path / "store")


def test_case_d15_label_with_nul_or_a_megabyte(disk: Workspace, tmp_path: Path) -> None:
    for text in ("a\0b", "x" * (1 << 20)):
        disk.write_text("f", text[:5])
        try:
            kept = disk.checkpoint(text)
        except hedgerow.InvalidArgumentError:
            continue
        assert disk.resolve(kept.id).label == text
        fsck(tmp_path / "store")


# E. encodings, byte order marks and line ends


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        (b"\xef\xbb\xbfa\r\nb\r\n", "b", "c", b"\xef\xbb\xbfa\r\nc\r\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "a", "c", b"\xef\xbb\xbfc\r\nb\r\n"),
        (b"a\r\nb\r\n", "b\n", "b\nnew\n", b"a\r\nb\r\nnew\r\n"),
        (b"a\rb\rc", "b", "c", b"a\rc\rc"),
        (b"a\r\nb\nc\rd", "c", "C", b"a\r\nb\nC\rd"),
        ("a\nb\n".encode("utf-16"), "b", "c", "a\nc\n".encode("utf-16")),
        (b"\xfe\xff" + "a\nß\n".encode("utf-16-be"), "ß", "é", b"\xfe\xff" + "a\né\n".encode("utf-16-be")),
        (b"no end", "end", "finish", b"no finish"),
        (b"\xef\xbb\xbf", None, None, b"\xef\xbb\xbf"),
    ],
)
def test_case_e01_line_ends_and_marks_stay(any_ws: Workspace, content: bytes, old: str, new: str, after: bytes) -> None:
    any_ws.write_bytes("f", content)
    if old is not None:
        any_ws.edit("f", old, new)
    assert any_ws.read_bytes("f") == after


def test_case_e02_rollback_does_not_know_line_ends(disk: Workspace, root: Path) -> None:
    (root / ".gitattributes").write_text("* text=auto eol=lf\n")
    disk.write_bytes("f", b"a\r\nb\r\n")
    kept = disk.checkpoint()
    disk.edit("f", "b", "c")
    (root / "f").write_bytes((root / "f").read_bytes().replace(b"\r\n", b"\n"))
    disk.rollback(kept)
    assert (root / "f").read_bytes() == b"a\r\nb\r\n"


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "a\nb", "a\nc", b"a\r\nc\r\n"),
        (b"x\r\na\r\n\r\nb\r\ny", "a\n\nb", "1\n2\n3", b"x\r\n1\r\n2\r\n3\r\ny"),
        (b"a\r\nb\n", "a\nb\n", "c\nd\n", None),
        (b"a\nb\n", "a\r\nb", "a\r\nc", None),
    ],
)
def test_case_e03_text_with_plain_ends_matches_in_crlf_files(
    any_ws: Workspace, content: bytes, old: str, new: str, after: bytes | None
) -> None:
    any_ws.write_bytes("f", content)
    try:
        any_ws.edit("f", old, new)
    except hedgerow.EditError:
        assert after is None
        assert any_ws.read_bytes("f") == content
    else:
        assert after is None or any_ws.read_bytes("f") == after


@pytest.mark.parametrize("codec", ["cp932", "gb18030", "euc-kr", "latin-1", "cp1251", "big5", "euc-jp"])
def test_case_e04_e10_no_file_ever_holds_two_encodings(any_ws: Workspace, codec: str) -> None:
    letters = {
        "cp932": "日本語ソ表", "gb18030": "中文报告", "euc-kr": "한국어", "latin-1": "café",
        "cp1251": "Привет", "big5": "中文功", "euc-jp": "日本語",
    }[codec]  # fmt: skip
    content = f"x = 1\r\n# {letters}\r\ny = 2\r\n".encode(codec)
    any_ws.write_bytes("f", content)
    with pytest.raises(hedgerow.WorkspaceError):
        any_ws.edit("f", "x = 1", f"x = '{letters}'")
    assert any_ws.read_bytes("f") == content
    any_ws.edit("f", "x = 1", f"x = '{letters}'", encoding=codec)
    assert any_ws.read_bytes("f") == content.replace(b"x = 1", f"x = '{letters}'".encode(codec))
    any_ws.edit("f", letters, "plain", encoding=codec, count=2)
    assert any_ws.read_bytes("f") == b"x = 'plain'\r\n# plain\r\ny = 2\r\n"


@pytest.mark.parametrize(
    "rest",
    [
        b"# caf\xe9\n",
        b"\xff\xfe\xfd",
        b"\x80" * 40,
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf0\x9f",
        bytes(range(0x80, 0x100)),
    ],
)
@pytest.mark.parametrize("way", ["edit", "tool"])
def test_case_e05_bytes_that_are_no_text_never_change(any_ws: Workspace, rest: bytes, way: str) -> None:
    any_ws.write_bytes("f", b"x = 1\n" + rest)
    if way == "edit":
        any_ws.edit("f", "x = 1", "x = 2")
    else:
        tools_of(any_ws)["edit_file"](path="f", old="x = 1", new="x = 2")  # type: ignore[operator]
    assert any_ws.read_bytes("f") == b"x = 2\n" + rest


@pytest.mark.parametrize("name", ["utf-16", "utf_16", "UTF16", "U16"])
def test_case_e_utf16_of_either_order_is_edited_by_its_name(any_ws: Workspace, name: str) -> None:
    for mark, order in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        any_ws.write_bytes("f", mark + "a = 1\r\n".encode(order))
        any_ws.edit("f", any_ws.read_text("f", encoding=name), "é\r\n", encoding=name)
        assert any_ws.read_bytes("f") == mark + "é\r\n".encode(order)


@pytest.mark.parametrize(
    ("sign", "name"), [("\u00a0", "U+00A0"), ("\u202f", "U+202F"), ("\u200b", "U+200B"), ("\u2019", "U+2019")]
)
def test_case_e08_near_match_is_named(any_ws: Workspace, sign: str, name: str) -> None:
    plain = {"\u200b": "", "\u2019": "'"}.get(sign, " ")
    any_ws.write_text("f", f"first\nsecond a{sign}b\n")
    with pytest.raises(hedgerow.EditError) as caught:
        any_ws.edit("f", f"a{plain}b", "x")
    assert caught.value.kind == "edit-no-match"
    text = str(caught.value) + caught.value.hint + "".join(getattr(caught.value, "__notes__", []))
    assert name in text
    assert any_ws.read_text("f") == f"first\nsecond a{sign}b\n"


@pytest.mark.parametrize("content", [b"\xd6\xd0", b"\xff", b"ok\n\xe9", b"\x93quoted\x94"])
def test_case_e12_undecodable_text_is_a_structured_answer(any_ws: Workspace, content: bytes) -> None:
    any_ws.write_bytes("f", content)
    with pytest.raises(hedgerow.NotUtf8Error) as caught:
        any_ws.read_text("f")
    assert caught.value.path == "f"
    answer = str(tools_of(any_ws)["read_file"](path="f"))  # type: ignore[operator]
    assert "not valid utf-8" in answer.lower()
    assert any_ws.read_bytes("f") == content


@pytest.mark.parametrize(
    "content",
    [b"a\r\nb\nc\rd\r\r\ne\n\r", b"\xef\xbb\xbfa\r\n\r\nb", b"\r\n\r\n", "ü\r\n漢\n🦔\r".encode(), b"x\xe9\r\ny"],
)
def test_case_e13_any_piece_that_was_read_can_be_edited(ws: Workspace, content: bytes) -> None:
    ws.write_bytes("f", content)
    shown = ws._native.view("f")["text"]
    assert shown
    for start in range(len(shown)):
        for end in range(start + 1, len(shown) + 1):
            piece = shown[start:end]
            ws.write_bytes("f", content)
            ws.edit("f", piece, piece, count=None)
            assert ws.read_bytes("f") == content, (piece,)
            try:
                ws.edit("f", piece, "NEW")
            except hedgerow.EditError as error:
                assert error.kind == "edit-ambiguous", (piece, error)
                continue
            # What stands before and after the piece is what it was.
            assert ws._native.view("f")["text"] == shown[:start] + "NEW" + shown[end:]


async def test_async_face_gives_the_same_answers(root: Path, tmp_path: Path, outside: Path) -> None:
    (root / "leak").symlink_to(outside)
    async with await AsyncWorkspace.open(root, store=tmp_path / "store") as ws:
        for call in (
            ws.read_text("leak/secret.txt"),
            ws.write_text("leak/secret.txt", "x"),
            ws.read_bytes("../outside/secret.txt"),
            ws.list_dir("leak"),
            ws.remove("leak/secret.txt"),
        ):
            with pytest.raises(hedgerow.PathEscapeError):
                await call
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_threads_and_a_swapping_thread(root: Path, tmp_path: Path, outside: Path) -> None:
    """Readers in threads of this process, the swapper in another: no lock of ours can hide a race."""
    (root / "d").mkdir()
    (root / "d/secret.txt").write_bytes(b"inside")
    (tmp_path / "beside").mkdir()
    leaks: list[bytes] = []
    with opened(root, tmp_path / "store") as ws, Swapper(root / "d", outside, tmp_path / "beside"):
        end = time.monotonic() + 1

        def read() -> None:
            while time.monotonic() < end:
                try:
                    got = ws.read_bytes("d/secret.txt")
                except hedgerow.WorkspaceError:
                    continue
                if got != b"inside":
                    leaks.append(got)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert leaks == []


def test_case_d07_names_that_are_bytes_print_without_failing(disk: Workspace, root: Path) -> None:
    (root / "\udce0.yml").write_text("x")
    for text in (str(disk.tree()), repr(disk.list_dir()), str(disk.status()), repr(disk.walk())):
        text.encode("utf-8", "backslashreplace")
    done = python("print('ok')")
    assert done.stdout == "ok\n"
