"""What models and people type and see: numbers, names, places, patches and patterns of every kind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from case_support import opened, python, unprivileged
from hedgerow import Tool, Workspace


def tools(ws: Workspace, **options: Any) -> dict[str, Tool]:
    """Return the tools by name."""
    return {tool.name: tool for tool in ws.tools(**options)}


def test_a_path_longer_than_a_call_can_name_is_kept_and_found_again(root: Path, tmp_path: Path) -> None:
    names = ["d" * 200] * 21
    here = os.getcwd()
    root.mkdir(exist_ok=True)
    try:
        os.chdir(root)
        for name in names:
            os.mkdir(name)
            os.chdir(name)
        Path("f").write_text("deep")
    finally:
        os.chdir(here)
    with opened(root, tmp_path / "store") as ws:
        assert not ws.checkpoints()[-1].skipped
        ws.remove(names[0], recursive=True)
        ws.checkpoint("without")
        ws.rollback("baseline")
    with opened(root, tmp_path / "store") as ws:
        assert len(ws.history()) == 2
        assert not ws.status().changes
        ws.move(names[0], "e")
        ws.checkpoint("moved")
    with opened(root, tmp_path / "store") as ws:
        assert ws.checkpoints()[-1].label == "moved"
        ws.rollback("without")
        assert os.listdir(root) == []


@pytest.mark.parametrize("number", [10**30, 2**63, 1e300, 2**31])
@pytest.mark.parametrize("argument", ["limit", "offset", "column"])
def test_no_number_of_a_model_raises(any_ws: Workspace, number: float, argument: str) -> None:
    any_ws.write_text("a.txt", "one\ntwo\n")
    arguments: dict[str, Any] = {"path": "a.txt", argument: number}
    answer = tools(any_ws)["read_file"](**arguments)
    assert answer == "one\ntwo\n" if argument == "limit" else answer.startswith("Error: ")
    assert tools(any_ws)["edit_file"](path="a.txt", old="one", new="1", count=number).startswith("Error: ")


@pytest.mark.parametrize("number", [2**64, 2**70, -1])
def test_numbers_no_file_reaches_are_told(any_ws: Workspace, number: int) -> None:
    any_ws.write_text("f", "x")
    with pytest.raises(hedgerow.InvalidArgumentError):
        any_ws.read_bytes("f", offset=number)
    with pytest.raises(hedgerow.InvalidArgumentError):
        any_ws.read_bytes("f", length=number)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("}\n}\n}\n", "}\n}\n", "x"),
        ("a\nb\na\nb\na\n", "a\nb\na\n", "x"),
        ("1\n\n\n2", "\n\n", "\n"),
        ("aaa", "aa", "b"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_one_place_is_not_one_of_two_that_overlap(
    any_ws: Workspace, text: str, old: str, new: str, ending: str
) -> None:
    whole = text.replace("\n", ending).encode()
    any_ws.write_bytes("f", whole)
    with pytest.raises(hedgerow.EditError) as refused:
        any_ws.edit("f", old, new)
    assert refused.value.kind == "edit-ambiguous"
    assert "2 times" in str(refused.value)
    assert any_ws.read_bytes("f") == whole
    # Asked for all, they are taken from the front, as `str.replace` does.
    any_ws.edit("f", old, new, count=None)
    assert any_ws.read_text("f").replace("\r\n", "\n") == text.replace(old, new)


def test_a_patch_is_exact_where_text_is_not(disk: Workspace, root: Path, tmp_path: Path) -> None:
    (root / "latin").write_bytes(b"na\xefve\nplain\n")
    (root / "gone").write_bytes(b"caf\xe9\n")
    kept = disk.checkpoint()
    (root / "latin").write_bytes(b"na\xefve\nchanged \xfc\n")
    (root / "gone").unlink()
    (root / "new").write_bytes(b"\xe4\n")
    os.symlink(b"\xff/nowhere", root / "link")
    patch = disk.diff(kept).unified()
    assert "\ufffd" in patch.text
    assert "data" not in patch.to_dict()
    copy = tmp_path / "copy"
    with disk.materialized(kept) as there:
        subprocess.run(["cp", "-a", there, copy], check=True)
    subprocess.run(["git", "init", "-q", copy], check=True)
    subprocess.run(["git", "apply", "-"], cwd=copy, input=patch.data, check=True)
    assert (copy / "latin").read_bytes() == b"na\xefve\nchanged \xfc\n"
    assert (copy / "new").read_bytes() == b"\xe4\n"
    assert not (copy / "gone").exists()
    assert os.readlink(os.fsencode(copy / "link")) == b"\xff/nowhere"


def test_a_directory_that_cannot_be_read_is_not_empty(tmp_path: Path) -> None:
    done = python(
        """
        import os, sys, hedgerow
        with hedgerow.Workspace.open(sys.argv[1], store=sys.argv[2], id="w", create=True) as ws:
            ws.write_text("locked/f", "x")
            os.chmod(f"{sys.argv[1]}/locked", 0)
            named = {tool.name: tool for tool in ws.tools()}
            print(named["list_files"](subdir="locked"))
            print(named["search_files"](pattern="x", path="locked"))
            print(named["list_files"]())
            os.chmod(f"{sys.argv[1]}/locked", 0o755)
        """,
        tmp_path / "root",
        tmp_path / "store",
        prefix=unprivileged(),
    )
    *errors, empty, note = done.stdout.splitlines()
    assert (empty, note) == ("(empty)", "[1 directory could not be read]")
    assert len(errors) == 2
    for line in errors:
        assert line.startswith("Error: ")
        assert "permission denied" in line


@pytest.mark.parametrize("call", ["move", "copy"])
def test_a_file_goes_to_no_name_of_a_directory(any_ws: Workspace, call: str) -> None:
    any_ws.write_text("f", "x")
    with pytest.raises(hedgerow.WorkspaceError) as refused:
        getattr(any_ws, call)("f", "new/")
    assert refused.value.kind == "not-a-directory"
    assert [entry.path for entry in any_ws.walk()] == ["f"]
    any_ws.mkdir("d")
    getattr(any_ws, call)("d", "e/", **({"recursive": True} if call == "copy" else {}))
    assert any_ws.stat("e").is_directory


@pytest.mark.parametrize("pattern", ["sub/*.py", "*/a.py", "**/*.py", "sub/a.py"])
def test_glob_below_a_link_finds_what_is_there(any_ws: Workspace, pattern: str) -> None:
    any_ws.write_text("real/sub/a.py", "")
    any_ws.symlink("link", "real")
    assert tuple(any_ws.glob(pattern, path="link")) == ("link/sub/a.py",)
    assert tuple(any_ws.glob(f"link/{pattern}")) == (("link/sub/a.py",) if pattern == "sub/a.py" else ())


def test_search_sees_a_first_line_as_it_is_read(any_ws: Workspace) -> None:
    any_ws.write_bytes("f.py", b"\xef\xbb\xbfimport os\nimport re\n")
    found = any_ws.search("^import", regex=True).matches
    assert [(match.line, match.text) for match in found] == [(1, "import os"), (2, "import re")]


@pytest.mark.parametrize("name", ["a\nb.md", "z\udcff.txt", "q\u200b.txt", "back\\slash", "caf\u0085e", "t\\x0aab"])
def test_a_name_can_be_used_as_it_is_shown(disk: Workspace, name: str) -> None:
    disk.write_text(f"dir/{name}", "text\n")
    named = tools(disk)
    shown = named["list_files"](subdir="dir")
    assert "\n" not in shown
    assert named["glob_files"](pattern="dir/*") == f"dir/{shown}".replace("dir/dir/", "dir/")
    path = named["glob_files"](pattern="dir/*")
    assert named["read_file"](path=path) == "text\n"
    assert named["edit_file"](path=path, old="text", new="more").startswith("Edited")
    assert named["move_file"](source=path, destination="plain").startswith("Moved")
    assert disk.read_text("plain") == "more\n"


def test_a_name_with_brackets_is_found_as_typed(any_ws: Workspace) -> None:
    any_ws.write_text("app/[id]/page.tsx", "x")
    named = tools(any_ws)
    assert named["glob_files"](pattern="app/[id]/page.tsx") == "app/[id]/page.tsx"
    assert named["glob_files"](pattern="[id]/*", path="app") == "app/[id]/page.tsx"
    assert named["glob_files"](pattern="[id]/page.tsx", path="app") == "app/[id]/page.tsx"
    assert named["glob_files"](pattern="app/[xyz]/page.tsx") == "No files match"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_search_reads_utf16_with_a_mark_as_it_is_shown(any_ws: Workspace, encoding: str) -> None:
    text = "nä first\r\nsecond 🦔 nä\r\n好Ċ\n"
    any_ws.write_bytes("f", ("\ufeff" + text).encode(encoding))
    any_ws.write_bytes("without", text.encode(encoding))
    any_ws.write_bytes("utf32", ("\ufeff" + text).encode("utf-32-le"))
    found = any_ws.search("nä", context=1)
    lines = text.split("\r\n")
    assert [(match.path, match.line, match.text) for match in found.matches] == [("f", 1, lines[0]), ("f", 2, lines[1])]
    assert [match.text.encode()[match.start : match.end].decode() for match in found.matches] == ["nä", "nä"]
    assert found.matches[0].after == (lines[1],)
    assert [(item.path, item.reason) for item in found.skipped] == [("utf32", "binary"), ("without", "binary")]
    (match,) = any_ws.search("^second . ", regex=True).matches
    # What a match shows can be edited.
    any_ws.edit("f", match.text, "gone")
    assert not any_ws.search("second").matches


def test_a_pattern_of_search_may_start_at_the_root(any_ws: Workspace) -> None:
    any_ws.write_text("src/lib/a.ts", "needle")
    search = tools(any_ws)["search_files"]
    for glob in ("src/**/*.ts", "**/*.ts", "*.ts", "/src/**/*.ts"):
        assert search(pattern="needle", path="src", glob=glob) == "src/lib/a.ts:1: needle"


def test_an_unknown_argument_is_not_echoed_whole(any_ws: Workspace) -> None:
    answer = tools(any_ws)["read_file"](**{"path": "f", "x" * 100_000: 1})
    assert answer.startswith("Error: unknown argument")
    assert len(answer) < 400


def test_nothing_is_made_where_a_link_leads_nowhere(any_ws: Workspace) -> None:
    any_ws.symlink("dangling", "no/where")
    for call in (
        lambda: any_ws.write_text("dangling/x", "1"),
        lambda: any_ws.mkdir("dangling/x", parents=True),
    ):
        with pytest.raises(hedgerow.WorkspaceError) as refused:
            call()
        assert refused.value.kind == "directory-not-found"
    assert [entry.path for entry in any_ws.walk()] == ["dangling"]
    any_ws.symlink("here", ".")
    any_ws.mkdir("here", exist_ok=True)


def test_utf16_without_a_mark_is_edited_by_its_python_name(any_ws: Workspace) -> None:
    any_ws.write_bytes("f", "a = 1\n".encode("utf-16-le"))
    any_ws.edit("f", "1", "2 €", encoding="utf-16-le")
    assert any_ws.read_text("f", encoding="utf-16-le") == "a = 2 €\n"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("latin-1", "5 €"), ("ascii", "é"), ("iso8859-9", "€"), ("gb2312", "€"), ("tis-620", "€"), ("shift_jis", "①")],
)
def test_a_character_the_encoding_lacks_is_not_written(any_ws: Workspace, encoding: str, text: str) -> None:
    any_ws.write_bytes("f", b"price 1\n")
    with pytest.raises(hedgerow.WorkspaceError) as refused:
        any_ws.edit("f", "1", text, encoding=encoding)
    assert refused.value.kind == "not-utf8"
    assert any_ws.read_bytes("f") == b"price 1\n"


@pytest.mark.parametrize(
    ("has", "asked"),
    [
        ("re\u0301sume\u0301", "r\u00e9sum\u00e9"),
        ("r\u00e9sum\u00e9", "re\u0301sume\u0301"),
        ("\uff46\uff4f\uff4f\uff08\uff11\uff09", "foo(1)"),
    ],
)
def test_another_form_of_the_same_characters_is_named(any_ws: Workspace, has: str, asked: str) -> None:
    any_ws.write_text("f", f"first\nname = {has}\n")
    with pytest.raises(hedgerow.EditError) as refused:
        any_ws.edit("f", asked, "x")
    assert refused.value.kind == "edit-no-match"
    assert "near match at line 2" in str(refused.value)
    assert "the form of a character (the file has U+" in str(refused.value)


def test_a_character_that_only_looks_the_same_is_named_on_both_sides(any_ws: Workspace) -> None:
    any_ws.write_text("f", "first\nkey = p\u0430ssword\n")
    answer = tools(any_ws)["edit_file"](path="f", old="password", new="x")
    assert "near match at line 2" in answer
    assert "the file has U+0430 where old has U+0061" in answer
