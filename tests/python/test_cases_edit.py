"""Public bug reports about edits, lost updates, searches and limits of answers, as tests of their kind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from case_support import SLOWDOWN, git, opened, plain_environment, python, tools_of, unprivileged
from hedgerow import Workspace

# J. concurrency and lost updates


@pytest.mark.row("B38", "B41")
async def test_case_j04_two_parallel_edits_are_both_there(any_ws: Workspace) -> None:
    ws = any_ws.aio
    for turn in range(200):
        any_ws.write_text("f", f"a {turn} b\n")
        await asyncio.gather(ws.edit("f", "a", "A"), ws.edit("f", "b", "B"))
        assert any_ws.read_text("f") == f"A {turn} B\n"


@pytest.mark.parametrize("way", ["tasks", "threads", "tools"])
def test_case_j05_ten_parallel_edits_of_one_file(any_ws: Workspace, way: str) -> None:
    any_ws.write_text("f", "".join(f"line {number}.\n" for number in range(100)))
    if way == "tasks":

        async def run() -> None:
            await asyncio.gather(*(any_ws.aio.edit("f", f"line {n}.", f"done {n}.") for n in range(10)))

        asyncio.run(run())
    else:
        tools: Any = tools_of(any_ws)
        call = any_ws.edit if way == "threads" else tools["edit_file"]
        threads = [threading.Thread(target=call, args=("f", f"line {n}.", f"done {n}.")) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert any_ws.read_text("f") == "".join(f"{'done' if n < 10 else 'line'} {n}.\n" for n in range(100))


def test_case_j07_stale_whole_file_write_is_refused(any_ws: Workspace) -> None:
    any_ws.write_text("f", "one")
    seen = any_ws.content_id("f")
    any_ws.write_text("f", "two by somebody else")
    for call in (
        lambda: any_ws.write_text("f", "mine", if_hash=seen),
        lambda: any_ws.write_bytes("f", b"mine", if_hash=seen),
        lambda: any_ws.write_json("f", 1, if_hash=seen),
        lambda: any_ws.edit("f", "two", "mine", if_hash=seen),
    ):
        with pytest.raises(hedgerow.EditError) as caught:
            call()
        assert caught.value.kind == "stale-content"
        assert any_ws.read_text("f") == "two by somebody else"
    any_ws.remove("f")
    with pytest.raises((hedgerow.EditError, hedgerow.NotFoundError)):
        any_ws.write_text("f", "mine", if_hash=seen)
    assert not any_ws.exists("f")


def test_case_j07_external_change_makes_a_hash_stale(disk: Workspace, root: Path) -> None:
    disk.write_text("f", "aaaa")
    seen = disk.content_id("f")
    info = (root / "f").stat()
    (root / "f").write_text("bbbb")
    os.utime(root / "f", ns=(info.st_atime_ns, info.st_mtime_ns))
    with pytest.raises(hedgerow.EditError):
        disk.write_text("f", "mine", if_hash=seen)
    result = disk.edit("f", "bbbb", "cccc", if_hash=disk.content_id("f"))
    assert result.id == disk.content_id("f")
    disk.edit("f", "cccc", "dddd", if_hash=result.id)


def test_case_j09_git_status_in_a_loop_disturbs_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    git("init", "-q", root)
    loop = subprocess.Popen(
        ["sh", "-c", "while :; do git status >/dev/null; git add -A >/dev/null; done"],
        cwd=root,
        env=plain_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with opened(root, tmp_path / "store", ignore=["/.git/"]) as ws:
            for turn in range(20):
                ws.write_text("f", str(turn))
                kept = ws.checkpoint()
                ws.write_text("f", "other")
                ws.rollback(kept)
                assert ws.read_text("f") == str(turn)
    finally:
        loop.kill()
        loop.wait()


def test_case_j11_edits_computed_from_one_reading_do_not_undo_each_other(any_ws: Workspace) -> None:
    any_ws.write_text("f", "one\ntwo\nthree\n")
    for old, new in (("one", "ONE"), ("two", "TWO"), ("three", "THREE")):
        any_ws.edit("f", old, new)
    assert any_ws.read_text("f") == "ONE\nTWO\nTHREE\n"


# N. edits

LITERAL = [
    "$$100 $& $1 \\1 \\g<0>",
    "$& ok",
    "${name} $name $0",
    "\\n\\t\\\\",
    "%s {0} {}",
    "&",
    "\\&",
    "$'$`",
    "(?i)",
    "a\0b"[:1],
    "🦔$1",
]


@pytest.mark.parametrize("new", LITERAL)
@pytest.mark.parametrize("count", [1, None, 3])
def test_case_n10_n11_replacement_is_literal_and_the_diff_is_the_truth(
    any_ws: Workspace, tmp_path: Path, new: str, count: int | None
) -> None:
    before = "x\nold\n" if count == 1 else "old\nx old\nold"
    any_ws.write_text("f", before)
    result = any_ws.edit("f", "old", new, count=count)
    after = before.replace("old", new)
    assert any_ws.read_text("f") == after
    assert result.replaced == before.count("old")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "f").write_text(before, newline="")
    (tmp_path / "patch").write_text(f"--- a/f\n+++ b/f\n{result.diff}", newline="")
    git("apply", "--unidiff-zero", tmp_path / "patch", cwd=copy)
    assert (copy / "f").read_bytes().decode() == after


def test_case_n11_an_edit_that_changes_nothing_says_so(any_ws: Workspace) -> None:
    any_ws.write_text("f", "a\nb\n")
    answer: Any = tools_of(any_ws)["edit_file"](path="f", old="b", new="b")  # type: ignore[operator]
    assert answer == "Nothing to change: old and new are the same text, in 1 place at line 2 of f"


@pytest.mark.parametrize("old", ["a.c", "[x]", "(", "*", "\\d", "^a", "$", "a|b", ".*"])
def test_case_n10_old_text_is_literal_too(any_ws: Workspace, old: str) -> None:
    any_ws.write_text("f", "abc x 5 a b\n")
    with pytest.raises(hedgerow.EditError) as caught:
        any_ws.edit("f", old, "no")
    assert caught.value.kind == "edit-no-match"
    any_ws.write_text("f", f"before {old} after\n")
    any_ws.edit("f", old, "yes")
    assert any_ws.read_text("f") == "before yes after\n"


@pytest.mark.parametrize("content", ["no end", "l1\nl2", "\n", "l1\n\n", "l1\r\nl2", "x"])
def test_case_n19_end_of_the_file_stays_as_it_is(any_ws: Workspace, content: str) -> None:
    any_ws.write_bytes("f", b"first\n" + content.encode())
    any_ws.edit("f", "first", "FIRST")
    assert any_ws.read_bytes("f") == b"FIRST\n" + content.encode()


def test_case_n12_line_numbers_are_one_based_everywhere(any_ws: Workspace) -> None:
    any_ws.write_text("f", "one\ntwo\nthree\n")
    assert any_ws.search("two").matches[0].line == 2
    assert any_ws.blame("f")[1].line == 2
    assert any_ws.edit("f", "two", "TWO").line == 2
    tools: Any = tools_of(any_ws)
    assert "at line 3" in tools["edit_file"](path="f", old="three", new="THREE")


@pytest.mark.parametrize("how", ["directory", "binary", "missing", "link to nothing", "empty", "through a file"])
def test_case_n14_what_cannot_be_edited_is_a_typed_error(any_ws: Workspace, how: str) -> None:
    any_ws.mkdir("dir")
    any_ws.write_bytes("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    any_ws.symlink("dangling", "nowhere")
    any_ws.write_text("empty", "")
    path = {
        "directory": "dir", "binary": "image.png", "missing": "no", "link to nothing": "dangling", "empty": "empty",
        "through a file": "empty/x",
    }[how]  # fmt: skip
    kinds = {
        "directory": {"is-a-directory"}, "binary": {"binary-file"}, "missing": {"file-not-found"}, "link to nothing": {"file-not-found"},
        "empty": {"edit-no-match"}, "through a file": {"not-a-directory", "file-not-found"},
    }[how]  # fmt: skip
    with pytest.raises(hedgerow.WorkspaceError) as caught:
        any_ws.edit(path, "a", "b")
    assert caught.value.kind in kinds
    assert caught.value.path is not None
    answer = tools_of(any_ws)["edit_file"](path=path, old="a", new="b")  # type: ignore[operator]
    assert str(answer).startswith("Error")


@pytest.mark.parametrize(
    ("old", "count", "kind"),
    [("a", 1, "edit-ambiguous"), ("a", 2, "edit-ambiguous"), ("z", 1, "edit-no-match"), ("z", None, "edit-no-match")],
)
def test_failed_edit_changes_nothing_and_leaves_no_record(
    any_ws: Workspace, old: str, count: int | None, kind: str
) -> None:
    any_ws.write_text("f", "a a a\n")
    records = [record for record in any_ws.history() if record.status == "applied"]
    with pytest.raises(hedgerow.EditError) as caught:
        any_ws.edit("f", old, "b", count=count)
    assert caught.value.kind == kind
    assert any_ws.read_text("f") == "a a a\n"
    assert [record for record in any_ws.history() if record.status == "applied"] == records


@pytest.mark.parametrize("arguments", [("", "x", 1), ("a", "b", 0), ("a", "b", -1)])
def test_senseless_edit_arguments_are_refused(any_ws: Workspace, arguments: tuple[str, str, int]) -> None:
    any_ws.write_text("f", "a\n")
    with pytest.raises(ValueError):
        any_ws.edit("f", arguments[0], arguments[1], count=arguments[2])
    assert any_ws.read_text("f") == "a\n"


# S. search, glob and listing


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*a){12}", "([a-zA-Z]+)*!x", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_case_s01_no_pattern_takes_for_ever(any_ws: Workspace, pattern: str) -> None:
    any_ws.write_text("f", "a" * 40 + "!\n" + "a" * 5000 + "\n")
    before = time.monotonic()
    any_ws.search(pattern, regex=True)
    assert time.monotonic() - before < 1 * SLOWDOWN


@pytest.mark.parametrize("pattern", ["(", "[", "a{1,1000000}{1,1000000}", "(?<x", "\\", "(?=a)", "(a)\\1"])
def test_case_s01_pattern_that_is_none_is_refused(any_ws: Workspace, pattern: str) -> None:
    any_ws.write_text("f", "a\n")
    with pytest.raises(hedgerow.InvalidArgumentError):
        any_ws.search(pattern, regex=True)
    assert any_ws.search(pattern).matches == ()


@pytest.mark.timeout(120)
def test_case_s02_t02_t04_long_line_is_clamped_and_says_so(disk: Workspace, root: Path) -> None:
    with open(root / "long", "wb") as file:
        file.write(b"x" * (25 << 20) + b"needle" + b"y" * (25 << 20))
    found = disk.search("needle", context=20, max_file_bytes=1 << 30)
    assert len(found.matches) == 1
    match = found.matches[0]
    assert match.clamped
    assert len(match.text) <= 2_100
    assert match.text[match.start : match.end] == "needle"
    assert [item.path for item in disk.search("needle").skipped] == ["long"]
    tools: Any = tools_of(disk)
    for name, arguments in {
        "read_file": {"path": "long"}, "search_files": {"pattern": "x+", "regex": True},
        "edit_file": {"path": "long", "old": "needle", "new": "n"},
    }.items():  # fmt: skip
        answer = tools[name](**arguments)  # type: ignore[arg-type]
        assert len(answer.encode()) <= 48 * 1024
        assert answer


def test_case_t02_t04_t05_tool_answers_are_bounded_never_empty_and_can_be_continued(ws: Workspace) -> None:
    ws.write_text("one-line", "z" * (4 << 20))
    ws.write_text("many", "".join(f"{number:07}\n" for number in range(100_000)))
    tools: Any = tools_of(ws)
    for path in ("one-line", "many"):
        first, second = tools["read_file"](path=path), tools["read_file"](path=path)
        assert first == second
        assert 1000 < len(first.encode()) <= 48 * 1024
        assert "truncated" in first or "more" in first
    over = tools["read_file"](path="many", offset=1, limit=100_000)
    assert len(over.encode()) <= 48 * 1024
    # What is shown plus what the note says leads through the whole file.
    seen: list[str] = []
    offset = 0
    for _ in range(60):
        answer = tools["read_file"](path="many", offset=offset)
        lines = [line for line in answer.splitlines() if line.isdigit() and len(line) == 7]
        assert lines
        seen += lines
        if len(seen) >= 100_000:
            break
        offset = int(lines[-1]) + 1
    assert seen == [f"{number:07}" for number in range(100_000)]


def test_case_t02_t05_what_an_answer_quotes_is_bounded_too(any_ws: Workspace) -> None:
    deep = "/".join(["é" * 100] * 15)
    any_ws.write_text(f"{deep}/f", "a\n")
    small: Any = {tool.name: tool for tool in any_ws.tools(max_output_bytes=256)}
    answers = [
        small["write_file"](path=f"{deep}/g", content="a"),
        small["edit_file"](path=f"{deep}/f", old="a", new="b"),
        small["read_file"](path=f"{deep}/missing"),
        small["move_file"](source=f"{deep}/g", destination=f"{deep}/h"),
        small["search_files"](pattern="(" * 5000, regex=True),
    ]
    assert all(0 < len(answer.encode()) <= 256 for answer in answers)
    assert answers[2].startswith("Error: ")
    assert answers[2].endswith("List the directory to see what exists.")
    tools: Any = tools_of(any_ws)
    assert len(tools["search_files"](pattern="(" * 60_000, regex=True).encode()) <= 48 * 1024


async def test_case_s03_cancelled_search_stops_working(disk: Workspace, root: Path) -> None:
    for number in range(300):
        (root / f"f{number}").write_bytes(b"abcdefgh\n" * 100_000)
    task = asyncio.create_task(disk.aio.search(r"[a-h]+\w\w+[0-9]+q", regex=True, max_matches=10**9))
    await asyncio.sleep(0.2)
    before = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - before < 0.5
    await asyncio.sleep(0.3 * SLOWDOWN)
    used = time.process_time()
    await asyncio.sleep(0.5)
    assert time.process_time() - used < 0.2


def test_case_s05_hidden_files_are_treated_alike_at_every_depth(any_ws: Workspace) -> None:
    for name in (".hidden.ts", ".hidden/nested.ts", "visible.ts", "src/.hidden.ts", "src/.h/x.ts"):
        any_ws.write_text(name, "x")
    everything = [".hidden.ts", ".hidden/nested.ts", "src/.h/x.ts", "src/.hidden.ts", "visible.ts"]
    # Hidden files are files: no pattern passes over them, at no depth.
    assert sorted(any_ws.glob("**/*.ts")) == everything
    assert sorted(match.path for match in any_ws.search("x", include="**/*.ts")) == everything
    assert sorted(any_ws.glob("*.ts")) == [".hidden.ts", "visible.ts"]


GLOBS = {
    "src/**/*.py": ["src/a.py", "src/deep/b.py", "src/deep/er/c.py"],
    "**/*.py": ["src/a.py", "src/deep/b.py", "src/deep/er/c.py", "top.py"],
    "*.py": ["top.py"],
    "**": None,
    "src/*/*.py": ["src/deep/b.py"],
    "**/deep/**": None,
    "src/[ab].py": ["src/a.py"],
    "src/[!b].py": ["src/a.py"],
    "???.py": ["top.py"],
    "top.py": ["top.py"],
    "nothing": [],
}


@pytest.mark.parametrize("pattern", GLOBS)
def test_case_s08_globs_mean_the_same_everywhere(ws: Workspace, disk: Workspace, pattern: str) -> None:
    for each in (ws, disk):
        for name in ("top.py", "src/a.py", "src/deep/b.py", "src/deep/er/c.py", "src/x.txt"):
            each.write_text(name, "needle\n")
    found = [list(each.glob(pattern)) for each in (ws, disk)]
    assert found[0] == found[1]
    if GLOBS[pattern] is not None:
        assert found[0] == GLOBS[pattern]
    searched = [[match.path for match in each.search("needle", include=pattern)] for each in (ws, disk)]
    assert searched[0] == searched[1]
    if pattern == "*.py":
        return  # a filter without a slash may mean names at any depth; it is the same on both
    assert set(searched[0]) == {path for path in found[0] if path.endswith((".py", ".txt"))}


@pytest.mark.parametrize(
    "pattern", ["app/[id]/page.tsx", "app/[id]/*.tsx", "**/[id]/*", "app/[[id]]/x", "*/[id]/page.tsx"]
)
def test_case_s08_brackets_of_a_name_are_found_by_every_tool(any_ws: Workspace, pattern: str) -> None:
    any_ws.write_text("app/[id]/page.tsx", "needle\n")
    any_ws.write_text("app/[[id]]/x", "needle\n")
    tools: Any = tools_of(any_ws)
    path = "app/[[id]]/x" if "[[" in pattern else "app/[id]/page.tsx"
    assert tools["glob_files"](pattern=pattern) == path
    assert tools["search_files"](pattern="needle", glob=pattern) == f"{path}:1: needle"
    any_ws.write_text("app/i/page.tsx", "needle\n")
    if "[[" not in pattern:  # a class of characters, where it is one
        assert tools["glob_files"](pattern=pattern) == "app/i/page.tsx"
        assert tools["search_files"](pattern="needle", glob=pattern) == "app/i/page.tsx:1: needle"


@pytest.mark.parametrize("glob", ["!*.py", "*.py,*.ts", "*.rs", "nowhere/**"])
def test_case_s08_a_glob_that_no_file_matches_is_told(any_ws: Workspace, glob: str) -> None:
    any_ws.write_text("a.py", "needle\n")
    tools: Any = tools_of(any_ws)
    assert tools["search_files"](pattern="needle", glob=glob).startswith(f"No files match the glob '{glob}'")
    assert tools["search_files"](pattern="nothing", glob="*.py") == "No matches in 1 files"


def test_case_s09_unreadable_directory_is_reported_and_the_rest_found(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "closed/deep").mkdir(parents=True)
    (root / "closed/deep/f").write_text("needle")
    (root / "f").write_text("needle")
    (root / "g").write_text("needle")
    (root / "g").chmod(0)
    (root / "closed").chmod(0)
    done = python(
        """
        import sys, hedgerow
        with hedgerow.Workspace.open(sys.argv[1], store=sys.argv[2], id="w") as ws:
            found = ws.search("needle")
            print([m.path for m in found], sorted(s.path for s in found.skipped))
            globbed = ws.glob("**/f")
            print(list(globbed), list(globbed.unreadable))
        """,
        root,
        tmp_path / "store",
        prefix=unprivileged(),
    )
    (root / "closed").chmod(0o755)
    assert done.stdout.splitlines() == ["['f'] ['closed', 'g']", "['f'] ['closed']"]
