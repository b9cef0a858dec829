"""Memory, disk through the kernel and disk through the walk refuse the same calls, for the same reason, at the same path."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hedgerow import PathEscapeError, Workspace, WorkspaceError

RESERVED = ".hedgerow-1-00ff.tmp"
LINKS = {
    "to-root": ".",
    "dir/up": "..",
    "to-dir": "dir",
    "to-file": "file",
    "dangling": "nowhere",
    "dangling-deep": "no/where",
    "loop": "loop",
    "loop-a": "loop-b",
    "loop-b": "loop-a",
    "out": "../outside",
    "back": "nowhere/..",
    "back-deep": "dir/nowhere/../inside",
    "as-dir": "file/",
    "as-dir-dot": "file/.",
    "as-dir-back": "file/..",
    "as-dir-dangling": "nowhere/",
    "to-dir-slash": "dir/",
    "to-reserved": RESERVED,
}
PATHS = [
    "/", ".", "..", "../x", "dir/../../x", "dir/..", "dir/../missing", "file/..", "file/../x", "missing/..", "missing/../x",
    "missing", "missing/", "missing/x", "missing/x/", "missing/x/y", "file", "file/", "file/.", "file/x", "file/x/y", "dir",
    "dir/", "dir/inside", "dir/missing", "empty", "empty/", "to-root", "to-root/", "to-root/file", "to-root/missing",
    "to-root/missing/x", "to-root/to-root", "to-root/..", "dir/up", "dir/up/", "dir/up/file", "dir/up/missing/x", "to-dir",
    "to-dir/", "to-dir/inside", "to-dir/missing", "to-dir/missing/x", "to-dir/..", "to-dir/../file", "to-file", "to-file/",
    "to-file/x", "to-file/x/y", "to-file/..", "dangling", "dangling/", "dangling/x", "dangling/..", "dangling-deep",
    "dangling-deep/x", "loop", "loop/", "loop/x", "loop/..", "loop-a", "loop-a/x/y", "out", "out/", "out/x", "out/..",
    RESERVED, f"{RESERVED}/", f"{RESERVED}/x", f"dir/{RESERVED}", f"dir/{RESERVED}/x/y", f"missing/{RESERVED}", f"file/{RESERVED}",
    "to-reserved", "to-reserved/x", f"to-dir/{RESERVED}/x",
    "dir/../file/x", "dir/../file/x/y", "dir/../loop", "dir/../loop/x", "dir/../out/x", "dir/../dangling/x", "to-dir/../to-file/x",
    *(f"{link}{rest}" for link in ("back", "back-deep", "as-dir", "as-dir-dot", "as-dir-back", "as-dir-dangling", "to-dir-slash")
      for rest in ("", "/", "/x", "/x/y", "/..", "/../file")),
]  # fmt: skip
CALLS: dict[str, Callable[[Workspace, str], Any]] = {
    "read_text": lambda ws, path: ws.read_text(path),
    "read_bytes": lambda ws, path: ws.read_bytes(path, offset=1),
    "iter_bytes": lambda ws, path: b"".join(ws.iter_bytes(path)),
    "exists": lambda ws, path: ws.exists(path),
    "stat": lambda ws, path: ws.stat(path).kind,
    "content_id": lambda ws, path: ws.content_id(path),
    "readlink": lambda ws, path: ws.readlink(path),
    "realpath": lambda ws, path: ws.realpath(path),
    "list_dir": lambda ws, path: [entry.path for entry in ws.list_dir(path)],
    "walk": lambda ws, path: [entry.path for entry in ws.walk(path)],
    "summary": lambda ws, path: ws.summary(path).files,
    "glob below": lambda ws, path: list(ws.glob("*", path)),
    "glob": lambda ws, path: list(ws.glob(path)),
    "search": lambda ws, path: [match.path for match in ws.search("text", path)],
    "export": lambda ws, path: len(ws.export(path)) > 0,
    "write_text": lambda ws, path: ws.write_text(path, "new"),
    "write_text if_hash": lambda ws, path: ws.write_text(path, "new", if_hash="0" * 40),
    "write_text alone": lambda ws, path: ws.write_text(path, "new", parents=False),
    "create": lambda ws, path: ws.create(path, "new"),
    "create alone": lambda ws, path: ws.create(path, "new", parents=False),
    "append_text": lambda ws, path: ws.append_text(path, "new"),
    "append_text alone": lambda ws, path: ws.append_text(path, "new", parents=False),
    "mkdir": lambda ws, path: ws.mkdir(path),
    "mkdir new": lambda ws, path: ws.mkdir(path, exist_ok=False),
    "mkdir alone": lambda ws, path: ws.mkdir(path, parents=False),
    "mkdir there": lambda ws, path: ws.mkdir(path, parents=False, exist_ok=True),
    "symlink": lambda ws, path: ws.symlink(path, "file"),
    "symlink alone": lambda ws, path: ws.symlink(path, "file", parents=False),
    "hardlink from": lambda ws, path: ws.hardlink(path, "second"),
    "hardlink to": lambda ws, path: ws.hardlink("file", path),
    "chmod": lambda ws, path: ws.chmod(path, 0o700),
    "remove": lambda ws, path: ws.remove(path),
    "remove all": lambda ws, path: ws.remove(path, recursive=True),
    "remove maybe": lambda ws, path: ws.remove(path, missing_ok=True),
    "copy from": lambda ws, path: ws.copy(path, "second"),
    "copy all from": lambda ws, path: ws.copy(path, "second", recursive=True),
    "copy to": lambda ws, path: ws.copy("file", path),
    "copy to alone": lambda ws, path: ws.copy("file", path, parents=False),
    "copy over": lambda ws, path: ws.copy("file", path, overwrite=True),
    "copy dir to": lambda ws, path: ws.copy("dir", path, recursive=True, overwrite=True),
    "move from": lambda ws, path: ws.move(path, "second"),
    "move to": lambda ws, path: ws.move("file", path),
    "move to alone": lambda ws, path: ws.move("file", path, parents=False),
    "move over": lambda ws, path: ws.move("file", path, overwrite=True),
    "move dir over": lambda ws, path: ws.move("dir", path, overwrite=True),
    "edit": lambda ws, path: ws.edit(path, "text", "new").replaced,
    "import": lambda ws, path: ws.import_(ws.export("dir"), path),
}


READING = list(CALLS)[: list(CALLS).index("write_text")]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Workspace]]:
    """Return a workspace of each kind, with the same entries and a checkpoint of them."""
    place = tmp_path_factory.mktemp("kinds")
    made = [Workspace.memory()]
    for resolver in ("auto", "walk"):
        made.append(Workspace.open(place / resolver, store=place / "store", create=True, resolver=resolver))
    for ws in made:
        ws.write_many({"file": "text\n", "dir/inside": "text\n"})
        ws.mkdir("empty")
        for path, target in LINKS.items():
            ws.symlink(path, target)
        ws.checkpoint("filled")
    yield made
    for ws in made:
        ws.close()


def outcome(call: Callable[[Workspace, str], Any], ws: Workspace, path: str) -> tuple[object, ...]:
    try:
        return ("done", call(ws, path))
    except WorkspaceError as error:
        return ("refused", error.kind, error.path)


@pytest.mark.parametrize("name", CALLS)
def test_every_kind_of_workspace_refuses_the_same_for_the_same_reason(kinds: list[Workspace], name: str) -> None:
    differ = []
    for path in PATHS:
        outcomes = [outcome(CALLS[name], ws, path) for ws in kinds]
        if any(other != outcomes[0] for other in outcomes):
            differ.append((path, *outcomes))
        for ws, (end, *_) in zip(kinds, outcomes, strict=True):
            if name not in READING and end == "done":
                ws.rollback("filled")
    assert not differ
    assert all(not ws.diff("filled").paths for ws in kinds)  # what was refused changed nothing


def test_case_d_an_archive_puts_no_reserved_name_anywhere(kinds: list[Workspace]) -> None:
    for name in (RESERVED, f"a/{RESERVED}", f"a/{RESERVED}/x"):
        packed, member = io.BytesIO(), tarfile.TarInfo(name)
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.addfile(member)
        for ws in kinds:
            with pytest.raises(PathEscapeError) as refused:
                ws.import_(packed.getvalue(), "dir")
            assert (refused.value.kind, refused.value.path) == ("reserved-name", f"dir/{name}")
    assert all(not ws.diff("filled").paths for ws in kinds)


@pytest.mark.parametrize("path", ["to-root", "dir/up", "to-root/to-root"])
def test_a_link_to_the_root_is_a_directory_to_a_writer(kinds: list[Workspace], path: str) -> None:
    for ws in kinds:
        for name in ("write_text", "append_text", "edit"):
            assert outcome(CALLS[name], ws, path) == ("refused", "is-a-directory", path)
        assert outcome(CALLS["mkdir new"], ws, path) == ("refused", "file-exists", path)
        assert outcome(CALLS["chmod"], ws, path) == ("refused", "invalid-argument", path)
        assert outcome(CALLS["mkdir"], ws, path) == ("done", None)


def test_an_error_names_the_whole_path_that_was_asked_for(kinds: list[Workspace]) -> None:
    for ws in kinds:
        assert outcome(CALLS["read_text"], ws, "/file//x/./y") == ("refused", "not-a-directory", "file/x/y")
        assert outcome(CALLS["write_text"], ws, "to-file/x") == ("refused", "not-a-directory", "to-file/x")
        assert outcome(CALLS["readlink"], ws, "to-dir/missing") == ("refused", "file-not-found", "to-dir/missing")
