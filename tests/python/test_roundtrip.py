"""Checkpoint, any changes, rollback: every byte, mode, link, name and empty directory comes back; and git agrees."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_support import Picture, fsck, git, identities, opened, picture
from hedgerow import Workspace

# fmt: off
ODD = [
    b"a\nb", b"\xff\xfe", b"caf\xe9", b"-rf", b"--", b"trail ", b" lead", "🦔".encode(), b".git", b".GIT", b".Git ", b"git~1",
    b".git.", ".g\u200cit".encode(), b".gitmodules", b"x" * 255, b"A", b"a", "é".encode(), "e\u0301".encode(), b"%", b"%2e",
    b"%2Egit", b"con", b"nul.txt", b"dir.", b"\x01\x7f", b"a\\b", b"'\"", b"*?[", b"$(id)", b"\r", b"...", b".hidden", b"HEAD",
    b"a:b", b"~", b"\t",
]
# fmt: on


def _as_name(raw: bytes) -> bytes:
    return raw.replace(b"/", b"_").replace(b"\0", b"_")


component = st.one_of(
    st.sampled_from(ODD),
    st.binary(min_size=1, max_size=8).map(_as_name).filter(lambda raw: raw not in (b".", b"..")),
)
content = st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"a\r\n", b"\0" * 5000, b"text\n" * 2000]))
node = st.one_of(
    st.tuples(st.just("file"), st.sampled_from([0o600, 0o644, 0o755, 0o777, 0o444, 0o000, 0o755]), content),
    st.tuples(
        st.just("link"),
        st.just(0),
        st.sampled_from([b"a", b"../x", b"/etc", b"nowhere", b"\xff", b"t\nu", b"x" * 300, b"."]),
    ),
    st.tuples(st.just("dir"), st.sampled_from([0o755, 0o700, 0o775, 0o777, 0o711]), st.just(b"")),
)
trees = st.dictionaries(st.lists(component, min_size=1, max_size=3).map(b"/".join), node, max_size=12)


def put(root: Path, tree: Picture) -> None:
    """Write what a picture describes, as far as its paths go together."""
    top = os.fsencode(root)
    for path, (kind, mode, data) in sorted(tree.items()):
        place = os.path.join(top, path)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if kind == "dir":
                os.makedirs(place, exist_ok=True)
                os.chmod(place, mode)
            elif os.path.lexists(place):
                continue
            elif kind == "link":
                os.symlink(data, place)
            else:
                with open(place, "wb") as file:
                    file.write(data)
                os.chmod(place, mode)
        except OSError:
            continue  # a file stands where a directory is wanted, or a link leads nowhere


def empty(root: Path) -> None:
    """Delete everything below `root`."""
    for entry in os.scandir(os.fsencode(root)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that all examples share: the store grows, as in life."""
    made = tmp_path_factory.mktemp("round")
    (made / "root").mkdir()
    return made


@pytest.mark.timeout(600)
@given(first=trees, second=trees, wipe=st.booleans())
@settings(max_examples={"ci": 100, "nightly": 5_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 50))
def test_every_tree_comes_back_from_every_other(place: Path, first: Picture, second: Picture, wipe: bool) -> None:
    root = place / "root"
    empty(root)
    put(root, first)
    with opened(root, place / "store") as ws:
        one, seen_one = ws.checkpoint(), picture(root)
        assert one.skipped == ()
        if wipe:
            empty(root)
        put(root, second)
        seen_two, ids = picture(root), identities(root)
        result = ws.rollback(one)
        assert picture(root) == seen_one
        same = {path for path in seen_one if seen_two.get(path) == seen_one[path] and seen_one[path][0] == "file"}
        after = identities(root)
        assert {path for path in same if path in ids and after[path] != ids[path]} == set()
        ws.rollback(result.saved or result.target)
        assert picture(root) == (seen_two if result.saved is not None else seen_one)
        with ws.at(one) as then:
            assert {os.fsencode(entry.path) for entry in then.walk()} == set(seen_one)


def test_store_of_all_those_trees_is_sound(place: Path, tmp_path: Path) -> None:
    fsck(place / "store")
    refs = git("--git-dir", place / "store", "for-each-ref", "--format=%(refname)").split()
    assert refs
    assert git("--git-dir", place / "store", "log", "--stat", "--all", "--format=%H") != ""
    git("clone", "-q", "--mirror", place / "store", tmp_path / "mirror")
    fsck(tmp_path / "mirror")
    branches = git("--git-dir", place / "store", "for-each-ref", "--format=%(refname)", "refs/heads").split()
    assert branches
    for ref in branches:
        git(
            "clone",
            "-q",
            "--no-checkout",
            "--branch",
            ref.removeprefix("refs/heads/"),
            place / "store",
            tmp_path / "copy",
        )
        shutil.rmtree(tmp_path / "copy")


def test_git_shows_what_was_checkpointed(disk: Workspace, root: Path, tmp_path: Path) -> None:
    """For names git takes as they are, a clone is the tree, but for empty directories, which git never checks out."""
    for name, data in {"a.txt": b"one\n", "d/e/f.bin": bytes(range(256)), "crlf": b"a\r\nb\r\n", "ü\n": b"x"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "link").symlink_to("a.txt")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "empty").mkdir()
    one = disk.checkpoint("first label")
    (root / "a.txt").write_text("two\n")
    two = disk.checkpoint("second label")
    store = tmp_path / "store"
    branch = git("--git-dir", store, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()[0]
    subjects = git("--git-dir", store, "log", "--format=%s", branch).splitlines()
    assert subjects[:2] == ["second label", "first label"]
    assert git("--git-dir", store, "rev-parse", branch).strip() == two.id
    shown = git("--git-dir", store, "diff", one.id, two.id)
    assert "-one\n+two\n" in shown
    git("clone", "-q", "--branch", branch, store, tmp_path / "clone")
    cloned = {path: seen for path, seen in picture(tmp_path / "clone").items() if not path.startswith(b".git")}
    held = picture(root)
    del held[b"empty"]
    assert cloned == held
    assert git("status", "--porcelain", cwd=tmp_path / "clone") == ""
    patch = disk.diff(one, two).patch()
    assert git("--git-dir", store, "diff", "--no-color", one.id, two.id).splitlines()[-3:] == patch.splitlines()[-3:]


def test_ten_thousand_odd_files_in_one_go(disk: Workspace, root: Path, tmp_path: Path) -> None:
    chance = random.Random(7)
    top = os.fsencode(root)
    for number in range(2_000):
        name = chance.choice(ODD)[:200] + b"%d" % number
        directory = os.path.join(top, chance.choice(ODD)[:200] + b"d", b"%d" % (number % 13))
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, name), "wb") as file:
            file.write(chance.randbytes(chance.randrange(200)))
    before, ids = picture(root), identities(root)
    kept = disk.checkpoint()
    for path in chance.sample(sorted(ids), 300):
        os.unlink(os.path.join(top, path))
    for path in chance.sample(sorted(ids), 300):
        with open(os.path.join(top, path), "wb") as file:
            file.write(b"changed")
    changed = {path for path, seen in picture(root).items() if before[path] != seen} | set(before) - set(picture(root))
    result = disk.rollback(kept)
    assert picture(root) == before
    assert {os.fsencode(change.path) for change in result.changes} == changed
    after = identities(root)
    assert {path for path in ids if after[path] != ids[path]} == changed
    fsck(tmp_path / "store")


@pytest.mark.parametrize("depth", [1, 50, 300])
def test_deep_trees_come_back(disk: Workspace, root: Path, depth: int) -> None:
    place = root
    for _ in range(depth):
        place = place / "d"
    place.mkdir(parents=True)
    (place / "f").write_text("deep")
    kept = disk.checkpoint()
    shutil.rmtree(root / "d")
    disk.rollback(kept)
    assert (place / "f").read_text() == "deep"


def test_hard_links_among_themselves_come_back_as_contents(disk: Workspace, root: Path) -> None:
    (root / "a").write_text("shared")
    os.link(root / "a", root / "b")
    kept = disk.checkpoint()
    disk.write_text("a", "apart")
    assert (root / "b").read_text() == "shared"
    disk.rollback(kept)
    assert (root / "a").read_text() == (root / "b").read_text() == "shared"
