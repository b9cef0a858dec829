"""Random operations on memory and disk in lockstep, against a plain model.

The model is a dict from path to (kind, permission bits, content or target). Each step does one thing to all three;
both workspaces must fail with the same class of error, and hold afterwards what the model holds. On disk, steps
also happen behind our back. Checkpoints remember the model of their moment: rolling back, whole or in part, and
looking into a checkpoint must give exactly that.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

import hedgerow
from hedgerow import Workspace

Node = tuple[str, int, bytes]
Model = dict[str, Node]

NAMES = st.sampled_from(["a", "b", "A", "é", "e\u0301", " x ", "-f", "n\nl", "\udcff", ".git", "%2e", "con."])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.one_of(
    st.binary(max_size=12), st.sampled_from([b"", b"one two\n", b"one\r\ntwo\r\n", b"\xff\0", b"x" * 5000, b"one one"])
)
MODES = st.sampled_from([0o600, 0o644, 0o755, 0o700, 0o400])
TARGETS = st.sampled_from(["a", "b/a", "../a", "nowhere", "/etc/passwd", "/a", ".", "n\nl"])


def above(path: str) -> list[str]:
    """Return the directories above a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def below(model: Model, path: str) -> list[str]:
    """Return what lies below a directory."""
    return [name for name in model if name.startswith(path + "/")]


def listing(ws: Workspace) -> Model:
    """Return what a workspace holds."""
    held: Model = {}
    for entry in ws.walk():
        if entry.is_symlink:
            held[entry.path] = ("symlink", 0, os.fsencode(entry.target or ""))
        elif entry.is_directory:
            held[entry.path] = ("directory", entry.mode, b"")
        else:
            held[entry.path] = ("file", entry.mode, ws.read_bytes(entry.path))
    return held


def on_disk(root: Path) -> Model:
    """Return what the operating system holds."""
    held: Model = {}
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            place = os.path.join(directory, name)
            info = os.lstat(place)
            path = os.path.relpath(place, root)
            if stat.S_ISLNK(info.st_mode):
                held[path] = ("symlink", 0, os.fsencode(os.readlink(place)))
            elif stat.S_ISDIR(info.st_mode):
                held[path] = ("directory", stat.S_IMODE(info.st_mode), b"")
            else:
                held[path] = ("file", stat.S_IMODE(info.st_mode), Path(place).read_bytes())
    return held


class Machine(RuleBasedStateMachine):
    """Two workspaces, their model, and the models of their checkpoints."""

    checkpoints = Bundle("checkpoints")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="hedgerow-stateful-"))
        self.root = self.directory / "root"
        self.root.mkdir()
        self.model: Model = {}
        self.memory = Workspace.memory(store=self.directory / "memory-store", id="m")
        self.disk = self.open()
        # What the next checkpoint must find changed: the model at the head.
        self.head: Model = {}

    def open(self) -> Workspace:
        return Workspace.open(self.root, store=self.directory / "store", id="d")

    def teardown(self) -> None:
        self.memory.close()
        self.disk.close()
        shutil.rmtree(self.directory)

    def both(self, name: str, *arguments: Any, **keywords: Any) -> bool:
        """Do the same to both; return whether it succeeded, which it must on both or on neither."""
        said: list[object] = []
        for ws in (self.memory, self.disk):
            try:
                getattr(ws, name)(*arguments, **keywords)
            except hedgerow.WorkspaceError as error:
                assert error.kind != "bug", error
                said.append((type(error), str(error.kind)))
            else:
                said.append(None)
        assert said[0] == said[1], (name, arguments, keywords, said)
        return said[0] is None

    def plain(self, path: str) -> bool:
        """Whether no link stands above a path, so that the model can foretell what a call does."""
        return all(self.model.get(part, ("directory",))[0] != "symlink" for part in above(path))

    def resync(self) -> None:
        """After a call through a link: the disk says what happened, and memory must agree."""
        self.model = on_disk(self.root)

    def make_parents(self, path: str) -> None:
        for part in above(path):
            self.model.setdefault(part, ("directory", 0o755, b""))

    def blocked(self, path: str) -> bool:
        return any(self.model.get(part, ("directory",))[0] != "directory" for part in above(path))

    # changes through the workspace

    @rule(path=PATHS, content=CONTENTS)
    def write(self, path: str, content: bytes) -> None:
        done = self.both("write_bytes", path, content)
        node = self.model.get(path)
        if not self.plain(path) or (node is not None and node[0] == "symlink"):
            return self.resync()
        assert done is not (self.blocked(path) or (node is not None and node[0] == "directory"))
        if done:
            self.make_parents(path)
            self.model[path] = ("file", node[1] if node else 0o644, content)

    @rule(path=PATHS, content=CONTENTS)
    def create(self, path: str, content: bytes) -> None:
        done = self.both("create", path, content)
        if not self.plain(path):
            return self.resync()
        assert done is not (self.blocked(path) or path in self.model)
        if done:
            self.make_parents(path)
            self.model[path] = ("file", 0o644, content)

    @rule(path=PATHS, text=st.sampled_from(["", "more", "é\n"]))
    def append(self, path: str, text: str) -> None:
        done = self.both("append_text", path, text)
        node = self.model.get(path)
        if not self.plain(path) or (node is not None and node[0] == "symlink"):
            return self.resync()
        assert done is not (self.blocked(path) or (node is not None and node[0] == "directory"))
        if done:
            self.make_parents(path)
            self.model[path] = ("file", node[1] if node else 0o644, (node[2] if node else b"") + text.encode())

    @rule(
        path=PATHS,
        old=st.sampled_from(["one", "two", "x"]),
        new=st.sampled_from(["", "$1", "two\n", "é"]),
        count=st.sampled_from([1, 2, None]),
    )
    def edit(self, path: str, old: str, new: str, count: int | None) -> None:
        done = self.both("edit", path, old, new, count=count)
        node = self.model.get(path)
        if not self.plain(path) or (node is not None and node[0] == "symlink"):
            return self.resync()
        if done:
            assert node is not None
            wanted = new.replace("\n", "\r\n") if b"\r\n" in node[2] else new
            self.model[path] = ("file", node[1], node[2].replace(old.encode(), wanted.encode()))
            assert count is None or node[2].count(old.encode()) == count

    @rule(path=PATHS)
    def mkdir(self, path: str) -> None:
        done = self.both("mkdir", path)
        node = self.model.get(path)
        if not self.plain(path) or (node is not None and node[0] == "symlink"):
            return self.resync()
        assert done is not (self.blocked(path) or (node is not None and node[0] != "directory"))
        if done:
            self.make_parents(path)
            self.model.setdefault(path, ("directory", 0o755, b""))

    @rule(path=PATHS, recursive=st.booleans())
    def remove(self, path: str, recursive: bool) -> None:
        done = self.both("remove", path, recursive=recursive)
        if not self.plain(path):
            return self.resync()
        node = self.model.get(path)
        assert done is (node is not None and (recursive or node[0] != "directory" or not below(self.model, path)))
        if done:
            for name in [path, *below(self.model, path)]:
                del self.model[name]

    @rule(source=PATHS, destination=PATHS, overwrite=st.booleans())
    def move(self, source: str, destination: str, overwrite: bool) -> None:
        before = dict(self.model)
        done = self.both("move", source, destination, overwrite=overwrite)
        if not self.plain(source) or not self.plain(destination):
            return self.resync()
        if not done:
            return None
        assert source in before
        if source == destination:
            return None
        moved = {
            destination + name[len(source) :]: self.model.pop(name) for name in [source, *below(self.model, source)]
        }
        for name in [destination, *below(self.model, destination)]:
            self.model.pop(name, None)
        self.make_parents(destination)
        self.model.update(moved)
        assert overwrite or destination not in before

    @rule(source=PATHS, destination=PATHS, overwrite=st.booleans(), recursive=st.booleans())
    def copy(self, source: str, destination: str, overwrite: bool, recursive: bool) -> None:
        before = dict(self.model)
        done = self.both("copy", source, destination, overwrite=overwrite, recursive=recursive)
        if not done and self.plain(source) and self.plain(destination):
            return
        # What a copy merges or replaces is the product's to define; the two must agree, and the source must stay.
        self.resync()
        if self.plain(source) and not destination.startswith(source) and not source.startswith(destination):
            for name in [source, *below(before, source)]:
                assert self.model[name] == before[name]
                assert self.model[destination + name[len(source) :]] == before[name]

    @rule(path=PATHS, leads=TARGETS)
    def symlink(self, path: str, leads: str) -> None:
        done = self.both("symlink", path, leads)
        if not self.plain(path):
            return self.resync()
        assert done is not (self.blocked(path) or path in self.model)
        if done:
            self.make_parents(path)
            self.model[path] = ("symlink", 0, leads.encode())

    @rule(path=PATHS, mode=MODES)
    def chmod(self, path: str, mode: int) -> None:
        if not self.plain(path) or self.model.get(path, ("",))[0] == "directory":
            return  # directories that cannot be entered would make the model, not the product, hard to follow
        if self.model.get(path, ("",))[0] == "symlink":
            self.both("chmod", path, mode)
            return self.resync()
        done = self.both("chmod", path, mode)
        assert done is (path in self.model)
        if done:
            kind, _, content = self.model[path]
            self.model[path] = (kind, mode, content)

    # changes behind our back; memory has no back, so it gets the same by its own calls

    def mirror(self) -> None:
        """Make memory what the disk is."""
        self.model = on_disk(self.root)
        self.memory.clear()
        for path, (kind, mode, content) in sorted(self.model.items()):
            if kind == "directory":
                self.memory.mkdir(path)
                self.memory.chmod(path, mode)
            elif kind == "symlink":
                self.memory.symlink(path, os.fsdecode(content))
            else:
                self.memory.write_bytes(path, content)
                self.memory.chmod(path, mode)

    @rule(path=PATHS, content=CONTENTS, keep_times=st.booleans())
    def external_write(self, path: str, content: bytes, keep_times: bool) -> None:
        if self.blocked(path) or self.model.get(path, ("file",))[0] != "file":
            return
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        before = place.stat() if place.exists() else None
        place.write_bytes(content)
        if keep_times and before is not None:
            os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.mirror()

    @rule(path=PATHS)
    def external_remove(self, path: str) -> None:
        if self.blocked(path) or path not in self.model:
            return
        place = self.root / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
        self.mirror()

    @rule(source=PATHS, destination=PATHS)
    def external_rename(self, source: str, destination: str) -> None:
        if self.blocked(source) or self.blocked(destination) or source not in self.model:
            return
        try:
            (self.root / destination).parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.root / source, self.root / destination)
        except OSError:
            pass
        self.mirror()

    @rule(path=PATHS)
    def external_swap_of_kinds(self, path: str) -> None:
        """A directory becomes a link to what it was, or a file becomes a directory."""
        if self.blocked(path) or path not in self.model:
            return
        place = self.root / path
        if place.is_symlink():
            place.unlink()
            place.mkdir()
        elif place.is_dir():
            shutil.rmtree(place)
            place.symlink_to("../a")
        else:
            place.unlink()
            place.mkdir()
            (place / "a").write_text("deep")
        self.mirror()

    # the past

    @initialize(target=checkpoints)
    def first(self) -> tuple[str, str, Model]:
        return (self.memory.checkpoint("start").id, self.disk.checkpoint("start").id, {})

    @rule(target=checkpoints, label=st.sampled_from([None, "one", "two"]))
    def checkpoint(self, label: str | None) -> Any:
        changed = self.head != self.model
        made = []
        for ws in (self.memory, self.disk):
            before = ws.head.id
            kept = ws.checkpoint(label)
            assert (kept.id != before) is changed
            assert not kept.skipped
            made.append(kept)
        assert made[0].tree == made[1].tree
        self.head = dict(self.model)
        return (made[0].id, made[1].id, dict(self.model)) if changed else multiple()

    @rule(at=checkpoints)
    def rollback(self, at: tuple[str, str, Model]) -> None:
        before = dict(self.model)
        for ws, ref in ((self.memory, at[0]), (self.disk, at[1])):
            result = ws.rollback(ref)
            assert (result.saved is not None) is (before != self.head)
            assert {change.path for change in result.changes} >= {
                path
                for path in {*before, *at[2]}
                if before.get(path) != at[2].get(path) and (before.get(path) or at[2][path])[0] != "directory"
            }
            if result.saved is not None:
                assert listing(ws.at(result.saved)) == before
        self.model = dict(at[2])
        self.head = dict(self.model)

    @rule(at=checkpoints, path=PATHS)
    def rollback_of_paths(self, at: tuple[str, str, Model], path: str) -> None:
        target = at[2]
        if any(
            target.get(part, ("directory",))[0] != "directory" or self.model.get(part, ("directory",))[0] != "directory"
            for part in above(path)
        ):
            return
        said = []
        before = dict(self.model)
        for ws, ref in ((self.memory, at[0]), (self.disk, at[1])):
            try:
                ws.rollback(ref, paths=[path])
            except hedgerow.WorkspaceError as error:
                said.append(type(error))
            else:
                said.append(None)  # type: ignore[arg-type]
        assert said[0] == said[1]
        if said[0] is not None:
            assert path not in target
            assert path not in before
            return
        for name in [path, *below(self.model, path)]:
            self.model.pop(name, None)
        if path in target:
            for part in above(path):
                self.model.setdefault(part, target[part])
            for name in [path, *below(target, path)]:
                self.model[name] = target[name]
        # The rollback is a checkpoint itself.
        self.head = dict(self.model)

    @rule(at=checkpoints)
    def look_into(self, at: tuple[str, str, Model]) -> None:
        for ws, ref in ((self.memory, at[0]), (self.disk, at[1])):
            with ws.at(ref) as then:
                assert listing(then) == at[2]

    @rule(a=checkpoints, b=checkpoints)
    def compare(self, a: tuple[str, str, Model], b: tuple[str, str, Model]) -> None:
        for ws, one, two in ((self.memory, a[0], b[0]), (self.disk, a[1], b[1])):
            found = ws.diff(one, two)
            touched = {change.path for change in found} | {
                change.source for change in found if change.source is not None
            }
            wanted = {path for path in {*a[2], *b[2]} if a[2].get(path) != b[2].get(path)}
            leaves = {path for path in wanted if (b[2].get(path) or a[2][path])[0] != "directory"}
            assert leaves <= touched
            assert touched <= wanted

    @rule()
    def reopen(self) -> None:
        kept = [(made.id, made.label) for made in self.disk.checkpoints()]
        newest = self.disk.history()[-1:]
        self.disk.close()
        self.disk = self.open()
        assert [(made.id, made.label) for made in self.disk.checkpoints()] == kept
        assert self.disk.history()[-1:] == newest

    # laws

    @invariant()
    def all_three_hold_the_same(self) -> None:
        assert on_disk(self.root) == self.model
        assert listing(self.memory) == self.model
        assert listing(self.disk) == self.model

    @invariant()
    @precondition(lambda self: self.model != self.head)
    def status_sees_the_difference(self) -> None:
        for ws in (self.memory, self.disk):
            assert ws.status()

    @invariant()
    def sequences_have_no_gaps(self) -> None:
        for ws in (self.memory, self.disk):
            numbers = [record.sequence for record in ws.history()]
            assert numbers == list(range(1, len(numbers) + 1))


_SCALE = {"dev": (12, 20), "ci": (36, 25), "nightly": (2_000, 50)}
_EXAMPLES, _STEPS = _SCALE.get(os.environ.get("HYPOTHESIS_PROFILE", "dev"), _SCALE["dev"])


class TestLockstep(Machine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(
        max_examples=_EXAMPLES,
        stateful_step_count=_STEPS,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


pytestmark = pytest.mark.timeout(600)
