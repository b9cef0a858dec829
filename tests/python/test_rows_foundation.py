"""One test or more for each row of the requirements that no other file shows whole."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import stat
import subprocess
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from case_support import fsck, git, opened, picture, plain_environment, python
from hedgerow import CheckpointNotFoundError, Effect, Kind, Record, RecordStatus, Workspace


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Workspace]]:
    """Return a workspace of each kind, to do the same to both."""
    with Workspace.memory() as memory, Workspace.open(tmp_path / "both", store=tmp_path / "s", create=True) as disk:
        yield [memory, disk]


def outcome(action: Callable[[], object]) -> object:
    """Return what a call returned, or the kind of its error."""
    try:
        return action()
    except hedgerow.WorkspaceError as error:
        return f"{type(error).__name__} {error.kind}"


def contents(ws: Workspace) -> dict[str, tuple[str, int, object]]:
    """Return everything in a workspace through its own calls."""
    found: dict[str, tuple[str, int, object]] = {}
    for entry in ws.walk():
        held: object = entry.target
        if entry.is_file:
            held = ws.read_bytes(entry.path)
        found[entry.path] = (entry.kind, 0 if entry.is_symlink else entry.mode, held)
    return found


# checkpoints and who made what


@pytest.mark.row("B10", "B45")
def test_fresh_workspace_has_one_baseline_without_home_or_git(tmp_path: Path) -> None:
    environment = {
        name: value for name, value in plain_environment().items() if name not in ("HOME", "USER", "LOGNAME")
    }
    done = python(
        """
        import sys
        from hedgerow import Workspace
        with Workspace.open(sys.argv[1], store=sys.argv[2], create=True) as ws:
            (only,) = ws.checkpoints()
            print(only.label, only.kind, only.parent)
        """,
        tmp_path / "root",
        tmp_path / "store",
        env={**environment, "PATH": str(tmp_path)},
    )
    assert done.stdout == "baseline baseline None\n"
    fsck(tmp_path / "store")


@pytest.mark.row("B12")
def test_checkpoint_without_change_is_another_name_of_the_head(disk: Workspace) -> None:
    disk.write_text("a", "1")
    first = disk.checkpoint(author="n1")
    blobs, count = disk.stats().blobs, len(disk.checkpoints())
    assert disk.checkpoint(author="n1") == first
    again = disk.checkpoint("second", author="n2")
    assert disk.stats().blobs == blobs
    assert len(disk.checkpoints()) == count
    assert again.id == first.id == disk.resolve("n1").id == disk.resolve("n2").id == disk.resolve("second").id
    disk.write_text("a", "2")
    disk.checkpoint(author="n3")
    disk.rollback("n2")
    assert disk.read_text("a") == "1"


@pytest.mark.row("B13", "B44")
def test_changes_by_author_are_known_in_a_new_process(disk: Workspace, root: Path, tmp_path: Path) -> None:
    for author, path in (("coder", "src/a.py"), ("designer", "assets/b.txt")):
        disk.write_text(path, "x\n", author=author)
        disk.checkpoint(author=author)
    disk.close()
    program = """
        import json, sys
        from hedgerow import Workspace
        with Workspace.open(sys.argv[1], store=sys.argv[2], id="test") as ws:
            print(json.dumps(ws.changed_by().to_dict()))
    """
    done = python(program, root, tmp_path / "store")
    assert json.loads(done.stdout) == {"coder": ["src/a.py"], "designer": ["assets/b.txt"]}


@pytest.mark.row("B14")
def test_a_visit_can_be_gone_back_to(any_ws: Workspace) -> None:
    for turn in range(3):
        any_ws.write_text("n.txt", f"{turn}\n")
        any_ws.checkpoint(author="loop")
    visits = any_ws.changed_by("loop")
    assert [visit.paths for visit in visits] == [("n.txt",)] * 3
    assert any_ws.at(visits[1].checkpoint).read_text("n.txt") == "1\n"
    any_ws.rollback(visits[0].checkpoint)
    assert any_ws.read_text("n.txt") == "0\n"


@pytest.mark.row("B15")
def test_changed_by_names_each_effect(any_ws: Workspace) -> None:
    any_ws.write_many({"kept": "k", "gone": "g", "old name": "some text\n" * 3, "edited": "e"})
    any_ws.checkpoint(author="first")
    any_ws.write_text("new", "n")
    any_ws.write_text("edited", "E")
    any_ws.remove("gone")
    any_ws.move("old name", "new name")
    any_ws.checkpoint(author="x")
    (visit,) = any_ws.changed_by("x")
    assert [(change.path, change.effect, change.source) for change in visit.changes] == [
        ("edited", Effect.MODIFIED, None),
        ("gone", Effect.DELETED, None),
        ("new", Effect.CREATED, None),
        ("new name", Effect.RENAMED, "old name"),
    ]
    assert any_ws.changed_by("nobody") == []


@pytest.mark.row("B16")
@pytest.mark.parametrize("program", ["git", "patch"])
def test_unified_diff_is_taken_by_git_apply_and_patch(any_ws: Workspace, tmp_path: Path, program: str) -> None:
    any_ws.write_many({"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "gone.txt": "x\n", "d/no-end": "a\nb"})
    first = any_ws.checkpoint()
    any_ws.write_many({"a.txt": "1\ntwo\n3\n4\n5\n6\n7\n8\nnine\nten\n", "d/new.txt": "new\n", "d/no-end": "a\nc"})
    any_ws.remove("gone.txt")
    second = any_ws.checkpoint()
    copy = tmp_path / "copy"
    with any_ws.materialized(first) as directory:
        subprocess.run(["cp", "-r", str(directory), str(copy)], check=True)
    text = any_ws.diff(first, second).unified().text
    command = ["git", "apply"] if program == "git" else ["patch", "-p1", "-E", "-s"]
    subprocess.run(command, input=text.encode(), cwd=copy, check=True, env=plain_environment(GIT_DIR="/nonexistent"))
    with any_ws.materialized(second) as directory:
        assert picture(copy) == picture(directory)


@pytest.mark.row("B19")
def test_log_last_author_and_blame_survive_a_rename(any_ws: Workspace) -> None:
    any_ws.write_text("src/a.py", "one\ntwo\nthree\n")
    first = any_ws.checkpoint(author="ada")
    any_ws.move("src/a.py", "lib/b.py")
    any_ws.checkpoint(author="bob")
    any_ws.edit("lib/b.py", "two", "TWO")
    third = any_ws.checkpoint(author="eve")
    assert [(entry.author, entry.path, entry.effect) for entry in any_ws.log("lib/b.py")] == [
        ("eve", "lib/b.py", "modified"),
        ("bob", "lib/b.py", "renamed"),
        ("ada", "src/a.py", "created"),
    ]
    assert any_ws.last_author("lib/b.py") == "eve"
    assert [(line.author, line.checkpoint) for line in any_ws.blame("lib/b.py")] == [
        ("ada", first.id),
        ("eve", third.id),
        ("ada", first.id),
    ]


@pytest.mark.row("B20", "B22", "S58")
def test_rollback_goes_back_and_loses_nothing(any_ws: Workspace) -> None:
    any_ws.write_text("kept", "1")
    any_ws.checkpoint("first")
    any_ws.write_text("later", "2")
    second = any_ws.checkpoint("second")
    any_ws.write_text("unsaved", "3")
    done = any_ws.rollback("first", label="back")
    assert [entry.path for entry in any_ws.walk()] == ["kept"]
    assert done.checkpoint.kind == "rollback"
    assert done.checkpoint.rollback_of == done.target == any_ws.resolve("first").id
    assert done.saved is not None

    labels = [checkpoint.label for checkpoint in any_ws.checkpoints()]
    assert labels[-4:] == ["first", "second", "before rollback", "back"]
    record = any_ws.history()[-1]
    assert (record.kind, record.checkpoint) == ("rollback", done.target)
    assert "-3" in any_ws.record_diff(record).text

    any_ws.rollback(second)
    assert sorted(contents(any_ws)) == ["kept", "later"]
    any_ws.rollback(done.saved)
    assert sorted(contents(any_ws)) == ["kept", "later", "unsaved"]
    with pytest.raises(hedgerow.CheckpointNotFoundError) as caught:
        any_ws.rollback("never")
    assert caught.value.kind == "checkpoint-not-found"


@pytest.mark.row("B21")
@pytest.mark.parametrize("ignore", [None, "gitignore", ["build/"]])
def test_ignore_rules_are_those_of_the_workspace(tmp_path: Path, ignore: Any) -> None:
    with opened(tmp_path / "root", tmp_path / "store", create=True, ignore=ignore) as ws:
        ws.write_many({".gitignore": "build/\n", "build/out.txt": "v1", "a": "v1"})
        first = ws.checkpoint("first")
        assert ws.at(first).exists("build/out.txt") is (ignore is None)
        ws.write_many({"build/out.txt": "v2", "a": "v2"})
        ws.rollback(first)
        assert ws.read_text("a") == "v1"
        assert ws.read_text("build/out.txt") == ("v1" if ignore is None else "v2")


@pytest.mark.row("B24", "S60")
def test_everything_a_tree_can_hold_comes_back(disk: Workspace, root: Path) -> None:
    names = ["plain", "with space", "new\nline", "emoji 🌿", os.fsdecode(b"\xff\xfe"), "-dash", "ü", "u\u0308"]
    for number, name in enumerate(names):
        (root / name).write_bytes(b"%d\0\r\n" % number)
        (root / name).chmod([0o644, 0o755, 0o600, 0o444][number % 4])
    (root / "empty/inner").mkdir(parents=True)
    (root / "empty").chmod(0o700)
    (root / "link").symlink_to("plain")
    (root / "dangling").symlink_to("no/such")
    (root / "was a file").write_text("x")
    (root / "was a directory").mkdir()
    before = picture(root)
    kept = disk.checkpoint()
    subprocess.run(["find", str(root), "-mindepth", "1", "-delete"], check=True)
    (root / "was a file").mkdir()
    (root / "was a directory").write_text("x")
    disk.rollback(kept)
    assert picture(root) == before


@pytest.mark.row("S60")
def test_rollback_of_some_paths_also_makes_them_go(any_ws: Workspace) -> None:
    any_ws.write_many({"a/1": "1", "b/1": "1"})
    first = any_ws.checkpoint()
    any_ws.write_many({"a/1": "2", "a/2": "2", "b/1": "2", "c/1": "2"})
    any_ws.rollback(first, paths=["a", "c"])
    assert {path: held for path, (kind, _, held) in contents(any_ws).items() if kind == "file"} == {
        "a/1": b"1",
        "b/1": b"2",
    }


@pytest.mark.row("S61")
def test_rollback_works_around_links_that_lead_out(disk: Workspace, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    mode = outside.stat().st_mode
    for name, target in (("out", str(outside)), ("dangling", "nowhere"), ("loop", "loop"), ("up", "../../..")):
        (root / name).symlink_to(target)
    (root / "f").write_text("1")
    before = picture(root)
    kept = disk.checkpoint()
    for name in ("out", "dangling", "loop", "up"):
        (root / name).unlink()
    (root / "f").write_text("2")
    disk.rollback(kept)
    assert picture(root) == before
    assert (outside.read_text(), outside.stat().st_mode) == ("theirs", mode)


@pytest.mark.row("B37", "S4")
def test_changes_behind_our_back_are_found_and_named(disk: Workspace, root: Path) -> None:
    disk.write_text("ours", "1", author="coder")
    (root / "ours too").write_text("by hand")
    assert disk.status().paths == ("ours", "ours too")
    made = disk.checkpoint(author="coder")
    assert made.author == "coder"
    assert set(made.touched) == {"ours", "ours too"}
    assert [(record.kind, record.author, record.paths) for record in disk.history()] == [
        ("write", "coder", ("ours",)),
        ("external", "external", ("ours too",)),
    ]
    assert disk.changed_by().to_dict() == {"coder": ["ours", "ours too"]}
    assert not disk.status()


@pytest.mark.row("B13")
def test_asking_about_what_does_not_exist_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Workspace.open(tmp_path / "missing", store=tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


# construction and the store


@pytest.mark.row("S1")
def test_memory_workspace_touches_no_disk(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    environment = plain_environment(HOME=str(home), XDG_STATE_HOME=str(home / "state"), TMPDIR=str(work))
    program = """
        from hedgerow import Workspace
        ws = Workspace.memory()
        ws.write_text("a", "x" * 3_000_000)
        first = ws.checkpoint("first")
        ws.remove("a")
        ws.rollback(first)
        assert ws.store is None and ws.root is None
        ws.close()
    """
    python(program, env=environment, cwd=work)
    assert [*work.rglob("*"), *home.rglob("*")] == []


@pytest.mark.row("S2")
def test_every_backend_gives_the_same_matrix_of_results(both: list[Workspace]) -> None:
    def attempts(ws: Workspace) -> Iterator[object]:
        tell = outcome
        yield tell(lambda: ws.write_text("notes/deep/todo.txt", "x"))
        yield tell(lambda: ws.write_text("no/such", "x", parents=False))
        yield tell(lambda: ws.append_text("no/such", "x", parents=False))
        yield tell(lambda: ws.create("no/such", "x", parents=False))
        yield tell(lambda: ws.mkdir("d"))
        yield tell(lambda: ws.mkdir("d"))
        yield tell(lambda: ws.mkdir("d", exist_ok=False))
        yield tell(lambda: ws.mkdir("d", parents=False))
        yield tell(lambda: ws.mkdir("/"))
        yield tell(lambda: ws.mkdir("no/such", parents=False))
        yield tell(lambda: ws.write_text("f", "file"))
        yield tell(lambda: ws.mkdir("f/x"))
        yield tell(lambda: ws.mkdir("f"))
        yield tell(lambda: ws.write_text("f/x", ""))
        yield tell(lambda: ws.write_text("f/", ""))
        for write in (ws.write_text, ws.append_text, ws.create):
            for path in ("d", "/", "../x"):
                yield path, write.__name__, tell(partial(write, path, "text"))
        yield tell(lambda: ws.write_bytes("notes", b""))
        yield tell(lambda: ws.write_json("notes", {}))
        yield tell(lambda: ws.edit("notes", "a", "b"))
        yield tell(lambda: ws.symlink("link", "f"))
        yield tell(lambda: ws.symlink("dirlink", "notes"))
        yield tell(lambda: ws.symlink("dangling", "new"))
        yield tell(lambda: ws.symlink("out", "../../x"))
        yield tell(lambda: ws.symlink("loop", "loop"))
        yield tell(lambda: ws.symlink("link", "f"))
        for path in ("link", "dirlink", "dangling", "out", "loop", "dirlink/deep/todo.txt", "missing"):
            readers: list[Callable[[str], object]] = [
                ws.read_text,
                ws.exists,
                ws.readlink,
                ws.realpath,
                ws.list_dir,
                ws.content_id,
            ]
            for call in readers:
                yield path, call.__name__, str(tell(partial(call, path)))[:60].split("modified")[0]
        yield tell(lambda: ws.append_text("link", "+"))
        yield tell(lambda: ws.write_text("dangling", "through"))
        yield tell(lambda: ws.write_text("out", "x"))
        yield tell(lambda: ws.write_text("loop", "x"))
        yield tell(lambda: ws.create("dangling", "x"))
        yield tell(lambda: ws.copy("notes", "copy"))
        yield tell(lambda: ws.copy("notes", "copy", recursive=True))
        yield tell(lambda: ws.copy("notes", "notes/inner", recursive=True))
        yield tell(lambda: ws.copy("f", "copy"))
        yield tell(lambda: ws.copy("f", "d", overwrite=True))
        yield tell(lambda: ws.copy("f", "copied"))
        yield tell(lambda: ws.copy("f", "copied"))
        yield tell(lambda: ws.copy("f", "copied", overwrite=True))
        yield tell(lambda: ws.copy("link", "link2"))
        yield tell(lambda: ws.copy("missing", "x"))
        yield tell(lambda: ws.copy("f", "f"))
        yield tell(lambda: ws.copy("f", "no/such", parents=False))
        yield tell(lambda: ws.move("f", "f"))
        yield tell(lambda: ws.move("notes", "notes/inner"))
        yield tell(lambda: ws.move("copied", "link2"))
        yield tell(lambda: ws.move("copied", "link2", overwrite=True))
        yield tell(lambda: ws.move("missing", "x"))
        yield tell(lambda: ws.move("copy", "d", overwrite=True))
        yield tell(lambda: ws.move("/", "x"))
        yield tell(lambda: ws.move("f", "no/such", parents=False))
        yield tell(lambda: ws.hardlink("f", "f2"))
        yield tell(lambda: ws.hardlink("d", "d2"))
        yield tell(lambda: ws.hardlink("f", "f2"))
        yield tell(lambda: ws.chmod("f", 0o600))
        yield tell(lambda: ws.chmod("f", 0o4755))
        yield tell(lambda: ws.chmod("missing", 0o600))
        yield tell(lambda: ws.remove("notes"))
        yield tell(lambda: ws.remove("missing"))
        yield tell(lambda: ws.remove("missing", missing_ok=True))
        yield tell(lambda: ws.remove("/", recursive=True))
        yield tell(lambda: ws.remove("dirlink"))
        yield tell(lambda: ws.remove("notes", recursive=True))
        for path in ("f", "link", "d", "f2"):
            yield ws.stat(path).kind, oct(ws.stat(path).mode if path == "f" else 0), ws.stat(path).target
        yield [(record.kind, record.paths, record.author, str(record.status)) for record in ws.history()]
        yield sorted(contents(ws))
        yield [(change.path, change.effect) for change in ws.status()]

    memory, disk = both
    for number, (first, second) in enumerate(zip(attempts(memory), attempts(disk), strict=True)):
        assert first == second, number


@pytest.mark.row("S3")
def test_id_is_new_or_given_and_reopens_the_history(tmp_path: Path) -> None:
    assert Workspace.memory().id != Workspace.memory().id
    with Workspace.memory(store=tmp_path / "store", id="mine") as ws:
        ws.write_text("a", "1")
        first = ws.checkpoint("first")
        ws.write_text("a", "2")
    with Workspace.memory(store=tmp_path / "store", id="mine") as ws:
        assert ws.read_text("a") == "2"
        assert ws.resolve("first") == first
        assert [record.sequence for record in ws.history()] == [1, 2]
    for name in ("../x", "/abs", "a\0b", "", ".", "a/b", "x" * 101):
        with pytest.raises(ValueError):
            Workspace.memory(store=tmp_path / "store", id=name)
    assert not (tmp_path / "x").exists()


@pytest.mark.row("S4")
def test_no_raw_backend_is_given_out(disk: Workspace, root: Path) -> None:
    assert not hasattr(disk, "filesystem")
    assert disk.head.label == "baseline"
    (root / "by hand").write_text("x")
    assert [str(change) for change in disk.status()] == ["created by hand"]
    (root / "by hand").unlink()
    assert not disk.status()


@pytest.mark.row("S5")
def test_store_is_reopened_by_id_and_a_newer_one_is_refused(disk: Workspace, root: Path, tmp_path: Path) -> None:
    disk.write_text("a", "1", author="ada")
    first = disk.checkpoint("first")
    ids = [checkpoint.id for checkpoint in disk.checkpoints()]
    disk.close()
    program = """
        import json, sys
        from hedgerow import Workspace
        with Workspace.open(sys.argv[1], store=sys.argv[2], id="test") as ws:
            print(json.dumps([[c.id for c in ws.checkpoints()], [[r.sequence, r.author] for r in ws.history()]]))
    """
    assert json.loads(python(program, root, tmp_path / "store").stdout) == [ids, [[1, "ada"]]]

    file = tmp_path / "store/hedgerow/format.json"
    written = json.loads(file.read_text())
    (key,) = [key for key, value in written.items() if isinstance(value, int)]
    file.write_text(json.dumps({**written, key: written[key] + 1}))
    before = picture(tmp_path / "store")
    with pytest.raises(hedgerow.StoreError) as caught:
        Workspace.open(root, store=tmp_path / "store", id="test")
    assert caught.value.kind == "store-version"
    assert picture(tmp_path / "store") == before
    file.write_text(json.dumps(written))
    with opened(root, tmp_path / "store", id="test") as ws:
        assert ws.at(first).read_text("a") == "1"


@pytest.mark.row("S6")
@pytest.mark.parametrize("in_store", [False, True])
def test_equal_contents_are_kept_once(tmp_path: Path, in_store: bool) -> None:
    with Workspace.memory(store=tmp_path / "store" if in_store else None) as ws:
        ws.write_many({"one": "the same", "two": "the same"})
        ws.checkpoint()
        assert ws.stats().blobs == 1
        size = ws.stats().bytes
        ws.checkpoint("again")
        ws.checkpoint("and again")
        assert ws.stats().blobs == 1
        assert ws.stats().bytes - size < 2_000
        if in_store:
            listed = git("--git-dir", tmp_path / "store", "cat-file", "--batch-all-objects", "--batch-check")
            assert listed.count(" blob ") == 1


# paths and reads


@pytest.mark.row("S15")
def test_text_becomes_a_path_or_is_refused(any_ws: Workspace) -> None:
    any_ws.write_text("a/b", "x")
    for path in ("a/b", "/a/b", "//a///b", "./a/./b", "a/../a/b", "/a/../a/b"):
        assert any_ws.stat(path).path == "a/b", path
    for path in ("/", ".", "//", "a/.."):
        assert any_ws.stat(path).is_directory, path
    assert any_ws.stat("/").name == ""
    refused: list[tuple[Any, Any]] = [
        ("..", PermissionError),
        ("/..", PermissionError),
        ("a/../../a/b", PermissionError),
        ("a\0b", ValueError),
        ("", ValueError),
        (b"a/b", TypeError),
        (3, TypeError),
        ("x" * 5_000, (ValueError, OSError)),
    ]
    for wrong, error in refused:
        with pytest.raises(error):
            any_ws.read_text(wrong)


@pytest.mark.row("S16")
def test_glob_gives_the_same_on_every_backend(both: list[Workspace]) -> None:
    for ws in both:
        ws.write_many(
            dict.fromkeys(["a.py", "b.txt", "s/c.py", "s/t/d.py", "s/[x]", ".hidden/e.py", "s/.f.py", "[z"], "")
        )
        ws.symlink("way", "s")
    table = {
        "*.py": ["a.py"],
        "?.py": ["a.py"],
        "**/*.py": [".hidden/e.py", "a.py", "s/.f.py", "s/c.py", "s/t/d.py"],
        "s/**": ["s/.f.py", "s/[x]", "s/c.py", "s/t", "s/t/d.py"],
        "s/**/d.py": ["s/t/d.py"],
        "s/t/**/d.py": ["s/t/d.py"],
        "[ab].*": ["a.py", "b.txt"],
        "[!a].*": ["b.txt"],
        "{a,b}.*": ["a.py", "b.txt"],
        "[z": ["[z"],
        "s/c.py": ["s/c.py"],
        "missing": [],
        ".*/*.py": [".hidden/e.py"],
    }
    for pattern, expected in table.items():
        for ws in both:
            assert ws.glob(pattern) == expected, (pattern, ws)
    assert both[0].glob("*.py", "s") == both[1].glob("*.py", "s") == ["s/.f.py", "s/c.py"]


@pytest.mark.row("S18")
def test_range_of_a_sparse_gigabyte_costs_the_range(disk: Workspace, root: Path) -> None:
    with open(root / "sparse", "wb") as file:
        file.truncate(1 << 30)
        file.seek(700_000_000)
        file.write(b"needle")
    tracemalloc.start()
    with open("/proc/self/io") as io_counts:
        before = dict(line.split(": ") for line in io_counts.read().splitlines())
    assert disk.read_bytes("sparse", offset=700_000_000, length=4096)[:6] == b"needle"
    with open("/proc/self/io") as io_counts:
        after = dict(line.split(": ") for line in io_counts.read().splitlines())
    assert int(after["rchar"]) - int(before["rchar"]) < 100_000
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.row("S19")
def test_chunks_of_an_empty_file_and_of_a_directory(any_ws: Workspace) -> None:
    any_ws.write_bytes("empty", b"")
    any_ws.mkdir("d")
    assert list(any_ws.iter_bytes("empty", chunk=3)) == []
    with pytest.raises(IsADirectoryError):
        any_ws.iter_bytes("d")


@pytest.mark.row("S21")
def test_links_are_looked_at_moved_and_deleted_as_links(disk: Workspace, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("theirs")
    (root / "file").symlink_to(outside / "f")
    (root / "dir").symlink_to(outside)
    (root / "dangling").symlink_to(tmp_path / "nothing")
    (root / "inner").mkdir()
    (root / "inner/kept").write_text("x")
    (root / "inside").symlink_to("inner")
    before = picture(outside)
    for name in ("file", "dir", "dangling"):
        assert disk.exists(name)
        assert disk.stat(name).kind is Kind.SYMLINK
        assert disk.readlink(name) == os.readlink(root / name)
        readers: list[Callable[[str], object]] = [disk.read_bytes, disk.list_dir, disk.realpath]
        for call in readers:
            assert str(outcome(partial(call, name))).startswith("PathEscapeError"), (name, call)
        for write in (disk.write_text, disk.append_text):
            assert str(outcome(partial(write, name, "ours"))).startswith("PathEscapeError")
        disk.move(name, f"moved-{name}")
        assert os.readlink(root / f"moved-{name}")
        disk.remove(f"moved-{name}")
    disk.remove("inside")
    assert (root / "inner/kept").read_text() == "x"
    assert picture(outside) == before
    assert not (tmp_path / "nothing").exists()


# tracked writes


@pytest.mark.row("S26", "S27")
def test_each_call_that_changes_something_is_one_record(any_ws: Workspace) -> None:
    ws = any_ws
    kept = ws.checkpoint("kept")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("from-tar"), io.BytesIO(b""))
    calls: list[tuple[str, Callable[[], object], tuple[str, ...]]] = [
        ("write", lambda: ws.write_text("d/a", "1\n", author="ada"), ("d", "d/a")),
        ("append", lambda: ws.append_text("d/a", "2\n"), ("d/a",)),
        ("write", lambda: ws.write_bytes("b", b"\0"), ("b",)),
        ("write", lambda: ws.write_json("j.json", {}), ("j.json",)),
        ("create", lambda: ws.create("c"), ("c",)),
        ("mkdir", lambda: ws.mkdir("new/deep"), ("new", "new/deep")),
        ("copy", lambda: ws.copy("d", "e", recursive=True), ("e",)),
        ("move", lambda: ws.move("e", "f"), ("e", "f")),
        ("edit", lambda: ws.edit("d/a", "1", "one"), ("d/a",)),
        ("symlink", lambda: ws.symlink("l", "d/a"), ("l",)),
        ("hardlink", lambda: ws.hardlink("d/a", "h"), ("h",)),
        ("chmod", lambda: ws.chmod("c", 0o600), ("c",)),
        ("remove", lambda: ws.remove("f", recursive=True), ("f",)),
        ("import", lambda: ws.import_(archive.getvalue()), ("from-tar",)),
        ("rollback", lambda: ws.rollback(kept, author="bob"), ()),
    ]
    for number, (kind, call, paths) in enumerate(calls, 1):
        call()
        records = ws.history()
        assert len(records) == number, kind
        record = records[-1]
        assert (record.sequence, record.kind, record.workspace) == (number, kind, ws.id)
        if paths:
            assert record.paths == paths
        assert list(record.paths) == sorted(set(record.paths))
        assert Record.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    assert (ws.history()[0].author, ws.history()[-1].author) == ("ada", "bob")
    assert [record.kind for record in ws.history(path="d/a")].count("append") == 1
    patch = ws.record_diff(9)
    assert (patch.additions, patch.deletions) == (1, 1)
    assert "+one\n" in patch.text
    for reading in (lambda: ws.read_only().history(), ws.checkpoints, ws.status, ws.walk):
        reading()
    assert len(ws.history()) == len(calls)


@pytest.mark.row("S27")
def test_a_record_names_each_path_once(any_ws: Workspace) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("in/deep/a", "in/b"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
    kept = any_ws.checkpoint("kept")
    any_ws.import_(archive.getvalue())
    any_ws.copy("in", "copy", recursive=True)
    any_ws.remove("in", recursive=True)
    any_ws.rollback(kept)
    for record in any_ws.history():
        paths = [change.path for change in record.changes]
        assert len(paths) == len(set(paths)), record.kind
        files = sum(change.kind is Kind.FILE for change in record.changes)
        assert any_ws.record_diff(record).text.count("diff --git ") == files


@pytest.mark.row("S28")
def test_words_of_effects_and_states_are_stable(any_ws: Workspace) -> None:
    assert [str(effect) for effect in Effect] == [
        "created",
        "modified",
        "deleted",
        "renamed",
        "moved",
        "copied",
        "unchanged",
    ]
    assert [str(status) for status in RecordStatus] == ["applied", "failed"]
    any_ws.write_text("a", "1")
    any_ws.write_text("a", "2")
    any_ws.write_text("a", "2")
    any_ws.copy("a", "b")
    any_ws.move("b", "c")
    any_ws.remove("c")
    effects = [record.changes[-1].effect for record in any_ws.history()]
    assert effects == ["created", "modified", "unchanged", "copied", "moved", "deleted"]
    assert {record.status for record in any_ws.history()} == {"applied"}


@pytest.mark.row("S29")
@pytest.mark.parametrize("track", ["full", "paths", "off"])
def test_tracking_decides_what_records_hold(tmp_path: Path, track: Any) -> None:
    with opened(tmp_path / "root", tmp_path / "store", create=True, track=track, max_diff_bytes=100) as ws:
        ws.write_text("small", "1\n")
        ws.write_text("large", "x" * 200)
        found = [(record.paths, record.changes[-1].effect) for record in ws.history()]
        if track == "off":
            assert found == []
        else:
            assert found == [(("small",), "created"), (("large",), "created")]
            if track == "full":
                assert "+1" in ws.record_diff(1).text
        assert ws.status().paths == ("large", "small")
        held = [record.changes[-1].has_content for record in ws.history()]
        assert held == {"full": [True, False], "paths": [False, False], "off": []}[track]
        if track == "full":
            kept = ws.checkpoint()
            ws.write_text("small", "2\n")
            ws.rollback(kept)
            assert ws.read_text("small") == "1\n"


@pytest.mark.row("S32")
def test_a_write_through_a_link_is_recorded_as_one_of_the_link(any_ws: Workspace) -> None:
    any_ws.write_text("d/file", "1")
    any_ws.symlink("link", "d/file")
    any_ws.symlink("far", "d")
    calls: list[Callable[[], object]] = [
        lambda: any_ws.write_text("link", "2"),
        lambda: any_ws.write_text("link", "2"),
        lambda: any_ws.append_text("link", "3"),
        lambda: any_ws.edit("link", "3", "4"),
    ]
    for number, call in enumerate(calls):
        call()
        record = any_ws.history()[-1]
        (change,) = record.changes
        assert (change.path, change.kind, change.real_path) == ("link", Kind.SYMLINK, "d/file")
        assert change.effect == (Effect.UNCHANGED if number == 1 else Effect.MODIFIED)
        assert record.paths == ("d/file", "link")
        assert Record.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    assert len(any_ws.history(path="link")) == 5
    assert len(any_ws.history(path="d/file")) == 5
    # A link on the way is not the entry that was named.
    any_ws.write_text("far/file", "5")
    (change,) = any_ws.history()[-1].changes
    assert (change.path, change.kind, change.real_path) == ("d/file", Kind.FILE, None)
    # Nobody takes the change for one of the link itself.
    kept = any_ws.checkpoint()
    any_ws.write_text("link", "6")
    assert any_ws.status().paths == ("d/file",)
    any_ws.rollback(kept)
    assert (any_ws.read_text("d/file"), any_ws.readlink("link")) == ("5", "d/file")


@pytest.mark.parametrize("size", [(1 << 20) + 7, 3 << 20])
def test_a_file_too_large_to_be_carried_is_edited_and_appended_to(any_ws: Workspace, size: int) -> None:
    text = "0123456\n" * (size // 8) + "end\n"
    any_ws.write_text("f", text)
    any_ws.edit("f", "end\n", "END\n")
    any_ws.append_text("f", "more\n")
    assert any_ws.read_text("f") == text.replace("end", "END") + "more\n"
    kept = any_ws.checkpoint()
    any_ws.edit("f", "more", "less")
    any_ws.rollback(kept)
    assert any_ws.read_text("f") == text.replace("end", "END") + "more\n"


@pytest.mark.row("S30")
def test_append_makes_a_file_and_goes_through_an_inner_link(any_ws: Workspace) -> None:
    assert any_ws.append_text("d/new", "é") == 2
    any_ws.symlink("link", "d/new")
    any_ws.append_text("link", "!")
    assert any_ws.read_text("d/new") == "é!"
    assert any_ws.stat("link").is_symlink


@pytest.mark.row("S31")
def test_writing_to_a_directory_changes_nothing(any_ws: Workspace) -> None:
    any_ws.write_text("d/kept", "x")
    before, records = contents(any_ws), len(any_ws.history())
    calls: list[Callable[[], object]] = [
        lambda: any_ws.write_text("d", "x"),
        lambda: any_ws.write_bytes("d", b"x"),
        lambda: any_ws.write_json("d", {}),
        lambda: any_ws.append_text("d", "x"),
        lambda: any_ws.edit("d", "x", "y"),
    ]
    for call in calls:
        with pytest.raises(IsADirectoryError):
            call()
    assert contents(any_ws) == before
    assert len(any_ws.history()) == records


@pytest.mark.row("S33", "S34", "S35", "S36")
def test_directories_removal_copy_and_move_follow_python_habits(any_ws: Workspace) -> None:
    ws = any_ws
    ws.write_text("d/f", "x")
    ws.write_text("e", "e")

    def refused(call: Callable[[], object], error: type[OSError], number: int) -> None:
        with pytest.raises(error) as caught:
            call()
        assert caught.value.errno == number

    ws.mkdir("/")
    ws.mkdir("a/b/c")
    ws.mkdir("a/b/c")
    refused(lambda: ws.mkdir("a", parents=False), FileExistsError, errno.EEXIST)
    refused(lambda: ws.mkdir("no/such", parents=False), FileNotFoundError, errno.ENOENT)
    refused(lambda: ws.mkdir("e/x"), NotADirectoryError, errno.ENOTDIR)

    refused(lambda: ws.remove("d"), OSError, errno.ENOTEMPTY)
    refused(lambda: ws.remove("missing"), FileNotFoundError, errno.ENOENT)
    ws.remove("missing", missing_ok=True)
    with pytest.raises(ValueError, match="root"):
        ws.remove("/", recursive=True)
    assert ws.exists("d/f")

    refused(lambda: ws.copy("d", "d2"), IsADirectoryError, errno.EISDIR)
    ws.copy("d", "d2", recursive=True)
    refused(lambda: ws.copy("e", "d2/f"), FileExistsError, errno.EEXIST)
    assert ws.read_text("d2/f") == "x"
    ws.copy("e", "d2/f", overwrite=True)
    assert ws.read_text("d2/f") == "e"

    before = contents(ws)
    ws.move("e", "e")
    with pytest.raises(ValueError):
        ws.move("d", "d/inner/deep")
    refused(lambda: ws.move("e", "d2/f"), FileExistsError, errno.EEXIST)
    assert contents(ws) == before
    ws.move("e", "d2/f", overwrite=True)
    assert not ws.exists("e")
    ws.remove("d", recursive=True)
    ws.remove("a/b/c")
    assert [entry.path for entry in ws.walk()] == ["a", "a/b", "d2", "d2/f"]


@pytest.mark.row("S37")
def test_links_are_copied_as_links_and_replacing_detaches(any_ws: Workspace) -> None:
    any_ws.write_text("f", "1")
    any_ws.symlink("l", "f")
    any_ws.copy("l", "l2")
    assert any_ws.readlink("l2") == "f"
    any_ws.hardlink("f", "h")
    any_ws.write_text("f", "2")
    assert (any_ws.read_text("f"), any_ws.read_text("h")) == ("2", "1")
    any_ws.mkdir("d")
    with pytest.raises(OSError):
        any_ws.hardlink("d", "d2")


@pytest.mark.row("S38")
def test_create_has_one_winner_among_twenty_threads(any_ws: Workspace) -> None:
    won: list[int] = []
    start = threading.Barrier(20)

    def race(number: int) -> None:
        start.wait()
        try:
            any_ws.create("f", str(number))
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [any_ws.read_text("f")] == [str(number) for number in won]


@pytest.mark.row("S39")
def test_chmod_readlink_and_realpath(any_ws: Workspace) -> None:
    any_ws.write_text("d/f", "x")
    any_ws.chmod("d/f", 0o640)
    assert any_ws.stat("d/f").mode == 0o640
    any_ws.symlink("one", "two")
    any_ws.symlink("two", "d")
    assert any_ws.realpath("one/f") == "d/f"
    any_ws.symlink("out", "../..")
    any_ws.symlink("loop", "pool")
    any_ws.symlink("pool", "loop")
    for call, path, number in ((any_ws.readlink, "d/f", errno.EINVAL), (any_ws.realpath, "loop", errno.ELOOP)):
        with pytest.raises(OSError) as caught:
            call(path)
        assert caught.value.errno == number
    with pytest.raises(PermissionError):
        any_ws.realpath("out")


@pytest.mark.row("S40")
def test_flush_asks_the_disk_for_files_and_records(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace to see what is asked of the disk")
    trace = tmp_path / "trace"
    python(
        """
        import os, sys, hedgerow
        with hedgerow.Workspace.open(sys.argv[1], store=sys.argv[2], id="w", create=True) as ws:
            os.path.exists("/begin-writes")
            ws.write_text("f", "1")
            os.path.exists("/begin-flush")
            ws.flush()
            os.path.exists("/end")
        """,
        tmp_path / "root",
        tmp_path / "store",
        prefix=[strace, "-f", "-q", "-y", "-e", "trace=stat,newfstatat,fsync,fdatasync,syncfs", "-o", str(trace)],
    )
    text = trace.read_text()
    writing, flushing = text.partition("/begin-writes")[2].partition("/begin-flush")[::2]
    flushing = flushing.partition("/end")[0]
    assert "sync" not in writing, "a single write does not wait for the disk"
    assert re.search(rf"syncfs\(\d+<{re.escape(str(tmp_path / 'root'))}>\) += 0", flushing)
    for name in ("log", "settled"):
        assert re.search(rf"f(data)?sync\(\d+<[^>]*/workspaces/w/{name}>\) += 0", flushing), flushing


def test_flush_is_for_those_who_may_write(any_ws: Workspace) -> None:
    any_ws.write_text("f", "1")
    any_ws.flush()
    with pytest.raises(hedgerow.ReadOnlyError):
        any_ws.read_only().flush()


@pytest.mark.row("S40")
def test_a_reader_never_sees_half_a_write(disk: Workspace, root: Path) -> None:
    pieces = [b"a" * 200_000, b"b" * 200_000]
    disk.write_bytes("f", pieces[0])
    disk.chmod("f", 0o750)
    stop = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add((root / "f").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for turn in range(40):
            disk.write_bytes("f", pieces[turn % 2])
    finally:
        stop.set()
        reader.join()
    assert seen <= set(pieces)
    assert stat.S_IMODE((root / "f").stat().st_mode) == 0o750


@pytest.mark.row("S51")
def test_patch_tells_counts_missing_newlines_and_binary_files(any_ws: Workspace) -> None:
    any_ws.write_text("a", "1\n2\n3\n4\n5\n6\n7\n8")
    first = any_ws.checkpoint()
    any_ws.write_text("a", "1\n2\n3\nfour\n5\n6\n7\n8\n")
    any_ws.write_bytes("b", b"\0\1")
    any_ws.write_text("c", "new\n")
    patch = any_ws.diff(first).unified()
    assert (patch.additions, patch.deletions) == (3, 2)
    assert "@@ -1,8 +1,8 @@" in patch.text
    assert "\\ No newline at end of file" in patch.text
    assert "--- /dev/null\n+++ b/c\n" in patch.text
    assert "Binary files /dev/null and b/b differ" in patch.text
    assert any_ws.diff(first).unified(max_lines=3).truncated


# checkpoints


@pytest.mark.row("S56", "S57")
def test_checkpoint_tells_where_it_stands(any_ws: Workspace) -> None:
    empty = any_ws.head
    assert (empty.first_sequence, empty.last_sequence, empty.cursor, empty.changes) == (None, None, 0, 0)
    any_ws.write_text("a", "1\n")
    any_ws.write_text("b", "1\n")
    any_ws.write_text("a", "2\n")
    made = any_ws.checkpoint("label", author="ada")
    assert (made.label, made.author, made.kind, made.parent) == ("label", "ada", "checkpoint", empty.id)
    assert (made.first_sequence, made.last_sequence, made.cursor) == (1, 3, 3)
    assert (made.changes, made.touched, made.has_text_diffs) == (2, ("a", "b"), True)
    any_ws.mkdir("d")
    any_ws.checkpoint()
    any_ws.chmod("d", 0o700)
    moded = any_ws.checkpoint()
    assert (moded.changes, moded.touched, moded.has_text_diffs) == (1, ("d",), False)
    assert (moded.first_sequence, moded.last_sequence) == (5, 5)
    assert any_ws.checkpoints()[-1] == any_ws.head == moded


@pytest.mark.row("S62")
def test_archive_carries_a_subtree_to_another_place(any_ws: Workspace, tmp_path: Path) -> None:
    any_ws.write_many({"src/a": "1", "src/deep/b": b"\0\xff", "other": "x"})
    any_ws.symlink("src/link", "a")
    any_ws.mkdir("src/empty")
    any_ws.chmod("src/a", 0o755)
    kept = any_ws.checkpoint()
    any_ws.write_text("src/a", "2")
    data = any_ws.export("src", ref=kept)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert sorted(member.name.rstrip("/") for member in tar) == ["a", "deep", "deep/b", "empty", "link"]
    assert any_ws.export("src", tmp_path / "a.tar") is None
    assert any_ws.import_(data, "copy") == 5
    copied = {path.removeprefix("copy/"): held for path, held in contents(any_ws).items() if path.startswith("copy/")}
    original = {entry.path: entry for entry in any_ws.at(kept).walk("src")}
    assert sorted(copied) == sorted(path.removeprefix("src/") for path in original)
    assert copied["a"] == ("file", 0o755, b"1")
    assert copied["link"][2] == "a"
    assert any_ws.history()[-1].kind == "import"
    with Workspace.memory() as other:
        other.import_(tmp_path / "a.tar")
        assert other.read_text("a") == "2"

    hostile = io.BytesIO()
    with tarfile.open(fileobj=hostile, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("fine"), io.BytesIO(b""))
        tar.addfile(tarfile.TarInfo("../out"), io.BytesIO(b""))
    before = contents(any_ws)
    with pytest.raises(hedgerow.PathEscapeError):
        any_ws.import_(hostile.getvalue(), "copy")
    assert contents(any_ws) == before


@pytest.mark.row("S63")
def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    """Counted by the kernel: the first checkpoint (with the baseline) reads all, the second a few bytes of its own."""
    program = """
        import os, sys, time
        from hedgerow import Workspace

        def read_so_far():
            with open("/proc/self/io") as file:
                return int(file.readline().split()[1])

        root = sys.argv[1]
        for number in range(20):
            with open(f"{root}/{number}", "wb") as file:
                file.write(os.urandom(200_000))
        time.sleep(0.1)
        before = read_so_far()
        with Workspace.open(root, store=sys.argv[2]) as ws:
            counts = []
            for turn in range(3):
                ws.checkpoint(str(turn))
                counts.append(read_so_far() - before)
                before = read_so_far()
            with open(f"{root}/7", "ab") as file:
                file.write(b"x")
            time.sleep(0.1)
            before = read_so_far()
            assert ws.checkpoint("one").touched == ("7",)
            counts.append(read_so_far() - before)
        with Workspace.open(root, store=sys.argv[2]) as ws:
            before = read_so_far()
            ws.checkpoint("reopened")
            counts.append(read_so_far() - before)
        print(*counts)
    """
    (tmp_path / "root").mkdir()
    done = python(program, tmp_path / "root", tmp_path / "store")
    first, second, third, one, reopened = map(int, done.stdout.split())
    assert first >= 4_000_000
    assert second < 100_000
    assert third < 100_000
    assert 200_000 <= one < 800_000
    assert reopened < 100_000


@pytest.mark.row("S63")
def test_edits_within_one_tick_of_the_clock_are_seen(disk: Workspace, root: Path) -> None:
    place = root / "f"
    for turn in range(60):
        place.write_text(f"{turn:04}")
        disk.checkpoint()
        info = place.stat()
        with open(place, "r+b") as file:  # the same inode and size, at once
            file.write(b"%04d" % (turn + 5_000))
        os.utime(place, ns=(info.st_atime_ns, info.st_mtime_ns))
        made = disk.checkpoint()
        assert disk.at(made).read_text("f") == f"{turn + 5_000:04}"


@pytest.mark.row("S64")
def test_diff_needs_no_unchanged_content(disk: Workspace, root: Path, tmp_path: Path) -> None:
    disk.write_many({"same": "unchanged\n", "other": "1\n"})
    first = disk.checkpoint()
    disk.write_text("other", "2\n")
    second = disk.checkpoint()
    missing = disk.content_id("same")
    disk.close()
    (tmp_path / "store/objects" / missing[:2] / missing[2:]).unlink()
    with Workspace.open(root, store=tmp_path / "store", id="test") as ws:
        assert ws.diff(first, second).paths == ("other",)
        assert "+2" in ws.diff(first, second).patch()
        assert ws.at(first).read_text("other") == "1\n"
        with pytest.raises(hedgerow.StoreError) as caught:
            ws.at(first).read_text("same")
        assert caught.value.kind == "store-corrupt"


# the rest


@pytest.mark.row("S79")
def test_root_is_made_on_demand_only(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Workspace.open(tmp_path / "new/deep", store=tmp_path / "store")
    with Workspace.open(tmp_path / "new", store=tmp_path / "store", create=True) as ws:
        assert ws.root == tmp_path / "new"
        assert not ws.exists("missing")
        assert not ws.exists("a\0b")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        Workspace.open(tmp_path / "file", store=tmp_path / "store")
    with pytest.raises(TypeError):
        Workspace.open()  # type: ignore[call-arg]


@pytest.mark.row("S80")
def test_clear_leaves_the_checkpoints(ws: Workspace) -> None:
    ws.write_text("a/b", "x")
    kept = ws.checkpoint()
    ws.clear(author="ada")
    assert ws.walk() == []
    assert (ws.history()[-1].kind, ws.history()[-1].author) == ("clear", "ada")
    ws.rollback(kept)
    assert ws.read_text("a/b") == "x"


@pytest.mark.row("S89")
def test_no_option_opens_the_jail(disk: Workspace, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("theirs")
    (root / "way").symlink_to(tmp_path)
    calls: list[Callable[[], object]] = [
        lambda: disk.write_text("way/outside", "ours", parents=True),
        lambda: disk.copy("way/outside", "x", overwrite=True),
        lambda: disk.move("way/outside", "x", overwrite=True),
        lambda: disk.remove("way/outside", recursive=True, missing_ok=True),
        lambda: disk.mkdir("way/new", parents=True, exist_ok=True),
    ]
    for call in calls:
        with pytest.raises(PermissionError):
            call()
    assert b"theirs" not in disk.export("/")
    assert str(outcome(lambda: disk.export("way/outside"))).endswith(("symlink-escape", "file-not-found"))
    assert str(outcome(lambda: disk.rollback("baseline", paths=["way/outside"]))).endswith("symlink-escape")
    with Workspace.open(root, store=tmp_path / "store2", allow_large=True, resolver="walk") as other:
        for tool in other.tools(protect=False, absolute="virtual"):
            answer = tool(**dict.fromkeys(tool.parameters["required"], "way/outside"))
            assert "theirs" not in answer
    assert (tmp_path / "outside").read_text() == "theirs"
    assert not (tmp_path / "new").exists()


@pytest.mark.row("S94")
def test_texts_of_errors_name_what_they_concern(any_ws: Workspace) -> None:
    any_ws.write_text("src/a.py", "x\nx\n")
    any_ws.checkpoint("one")
    expected: list[tuple[Callable[[], object], str, str, str | None]] = [
        (lambda: any_ws.read_text("src/b.py"), "file-not-found", "src/b.py: ", "src/b.py"),
        (lambda: any_ws.edit("src/a.py", "y", "z"), "edit-no-match", "src/a.py: ", "src/a.py"),
        (lambda: any_ws.edit("src/a.py", "x", "z"), "edit-ambiguous", "src/a.py: ", "src/a.py"),
        (lambda: any_ws.rollback("no such label"), "checkpoint-not-found", "no such label", None),
        (lambda: any_ws.read_only().mkdir("d"), "read-only-workspace", "read-only", None),
    ]
    for call, kind, said, path in expected:
        with pytest.raises(hedgerow.WorkspaceError) as caught:
            call()
        assert (caught.value.kind, caught.value.path) == (kind, path)
        assert said in str(caught.value)
        assert caught.value.hint
        with pytest.raises(hedgerow.WorkspaceError) as again:
            call()
        assert str(again.value) == str(caught.value)


@pytest.mark.row("S25")
def test_a_checkpoint_is_read_where_other_contents_are_lost(disk: Workspace, root: Path, tmp_path: Path) -> None:
    disk.write_many({"lost/a": "lost\n", "kept/b": "kept\n"})
    kept = disk.checkpoint()
    missing = disk.content_id("lost/a")
    disk.close()
    (tmp_path / "store/objects" / missing[:2] / missing[2:]).unlink()
    with Workspace.open(root, store=tmp_path / "store", id="test") as ws:
        past = ws.at(kept)
        assert past.glob("**/?") == ["kept/b", "lost/a"]
        assert [entry.path for entry in past.walk("kept")] == ["kept/b"]
        assert past.read_text("kept/b") == "kept\n"
        assert past.search("kept", "kept").matches[0].line == 1


@pytest.mark.row("S58")
def test_rollback_that_cannot_be_completed_changes_nothing(disk: Workspace, root: Path, tmp_path: Path) -> None:
    disk.write_many({"a": "one\n", "b": "one too\n"})
    kept = disk.checkpoint()
    missing = disk.content_id("b")
    disk.write_many({"a": "two\n", "b": "two too\n", "new": "x"})
    disk.checkpoint()
    disk.close()
    (tmp_path / "store/objects" / missing[:2] / missing[2:]).unlink()
    before = picture(root)
    with Workspace.open(root, store=tmp_path / "store", id="test") as ws:
        count = len(ws.checkpoints())
        with pytest.raises(hedgerow.StoreError) as caught:
            ws.rollback(kept)
        assert caught.value.kind == "store-corrupt"
        assert picture(root) == before
        assert len(ws.checkpoints()) == count
        assert ws.history()[-1].kind == "write"


@pytest.mark.row("S29")
@pytest.mark.parametrize("options", [{"track": "paths"}, {"max_diff_bytes": 1}, {"track": "off"}], ids=str)
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_less_tracking_takes_nothing_but_texts_away(tmp_path: Path, kind: str, options: Any) -> None:
    def make() -> Workspace:
        if kind == "disk":
            return Workspace.open(tmp_path / "root", store=tmp_path / "store", id="w", create=True, **options)
        with pytest.raises(ValueError, match="must be full"):  # between checkpoints its records are all there is
            Workspace.memory(store=tmp_path / "store", **options)
        return Workspace.memory(**options)

    ws = make()
    ws.write_text("a", "one\n")
    kept = ws.checkpoint()
    ws.write_text("a", "two\n")
    expected = [] if options.get("track") == "off" else ["created", "modified"]
    assert [record.changes[-1].effect for record in ws.history()] == expected
    if expected:
        assert "two" not in ws.record_diff(2).text
    assert ws.status().paths == ("a",)
    ws.rollback(kept)
    assert ws.read_text("a") == "one\n"
    ws.write_text("a", "three")
    ws.remove("a")
    ws.checkpoint()
    ws.write_text("late", "x")
    ws.close()
    if kind == "disk":
        with make() as again:
            assert again.exists("late")


@pytest.mark.row("B13")
def test_a_reader_of_an_unknown_id_makes_nothing_in_the_store(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with opened(tmp_path / "root", tmp_path / "store") as ws:
        ws.write_text("a", "1")

    def kept() -> object:
        return {path: held for path, held in picture(tmp_path / "store").items() if b"hedgerow/tmp" not in path}

    before = kept()
    with Workspace.open(tmp_path / "root", store=tmp_path / "store", id="unknown", read_only=True) as ws:
        assert ws.changed_by() == {}
        assert list(ws.checkpoints()) == []
    assert kept() == before


@pytest.mark.row("S2")
def test_realpath_through_a_file_is_the_same_error(both: list[Workspace]) -> None:
    for ws in both:
        ws.write_text("f", "")
        with pytest.raises(NotADirectoryError):
            ws.realpath("f/x")


@pytest.mark.row("B21")
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_patterns_of_the_workspace_count_and_no_file_of_the_tree(kind: str, root: Path, tmp_path: Path) -> None:
    store = tmp_path / "own"
    with (
        Workspace.memory(ignore=["*.log"])
        if kind == "memory"
        else Workspace.open(root, store=store, ignore=["*.log"]) as ws
    ):
        ws.write_many({".gitignore": "kept.txt\n", "kept.txt": "1", "a.log": "2"})
        assert [entry.path for entry in ws.at(ws.checkpoint()).walk()] == [".gitignore", "kept.txt"]


@pytest.mark.row("S13")
def test_pruned_history_keeps_its_newest_record_and_its_numbers(disk: Workspace) -> None:
    for turn in range(5):
        disk.write_text("a", str(turn))
    assert disk.prune_history(3) == 0, "no checkpoint holds these yet"
    disk.checkpoint()
    assert disk.prune_history(3) == 3
    assert [record.sequence for record in disk.history()] == [4, 5]
    assert disk.prune_history(100) == 1
    assert [record.sequence for record in disk.history()] == [5]
    disk.write_text("a", "6")
    assert [record.sequence for record in disk.history()] == [5, 6]


@pytest.mark.row("S59")
def test_a_rollback_goes_to_checkpoints_of_its_own_workspace_only(tmp_path: Path) -> None:
    with (
        Workspace.memory(store=tmp_path / "store", id="one") as one,
        Workspace.memory(store=tmp_path / "store", id="two") as two,
    ):
        one.write_text("a.txt", "of one")
        theirs = one.checkpoint("theirs", author="ann")
        two.write_text("b.txt", "of two")
        for ref in (theirs, theirs.id, theirs.id[:10], "theirs", "ann"):
            with pytest.raises(CheckpointNotFoundError):
                two.rollback(ref)
            with pytest.raises(CheckpointNotFoundError):
                two.at(ref)
        assert two.read_text("b.txt") == "of two"
        assert not two.exists("a.txt")
