"""The methods as a user meets them; what the core does underneath is tested elsewhere in depth."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import doctest
import gc
import json
import os
import pickle
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest

import hedgerow
from hedgerow import AsyncWorkspace, Checkpoint, Kind, Record, TreeNode, Workspace, _async, _workspace, fs


@pytest.mark.parametrize("module", [_workspace, _async])
def test_examples_in_docstrings_run(module: object) -> None:
    names = {"Workspace": Workspace, "AsyncWorkspace": AsyncWorkspace}
    result = doctest.testmod(module, extraglobs=names)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


# opening


@pytest.mark.row("S79")
def test_constructors_make_the_same_workspaces(tmp_path: Path) -> None:
    assert Workspace().root is None
    assert Workspace(fs.Memory(), id="mine").id == "mine"
    with Workspace(fs.Disk(tmp_path / "new", create=True), store=tmp_path / "store") as ws:
        assert ws.root == tmp_path / "new"
        assert ws.store == tmp_path / "store"
    with pytest.raises(TypeError, match="open"):
        Workspace("a path")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        Workspace.open(tmp_path / "missing", store=tmp_path / "store")


def test_default_store_is_in_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Workspace.open(tmp_path / "a", create=True) as ws:
        assert ws.store == tmp_path / "state" / "hedgerow"
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    with Workspace.open(tmp_path / "a") as ws:
        assert ws.store == tmp_path / "home" / ".local" / "state" / "hedgerow"
    assert stat.S_IMODE((tmp_path / "home/.local/state/hedgerow").stat().st_mode) == 0o700


def test_home_is_refused_as_a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(hedgerow.LimitError) as caught:
        Workspace.open(tmp_path, store=tmp_path.parent / "store")
    assert caught.value.kind == "root-too-large"


def test_closed_workspace_refuses_everything(ws: Workspace) -> None:
    ws.close()
    ws.close()
    assert ws.is_closed
    assert "closed" in repr(ws)
    with pytest.raises(hedgerow.ClosedError):
        ws.read_text("a")


def test_leaving_a_derived_handle_keeps_the_workspace(ws: Workspace) -> None:
    with ws.attributed("coder"), ws.read_only():
        pass
    assert not ws.is_closed


# read


@pytest.mark.row("S15")
def test_paths_of_every_form_name_the_same_entry(any_ws: Workspace) -> None:
    any_ws.write_text(PurePosixPath("a/b.txt"), "x")
    for path in ("a/b.txt", "/a/b.txt", "./a//b.txt", PurePosixPath("/a/b.txt")):
        assert any_ws.read_text(path) == "x"
        assert any_ws.stat(path).size == 1
    assert any_ws.stat("a/b.txt").name == "b.txt"


@pytest.mark.row("S18")
def test_ranges_are_clamped(any_ws: Workspace) -> None:
    any_ws.write_bytes("d", b"0123456789")
    assert any_ws.read_bytes("d", offset=3, length=4) == b"3456"
    assert any_ws.read_bytes("d", offset=42) == b""
    assert any_ws.read_bytes("d", offset=8, length=100) == b"89"
    for arguments in ({"offset": -1}, {"length": -1}):
        with pytest.raises(ValueError, match="negative"):
            any_ws.read_bytes("d", **arguments)


@pytest.mark.row("S19")
async def test_bytes_come_in_pieces_in_both_faces(any_ws: Workspace) -> None:
    any_ws.write_bytes("d", b"0123456789")
    assert [len(piece) for piece in any_ws.iter_bytes("d", chunk=3)] == [3, 3, 3, 1]
    assert [len(piece) async for piece in any_ws.aio.iter_bytes("d", chunk=3)] == [3, 3, 3, 1]
    async with any_ws.aio.iter_bytes("d", chunk=3) as stream:
        assert await anext(stream) == b"012"
    assert [piece async for piece in stream] == []
    for chunk in (0, -1):
        with pytest.raises(ValueError, match="chunk"):
            any_ws.iter_bytes("d", chunk=chunk)
        with pytest.raises(ValueError, match="chunk"):
            any_ws.aio.iter_bytes("d", chunk=chunk)
    with pytest.raises(FileNotFoundError):
        any_ws.iter_bytes("missing")
    with pytest.raises(FileNotFoundError):
        await any_ws.aio.iter_bytes("missing")


@pytest.mark.row("S20", "S21", "S79")
def test_exists_answers_for_anything_but_an_escape(any_ws: Workspace) -> None:
    any_ws.symlink("dangling", "nowhere")
    assert any_ws.exists("dangling")
    assert any_ws.exists("/")
    assert not any_ws.exists("nope")
    assert not any_ws.exists("a\0b")
    assert not any_ws.exists("")


@pytest.mark.row("S20")
def test_stat_tells_kind_size_mode_and_time(any_ws: Workspace) -> None:
    any_ws.write_text("f", "abc")
    any_ws.mkdir("d")
    any_ws.symlink("l", "f")
    found = {entry.name: entry for entry in any_ws.list_dir()}
    assert list(found) == ["d", "f", "l"]
    assert (found["f"].is_file, found["d"].is_directory, found["l"].is_symlink) == (True, True, True)
    assert (found["f"].size, found["l"].target) == (3, "f")
    modified = found["f"].modified
    if any_ws.root is not None:  # memory keeps no times
        assert modified is not None
        assert modified.tzinfo is UTC
        assert abs((datetime.now(UTC) - modified).total_seconds()) < 60
    with pytest.raises(dataclasses.FrozenInstanceError):
        found["f"].size = 4  # type: ignore[misc]


@pytest.mark.row("S22")
def test_tree_and_summary_are_sorted_and_deterministic(any_ws: Workspace) -> None:
    for path in ("b/2.txt", "a/1.txt", "a/sub/deep.txt", "c.txt"):
        any_ws.write_text(path, "12345")
    any_ws.symlink("link", "a")
    tree = any_ws.tree()
    assert str(tree) == "/\n  a/\n    1.txt\n    sub/\n      deep.txt\n  b/\n    2.txt\n  c.txt\n  link@"
    shallow = any_ws.tree(max_depth=1)
    assert shallow.children is not None
    assert [child.children for child in shallow.children] == [None] * 4
    assert json.loads(json.dumps(tree.to_dict())) == any_ws.tree().to_dict()
    summary = any_ws.summary()
    assert (summary.files, summary.directories, summary.symlinks, summary.special, summary.bytes) == (4, 4, 1, 0, 20)
    assert any_ws.tree("a").path == "a"
    assert any_ws.tree("a", max_depth=0).children is None


@pytest.mark.row("S22")
def test_deep_tree_does_not_meet_the_recursion_limit(ws: Workspace) -> None:
    path = "/".join("d" * 1_500)
    ws.mkdir(path)
    node = ws.tree()
    assert str(node).count("\n") == 1_500
    depth = 0
    while node.children:
        node, depth = node.children[0], depth + 1
    assert depth == 1_500


@pytest.mark.row("S16")
def test_glob_is_a_sequence_that_says_whether_it_was_cut(any_ws: Workspace) -> None:
    any_ws.write_many({"a.py": "", "b.py": "", "src/c.py": ""})
    found = any_ws.glob("**/*.py")
    assert found == ["a.py", "b.py", "src/c.py"] == list(found)
    assert found == ("a.py", "b.py", "src/c.py")
    assert not found.truncated
    assert found[0] == "a.py"
    assert "b.py" in found
    cut = any_ws.glob("**/*.py", max_results=1)
    assert (list(cut), cut.truncated, cut.to_dict()["truncated"]) == (["a.py"], True, True)


def test_a_tree_may_be_deeper_than_the_stack_of_the_interpreter() -> None:
    def nested(levels: int, size: int = 0) -> TreeNode:
        node = TreeNode("leaf", "/leaf", Kind.FILE, size, None, None)
        for level in range(levels):
            side = TreeNode("z", f"/{level}/z", Kind.SYMLINK, 1, "\udcff", None)
            children = (node, side) if level % 2 else (node,)
            node = TreeNode("d", f"/{level}", Kind.DIRECTORY, 0, None, children)
        return node

    for levels in (3, 5_000):
        node = nested(levels)
        assert node == nested(levels)
        assert hash(node) == hash(nested(levels))
        assert node != nested(levels, size=1)
        assert node != nested(levels + 1)
        assert node.children != node
        for copied in (pickle.loads(pickle.dumps(node)), copy.deepcopy(node), copy.copy(node)):
            assert copied == node
            assert type(copied.children) is tuple
        drawn = str(node).split("\n")
        assert (drawn[0], drawn[1], drawn[levels]) == ("d/", "  d/", "  " * levels + "leaf")
        item = node.to_dict()
        for _ in range(levels):
            assert list(item) == ["name", "path", "kind", "size", "target", "children"]
            item = item["children"][0]
        assert item == {"name": "leaf", "path": "/leaf", "kind": "file", "size": 0, "target": None, "children": None}
        assert repr(node).count("TreeNode(") == 1 + levels + levels // 2
    assert repr(nested(1)) == (
        "TreeNode(name='d', path='/0', kind=<Kind.DIRECTORY: 'directory'>, size=0, target=None, "
        "children=(TreeNode(name='leaf', path='/leaf', kind=<Kind.FILE: 'file'>, size=0, target=None, children=None),))"
    )
    assert repr(nested(2)).endswith("target='\\udcff', children=None)))")
    assert repr(TreeNode("d", "d", Kind.DIRECTORY, 0, None, ())).endswith("children=())")


@pytest.mark.row("S24")
def test_search_returns_lines_with_context_and_reasons(any_ws: Workspace) -> None:
    any_ws.write_text("a.txt", "one\ntwo\nthree\n")
    any_ws.write_bytes("b.bin", b"two\0\xff")
    found = any_ws.search("two", context=1)
    (match,) = found
    assert (match.path, match.line, match.text, match.before, match.after) == ("a.txt", 2, "two", ("one",), ("three",))
    assert match.text[match.start : match.end] == "two"
    assert [skipped.path for skipped in found.skipped] == ["b.bin"]
    assert (len(found), found.truncated, found.truncated_by) == (1, False, None)
    assert any_ws.search("t", max_matches=1).truncated_by == "matches"
    assert not any_ws.search("two", include="*.py")
    assert any_ws.search("TWO", ignore_case=True).matches
    with pytest.raises(ValueError):
        any_ws.search("(", regex=True)


# write


@pytest.mark.row("S23")
def test_json_is_pretty_sorted_and_ends_with_one_newline(any_ws: Workspace) -> None:
    any_ws.write_json("a.json", {"b": 1, "a": ["é", None]})
    assert any_ws.read_text("a.json") == '{\n  "a": [\n    "é",\n    null\n  ],\n  "b": 1\n}\n'
    assert any_ws.read_json("a.json") == {"a": ["é", None], "b": 1}
    any_ws.write_json("c.json", {"b": 1, "a": 2}, indent=None, sort_keys=False)
    assert any_ws.read_text("c.json") == '{"b": 1, "a": 2}\n'
    any_ws.write_text("bom.json", "\ufeff[1]")
    assert any_ws.read_json("bom.json") == [1]


@pytest.mark.row("S23")
def test_bad_json_is_a_typed_error_with_the_path(any_ws: Workspace) -> None:
    for text in ("{", "", "[1,]", "[" * 100_000):
        any_ws.write_text("bad.json", text)
        with pytest.raises(ValueError, match=r"^invalid JSON: bad\.json") as caught:
            any_ws.read_json("bad.json")
        assert isinstance(caught.value, hedgerow.WorkspaceError)
        assert caught.value.path == "bad.json"


@pytest.mark.row("S23")
def test_json_takes_dataclasses_and_our_own_records(any_ws: Workspace) -> None:
    @dataclasses.dataclass
    class Point:
        x: int
        where: Path

    any_ws.write_json("p.json", [Point(1, Path("a")), any_ws.head])
    point, head = any_ws.read_json("p.json")
    assert point == {"x": 1, "where": "a"}
    assert head["id"] == any_ws.head.id
    for value in (object(), {1, 2}, float("nan")):
        with pytest.raises((TypeError, ValueError)):
            any_ws.write_json("q.json", value)
    assert not any_ws.exists("q.json")


@pytest.mark.row("S38")
def test_create_is_exclusive(any_ws: Workspace) -> None:
    assert any_ws.create("a", "text") == 4
    assert any_ws.create("b") == 0
    with pytest.raises(FileExistsError):
        any_ws.create("a", b"other")
    assert any_ws.read_text("a") == "text"


def test_if_hash_refuses_a_stale_write(any_ws: Workspace) -> None:
    any_ws.write_text("a", "one")
    seen = any_ws.content_id("a")
    any_ws.write_text("a", "two", if_hash=seen)
    with pytest.raises(hedgerow.EditError) as caught:
        any_ws.write_text("a", "three", if_hash=seen)
    assert caught.value.kind == "stale-content"
    assert any_ws.read_text("a") == "two"


@pytest.mark.row("S80")
def test_clear_empties_a_memory_workspace(ws: Workspace, disk: Workspace) -> None:
    ws.write_text("a/b", "x")
    ws.clear()
    assert ws.list_dir() == []
    with pytest.raises(hedgerow.NotSupportedError):
        disk.clear()


def test_batch_writes_and_reads(any_ws: Workspace) -> None:
    assert any_ws.write_many({"a": "é", "b": b"\xff"}) == 3
    assert any_ws.read_many(["b", "a"], binary=True) == {"b": b"\xff", "a": "é".encode()}
    assert any_ws.append_text("a", "!") == 1
    assert any_ws.read_many(["a"]) == {"a": "é!"}


# past


@pytest.mark.row("B13", "B14", "B15")
def test_changed_by_lists_visits(any_ws: Workspace) -> None:
    for author, path in (("coder", "src/a.py"), ("designer", "assets/ü.txt")):
        with any_ws.attributed(author) as handle:
            handle.write_text(path, "x\n")
            handle.checkpoint()
    any_ws.checkpoint(author="idle")
    any_ws.write_text("src/a.py", "y\n", author="coder")
    any_ws.checkpoint(author="coder")

    assert any_ws.changed_by().to_dict() == {"coder": ["src/a.py"], "designer": ["assets/ü.txt"], "idle": []}
    first, second = any_ws.changed_by("coder")
    assert (first.changes[-1].effect, second.changes[0].effect) == ("created", "modified")
    assert [visit.paths for visit in any_ws.changed_by("idle")] == [()]
    assert any_ws.changed_by("nobody") == []


@pytest.mark.row("B19")
def test_log_blame_and_last_author_name_who_did_it(any_ws: Workspace) -> None:
    any_ws.write_text("a.py", "one\ntwo\n", author="ada")
    any_ws.checkpoint("first", author="ada")
    any_ws.edit("a.py", "two", "TWO", author="bob")
    second = any_ws.checkpoint("second", author="bob")
    assert [(entry.author, entry.effect) for entry in any_ws.log("a.py")] == [("bob", "modified"), ("ada", "created")]
    assert len(any_ws.log("a.py", limit=1)) == 1
    assert any_ws.last_author("a.py") == "bob"
    with pytest.raises(FileNotFoundError):
        any_ws.last_author("never")
    assert [(line.line, line.author) for line in any_ws.blame("a.py")] == [(1, "ada"), (2, "bob")]
    assert any_ws.blame("a.py")[1].checkpoint == second.id


@pytest.mark.row("B16", "S56", "S58")
def test_refs_may_be_checkpoints_ids_prefixes_labels_and_authors(any_ws: Workspace) -> None:
    any_ws.write_text("a", "1")
    first = any_ws.checkpoint("first", author="ada")
    for ref in (first, first.id, first.id[:12], "first", "ada"):
        assert any_ws.resolve(ref) == first
        assert any_ws.at(ref).read_text("a") == "1"
    with pytest.raises(TypeError, match="ref"):
        any_ws.resolve(3)  # type: ignore[arg-type]
    past = any_ws.at(first)
    assert past.is_read_only
    with pytest.raises(hedgerow.ReadOnlyError):
        past.write_text("a", "2")


def test_rollback_saves_what_no_checkpoint_held(any_ws: Workspace) -> None:
    any_ws.write_text("a", "1")
    first = any_ws.checkpoint("first")
    any_ws.write_text("a", "2")
    done = any_ws.rollback(first, label="back", author="ada")
    assert any_ws.read_text("a") == "1"
    assert done.saved is not None
    assert done.target == first.id
    assert done.checkpoint.label == "back"
    assert [change.path for change in done.changes] == ["a"]
    any_ws.rollback(done.saved)
    assert any_ws.read_text("a") == "2"


@pytest.mark.row("S27")
def test_records_and_checkpoints_survive_json(any_ws: Workspace) -> None:
    any_ws.write_text("a", "1", author="ada")
    made = any_ws.checkpoint("first", author="ada")
    (record,) = [record for record in any_ws.history(author="ada") if record.paths == ("a",)]
    assert record.workspace == any_ws.id
    assert Record.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    assert Checkpoint.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_diff_is_lazy_and_counts(any_ws: Workspace) -> None:
    assert not any_ws.status()
    any_ws.write_text("a.txt", "one\n")
    diff = any_ws.diff()
    assert (bool(diff), len(diff), diff.paths) == (True, 1, ("a.txt",))
    assert "+one" in diff.patch() == str(diff)
    patch = diff.unified("a.txt")
    assert (patch.additions, patch.truncated) == (1, False)
    assert "created a.txt" in repr(diff)


def test_read_only_handle_is_refused_by_the_core(any_ws: Workspace) -> None:
    any_ws.write_text("a", "1")
    reader = any_ws.read_only()
    assert reader.is_read_only
    assert "read-only" in repr(reader)
    for attempt in (
        lambda: reader.write_text("a", "2"),
        lambda: reader.remove("a"),
        lambda: reader.checkpoint(),
        lambda: reader.attributed("x").mkdir("d"),
    ):
        with pytest.raises(hedgerow.ReadOnlyError):
            attempt()
    assert reader.read_text("a") == "1"


# directories


@pytest.mark.row("B36")
async def test_fspath_and_materialized_give_a_real_directory(ws: Workspace, disk: Workspace, root: Path) -> None:
    assert os.fspath(disk) == str(root)
    disk.write_text("a.txt", "x")
    with disk.materialized() as directory:
        assert directory == root
    assert root.exists()

    assert ws.root is None
    with pytest.raises(OSError, match="not a directory on disk") as caught:
        os.fspath(ws)
    assert "materialized" in getattr(caught.value, "hint", "")
    ws.write_text("deep/a.txt", "y")
    ws.mkdir("empty")
    ws.checkpoint("then")
    with ws.materialized() as directory:
        assert (directory / "deep" / "a.txt").read_text() == "y"
        assert (directory / "empty").is_dir()
        assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    assert not directory.parent.exists()
    ws.write_text("deep/a.txt", "z")
    async with ws.aio.materialized("then") as directory:
        assert (directory / "deep" / "a.txt").read_text() == "y"
    assert not directory.parent.exists()


def test_materialized_is_removed_whatever_its_modes(ws: Workspace) -> None:
    ws.write_text("locked/file", "x")
    with ws.materialized() as directory:
        (directory / "locked").chmod(0)
        directory.chmod(0o500)
    assert not directory.parent.exists()


# progress and cost


def test_progress_is_told(any_ws: Workspace) -> None:
    seen: list[tuple[int, int, int]] = []
    any_ws.write_text("a", "x")
    any_ws.checkpoint(progress=lambda *numbers: seen.append(numbers))
    assert all(done <= total or total == 0 for done, total, _ in seen)
    any_ws.checkpoint(progress=True)
    any_ws.checkpoint(progress=False)
    with pytest.raises(TypeError, match="progress"):
        any_ws.checkpoint(progress=3)  # type: ignore[arg-type]


async def test_failure_of_the_progress_function_ends_the_call(ws: Workspace) -> None:
    def fail(*_: int) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        await ws.aio.checkpoint(progress=fail)


async def test_cancelled_call_leaves_at_once(any_ws: Workspace) -> None:
    task = asyncio.ensure_future(any_ws.aio.checkpoint("x"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert any_ws.exists("/")


def test_import_brings_in_nothing_heavy() -> None:
    code = (
        "import json, sys; before = set(sys.modules); import warnings; warnings.simplefilter('ignore'); import hedgerow;"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"asyncio", "typing", "dataclasses", "datetime", "pathlib", "html", "tempfile", "inspect"} & set(loaded)


def test_what_was_written_is_not_the_callers_any_more(workspace: Workspace) -> None:
    class Loud(str):
        pass

    data, text = bytearray(b"first"), Loud("text")
    assert workspace.write_bytes("f", data) == 5  # type: ignore[arg-type]
    data[:] = b"other"
    assert workspace.read_bytes("f") == b"first"
    assert workspace.write_text("t", text) == 4
    assert type(workspace.read_text("t")) is str
    for number in range(100):
        workspace.write_text("many", f"content {number}")
    gc.collect()
    records = workspace.history()
    assert len({record.changes[-1].after_id for record in records if "many" in record.paths}) == 100


def test_closing_leaves_nothing_for_the_end_of_the_handle(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    ws = Workspace.open(tmp_path / "root", store=tmp_path / "store")
    ws.write_text("f", "x")
    ws.checkpoint()
    temporary = tmp_path / "store/hedgerow/tmp"
    assert len(list(temporary.iterdir())) == 1
    ws.close()
    assert list(temporary.iterdir()) == []
