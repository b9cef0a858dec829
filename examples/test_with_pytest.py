"""The `workspace` fixture comes with hedgerow: a tree in memory of its own for each test.

pytest examples/test_with_pytest.py
"""

import pytest

from hedgerow import PathEscapeError, Workspace


def normalize(ws: Workspace) -> int:
    """Give every text file exactly one newline at its end; return how many changed."""
    changed = 0
    for path in ws.glob("**/*.txt"):
        text = ws.read_text(path)
        if text != (fixed := text.rstrip("\n") + "\n"):
            ws.write_text(path, fixed)
            changed += 1
    return changed


def test_normalize_changes_only_what_needs_it(workspace: Workspace) -> None:
    """A checkpoint before and a diff after show exactly what a function did."""
    workspace.write_text("good.txt", "fine\n")
    workspace.write_text("deep/bad.txt", "no newline")
    before = workspace.checkpoint("before")

    assert normalize(workspace) == 1
    assert workspace.diff(before).paths == ("deep/bad.txt",)


def test_code_under_test_cannot_leave(workspace: Workspace) -> None:
    """Code that gets the workspace and nothing else cannot write anywhere else."""
    with pytest.raises(PathEscapeError):
        workspace.write_text("../outside.txt", "")
