"""The exceptions: their tree, their codes, and what their texts hold."""

from __future__ import annotations

import errno
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import hedgerow
from hedgerow import ErrorKind, Workspace, WorkspaceError, _errors, _native

BUILTINS = {
    "PathEscapeError": PermissionError,
    "InvalidPathError": ValueError,
    "InvalidArgumentError": ValueError,
    "InvalidJsonError": ValueError,
    "NotFoundError": FileNotFoundError,
    "CheckpointNotFoundError": LookupError,
    "AlreadyExistsError": FileExistsError,
    "FileExpectedError": IsADirectoryError,
    "DirectoryExpectedError": NotADirectoryError,
    "UnsuitableEntryError": OSError,
    "NotUtf8Error": UnicodeDecodeError,
    "ReadOnlyError": PermissionError,
    "EditError": ValueError,
    "QuotaError": OSError,
    "LockTimeoutError": TimeoutError,
    "DeadlockError": RuntimeError,
    "ClosedError": ValueError,
    "NotSupportedError": OSError,
    "FileSystemError": OSError,
    "InternalError": RuntimeError,
}
KINDS = [str(kind) for kind in ErrorKind]


def test_codes_are_those_of_the_core() -> None:
    assert {code for code, _ in _native._all_error_kinds()} == set(KINDS) == set(_errors._CLASSES)


def test_the_readme_lists_every_code_with_its_class() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    table = readme.partition("## Errors")[2].partition("\n## ")[0]
    listed = {}
    for row in table.splitlines():
        cells = row.split("|")
        for code in re.findall(r"`([^`]+)`", cells[3]) if len(cells) > 3 else ():
            listed[code] = re.findall(r"`([^`]+)`", cells[1])
    assert set(listed) == set(KINDS)
    assert all(_errors._CLASSES[code].__name__ in names for code, names in listed.items())


def test_hints_are_one_imperative_sentence() -> None:
    for code, hint in _native._all_error_kinds():
        assert (code == "cancelled") == (hint == "")
        assert hint == "" or (hint.endswith(".") and hint[0].isupper() and "\n" not in hint)


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_classes_derive_from_what_a_python_programmer_catches(name: str) -> None:
    cls = getattr(hedgerow, name)
    assert issubclass(cls, WorkspaceError)
    assert issubclass(cls, BUILTINS[name])


def test_families_hold_together() -> None:
    kinds: list[type] = [hedgerow.FileExpectedError, hedgerow.DirectoryExpectedError]
    kinds += [hedgerow.UnsuitableEntryError, hedgerow.NotUtf8Error]
    assert all(issubclass(cls, hedgerow.EntryKindError) for cls in kinds)
    assert issubclass(hedgerow.MergeConflictError, hedgerow.ConflictError)
    assert issubclass(hedgerow.QuotaError, hedgerow.LimitError)


@pytest.mark.row("S94")
@pytest.mark.parametrize("kind", KINDS)
def test_every_error_says_what_it_is_and_pickles(kind: str) -> None:
    error = _errors._make(kind, "it went wrong", "src/a.py", "Do it again.", "a cause\nof two lines")
    assert error.kind == kind
    assert str(error) == "src/a.py: it went wrong"
    assert (error.path, error.message, error.hint) == ("src/a.py", "it went wrong", "Do it again.")
    assert error.__notes__ == ["a cause\nof two lines"]
    if isinstance(error, OSError):
        assert error.errno in errno.errorcode
        assert error.filename == "src/a.py"

    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.kind, str(again), again.hint, again.__notes__) == (kind, str(error), error.hint, error.__notes__)
    assert str(_errors._make(kind, "it went wrong")) == "it went wrong"


def test_code_of_a_newer_core_is_an_internal_error() -> None:
    error = _errors._make("of-tomorrow", "text")
    assert isinstance(error, hedgerow.InternalError)
    assert error.kind is ErrorKind.BUG


@pytest.mark.row("B33", "S17", "S18", "S31", "S33", "S38", "S39")
def test_builtin_classes_are_raised(any_ws: Workspace) -> None:
    ws = any_ws
    ws.write_bytes("latin", b"caf\xe9")
    ws.mkdir("d")
    with pytest.raises(UnicodeDecodeError, match="latin"):
        ws.read_text("latin")
    with pytest.raises(FileNotFoundError):
        ws.read_text("missing")
    with pytest.raises(IsADirectoryError):
        ws.write_text("d", "x")
    with pytest.raises(NotADirectoryError):
        ws.list_dir("latin")
    with pytest.raises(FileExistsError):
        ws.create("latin")
    with pytest.raises(FileExistsError):
        ws.mkdir("d", parents=False)
    with pytest.raises(FileNotFoundError):
        ws.mkdir("no/such", parents=False)
    with pytest.raises(PermissionError):
        ws.read_text("../escape")
    with pytest.raises(ValueError, match="null"):
        ws.read_text("a\0b")
    with pytest.raises(ValueError, match="negative"):
        ws.read_bytes("latin", length=-1)
    with pytest.raises(OSError, match="link") as caught:
        ws.readlink("latin")
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(LookupError):
        ws.rollback("no such")
    ws.symlink("loop", "loop")
    with pytest.raises(OSError) as caught:
        ws.read_text("loop")
    assert caught.value.errno == errno.ELOOP
    with pytest.raises(TypeError):
        ws.read_text(b"bytes")  # type: ignore[arg-type]


def test_no_message_holds_a_host_path(disk: Workspace, root: Path) -> None:
    ws = disk
    ws.write_text("file", "x")
    ws.symlink("out", "/etc/passwd")
    ws.symlink("here", str(root / "file"))
    attempts: list[Callable[[], object]] = [
        lambda: ws.read_text("missing"),
        lambda: ws.read_text("../escape"),
        lambda: ws.read_text("out"),
        lambda: ws.read_text("here/x"),
        lambda: ws.read_text("file/x"),
        lambda: ws.write_text("file/x", ""),
        lambda: ws.list_dir("file"),
        lambda: ws.mkdir("file"),
        lambda: ws.move("missing", "x"),
        lambda: ws.copy("file", "../x"),
        lambda: ws.remove("missing"),
        lambda: ws.edit("file", "absent", "y"),
        lambda: ws.rollback("absent"),
        lambda: ws.read_only().write_text("x", ""),
        lambda: Workspace.open(root / "missing", store=root.parent / "store2"),
        lambda: Workspace.open(root / "file", store=root.parent / "store3"),
    ]
    for attempt in attempts:
        with pytest.raises(WorkspaceError) as caught:
            attempt()
        error = caught.value
        text = "\n".join([str(error), repr(error), error.hint, error.path or "", *getattr(error, "__notes__", [])])
        assert "secret-host-name" not in text
        assert error.hint
    assert "secret-host-name" not in repr(ws)
