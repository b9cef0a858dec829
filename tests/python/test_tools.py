"""The tools a model works with: their schemas, answers, limits and refusals."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Tool, Workspace
from hedgerow._tools import is_git

READING = ["read_file", "list_files", "search_files", "glob_files"]
WRITING = ["write_file", "edit_file", "move_file", "delete_file", "make_directory"]


def named(ws: Workspace, **options: Any) -> dict[str, Tool]:
    """Return the tools of a workspace by name."""
    return {tool.name: tool for tool in ws.tools(**options)}


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Any:
    """Return a function that runs a tool in one of both ways."""
    if request.param == "sync":
        return lambda tool, **arguments: tool(**arguments)
    return lambda tool, **arguments: asyncio.run(tool.acall(**arguments))


# what is offered


@pytest.mark.row("B25", "B27", "B28")
def test_access_decides_which_tools_there_are(any_ws: Workspace) -> None:
    assert sorted(named(any_ws)) == sorted(READING + WRITING)
    assert sorted(named(any_ws, access="read")) == sorted(READING)
    assert sorted(named(any_ws.read_only())) == sorted(READING)
    assert not any(tool.writes for tool in any_ws.tools("read"))
    wrong: list[dict[str, Any]] = [{"access": "none"}, {"access": "r"}, {"absolute": "host"}, {"max_output_bytes": 10}]
    for options in wrong:
        with pytest.raises(ValueError):
            any_ws.tools(**options)


@pytest.mark.row("B28")
def test_a_writing_tool_on_a_reading_handle_is_refused_by_the_core(any_ws: Workspace) -> None:
    write = named(any_ws)["write_file"]
    write._toolbox.native = any_ws.read_only()._native
    assert write(path="a", content="x").startswith("Error")
    assert not any_ws.exists("a")


@pytest.mark.row("B27")
def test_schemas_are_closed_and_fit_the_interfaces(ws: Workspace) -> None:
    for tool in ws.tools():
        schema = tool.parameters
        assert json.loads(json.dumps(schema)) == schema
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        for name, value in schema["properties"].items():
            assert value["description"], name
            assert (name in schema["required"]) or value.get("default", 0) is not None
        assert tool.to_openai() == {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": schema},
        }
        assert tool.to_anthropic() == {"name": tool.name, "description": tool.description, "input_schema": schema}
        assert "{" not in tool.description
        assert 80 < len(tool.description) < 1_000
    assert list(named(ws)["read_file"].parameters["properties"])[:3] == ["path", "offset", "limit"]
    assert list(named(ws)["edit_file"].parameters["properties"]) == ["path", "old", "new", "count"]
    assert list(named(ws)["search_files"].parameters["properties"]) == ["pattern", "path", "glob", "regex"]


# arguments


@pytest.mark.row("B29")
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read_file", {}, "'path' is missing"),
        ("read_file", {"path": None}, "'path' is missing"),
        ("read_file", {"path": "a", "lines": 3}, "unknown argument 'lines'"),
        ("read_file", {"path": 3}, "'path' must be text"),
        ("read_file", {"path": "a", "offset": "1"}, "'offset' must be a whole number"),
        ("read_file", {"path": "a", "offset": True}, "'offset' must be a whole number"),
        ("read_file", {"path": "a", "offset": -1}, "'offset' must be at least 0"),
        ("read_file", {"path": "a", "limit": 0}, "'limit' must be at least 1"),
        ("read_file", {"path": "\ud800"}, "'path' holds half a character"),
        ("write_file", {"path": "a", "content": "\udc80"}, "'content' holds half a character"),
        ("write_file", {"path": "a", "content": ["x"]}, "'content' must be text, not a list"),
        ("edit_file", {"path": "a", "old": "x", "new": "y", "count": 0}, "'count' must be at least 1"),
        ("delete_file", {"path": "a", "recursive": "yes"}, "'recursive' must be true or false"),
        ("search_files", {"pattern": ""}, "'pattern' is empty"),
    ],
)
def test_wrong_arguments_are_answers(ws: Workspace, run: Any, name: str, arguments: dict[str, Any], said: str) -> None:
    ws.write_text("a", "x")
    answer = run(named(ws)[name], **arguments)
    assert answer.startswith("Error: ")
    assert said in answer
    assert ws.read_text("a") == "x"


def test_null_is_the_default_of_an_optional_argument(ws: Workspace) -> None:
    ws.write_text("a", "x x\n")
    tools = named(ws)
    assert tools["read_file"](path="a", offset=None, limit=None) == "x x\n"
    assert tools["read_file"](path="a", limit=1.0) == "x x\n"
    assert tools["search_files"](pattern="x", glob=None).startswith("a:1:")
    assert "2 places" in tools["edit_file"](path="a", old="x", new="y", count=None)


@pytest.mark.row("B29")
@pytest.mark.parametrize("name", READING + WRITING)
def test_random_arguments_never_raise(any_ws: Workspace, name: str) -> None:
    """Whatever a model sends comes back as text; the seed makes a failure repeatable."""
    chance = random.Random(name)
    tool = named(any_ws)[name]
    any_ws.write_text("a.txt", "x\n")
    any_ws.mkdir("d")
    paths = ["a.txt", "d", "", ".", "/", "..", "../x", "a.txt/x", "a\0b", "x" * 300, "/etc/passwd", "\udcff", "\ud800"]
    values: list[Any] = [*paths, "x", "*", "**", "(", "[", 0, 1, -1, 2**70, 1.5, True, None, [], {}]
    for _ in range(150):
        names = [*tool.parameters["properties"], "extra"] if chance.random() < 0.1 else tool.parameters["properties"]
        arguments = {argument: chance.choice(values) for argument in names if chance.random() < 0.9}
        answer = tool(**arguments)
        assert isinstance(answer, str)
        assert answer
        answer.encode()


def test_raise_errors_raises_them(ws: Workspace, run: Any) -> None:
    tools = named(ws, raise_errors=True)
    with pytest.raises(FileNotFoundError):
        run(tools["read_file"], path="missing")
    with pytest.raises(ValueError, match="missing"):
        run(tools["read_file"])


def test_faults_that_no_model_can_mend_propagate(ws: Workspace) -> None:
    tool = named(ws)["read_file"]

    async def broken(*_: object, **__: object) -> str:
        raise RuntimeError("a bug")

    tool._body = broken
    with pytest.raises(RuntimeError, match="a bug"):
        tool(path="a")


# paths


@pytest.mark.row("B33", "A13", "S89")
@pytest.mark.parametrize(
    ("name", "path"),
    [
        (name, path)
        for name in READING[:1] + WRITING
        for path in ("../escape", "../../etc/passwd", "src/../../x", "out/passwd", "file-out", "loop")
        # A link itself may be moved and deleted.
        if not (name in ("move_file", "delete_file") and path in ("file-out", "loop"))
    ],
)
def test_no_tool_leaves_the_workspace(disk: Workspace, root: Path, name: str, path: str) -> None:
    os.symlink("/etc", root / "out")
    os.symlink("/etc/passwd", root / "file-out")
    os.symlink("loop", root / "loop")
    tool = named(disk)[name]
    arguments = {key: path if key in ("path", "source", "destination") else "x" for key in tool.parameters["required"]}
    answer = tool(**arguments)
    assert answer.startswith("Error: ")
    assert "root:" not in answer
    assert "secret-host-name" not in answer


def test_host_paths_inside_the_root_are_mapped(disk: Workspace, root: Path) -> None:
    disk.write_text("a.py", "x = 1\n")
    for tools in (named(disk), named(disk, absolute="reject")):
        assert tools["read_file"](path=str(root / "a.py")) == "x = 1\n"
        assert tools["list_files"](subdir=str(root)) == "a.py"
        assert tools["glob_files"](pattern=f"{root}/*.py") == "a.py"
        assert tools["write_file"](path=f"{root}/a.py", content="x = 1\n") == "Written 6 bytes to a.py"
        assert tools["read_file"](path=f"{root}/../x").startswith("Error: ")
        beside = tools["read_file"](path=f"{root}-other/a.py")
        assert beside.startswith("Error: ")


def test_other_absolute_paths_are_virtual_or_refused(any_ws: Workspace) -> None:
    any_ws.write_text("a.py", "x = 1\n")
    assert named(any_ws)["read_file"](path="/a.py") == "x = 1\n"
    refused = named(any_ws, absolute="reject")["read_file"](path="/a.py")
    assert refused.startswith("Error: ")
    assert "relative" in refused


def test_no_answer_holds_a_host_path(disk: Workspace, root: Path) -> None:
    disk.write_text("a", "x")
    os.symlink(root / "a", root / "link")
    tools = named(disk)
    answers = [
        tools["list_files"](),
        tools["read_file"](path="missing"),
        tools["read_file"](path="link"),
        tools["read_file"](path=str(root / "missing")),
        tools["read_file"](path=f"{root}/../../{root.parent.name}/x"),
        tools["write_file"](path=f"{root}/a/b", content=""),
        tools["move_file"](source=str(root / "a"), destination=str(root / "b")),
        tools["read_file"](**{str(root): "x"}),
    ]
    assert not [answer for answer in answers if str(root) in answer or str(root.parent) + "/" in answer]


# reading


def test_text_is_shown_as_it_is(any_ws: Workspace, run: Any) -> None:
    text = "def f():\n\treturn 'é'\n\n\n# end without newline"
    any_ws.write_text("a.py", text)
    assert run(named(any_ws)["read_file"], path="a.py") == text
    assert run(named(any_ws)["read_file"], path="a.py", offset=1, limit=2).startswith("\treturn 'é'\n\n[")
    any_ws.write_text("empty", "")
    assert named(any_ws)["read_file"](path="empty") == "(empty file)"


@pytest.mark.row("B31", "T02", "T04", "T05")
def test_case_t02_one_huge_line_can_be_read_to_its_end(any_ws: Workspace) -> None:
    text = "".join(chr(0x4E00 + number % 5_000) for number in range(60_000)) + "\nend\n"
    any_ws.write_text("long.txt", text)
    tool = named(any_ws, max_output_bytes=10_000)["read_file"]
    assert read_on(tool, "long.txt") == text


@pytest.mark.row("T05")
@pytest.mark.parametrize("limit", [None, 7, 10_000])
def test_case_t05_long_file_can_be_read_to_its_end(any_ws: Workspace, limit: int | None) -> None:
    chance = random.Random(limit)
    text = "".join("x" * chance.choice([0, 1, 50, 3_000]) + "\n" for _ in range(60)) + "no newline"
    any_ws.write_text("a.txt", text)
    assert read_on(named(any_ws, max_output_bytes=2_000)["read_file"], "a.txt", limit) == text


def read_on(tool: Tool, path: str, limit: int | None = None) -> str:
    """Follow the notes of the answers, as a model would, and return what was shown."""
    shown, place = "", {"offset": 0, "column": 0}
    for _ in range(2_000):
        answer = tool(path=path, limit=limit, **place)
        assert answer
        assert not answer.startswith("Error")
        assert len(answer.encode()) <= tool._toolbox.max_output
        head, found, note = answer.rpartition("\n[truncated: ")
        if not found:
            return shown + answer
        following = {"column": 0}
        for part in note.rstrip("]").rpartition("continue with ")[2].split(" "):
            name, _, value = part.partition("=")
            following[name] = int(value)
        shown += head if following["column"] else head + "\n"
        place = following
    raise AssertionError("it never ends")


@pytest.mark.row("T04")
def test_reading_past_the_end_is_an_error_that_says_how_long_it_is(any_ws: Workspace) -> None:
    any_ws.write_text("a", "1\n2\n")
    tool = named(any_ws)["read_file"]
    assert "2 lines" in tool(path="a", offset=2)
    assert tool(path="a", offset=2).startswith("Error: ")
    assert tool(path="a", column=5).startswith("Error: ")


def test_large_file_is_read_in_pieces(disk: Workspace, root: Path) -> None:
    line = b"0123456789" * 10 + b"\n"
    with open(root / "big.txt", "wb") as file:
        file.write(b"\xef\xbb\xbf" + line * 100_000)
        file.write("é\n".encode() * 10)
    tool = named(disk)["read_file"]
    assert tool(path="big.txt", limit=1).startswith("0123456789")
    assert tool(path="big.txt", offset=100_000, limit=2).startswith("é\né\n[")
    assert tool(path="big.txt", offset=100_000) == "é\n" * 10
    assert "100010 lines" in tool(path="big.txt", offset=200_000)


@pytest.mark.slow
def test_two_gigabytes_do_not_land_in_memory(disk: Workspace, root: Path) -> None:
    import resource

    with open(root / "sparse.txt", "wb") as file:
        file.write(b"first\n" * 2_000)
        file.truncate(2 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert named(disk)["read_file"](path="sparse.txt", offset=1_000, limit=1).startswith("first\n[")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@pytest.mark.row("E12")
def test_case_e12_undecodable_text_is_shown_and_flagged(any_ws: Workspace) -> None:
    any_ws.write_bytes("gbk.txt", b"name = \xd6\xd0\n")
    answer = named(any_ws)["read_file"](path="gbk.txt")
    assert answer.startswith("name = ")
    assert "[note: " in answer


def test_binary_files_are_described(any_ws: Workspace) -> None:
    any_ws.write_bytes("logo", b"\x89PNG\r\n\x1a\n" + bytes(1_000))
    assert named(any_ws)["read_file"](path="logo") == "[binary file, not shown: logo, PNG image, 1008 bytes]"
    answer = named(any_ws)["edit_file"](path="logo", old="x", new="y")
    assert answer.startswith("Error: ")


# writing


@pytest.mark.row("B30")
def test_write_file_makes_directories_and_counts_bytes(any_ws: Workspace, run: Any) -> None:
    assert run(named(any_ws)["write_file"], path="d/e/x.txt", content="äöü") == "Written 6 bytes to d/e/x.txt"
    assert any_ws.read_text("d/e/x.txt") == "äöü"
    assert run(named(any_ws)["write_file"], path="/d//e/./x.txt", content="") == "Written 0 bytes to d/e/x.txt"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be"])
def test_write_file_keeps_the_encoding_that_stands_there(any_ws: Workspace, run: Any, encoding: str) -> None:
    mark = b"" if encoding == "utf-8-sig" else "\ufeff".encode(encoding)
    tools = named(any_ws)
    any_ws.write_bytes("a", mark + "old\r\n".encode(encoding))
    any_ws.symlink("link", "a")
    for path, text in (("a", "näw 🦔\n"), ("link", "two\r\n"), ("a", "")):
        data = mark + text.encode(encoding)
        assert run(tools["write_file"], path=path, content=text) == f"Written {len(data)} bytes to {path}"
        assert any_ws.read_bytes("a") == data
        assert run(tools["read_file"], path="a") == (text or "(empty file)")
    # Who writes the mark as well gets one, not two.
    run(tools["write_file"], path="a", content="\ufeffx")
    assert any_ws.read_bytes("a") == mark + "x".encode(encoding)
    any_ws.write_text("a", "plain")
    assert any_ws.read_bytes("a") == b"plain"


def test_write_file_over_what_is_no_text_writes_utf8(any_ws: Workspace) -> None:
    write = named(any_ws)["write_file"]
    for data in (b"\x89PNG\0", b"caf\xe9\n", "\ufeffx".encode("utf-32-le"), b"\xff", b""):
        any_ws.write_bytes("a", data)
        assert write(path="a", content="é") == "Written 2 bytes to a"
        assert any_ws.read_bytes("a") == "é".encode()


@pytest.mark.row("B31")
def test_write_limit_counts_bytes_and_names_itself(ws: Workspace) -> None:
    write = named(ws)["write_file"]
    limit = 10 * 1024 * 1024
    assert write(path="a", content="é" * (limit // 2)) == f"Written {limit} bytes to a"
    answer = write(path="b", content="é" * (limit // 2) + "x")
    assert answer.startswith("Error: ")
    assert "10MB" in answer
    assert not ws.exists("b")
    assert "4 bytes" in named(ws, max_write_bytes=4)["write_file"](path="b", content="12345")


def test_changes_carry_the_author(ws: Workspace) -> None:
    named(ws, author="coder")["write_file"](path="a", content="x")
    named(ws.attributed("tester"))["write_file"](path="b", content="x")
    assert [(record.author, record.paths) for record in ws.history()] == [("coder", ("a",)), ("tester", ("b",))]


@pytest.mark.row("E13", "N10")
def test_anything_shown_can_be_the_old_of_an_edit(any_ws: Workspace) -> None:
    chance = random.Random(13)
    for data in (b"a\r\nb\r\nc\r\n", b"a\nb\r\nc\n", b"\xef\xbb\xbfa\r\nb\r\n", "tab\té\u00a0x\n".encode(), b"no end"):
        for _ in range(5):
            any_ws.write_bytes("f", data)
            shown = named(any_ws)["read_file"](path="f")
            start = chance.randrange(len(shown))
            old = shown[start : chance.randrange(start + 1, len(shown) + 1)]
            answer = named(any_ws)["edit_file"](path="f", old=old, new="$& \\1", count=shown.count(old))
            assert answer.startswith("Edited f in "), (data, old, answer)
            assert b"$& \\1" in any_ws.read_bytes("f")


@pytest.mark.row("N14")
def test_case_n14_edits_that_cannot_be_are_answers(any_ws: Workspace) -> None:
    any_ws.write_text("d/a", "x\nx\n")
    edit = named(any_ws)["edit_file"]
    for arguments in (
        {"path": "d", "old": "x", "new": "y"},
        {"path": "missing", "old": "x", "new": "y"},
        {"path": "d/a", "old": "absent", "new": "y"},
        {"path": "d/a", "old": "x", "new": "y"},
        {"path": "d/a", "old": "", "new": "y"},
    ):
        assert edit(**arguments).startswith("Error: "), arguments
    assert any_ws.read_text("d/a") == "x\nx\n"
    answer = edit(path="d/a", old="x", new="y", count=2)
    assert answer.startswith("Edited d/a in 2 places, the first at line 1\n")
    assert "+y" in answer


def test_move_delete_and_make_directory(any_ws: Workspace, run: Any) -> None:
    tools = named(any_ws)
    any_ws.write_text("a", "x")
    assert run(tools["move_file"], source="a", destination="b/c") == "Moved a to b/c"
    assert run(tools["make_directory"], path="d/e") == "Created directory d/e"
    assert run(tools["make_directory"], path="d/e") == "Created directory d/e"
    any_ws.write_text("z", "")
    assert run(tools["move_file"], source="b/c", destination="z").startswith("Error: ")
    assert run(tools["delete_file"], path="b").startswith("Error: ")
    assert run(tools["delete_file"], path="b", recursive=True) == "Deleted b"
    assert run(tools["delete_file"], path="b").startswith("Error: ")
    assert run(tools["delete_file"], path="/", recursive=True).startswith("Error: ")
    assert not any_ws.exists("b")


# listing


@pytest.mark.row("B32")
def test_list_files_is_recursive_sorted_and_follows_no_links(any_ws: Workspace, run: Any) -> None:
    list_files = named(any_ws)["list_files"]
    assert run(list_files) == "(empty)"
    assert run(list_files, subdir="missing") == "(empty)"
    any_ws.write_many({"b.txt": "", "a/z.txt": "", "a/b/c.txt": "", ".hidden": ""})
    any_ws.mkdir("void")
    any_ws.symlink("link", "a")
    assert run(list_files) == ".hidden\na/b/c.txt\na/z.txt\nb.txt\nlink (link)"
    assert run(list_files, subdir="a") == "a/b/c.txt\na/z.txt"
    assert run(list_files, subdir="b.txt").startswith("Error: ")


@pytest.mark.row("B31")
def test_long_answers_are_cut_and_say_so(any_ws: Workspace) -> None:
    any_ws.write_many({f"{number:04}.txt": "needle\n" for number in range(300)})
    tools = named(any_ws, max_output_bytes=1_000)
    for answer in (
        tools["list_files"](),
        tools["glob_files"](pattern="*.txt"),
        tools["search_files"](pattern="needle"),
    ):
        assert len(answer.encode()) <= 1_000
        assert "of 300" in answer
        assert "[truncated: " in answer


def test_hostile_names_stay_on_their_line(any_ws: Workspace) -> None:
    any_ws.write_text("a\nb\u202e.txt", "needle\n")
    tools = named(any_ws)
    assert tools["list_files"]() == "a\\x0ab\\u202e.txt"
    assert tools["search_files"](pattern="needle") == "a\\x0ab\\u202e.txt:1: needle"
    assert "\n" not in tools["write_file"](path="c\nd", content="")


@pytest.mark.row("S02")
def test_search_answers_with_path_line_and_text(any_ws: Workspace, run: Any) -> None:
    any_ws.write_many({"a.py": "one\ntwo\n", "b.txt": "two\n"})
    search = named(any_ws)["search_files"]
    assert run(search, pattern="two") == "a.py:2: two\nb.txt:1: two"
    assert run(search, pattern="two", glob="*.py") == "a.py:2: two"
    assert run(search, pattern="t.o", regex=True).count("\n") == 1
    assert run(search, pattern="t.o").startswith("No matches in 2 files")
    assert run(search, pattern="(", regex=True).startswith("Error: ")
    assert run(search, pattern="x", path="missing").startswith("Error: ")
    any_ws.write_text("long", "x" * 100_000 + "needle" + "y" * 100_000)
    answer = run(search, pattern="needle")
    assert "needle" in answer
    assert len(answer) < 2_000


@pytest.mark.row("S08", "A14", "A39")
def test_glob_files(any_ws: Workspace) -> None:
    any_ws.write_many({"a.py": "", "src/b.py": "", "src/c.txt": ""})
    glob = named(any_ws)["glob_files"]
    assert glob(pattern="**/*.py") == "a.py\nsrc/b.py"
    assert glob(pattern="*.rs") == "No files match"
    assert glob(pattern="../*").startswith("Error: ")


# git


@pytest.mark.row("A29")
@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".GIT",
        ".Git",
        ".git.",
        ".git ",
        ".git. .",
        "git~1",
        "GIT~1",
        ".git::$INDEX_ALLOCATION",
        ".g\u200cit",
        ".\ufeffgit",
        ".git\u202a",
        ".git\\config",
        "x\\.git",
    ],
)
def test_aliases_of_git_are_known(name: str) -> None:
    assert is_git(name)


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "git", ".github", "git~", "git~x", ".gitx", "a.git"])
def test_other_names_are_not_git(name: str) -> None:
    assert not is_git(name)


@pytest.mark.row("A32", "B35", "G17")
@pytest.mark.parametrize("path", [".git/config", ".GIT/hooks/pre-commit", "vendor/x/.git/config", "a/.git", ".git./x"])
def test_case_g17_git_is_protected(any_ws: Workspace, run: Any, path: str) -> None:
    any_ws.write_text(".git/config", "[core]\n")
    any_ws.write_text("plain", "x")
    tools = named(any_ws)
    for answer in (
        run(tools["write_file"], path=path, content="x"),
        run(tools["edit_file"], path=path, old="core", new="x"),
        run(tools["move_file"], source="plain", destination=path),
        run(tools["move_file"], source=path, destination="elsewhere"),
        run(tools["delete_file"], path=path),
        run(tools["make_directory"], path=path),
    ):
        assert answer.startswith("Error: git's own files are protected")
    assert any_ws.read_text(".git/config") == "[core]\n"
    assert tools["read_file"](path=".git/config") == "[core]\n"
    with pytest.raises(hedgerow.PathEscapeError) as caught:
        named(any_ws, raise_errors=True)["write_file"](path=path, content="x")
    assert caught.value.kind == "reserved-name"


@pytest.mark.row("A32")
def test_links_into_git_are_seen_through(any_ws: Workspace) -> None:
    any_ws.write_text(".git/config", "[core]\n")
    any_ws.symlink("dir", ".git")
    any_ws.symlink("file", ".git/config")
    any_ws.symlink("new", ".git/hooks/pre-commit")
    any_ws.symlink("chain", "new")
    any_ws.symlink("sub/up", "../.git/hooks/post-commit")
    tools = named(any_ws)
    for path in ("dir/config", "dir/hooks/x", "file", "new", "chain", "sub/up"):
        assert tools["write_file"](path=path, content="x").startswith("Error: "), path
    assert [entry.path for entry in any_ws.walk(".git")] == [".git/config"]
    assert tools["delete_file"](path="new") == "Deleted new"


def test_a_directory_that_holds_a_git_is_not_deleted(any_ws: Workspace) -> None:
    any_ws.write_text("lib/.git/config", "[core]\n")
    assert named(any_ws)["delete_file"](path="lib", recursive=True).startswith("Error: ")
    assert any_ws.exists("lib/.git/config")
    assert named(any_ws, protect=False)["delete_file"](path="lib", recursive=True) == "Deleted lib"


def test_protection_can_be_switched_off(any_ws: Workspace) -> None:
    write = named(any_ws, protect=False)["write_file"]
    assert write(path=".git/config", content="x") == "Written 1 bytes to .git/config"
