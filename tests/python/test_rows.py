"""The table of requirements is complete and true: each row once, each named test there and marked with the row.

A test says which rows it shows by `@pytest.mark.row("B12")` in Python and by `// rows: S51` above it in Rust. Rows are
written without a leading zero; ids such as `B07` are public bug reports. `python tests/python/test_rows.py` writes
the column of tests anew from these marks and leaves the words as they are.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = REPOSITORY / "tests" / "rows.md"
ROWS = [f"{system}{number}" for system, last in (("B", 46), ("S", 97), ("P", 39)) for number in range(1, last + 1)]
ID = re.compile(r"\b[BSP][1-9]\d*\b")
LINE = re.compile(r"^\| (?P<row>[BSP]\d+) \| (?P<what>[^|]+) \| (?P<shown>[^|]*) \| (?P<open>[^|]*) \|$")


def python_tests() -> dict[str, set[str]]:
    """Return the rows of each marked Python test."""
    found: dict[str, set[str]] = {}
    for file in sorted(REPOSITORY.glob("tests/python/test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.row":
                    names = [argument.value for argument in mark.args if isinstance(argument, ast.Constant)]
                    rows = {name for name in map(str, names) if ID.fullmatch(name)}
                    found.setdefault(f"{file.name}::{node.name}", set()).update(rows)
    return {test: rows for test, rows in found.items() if rows}


def rust_tests() -> dict[str, set[str]]:
    """Return the rows of each Rust test with a comment above it or in it."""
    found: dict[str, set[str]] = {}
    for file in sorted([*REPOSITORY.glob("src/**/*.rs"), *REPOSITORY.glob("tests/*.rs")]):
        lines = file.read_text().splitlines()
        for number, line in enumerate(lines):
            mark = re.match(r"\s*// rows: (.*)", line)
            if mark is None or not ID.search(mark[1]):
                continue
            below = next(text for text in lines[number + 1 :] if not re.match(r"\s*(//|#!?\[|$)", text))
            around = [text for text in reversed(lines[:number]) if re.match(r"\s*fn \w+", text)]
            name = re.match(r"\s*fn (\w+)", below) or re.match(r"\s*fn (\w+)", around[0] if around else "")
            assert name is not None, f"{file}:{number + 1}: no test for this comment"
            test = f"{file.relative_to(REPOSITORY).as_posix().removeprefix('tests/')}::{name[1]}"
            found.setdefault(test, set()).update(ID.findall(mark[1]))
    return found


def marked() -> dict[str, set[str]]:
    """Return the marked tests of each row."""
    by_row: dict[str, set[str]] = {}
    for test, rows in {**python_tests(), **rust_tests()}.items():
        for row in rows:
            by_row.setdefault(row, set()).add(test)
    return by_row


def table() -> list[re.Match[str]]:
    """Return the lines of the table."""
    return [match for line in TABLE.read_text().splitlines() if (match := LINE.match(line))]


def listed() -> dict[str, set[str]]:
    """Return the tests the table names for each row."""
    return {match["row"]: set(re.findall(r"`([^`]+)`", match["shown"])) for match in table()}


def test_every_row_stands_in_the_table_once_and_in_order() -> None:
    assert [match["row"] for match in table()] == ROWS
    lines = [line for line in TABLE.read_text().splitlines() if re.match(r"\| [BSP]\d", line)]
    assert len(lines) == len(ROWS), "a line of the table has another form"


def test_marks_name_rows_that_exist() -> None:
    assert set(marked()) <= set(ROWS)


def test_the_table_names_exactly_the_tests_that_carry_the_mark() -> None:
    marks, named = marked(), listed()
    wrong = {row: (marks.get(row, set()), named.get(row, set())) for row in ROWS}
    assert not {row: both for row, both in wrong.items() if both[0] != both[1]}, "python tests/python/test_rows.py"


def test_a_row_is_shown_or_open_or_says_what_is_open() -> None:
    for match in table():
        if match["open"].strip() == "open":
            assert not match["shown"].strip(), match["row"]
        else:
            assert match["shown"].strip(), match["row"]


def test_the_counts_in_the_text_are_right() -> None:
    states = Counter(
        "open" if match["open"].strip() == "open" else "part" if match["open"].strip() else "shown" for match in table()
    )
    assert f"{states['shown']} are shown, {states['part']} in part, {states['open']} are open." in TABLE.read_text()


def write() -> None:
    """Write the columns of tests and the counts anew."""
    marks = marked()
    lines, states = [], Counter[str]()
    for line in TABLE.read_text().splitlines():
        if match := LINE.match(line):
            shown = ", ".join(f"`{test}`" for test in sorted(marks.get(match["row"], set())))
            missing = match["open"].strip()
            if not shown:
                missing = "open"
            elif missing == "open":
                missing = ""
            states["open" if missing == "open" else "part" if missing else "shown"] += 1
            line = f"| {match['row']} | {match['what']} | {shown} | {missing} |"
        lines.append(line)
    text = "\n".join(lines) + "\n"
    counts = f"{states['shown']} are shown, {states['part']} in part, {states['open']} are open."
    TABLE.write_text(re.sub(r"\d+ are shown, \d+ in part, \d+ are open\.", counts, text))


if __name__ == "__main__":
    write()
