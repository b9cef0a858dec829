"""What happens when others change the tree between our calls: nothing of theirs is lost, and the workspace stays usable."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import hedgerow
from case_support import opened, picture, python, unprivileged
from hedgerow import Workspace


def archive(**entries: str | None) -> bytes:
    """Make an archive; `None` is a directory."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, text in entries.items():
            info = tarfile.TarInfo(name)
            if text is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(text)
            tar.addfile(info, None if text is None else io.BytesIO(text.encode()))
    return made.getvalue()


@pytest.mark.parametrize("there_now", ["link out", "link in", "link to nothing", "loop", "file", "nothing"])
@pytest.mark.parametrize("paths", [["d/x"], ["d"], None])
def test_a_rollback_follows_no_link_that_replaced_a_directory(
    disk: Workspace, root: Path, tmp_path: Path, there_now: str, paths: list[str] | None
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("outside")
    disk.write_text("d/x", "old")
    disk.write_text("d/y", "old too")
    kept = disk.checkpoint()
    shutil.rmtree(root / "d")
    (root / "other").mkdir()
    (root / "other/x").write_text("precious")
    match there_now:
        case "file":
            (root / "d").write_text("a file")
        case "nothing":
            pass
        case link:
            targets = {"link out": str(outside), "link in": "other", "link to nothing": "no/where", "loop": "d"}
            (root / "d").symlink_to(targets[link])
    disk.rollback(kept, paths=paths)
    assert (outside / "x").read_text() == "outside"
    assert (root / "d/x").read_text() == "old"
    assert (root / "d/y").exists() == (paths != ["d/x"])
    assert (root / "d").is_dir()
    assert not (root / "d").is_symlink()
    assert (root / "other").exists() == (paths is not None)
    if paths is not None:
        assert (root / "other/x").read_text() == "precious"
    assert not disk.status().changes, "the checkpoint of the rollback is what there is"


def test_a_link_to_ignored_files_is_replaced_and_not_followed(root: Path, tmp_path: Path) -> None:
    (root / "d").mkdir()
    (root / "d/x").write_text("old")
    with opened(root, tmp_path / "store", ignore=["build/"]) as ws:
        kept = ws.checkpoint()
        shutil.rmtree(root / "d")
        (root / "build").mkdir()
        (root / "build/x").write_text("precious, in no checkpoint")
        (root / "d").symlink_to("build")
        ws.rollback(kept, paths=["d/x"])
        assert (root / "build/x").read_text() == "precious, in no checkpoint"
        assert (root / "d/x").read_text() == "old"


@pytest.mark.parametrize("kind", ["memory", "disk"])
@pytest.mark.parametrize("before", ["nothing", "file"])
def test_a_rollback_keeps_or_refuses_ignored_files(root: Path, tmp_path: Path, kind: str, before: str) -> None:
    ignore = ["*.log"]
    with Workspace.memory(ignore=ignore) if kind == "memory" else opened(root, tmp_path / "store", ignore=ignore) as ws:
        if before == "file":
            ws.write_text("d", "a file")
        kept = ws.checkpoint("kept")
        if before == "file":
            ws.remove("d")
        ws.write_text("d/x", "1")
        ws.write_text("d/keep.log", "precious")
        if before == "file":
            with pytest.raises(hedgerow.WorkspaceError) as refused:
                ws.rollback(kept)
            assert refused.value.kind == "uncheckpointed-changes"
            assert ws.read_text("d/x") == "1"
        else:
            ws.rollback(kept)
            assert not ws.exists("d/x")
            assert not ws.status().changes
        assert ws.read_text("d/keep.log") == "precious"


def test_memory_with_a_store_leaves_nothing_out(tmp_path: Path) -> None:
    for ignore in (["*.log"], "gitignore"):
        with pytest.raises(hedgerow.WorkspaceError) as refused:
            Workspace.memory(store=tmp_path / "store", ignore=ignore)
        assert refused.value.kind == "invalid-argument"


def test_files_in_a_directory_nobody_can_enter_are_not_overwritten(tmp_path: Path) -> None:
    done = python(
        """
        import os, sys, hedgerow
        root = sys.argv[1]
        with hedgerow.Workspace.open(root, store=sys.argv[2], id="w", create=True) as ws:
            ws.write_text("d/f", "old")
            kept = ws.checkpoint()
            ws.write_text("d/f", "new, in no checkpoint")
            os.chmod(f"{root}/d", 0o444)
            for paths in (["d/f"], ["d"], None):
                try:
                    ws.rollback(kept, paths=paths)
                    print("done")
                except hedgerow.WorkspaceError as error:
                    print(error.kind)
            os.chmod(f"{root}/d", 0o755)
            print(ws.read_text("d/f"))
        """,
        tmp_path / "root",
        tmp_path / "store",
        prefix=unprivileged(),
    )
    *kinds, text = done.stdout.splitlines()
    assert text == "new, in no checkpoint"
    assert kinds == ["uncheckpointed-changes"] * 3


def test_an_unreadable_file_of_ours_is_made_readable_and_moved(tmp_path: Path) -> None:
    done = python(
        """
        import os, sys, hedgerow
        root = sys.argv[1]
        with hedgerow.Workspace.open(root, store=sys.argv[2], id="w", create=True) as ws:
            ws.write_text("f", "1")
            ws.checkpoint()
            ws.chmod("f", 0)
            ws.move("f", "g")
            ws.chmod("g", 0o640)
            print(ws.read_text("g"), oct(os.stat(f"{root}/g").st_mode & 0o777))
            ws.checkpoint()
            print([(record.kind, record.status) for record in ws.history()])
        """,
        tmp_path / "root",
        tmp_path / "store",
        prefix=unprivileged(),
    )
    assert done.stdout.splitlines() == [
        "1 0o640",
        str([("write", "applied"), ("chmod", "applied"), ("move", "applied"), ("chmod", "applied")]).replace(
            "'applied'", "<RecordStatus.APPLIED: 'applied'>"
        ),
    ]


@pytest.mark.parametrize("track", ["full", "paths", "off"])
def test_an_import_replaces_no_directory_and_puts_none_over_a_file(root: Path, tmp_path: Path, track: str) -> None:
    (root / "a").mkdir()
    (root / "a/c").write_text("precious")
    (root / "f").write_text("file")
    (root / "l").symlink_to("a")
    with opened(root, tmp_path / "store", track=track) as ws:
        before = picture(root)
        for entries, kind in (
            ({"n": "1", "a": "z"}, "is-a-directory"),
            ({"n": "1", "f": None}, "not-a-directory"),
            ({"n": "1", "f/x": "1"}, "not-a-directory"),
            ({"n": "1", "l": None, "l/c": "1"}, "not-a-directory"),
        ):
            with pytest.raises(hedgerow.WorkspaceError) as refused:
                ws.import_(archive(**entries))
            assert refused.value.kind == kind
            assert picture(root) == before
        ws.import_(archive(f="new"))
        assert (root / "f").read_text() == "new"


Ours = Callable[[Workspace], object]
Theirs = Callable[[Path], object]


def write_much(ws: Workspace) -> None:
    """Do a little of everything."""
    ws.write_text("a/b/c", "2")
    ws.move("a/b", "q")
    ws.chmod("q/c", 0o640)
    ws.symlink("s", "q")


def write_two(ws: Workspace) -> None:
    """Change one file, make another."""
    ws.write_text("d/x", "2")
    ws.write_text("d/y", "y")


def evil(root: Path) -> None:
    """Change what was moved away."""
    (root / "e/evil").write_text("x")
    (root / "e/x").write_text("changed")


def again(root: Path) -> None:
    """Make anew what was removed."""
    (root / "d").mkdir()
    (root / "d/evil").write_text("x")


CHANGES: dict[str, tuple[Ours, Theirs, tuple[str, ...]]] = {
    "in what was moved": (lambda ws: ws.move("d", "e"), evil, ("e/evil", "e/x")),
    "in what was removed": (lambda ws: ws.remove("d", recursive=True), again, ("d", "d/evil")),
    "in what was copied": (
        lambda ws: ws.copy("d", "e", recursive=True),
        lambda root: (root / "e/evil").write_text("x"),
        ("e/evil",),
    ),
    "back to what it was": (write_two, lambda root: (root / "d/x").write_text("1"), ("d/x",)),
    "a mode no system gives": (
        lambda ws: ws.write_text("new", "2"),
        lambda root: (root / "new").chmod(0o777),
        ("new",),
    ),
    "a mode of an old file": (
        lambda ws: ws.write_text("d/x", "2"),
        lambda root: (root / "d/x").chmod(0o600),
        ("d/x",),
    ),
    "a directory beside": (lambda ws: ws.write_text("d/x", "2"), lambda root: (root / "theirs").mkdir(), ("theirs",)),
    "nothing": (write_much, lambda root: None, ()),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("track", ["full", "paths"])
def test_exactly_what_others_did_is_recorded_as_theirs(root: Path, tmp_path: Path, what: str, track: str) -> None:
    ours, theirs, paths = CHANGES[what]
    (root / "d").mkdir()
    (root / "d/x").write_text("1")
    with opened(root, tmp_path / "store", track=track) as ws:
        ours(ws)
        recorded = len(ws.history())
        theirs(root)
        ws.checkpoint()
        found = ws.history()[recorded:]
        assert [(record.kind, record.author) for record in found] == [("external", "external")] * bool(paths)
        assert tuple(path for record in found for path in record.paths) == paths


def test_a_directory_of_theirs_that_we_wrote_in_is_theirs(disk: Workspace, root: Path) -> None:
    (root / "theirs").mkdir()
    disk.write_text("theirs/ours", "1")
    disk.checkpoint()
    assert [(record.kind, record.paths) for record in disk.history()] == [
        ("write", ("theirs/ours",)),
        ("external", ("theirs",)),
    ]


def test_a_rollback_keeps_saying_what_it_left_out(root: Path, tmp_path: Path) -> None:
    (root / "build").mkdir()
    (root / "build/x").write_text("precious")
    (root / ".gitignore").write_text("build/\n")
    with opened(root, tmp_path / "store", ignore="gitignore") as ws:
        first = ws.checkpoint("first")
        (root / ".gitignore").unlink()
        ws.checkpoint("with build")
        again = ws.rollback(first).checkpoint
        assert [skipped.path for skipped in again.skipped] == ["build"]
        (root / ".gitignore").unlink()
        ws.rollback(again)
        assert (root / "build/x").read_text() == "precious"


def test_a_checkpoint_of_a_rollback_is_what_there_is(root: Path, tmp_path: Path) -> None:
    (root / "left").mkdir()
    (root / "left/x").write_text("x")
    (root / "z").write_text("z")
    with opened(root, tmp_path / "store", ignore=["left/"]) as ws:
        first = ws.checkpoint("first")
        shutil.rmtree(root / "left")
        (root / "left").write_text("a plain file, not ignored")
        (root / "z").write_text("changed")
        ws.checkpoint("second")
        done = ws.rollback(first)
        # It may stand for what was left out of the first checkpoint, so it stays, and the checkpoint says so.
        assert (root / "left").read_text() == "a plain file, not ignored"
        assert (root / "z").read_text() == "z"
        assert ws.at(done.checkpoint).read_text("left") == "a plain file, not ignored"
        assert not ws.status().changes


def test_a_call_that_cannot_be_undone_does_not_lock_the_workspace(disk: Workspace, root: Path, tmp_path: Path) -> None:
    disk.write_text("d/x", "1")
    kept = disk.checkpoint()
    disk.write_text("d/x", "2")
    os.rename(root / "d", tmp_path / "elsewhere")
    (root / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(hedgerow.PathEscapeError):
        disk.write_text("d/x", "3")
    disk.write_text("after", "1")
    disk.rollback(kept)
    assert disk.read_text("d/x") == "1"
    assert (tmp_path / "elsewhere/x").read_text() == "2"
