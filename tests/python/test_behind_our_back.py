"""What happens when others change the tree between our calls: nothing of theirs is lost, and the workspace stays usable."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import hedgerow
from case_support import fsck, opened, picture, python, unprivileged
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


def external(ws: Workspace) -> list[str]:
    """Return every path others changed."""
    return [path for record in ws.history() if record.kind == "external" for path in record.paths]


def test_what_others_made_and_we_removed_is_told_and_blocks_nothing(disk: Workspace, root: Path) -> None:
    for turn in range(3):
        (root / "build/lib/deep").mkdir(parents=True)
        (root / "build/lib/y").write_text("x")
        disk.remove("build", recursive=True)
        disk.write_text("a", str(turn))
        disk.checkpoint()
    assert external(disk) == ["build", "build/lib", "build/lib/deep", "build/lib/y"] * 3
    disk.rollback("baseline")
    assert not disk.status().changes


def test_ignored_files_that_we_wrote_moved_and_removed_are_nobody_elses(root: Path, tmp_path: Path) -> None:
    with opened(root, tmp_path / "store", ignore=["node_modules/"]) as ws:
        ws.write_text("node_modules/p/lib/x.js", "1")
        ws.write_text("node_modules/q/y.js", "1")
        ws.write_text("k", "1")
        ws.checkpoint()
        ws.write_text("k", "3")
        ws.remove("node_modules/p", recursive=True)
        ws.move("node_modules", "seen")
        ws.checkpoint()
        assert external(ws) == []
        assert ws.at(ws.checkpoints()[-1]).read_text("seen/q/y.js") == "1"


def test_files_that_stop_being_ignored_were_not_made_by_others(root: Path, tmp_path: Path) -> None:
    with opened(root, tmp_path / "store", ignore="gitignore") as ws:
        ws.write_text(".gitignore", "x\n")
        ws.write_text("x", "1")
        ws.checkpoint()
        ws.write_text(".gitignore", "")
        assert "x" in ws.checkpoint().touched
        assert external(ws) == []


@pytest.mark.parametrize("call", ["chmod", "append", "edit", "write", "remove", "move", "copy over"])
def test_what_others_wrote_just_before_us_is_theirs(disk: Workspace, root: Path, call: str) -> None:
    disk.write_text("a", "ours\n")
    disk.write_text("b", "ours too\n")
    disk.checkpoint()
    (root / "a").write_text("theirs\n")
    match call:
        case "chmod":
            disk.chmod("a", 0o600)
        case "append":
            disk.append_text("a", "more\n")
        case "edit":
            disk.edit("a", "theirs", "edited")
        case "write":
            disk.write_text("a", "new\n")
        case "remove":
            disk.remove("a")
        case "move":
            disk.move("a", "c")
        case _:
            disk.copy("b", "a", overwrite=True)
    disk.checkpoint()
    assert external(disk) == ["a"]


def test_what_others_undid_is_told_before_a_rollback(disk: Workspace, root: Path) -> None:
    disk.write_text("a", "1")
    disk.checkpoint("c")
    disk.write_text("a", "2")
    disk.write_text("x", "new")
    (root / "a").write_text("1")
    (root / "x").unlink()
    disk.rollback("baseline")
    assert external(disk) == ["a", "x"]


def test_what_others_removed_where_we_wrote_is_told(disk: Workspace, root: Path) -> None:
    disk.write_text("d/a", "1")
    disk.write_text("d/b", "2")
    disk.checkpoint()
    shutil.rmtree(root / "d")
    disk.write_text("d", "a file")
    disk.checkpoint()
    assert external(disk) == ["d", "d/a", "d/b"]


def test_modes_we_set_are_not_excused(disk: Workspace, root: Path) -> None:
    disk.write_text("a", "1")
    disk.chmod("a", 0o640)
    disk.mkdir("d")
    disk.chmod("d", 0o700)
    (root / "a").chmod(0o600)
    (root / "d").chmod(0o711)
    disk.checkpoint()
    assert external(disk) == ["a", "d"]


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_no_umask_makes_our_own_calls_somebody_elses(disk: Workspace, umask: int) -> None:
    before = os.umask(umask)
    try:
        disk.write_text("a/b/f", "1")
        disk.create("a/c")
        disk.mkdir("m/n")
        disk.copy("a", "x/y", recursive=True)
        disk.move("a/b", "p/q")
        disk.hardlink("p/q/f", "h")
        disk.import_(archive(**{"i/j": "1"}))
        disk.write_text("a/c", "2")
    finally:
        os.umask(before)
    disk.checkpoint()
    assert external(disk) == []


def test_pruning_keeps_what_no_checkpoint_holds(tmp_path: Path) -> None:
    with Workspace.memory(store=tmp_path / "store", id="m") as ws:
        ws.write_text("keep", "precious")
        ws.write_text("b", "1")
        ws.prune_history(2)
    with Workspace.memory(store=tmp_path / "store", id="m") as ws:
        assert (ws.read_text("keep"), ws.read_text("b")) == ("precious", "1")
        ws.checkpoint()
        ws.write_text("c", "1")
        assert ws.prune_history(3) == 2
    with Workspace.memory(store=tmp_path / "store", id="m") as ws:
        assert (ws.read_text("keep"), ws.read_text("c")) == ("precious", "1")


def test_two_handles_of_a_memory_see_what_the_other_wrote(tmp_path: Path) -> None:
    with Workspace.memory(store=tmp_path / "s", id="m") as one, Workspace.memory(store=tmp_path / "s", id="m") as two:
        one.write_text("a", "1")
        two.write_text("b", "1")
        one.append_text("b", "2")
        two.append_text("a", "2")
        for ws in (one, two):
            ws.checkpoint()
            assert {entry.path: ws.read_text(entry.path) for entry in ws.walk()} == {"a": "12", "b": "12"}


@pytest.mark.parametrize("call", ["write", "append"])
def test_a_link_whose_directory_is_missing_stays(any_ws: Workspace, call: str) -> None:
    any_ws.symlink("l", "missing/f")
    with pytest.raises(hedgerow.WorkspaceError) as refused:
        any_ws.write_text("l", "1") if call == "write" else any_ws.append_text("l", "1")
    assert refused.value.kind == "directory-not-found"
    assert any_ws.readlink("l") == "missing/f"
    any_ws.mkdir("missing")
    any_ws.write_text("l", "1")
    assert any_ws.read_text("missing/f") == "1"


def test_files_are_kept_again_after_garbage_was_collected(disk: Workspace, root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("precious" * 100)
    time.sleep(0.1)
    disk.status()
    time.sleep(0.1)
    disk.status()
    subprocess.run(["git", "--git-dir", tmp_path / "store", "gc", "--prune=now", "--quiet"], check=True)
    kept = disk.checkpoint()
    (root / "a").unlink()
    disk.rollback(kept)
    assert (root / "a").read_text() == "precious" * 100
    fsck(tmp_path / "store")


def test_one_locked_directory_costs_no_checkpoint_under_gitignore(tmp_path: Path) -> None:
    done = python(
        """
        import os, sys, hedgerow
        root = sys.argv[1]
        os.makedirs(f"{root}/d")
        open(f"{root}/d/f", "w").close()
        for mode in (0, 0o400, 0o444, 0o600):
            os.chmod(f"{root}/d", mode)
            with hedgerow.Workspace.open(root, store=sys.argv[2], id=f"w{mode}", ignore="gitignore") as ws:
                print([skipped.path.split("/")[0] for skipped in ws.checkpoints()[-1].skipped])
        """,
        tmp_path / "root",
        tmp_path / "store",
        prefix=unprivileged(),
    )
    assert done.stdout.splitlines() == ["['d']"] * 4


def test_a_rollback_that_changes_the_rules_says_what_there_is(root: Path, tmp_path: Path) -> None:
    with opened(root, tmp_path / "store", ignore="gitignore") as ws:
        ws.write_text(".gitignore", "ig\n")
        ws.write_text("ig", "1")
        ws.checkpoint("a")
        ws.write_text(".gitignore", "other\n")
        ws.write_text("other", "p")
        ws.write_text("n", "1")
        ws.checkpoint("b")
        ws.rollback("a")
        assert not ws.status().changes
        ws.rollback("b")
        assert not ws.status().changes
        assert ws.read_text("other") == "p"
        assert ws.read_text("ig") == "1"


def test_what_is_left_out_is_noted_even_if_nothing_else_changed(disk: Workspace, root: Path) -> None:
    disk.write_text("a", "1")
    disk.checkpoint("c")
    os.mkfifo(root / "p")
    assert [skipped.path for skipped in disk.checkpoint("x").skipped] == ["p"]
    assert disk.checkpoint().label == "x"
    (root / "p").unlink()
    (root / "p").write_text("now a file")
    assert disk.rollback("x").changes == ()
    assert (root / "p").read_text() == "now a file"


def test_no_label_takes_the_place_of_an_id(any_ws: Workspace) -> None:
    any_ws.write_text("a", "good")
    good = any_ws.checkpoint("good")
    any_ws.write_text("a", "bad")
    any_ws.checkpoint(good.id)
    any_ws.rollback(good)
    assert any_ws.read_text("a") == "good"


def test_patch_takes_empty_files_that_come_and_go(disk: Workspace, root: Path, tmp_path: Path) -> None:
    patch_program = shutil.which("patch")
    disk.write_text("gone", "")
    disk.write_text("other", "1\n")
    kept = disk.checkpoint()
    disk.remove("gone")
    disk.write_text("new", "")
    text = disk.diff(kept).patch()
    assert "deleted file mode 100644\nindex e69de29..0000000\n" in text
    assert "new file mode 100644\nindex 0000000..e69de29\n" in text
    with disk.materialized(kept) as there:
        subprocess.run(["git", "init", "-q", there], check=True)
        subprocess.run(["git", "apply", "-"], cwd=there, input=text.encode(), check=True)
        assert sorted(os.listdir(there)) == [".git", "new", "other"]
    if patch_program is not None:
        with disk.materialized(kept) as there:
            subprocess.run([patch_program, "-p1", "-s"], cwd=there, input=text.encode(), check=True)
            assert not (Path(there) / "gone").exists()


def test_a_mode_seen_before_the_workspace_was_closed_is_seen_after(root: Path, tmp_path: Path) -> None:
    (root / "f").write_text("x")
    (root / "f").chmod(0o644)
    time.sleep(0.1)
    with opened(root, tmp_path / "store") as ws:
        (root / "f").chmod(0o600)
        time.sleep(0.1)
        # What is looked at here is remembered, and in no checkpoint.
        assert ws.status().paths == ("f",)
    with opened(root, tmp_path / "store") as ws:
        assert ws.status().paths == ("f",)
        ws.checkpoint()
        assert ws.at("baseline").stat("f").mode == 0o644
        assert ws.at(ws.head).stat("f").mode == 0o600


def test_what_is_in_the_way_of_a_recovery_stays_and_the_rest_is_done(root: Path, tmp_path: Path) -> None:
    with opened(root, tmp_path / "store") as ws:
        ws.write_text("from/a/1", "1")
        ws.write_text("from/b/2", "2")
        ws.copy("from", "to", recursive=True)
        state = tmp_path / "store/hedgerow/workspaces" / ws.id
    # As if the process had been killed in the copy: nobody said that it happened.
    (state / "settled").write_bytes(bytes(16))
    shutil.rmtree(root / "to/a")
    (root / "other").mkdir()
    (root / "other/1").write_text("precious")
    (root / "to/a").symlink_to("../other")
    (root / "to/b/2").unlink()
    with opened(root, tmp_path / "store") as ws:
        assert ws.read_text("to/b/2") == "2"
        assert ws.read_text("other/1") == "precious"
        assert ws.readlink("to/a") == "../other"
        assert {record.status for record in ws.history()} == {"applied"}
