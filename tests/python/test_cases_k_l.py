"""Public bug reports about unreadable files, damage, crashes and wrong rollbacks, as tests of their kind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from case_support import SLOWDOWN, fsck, git, identities, opened, picture, python, started, unprivileged
from hedgerow import Workspace

# K. crash, full disk, unreadable and read-only files


@pytest.mark.parametrize("what", ["file", "directory", "nested file", "executable"])
def test_case_k01_one_unreadable_entry_spoils_nothing(tmp_path: Path, what: str) -> None:
    root = tmp_path / "root"
    (root / "sub/dir").mkdir(parents=True)
    for number in range(10):
        (root / f"f{number}").write_text(f"old {number}")
    (root / "sub/dir/f").write_text("deep")
    hidden = {"file": "f3", "directory": "sub/dir", "nested file": "sub/dir/f", "executable": "f4"}[what]
    if what == "executable":
        (root / hidden).chmod(0o100)
    else:
        (root / hidden).chmod(0)
    done = python(
        """
        import json, os, sys, hedgerow
        root, store, hidden = sys.argv[1:]
        with hedgerow.Workspace.open(root, store=store, id="w") as ws:
            kept = ws.checkpoint()
            open(os.path.join(root, "f0"), "w").write("new")
            open(os.path.join(root, "made"), "w").write("made")
            ws.rollback(kept)
            first = [s.path for s in kept.skipped]
            os.chmod(os.path.join(root, hidden), 0o700)
            open(os.path.join(root, "f1"), "w").write("new")
            ws.rollback(kept)
            print(json.dumps([first, [e.path for e in ws.at(kept).walk() if e.is_file]]))
        """,
        root,
        tmp_path / "store",
        hidden,
        prefix=unprivileged(),
    )
    skipped, held = json.loads(done.stdout)
    assert skipped == [hidden]
    assert {f"f{number}" for number in range(10)} - {hidden} <= set(held)
    assert (root / "f0").read_text() == "old 0"
    assert (root / "f1").read_text() == "old 1"
    assert not (root / "made").exists()
    assert (root / "sub/dir/f").read_text() == "deep"
    assert (root / hidden).exists()


def test_case_k02_what_was_skipped_is_never_deleted(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "plain").write_text("old")
    (root / "secret").write_text("secret")
    (root / "later").write_text("later")
    (root / "secret").chmod(0)
    python(
        """
        import os, sys, hedgerow
        root, store = sys.argv[1:]
        at = lambda name: os.path.join(root, name)
        with hedgerow.Workspace.open(root, store=store, id="w") as ws:
            kept = ws.checkpoint("kept")
            os.chmod(at("secret"), 0o600)
            os.chmod(at("later"), 0)
            open(at("plain"), "w").write("new")
            try:
                ws.rollback(kept)  # it would set the mode of what it cannot read, and so cannot keep
            except hedgerow.ConflictError:
                assert open(at("plain")).read() == "new"
            else:
                assert open(at("plain")).read() == "old"
            assert os.path.exists(at("later"))
            os.chmod(at("later"), 0o600)
            ws.rollback(kept)
            assert open(at("plain")).read() == "old"
            assert open(at("secret")).read() == "secret" and open(at("later")).read() == "later"
            # Skipped then, changed since: still not deleted, and the present content is kept first.
            open(at("secret"), "w").write("changed")
            made = ws.checkpoint()
            ws.rollback(kept)
            assert os.path.exists(at("secret"))
        """,
        root,
        tmp_path / "store",
        prefix=unprivileged(),
    )
    assert (root / "secret").read_text() == "changed"


def test_case_k02_rollback_that_would_replace_what_it_cannot_keep_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "place").write_text("old")
    (root / "other").write_text("old")
    done = python(
        """
        import os, sys, hedgerow
        root, store = sys.argv[1:]
        at = lambda name: os.path.join(root, name)
        with hedgerow.Workspace.open(root, store=store, id="w") as ws:
            kept = ws.checkpoint("kept")
            open(at("place"), "w").write("irreplaceable")
            open(at("other"), "w").write("new")
            os.chmod(at("place"), 0)
            try:
                ws.rollback(kept)
            except hedgerow.WorkspaceError as error:
                print(error.kind)
        """,
        root,
        tmp_path / "store",
        prefix=unprivileged(),
    )
    assert done.stdout.strip() in ("uncheckpointed-changes", "permission-denied")
    assert (root / "place").read_text() == "irreplaceable"
    assert (root / "other").read_text() == "new"


@pytest.mark.parametrize("call", ["write", "edit", "remove", "move", "mkdir", "symlink", "append", "rollback"])
def test_case_k_read_only_directory_is_a_typed_error_and_changes_nothing(tmp_path: Path, call: str) -> None:
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "a").write_text("a")
    (root / "d/f").write_text("old")
    source = """
        import os, sys, hedgerow
        root, store, call = sys.argv[1:]
        with hedgerow.Workspace.open(root, store=store, id="w") as ws:
            kept = ws.checkpoint()
            if call == "rollback":
                ws.write_text("a", "new"); ws.write_text("d/f", "new"); ws.write_text("d/g", "new"); ws.write_text("z", "new")
            os.chmod(os.path.join(root, "d"), 0o555)
            try:
                {
                    "write": lambda: ws.write_text("d/f", "new"),
                    "edit": lambda: ws.edit("d/f", "old", "new"),
                    "remove": lambda: ws.remove("d/f"),
                    "move": lambda: ws.move("a", "d/a"),
                    "mkdir": lambda: ws.mkdir("d/x"),
                    "symlink": lambda: ws.symlink("d/l", "x"),
                    "append": lambda: ws.append_text("d/new", "more"),
                    "rollback": lambda: ws.rollback(kept),
                }[call]()
            except hedgerow.WorkspaceError as error:
                print(error.kind)
            os.chmod(os.path.join(root, "d"), 0o755)
            print(ws.read_text("a"), ws.read_text("d/f"), len(ws.walk()))
    """
    done = python(source, root, tmp_path / "store", call, prefix=unprivileged())
    lines = done.stdout.split("\n")
    after = "new new 5" if call == "rollback" else "a old 3"
    if call == "rollback" and lines[0] not in ("permission-denied", "io-error"):
        # The owner may widen the directory for as long as it takes; then all of it must be done.
        assert lines[0] == "a old 3"
    else:
        assert lines[:2] == ["permission-denied", after]
    assert not [path for path in picture(root) if b"hedgerow" in path]


CRASH = """
    import os, sys, hedgerow
    root, store = sys.argv[1:]
    ws = hedgerow.Workspace.open(root, store=store, id="w")
    print("go", flush=True)
    one, two = ws.resolve("one"), ws.resolve("two")
    while True:
        ws.rollback(one); ws.rollback(two)
"""


@pytest.mark.slow
@pytest.mark.torture
@pytest.mark.timeout(240)
def test_case_k06_k07_k08_k09_killed_rollback_is_finished_or_undone_at_open(tmp_path: Path) -> None:
    """SIGKILL at many moments of a rollback; the first call after opening, a read, finds one of the two states."""
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    with opened(root, store) as ws:
        for number in range(60):
            ws.write_text(f"d{number % 5}/f{number}", f"one {number}")
        ws.symlink("turn", "one")
        ws.mkdir("only-one/empty")
        ws.chmod("d0/f0", 0o755)
        ws.checkpoint("one")
        one = picture(root)
        for number in range(0, 60, 2):
            ws.write_text(f"d{number % 5}/f{number}", f"two {number}")
        ws.remove("turn")
        ws.mkdir("turn/deep")
        ws.remove("only-one", recursive=True)
        for number in range(20):
            ws.write_text(f"new/n{number}", "n")
        ws.chmod("d1/f1", 0o700)
        ws.checkpoint("two")
        two = picture(root)
    seen = set()
    for turn in range(25):
        process = started(CRASH, root, store)
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(0.003 + turn * 0.0037 * SLOWDOWN)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if turn % 5 == 4:  # a second crash while the first is repaired
            process = started(CRASH, root, store)
            time.sleep(0.05 * SLOWDOWN)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        with opened(root, store) as ws:
            ws.exists("d0/f0")
            ws.checkpoint()
            now = picture(root)
            assert now in (one, two), sorted(set(now.items()) ^ set(one.items()))[:5]
            seen.add(now == one)
            assert ws.resolve("one")  # type: ignore[truthy-bool]
            assert ws.resolve("two")  # type: ignore[truthy-bool]
    fsck(store)
    assert seen == {True, False}


# L. rollback and checkpoint correctness


def test_case_l01_l26_damaged_store_is_found_before_anything_changes(tmp_path: Path) -> None:
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    for number in range(5):
        (root / f"f{number}").write_text(f"old {number} " * 50)
    with opened(root, store) as ws:
        kept = ws.checkpoint()
        for number in range(5):
            (root / f"f{number}").write_text(f"new {number}")
        good = ws.checkpoint("good")
    wanted = git("--git-dir", store, "rev-parse", f"{kept.id}:f3").strip()
    git("--git-dir", store, "cat-file", "-e", wanted)
    # Unpack everything, so that exactly one object can be taken away.
    packs = list((store / "objects/pack").glob("*.pack"))
    away = tmp_path / "packs"
    away.mkdir()
    for pack in packs:
        for part in (store / "objects/pack").glob(pack.stem + ".*"):
            part.rename(away / part.name)
    for pack in away.glob("*.pack"):
        with open(pack, "rb") as stream:
            subprocess.run(["git", "--git-dir", store, "unpack-objects", "-q"], stdin=stream, check=True)
    place = store / "objects" / wanted[:2] / wanted[2:]
    content = place.read_bytes()
    before = picture(root)
    for damage in ("missing", "cut", "garbled", "empty"):
        place.chmod(0o600)
        match damage:
            case "missing":
                place.unlink()
            case "cut":
                place.write_bytes(content[: len(content) // 2])
            case "garbled":
                place.write_bytes(content[:10] + bytes(byte ^ 0x55 for byte in content[10:]))
            case _:
                place.write_bytes(b"")
        with opened(root, store) as ws:
            for scope in (None, ["f3"], ["/"]):
                with pytest.raises(hedgerow.StoreError) as caught:
                    ws.rollback(kept, paths=scope)
                assert caught.value.kind == "store-corrupt"
                assert picture(root) == before
            with pytest.raises(hedgerow.StoreError):
                ws.at(kept).read_text("f3")
            # All other checkpoints stay usable.
            (root / "f1").write_text("again")
            ws.rollback(good)
            assert picture(root) == before
            ws.rollback(kept, paths=["f1"])
            assert (root / "f1").read_text() == "old 1 " * 50
            ws.rollback(good)
        place.write_bytes(content)
        place.chmod(0o400)
    with opened(root, store) as ws:
        ws.rollback(kept)
        assert (root / "f3").read_text() == "old 3 " * 50


def test_case_l01_store_that_is_gone_deletes_no_file(tmp_path: Path) -> None:
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    (root / "f").write_text("old")
    with opened(root, store) as ws:
        kept = ws.checkpoint()
        (root / "f").write_text("new")
        shutil.rmtree(store)
        with pytest.raises(hedgerow.WorkspaceError):
            ws.rollback(kept)
        assert picture(root) == {b"f": ("file", 0o644, b"new")}
    with opened(root, store) as ws:
        with pytest.raises(hedgerow.WorkspaceError):
            ws.rollback(kept)
        assert picture(root) == {b"f": ("file", 0o644, b"new")}


def test_case_l01_second_workspace_on_the_root_keeps_the_first_ones_checkpoints(
    disk: Workspace, root: Path, tmp_path: Path
) -> None:
    disk.write_text("f", "one")
    kept = disk.checkpoint("kept")
    with opened(root, tmp_path / "store", id="test") as second:
        assert second.resolve("kept") == kept
        second.write_text("f", "two")
        second.checkpoint("second")
    assert [made.label for made in disk.checkpoints()][-1] == "second"
    disk.rollback(kept)
    assert (root / "f").read_text() == "one"


def test_case_l02_l08_l09_l10_changes_made_outside_are_part_of_checkpoints(disk: Workspace, root: Path) -> None:
    for name in "abcdefg":
        disk.write_text(name, "A")
    first = disk.checkpoint("A")
    seen_first = picture(root)
    subprocess.run(
        "rm a; mv b moved; echo x > new; sed -i s/A/B/ c; ln -s c link; mkdir -p x/y; chmod 755 d; cp -p e e2; : > f; rm g; mkdir g",
        shell=True,
        cwd=root,
        check=True,
    )
    (root / "untracked").write_text("old")
    second = disk.checkpoint("B")
    seen_second = picture(root)
    (root / "untracked").write_text("changed")
    (root / "after").write_text("after")
    disk.rollback(second)
    assert picture(root) == seen_second
    disk.rollback(first)
    assert picture(root) == seen_first
    disk.rollback(second)
    assert picture(root) == seen_second
    assert any(record.source == "external" or record.author == "external" for record in disk.history())


@pytest.mark.parametrize(
    "way", ["same size and second", "same size and mtime", "mmap", "truncate and regrow", "swap two files"]
)
def test_case_l02_l22_changes_that_times_hide_are_seen(disk: Workspace, root: Path, way: str) -> None:
    import mmap

    (root / "f").write_text("aaaa")
    (root / "g").write_text("gggg")
    kept = disk.checkpoint()
    info = (root / "f").stat()
    match way:
        case "same size and second":
            (root / "f").write_text("bbbb")
        case "same size and mtime":
            (root / "f").write_text("bbbb")
            os.utime(root / "f", ns=(info.st_atime_ns, info.st_mtime_ns))
        case "mmap":
            with open(root / "f", "r+b") as file, mmap.mmap(file.fileno(), 4) as view:
                view[:] = b"bbbb"
                view.flush()
            os.utime(root / "f", ns=(info.st_atime_ns, info.st_mtime_ns))
        case "truncate and regrow":
            os.truncate(root / "f", 0)
            os.truncate(root / "f", 4)
        case _:
            (root / "f").rename(root / "t")
            (root / "g").rename(root / "f")
            (root / "t").rename(root / "g")
    changed = picture(root)
    assert "f" in disk.status().paths
    second = disk.checkpoint()
    assert second.id != kept.id
    disk.rollback(kept)
    assert (root / "f").read_text() == "aaaa"
    disk.rollback(second)
    assert picture(root) == changed


def test_case_l02_racing_writes_right_after_a_capture_are_seen(disk: Workspace, root: Path) -> None:
    for turn in range(100):
        (root / "f").write_text(f"{turn:04}")
        kept = disk.checkpoint()
        (root / "f").write_text(f"{turn + 5000:04}")
        second = disk.checkpoint()
        assert disk.at(kept).read_text("f") == f"{turn:04}"
        assert disk.at(second).read_text("f") == f"{turn + 5000:04}"


@pytest.mark.parametrize("content", [{}, {"old.txt": "old"}, {"a/b/c": "deep", "e": ""}])
def test_case_l11_l29_the_start_is_a_checkpoint(tmp_path: Path, content: dict[str, str]) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name, text in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    before = picture(root)
    with opened(root, tmp_path / "store") as ws:
        ws.write_text("new.txt", "new")
        for name in content:
            ws.edit(name, "old", "edited") if content[name] == "old" else ws.append_text(name, "more")
        start = ws.checkpoints()[0]
        assert start.kind == "baseline"
        ws.rollback(start)
        assert picture(root) == before


def test_case_l12_failed_checkpoint_is_no_checkpoint(tmp_path: Path) -> None:
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    python(
        """
        import os, resource, signal, sys, hedgerow
        root, store = sys.argv[1:]
        with hedgerow.Workspace.open(root, store=store, id="w") as ws:
            first = ws.checkpoint("first")
            for number in range(20):
                open(os.path.join(root, f"f{number}"), "wb").write(os.urandom(100_000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            limit = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
            try:
                ws.checkpoint("fails")
            except hedgerow.WorkspaceError as error:
                assert error.kind in ("quota-exceeded", "file-too-large"), error.kind
            else:
                raise AssertionError("no space, and no error")
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            assert [made.label for made in ws.checkpoints()][-1] == "first"
            second = ws.checkpoint("second")
            assert second.changes == 20 and second.id != first.id
            for number in range(20):
                os.unlink(os.path.join(root, f"f{number}"))
            ws.rollback(second)
            assert len(os.listdir(root)) == 20
        """,
        root,
        store,
    )
    fsck(store)
    left = [path for path, (kind, _, _) in picture(store).items() if kind == "file" and b"tmp" in path]
    assert left == []


@pytest.mark.parametrize("where", ["/", "inside", "deleted", "relative root"])
def test_case_l13_paths_do_not_depend_on_the_current_directory(tmp_path: Path, where: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    python(
        """
        import os, sys, tempfile, hedgerow
        root, store, where = sys.argv[1:]
        if where == "relative root":
            os.chdir(os.path.dirname(root))
            ws = hedgerow.Workspace.open("root", store="store", id="w")
            os.chdir("/")
        else:
            ws = hedgerow.Workspace.open(root, store=store, id="w")
        if where == "/":
            os.chdir("/")
        elif where == "inside":
            os.chdir(os.path.join(root, "sub"))
        elif where == "deleted":
            gone = tempfile.mkdtemp(); os.chdir(gone); os.rmdir(gone)
        ws.write_text("a.txt", "old")
        kept = ws.checkpoint()
        ws.write_text("a.txt", "new"); ws.write_text("b.txt", "b")
        assert ws.status().paths == ("a.txt", "b.txt")
        ws.rollback(kept)
        assert ws.read_text("a.txt") == "old" and not ws.exists("b.txt")
        """,
        root,
        tmp_path / "store",
        where,
    )
    assert (root / "a.txt").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["root", "store"]


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (8 << 20) + 1, 20 << 20])
def test_case_l14_size_makes_no_difference(disk: Workspace, root: Path, size: int) -> None:
    content = (
        os.urandom(min(size, 1 << 20)) * (size // (1 << 20)) + b"z" * (size % (1 << 20))
        if size >= 1 << 20
        else os.urandom(size)
    )
    (root / "big").write_bytes(content)
    (root / "d/e").mkdir(parents=True)
    (root / "d/e/f").write_text("f")
    kept = disk.checkpoint()
    assert not kept.skipped
    shutil.rmtree(root / "d")
    os.truncate(root / "big", size // 2)
    disk.rollback(kept)
    assert (root / "big").read_bytes() == content
    assert (root / "d/e/f").read_text() == "f"
    assert disk.at(kept).read_bytes("big", offset=size // 2) == content[size // 2 :]


@pytest.mark.parametrize("name", ["b.txt", "sub/new/deep.txt", "a.txt.bak", "d/e/f/g", ".hidden", ".git/x", "Foo.md"])
def test_case_l15_l32_l34_l38_what_was_made_later_is_gone(disk: Workspace, root: Path, name: str) -> None:
    (root / "a.txt").write_text("a")
    (root / "sub").mkdir()
    before = picture(root)
    kept = disk.checkpoint()
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("later")
    result = disk.rollback(kept)
    assert picture(root) == before
    assert name in {change.path for change in result.changes}
    assert result.saved is not None
    assert disk.at(result.saved).read_text(name) == "later"


@pytest.mark.row("B21")
@pytest.mark.parametrize("ignore", [["build/", "*.bin"], "gitignore"])
def test_case_l16_l18_f11_ignored_files_are_left_alone(root: Path, tmp_path: Path, ignore: Any) -> None:
    (root / ".gitignore").write_text("build/\n*.bin\n")
    (root / "build/deep").mkdir(parents=True)
    (root / "build/deep/x").write_text("x")
    (root / "mixed").mkdir()
    (root / "mixed/big.bin").write_text("big")
    (root / "a").write_text("a")
    with opened(root, tmp_path / "store", ignore=ignore) as ws:
        kept = ws.checkpoint()
        times = identities(root)
        (root / "new/sub").mkdir(parents=True)
        (root / "new/sub/new.txt").write_text("new")
        (root / "new2").mkdir()
        (root / "new2/kept.bin").write_text("mine")
        (root / "new2/new.txt").write_text("new")
        (root / "build/deep/x").write_text("changed")
        (root / "build/more").write_text("more")
        (root / "a").write_text("changed")
        ws.rollback(kept)
        assert (root / "a").read_text() == "a"
        assert not (root / "new").exists()
        assert not (root / "new2/new.txt").exists()
        assert (root / "new2/kept.bin").read_text() == "mine"
        assert (root / "build/deep/x").read_text() == "changed"
        assert (root / "build/more").read_text() == "more"
        assert identities(root)[b"mixed/big.bin"] == times[b"mixed/big.bin"]


@pytest.mark.parametrize("ignore", [["build/", "*.log"], "gitignore"])
@pytest.mark.parametrize("now", ["changed", "gone", "of another kind"])
def test_case_l16_rules_that_came_later_leave_alone_what_an_older_checkpoint_holds(
    root: Path, tmp_path: Path, ignore: Any, now: str
) -> None:
    store = tmp_path / "store"
    (root / "build").mkdir()
    for name in ("build/out", "a.log", "src.txt"):
        (root / name).write_text("old")
    (root / ".gitignore").write_text("build/\n*.log\n")
    with opened(root, store) as ws:
        kept = ws.checkpoint("kept")
    if now != "changed":
        shutil.rmtree(root / "build")
        (root / "a.log").unlink()
    if now == "changed":
        (root / "build/out").write_text("in no checkpoint")
        (root / "a.log").write_text("in no checkpoint")
    elif now == "of another kind":
        (root / "build").write_text("a file, which the rules do not mean")
        (root / "a.log").mkdir()
        (root / "a.log/x").write_text("in no checkpoint")
    (root / "src.txt").write_text("new")
    before = picture(root)
    with opened(root, store, ignore=ignore) as ws:
        done = ws.rollback(kept)
        assert [str(change) for change in done.changes] == ["modified src.txt"]
        assert not ws.status().changes
        assert done.saved is not None
        ws.rollback(done.saved)
        assert picture(root) == before
        for path in ("a.log", "build/out"):
            if now == "changed":
                with pytest.raises(hedgerow.InvalidArgumentError, match="ignored"):
                    ws.rollback(kept, paths=[path])
        assert ws.at(kept).read_text("a.log") == "old"


def test_case_l16_what_is_ignored_now_is_not_told_as_deleted(root: Path, tmp_path: Path) -> None:
    (root / "a.log").write_text("log")
    with opened(root, tmp_path / "store") as ws:
        ws.checkpoint()
    with opened(root, tmp_path / "store", ignore=["*.log"]) as ws:
        assert not ws.status().changes
        (root / "a.log").unlink()
        assert [str(change) for change in ws.status()] == ["deleted a.log"]


def test_case_l23_l24_garbage_collection_in_either_repository_takes_nothing(tmp_path: Path) -> None:
    root, store = tmp_path / "root", tmp_path / "store"
    git("init", "-q", root)
    (root / "f").write_text("committed")
    git("add", "-A", cwd=root)
    git("commit", "-qm", "one", cwd=root)
    git("checkout", "-q", "-b", "side", cwd=root)
    (root / "side").write_text("side")
    git("add", "-A", cwd=root)
    git("commit", "-qm", "side", cwd=root)
    ids = []
    with opened(root, store) as ws:
        for turn in range(4):
            (root / "f").write_text(f"turn {turn}")
            ids.append((ws.checkpoint(f"turn {turn}").id, (root / "f").read_text()))
        ws.rollback(ids[0][0])  # what lies ahead of a rollback must stay reachable as well
    git("checkout", "-qf", "main", cwd=root)
    git("branch", "-D", "side", cwd=root)
    git("reflog", "expire", "--expire=now", "--all", cwd=root)
    git("gc", "-q", "--prune=now", cwd=root)
    git("--git-dir", store, "reflog", "expire", "--expire=now", "--all")
    git("--git-dir", store, "gc", "-q", "--prune=now", "--aggressive")
    fsck(store)
    with opened(root, store) as ws:
        for made in ws.checkpoints():
            assert len(ws.at(made).export()) > 0
        for name, content in ids:
            ws.rollback(name)
            assert (root / "f").read_text() == content
    fsck(store)


def test_case_l23_repacking_while_the_workspace_is_open(disk: Workspace, root: Path, tmp_path: Path) -> None:
    (root / "f").write_text("one")
    one = disk.checkpoint()
    (root / "f").write_text("two")
    two = disk.checkpoint()
    git("--git-dir", tmp_path / "store", "gc", "-q", "--prune=now")
    assert disk.at(one).read_text("f") == "one"
    disk.rollback(one)
    git("--git-dir", tmp_path / "store", "repack", "-adq")
    git("--git-dir", tmp_path / "store", "pack-refs", "--all", "--prune")
    disk.rollback(two)
    assert (root / "f").read_text() == "two"
    (root / "f").write_text("three")
    disk.checkpoint("three")
    fsck(tmp_path / "store")
    with opened(root, tmp_path / "store", id="test") as again:
        assert again.head.label == "three"


def test_case_l27_lost_bookkeeping_is_made_anew_or_named(tmp_path: Path) -> None:
    """Each file of ours in the store is garbled, emptied and removed; the objects stay."""
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    (root / "f").write_text("old")
    with opened(root, store) as ws:
        kept = ws.checkpoint("kept")
        (root / "f").write_text("new")
        ws.checkpoint("new")
    ours = [path for path in (store / "hedgerow").rglob("*") if path.is_file()]
    assert ours
    for damage in ("removed", "garbled", "empty"):
        for path in ours:
            shutil.copytree(store, tmp_path / "copy", symlinks=True)
            place = tmp_path / "copy" / path.relative_to(store)
            if damage == "removed":
                place.unlink()
            else:
                place.chmod(0o600)
                place.write_bytes(b"\xde\xad" * 20 if damage == "garbled" else b"")
            before = picture(root)
            what = f"{path.relative_to(store)} {damage}"
            try:
                with opened(root, tmp_path / "copy") as ws:
                    assert "kept" in [made.label for made in ws.checkpoints()], what
                    ws.rollback(kept)
                    assert (root / "f").read_text() == "old", what
                    ws.rollback("new")
            except hedgerow.WorkspaceError as error:
                assert error.kind in ("store-corrupt", "store-version"), (what, error)
            assert picture(root) == before, what
            shutil.rmtree(tmp_path / "copy")


@pytest.mark.row("B20", "B22")
def test_case_l28_rollback_names_every_change_and_can_be_undone(disk: Workspace, root: Path) -> None:
    (root / "u.txt").write_text("u old")
    (root / "a.txt").write_text("a old")
    kept = disk.checkpoint()
    (root / "u.txt").write_text("the user's week of work")
    disk.edit("a.txt", "old", "new", author="agent")
    before = picture(root)
    result = disk.rollback(kept)
    assert {change.path for change in result.changes} == {"a.txt", "u.txt"}
    assert result.saved is not None
    disk.rollback(result.saved)
    assert picture(root) == before
    disk.rollback(kept, paths=["a.txt"])
    assert (root / "u.txt").read_text() == "the user's week of work"
    assert (root / "a.txt").read_text() == "a old"
    assert {made.id for made in disk.checkpoints()} >= {kept.id, result.saved.id, result.checkpoint.id}


@pytest.mark.parametrize("paths", [["d"], ["d/"], ["/d"], ["./d/x", "d/y"], ["new"], ["link"], ["d", "d/x"], ["gone"]])
def test_case_l28_rollback_of_paths_touches_nothing_else(disk: Workspace, root: Path, paths: list[str]) -> None:
    (root / "d").mkdir()
    for name in ("d/x", "d/y", "e", "gone"):
        (root / name).write_text("old")
    (root / "link").symlink_to("d")
    kept = disk.checkpoint()
    for name in ("d/x", "d/y", "e", "new"):
        (root / name).write_text("new")
    (root / "gone").unlink()
    (root / "link").unlink()
    (root / "link").symlink_to("e")
    disk.rollback(kept, paths=paths)
    plain = {os.path.normpath(path).lstrip("/") for path in paths}

    def expected(name: str) -> bool:
        return any(name == path or name.startswith(path + "/") for path in plain)

    for name in ("d/x", "d/y", "e"):
        assert (root / name).read_text() == ("old" if expected(name) else "new")
    assert (root / "new").exists() is not expected("new")
    assert (root / "gone").exists() is expected("gone")
    assert os.readlink(root / "link") == ("d" if expected("link") else "e")


@pytest.mark.parametrize("how", ["through a link", "where a link was put"])
def test_case_l28_a_path_of_a_rollback_is_what_either_state_holds(any_ws: Workspace, how: str) -> None:
    any_ws.write_many({"d/x": "old", "other/x": "old"})
    any_ws.symlink("link", "d")
    kept = any_ws.checkpoint()
    if how == "through a link":
        any_ws.write_many({"d/x": "new", "other/x": "new"})
        done = any_ws.rollback(kept, paths=["link/x"])
        assert [str(change) for change in done.changes] == ["modified d/x"]
        assert any_ws.readlink("link") == "d"
    else:
        any_ws.write_text("other/x", "new")
        any_ws.remove("d", recursive=True)
        any_ws.symlink("d", "other")
        any_ws.rollback(kept, paths=["d/x"])
        assert any_ws.stat("d").kind == "directory"
    assert any_ws.read_text("d/x") == "old"
    assert any_ws.read_text("other/x") == "new"
    with pytest.raises(hedgerow.NotFoundError):
        any_ws.rollback(kept, paths=["link/missing"])


def test_case_l_what_is_saved_while_a_rollback_goes_on_stays(disk: Workspace, root: Path) -> None:
    names = [f"f{number:03}" for number in range(150)]
    for name in names:
        (root / name).write_text("old")
    kept = disk.checkpoint()
    lost = 0
    for turn in range(6):
        for name in names:
            (root / name).write_text("middle")
        saved: dict[str, str] = {}
        stop = threading.Event()

        def save(turn: int = turn, saved: dict[str, str] = saved, stop: threading.Event = stop) -> None:
            for number in range(len(names)):
                if stop.wait(0.0005):
                    return
                name = names[number * 7 % len(names)]
                saved[name] = f"turn {turn} {name}"
                (root / name).write_text(saved[name])

        thread = threading.Thread(target=save)
        thread.start()
        first = None
        try:
            first = disk.rollback(kept).saved
        except hedgerow.ConflictError as error:
            assert error.kind == "uncheckpointed-changes"
        stop.set()
        thread.join()
        for name, text in saved.items():
            there = first is not None and disk.at(first).read_text(name) == text
            lost += not there and (root / name).read_text() != text
    # Only what is written in the instant its file is replaced can be; without a look it would be hundreds.
    assert lost <= 3
    disk.rollback(kept)
    assert {(root / name).read_text() for name in names} == {"old"}


def test_case_l39_no_handle_or_mapping_stays_open(disk: Workspace, root: Path) -> None:
    (root / "f").write_text("old\n" * 1000)
    kept = disk.checkpoint()
    (root / "f").write_text("new\n" * 1000)
    disk.diff(kept).patch()
    disk.search("new")
    list(disk.iter_bytes("f"))
    disk.rollback(kept)
    held = {
        os.readlink(f"/proc/self/fd/{name}")
        for name in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{name}")
    }
    assert str(root / "f") not in held
    assert str(root / "f") not in Path("/proc/self/maps").read_text()


def test_checkpoint_without_change_is_the_head(any_ws: Workspace) -> None:
    any_ws.write_text("f", "x")
    first = any_ws.checkpoint("one")
    objects = any_ws.stats().objects
    again = any_ws.checkpoint("two")
    assert again.id == first.id
    assert set(again.labels) == {"one", "two"}
    assert any_ws.resolve("one").id == any_ws.resolve("two").id == first.id
    assert any_ws.stats().objects - objects <= 1
    any_ws.write_text("f", "x")  # the same bytes again
    assert any_ws.status().paths == ()


def test_case_m05_store_is_outside_the_tree(disk: Workspace, root: Path) -> None:
    disk.write_text("f", "x")
    disk.checkpoint()
    assert os.listdir(root) == ["f"]
    assert stat.S_ISDIR(root.stat().st_mode)


@pytest.mark.parametrize("where", ["link/store", "elsewhere/../project/store", "link", "new/../project/new"])
def test_case_m05_no_way_of_writing_it_puts_the_store_into_the_tree(root: Path, where: str) -> None:
    (root / "sub").mkdir()
    (root.parent / "elsewhere").mkdir()
    (root.parent / "link").symlink_to(root / "sub")
    with pytest.raises(hedgerow.InvalidArgumentError, match="the store lies inside the workspace"):
        Workspace.open(root, store=f"{root.parent}/{where}")
    assert sorted(os.listdir(root)) == ["sub"]


@pytest.mark.parametrize("inside", ["", "hedgerow", "hedgerow/workspaces/w"])
def test_case_m05_no_workspace_is_opened_in_a_store(root: Path, tmp_path: Path, inside: str) -> None:
    store = tmp_path / "store"
    with opened(root, store) as ws:
        ws.checkpoint()
    (tmp_path / "link").symlink_to(store / inside)
    for place in (store / inside, tmp_path / "link"):
        with pytest.raises(hedgerow.InvalidArgumentError):
            Workspace.open(place, store=store)


def test_case_m05_repository_of_a_working_tree_is_not_made_a_store(root: Path, tmp_path: Path) -> None:
    git("init", "-q", "-b", "trunk", tmp_path / "theirs")
    before = picture(tmp_path / "theirs")
    with pytest.raises(hedgerow.InvalidArgumentError):
        Workspace.open(root, store=tmp_path / "theirs/.git")
    with pytest.raises(hedgerow.InvalidArgumentError):
        Workspace.memory(store=tmp_path / "theirs/.git")
    assert picture(tmp_path / "theirs") == before
    git("init", "-q", "--bare", tmp_path / "bare.git")
    with opened(root, tmp_path / "bare.git") as ws:
        assert ws.checkpoint("one").label == "one"


def test_case_l12_without_a_file_handle_left_nothing_breaks_for_later(tmp_path: Path) -> None:
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    python(
        """
        import os, resource, sys, hedgerow
        root, store = sys.argv[1:]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        errors = 0
        for spare in range(40):
            with hedgerow.Workspace.open(root, store=store, id="w") as ws:
                open(os.path.join(root, "theirs"), "w").write("x" * spare)
                used = len(os.listdir("/proc/self/fd")) - 1
                resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, hard))
                for call in (ws.checkpoint, lambda: ws.write_text("ours", "y" * spare), lambda: ws.rollback("baseline")):
                    try:
                        call()
                    except hedgerow.WorkspaceError as error:
                        assert error.kind == "io-error", error
                        errors += 1
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                ws.write_text("ours", f"{spare}")
                ws.checkpoint(f"after {spare}")
                assert ws.at(f"after {spare}").read_text("ours") == str(spare)
        assert 0 < errors < 120, errors
        left = [directory for directory, _, _ in os.walk(store) if os.path.basename(os.path.dirname(directory)) == "tmp"]
        assert len(left) <= 1, len(left)
        """,
        root,
        store,
    )
    fsck(store)


def test_case_l_lost_branch_of_a_store_is_told_and_can_be_found_again(tmp_path: Path, root: Path) -> None:
    with opened(root, tmp_path / "store") as ws:
        ws.write_text("f", "kept")
        kept = ws.checkpoint("kept")
        name = f"{ws.id}/main"
    git("-C", tmp_path / "store", "update-ref", "-d", f"refs/heads/{name}")
    with pytest.raises(hedgerow.StoreError) as caught:
        Workspace.open(root, store=tmp_path / "store", id="w")
    assert caught.value.kind == "store-corrupt"
    assert f"refs/heads/{name}" in caught.value.hint
    assert kept.id in git("-C", tmp_path / "store", "fsck", "--lost-found")
    git("-C", tmp_path / "store", "update-ref", f"refs/heads/{name}", kept.id)
    with opened(root, tmp_path / "store") as ws:
        assert ws.resolve("kept").id == kept.id
        assert not ws.status()


def test_case_l_first_checkpoint_is_the_baseline_whatever_it_is_called(tmp_path: Path, root: Path) -> None:
    for ws in (Workspace.memory(), Workspace.open(root, store=tmp_path / "store")):
        made = ws.checkpoint("mine", author="me")
        assert ws.resolve("baseline").id == ws.resolve("mine").id == made.id
        assert len(ws.checkpoints()) == 1
        ws.close()


def test_case_k_unreadable_file_is_not_told_as_deleted(root: Path, tmp_path: Path) -> None:
    done = python(
        """
        import os, sys
        from hedgerow import Workspace
        root, store = sys.argv[1:]
        ws, secret = Workspace.open(root, store=store), os.path.join(root, "secret")
        ws.write_text("secret", "x")
        first = ws.checkpoint("readable")
        os.chmod(secret, 0)
        assert not ws.status(), ws.status()
        second = ws.checkpoint("not")
        assert [(left_out.path, left_out.reason) for left_out in second.skipped] == [("secret", "unreadable")]
        assert not ws.diff(first, second), ws.diff(first, second)
        os.unlink(secret)
        assert [change.effect for change in ws.diff(first).changes] == ["deleted"]
        os.mkfifo(secret)  # a pipe is no file that cannot be looked at
        third = ws.checkpoint("pipe")
        assert [change.effect for change in ws.diff(first, third).changes] == ["deleted"]
        print("done")
        """,
        root,
        tmp_path / "store",
        prefix=unprivileged(),
    )
    assert done.stdout == "done\n"
