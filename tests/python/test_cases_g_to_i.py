"""Public bug reports about git in and around the tree, git's settings, and lost metadata, as tests of their kind."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from case_support import fsck, git, identities, opened, picture, plain_environment, python, tools_of, unprivileged
from hedgerow import Workspace


def repository(directory: Path, **files: str) -> Path:
    """Make a git repository with one commit."""
    directory.mkdir(parents=True, exist_ok=True)
    git("init", "-q", directory)
    for name, content in {"README": "read me\n", **files}.items():
        (directory / name).write_text(content)
    git("add", "-A", cwd=directory)
    git("commit", "-qm", "first", cwd=directory)
    return directory


def go_round(ws: Workspace, root: Path) -> None:
    """Checkpoint, change things of every kind, roll back, and compare."""
    before = picture(root)
    kept = ws.checkpoint("kept")
    assert not kept.skipped
    for path, (kind, _, _) in list(before.items()):
        if kind == "file" and b".git" not in path.split(b"/"):
            with open(os.path.join(os.fsencode(root), path), "wb") as file:
                file.write(b"changed " + path)
    (root / "made.txt").write_text("made")
    ws.rollback(kept)
    assert picture(root) == before


# G. git in the tree


@pytest.mark.parametrize(
    "kind", ["pointer", "link to a repository outside", "stray file", "link named .git", "empty .git", "bare"]
)
def test_case_g04_every_form_of_nested_repository_is_ordinary_data(
    disk: Workspace, root: Path, tmp_path: Path, kind: str
) -> None:
    elsewhere = repository(tmp_path / "elsewhere")
    (root / "sub").mkdir()
    (root / "sub/file").write_text("file")
    match kind:
        case "pointer":
            (root / "sub/.git").write_text("gitdir: ../../../elsewhere/.git\n")
        case "link to a repository outside":
            (root / "other").symlink_to(elsewhere)
        case "stray file":
            (root / "sub/.git").write_text("not a pointer")
        case "link named .git":
            (root / "sub/.git").symlink_to(elsewhere / ".git")
        case "empty .git":
            (root / "sub/.git").mkdir()
        case _:
            git("init", "-q", "--bare", root / "sub/bare.git")
    before = picture(elsewhere)
    go_round(disk, root)
    assert picture(elsewhere) == before
    fsck(tmp_path / "store")


@pytest.mark.row("B35")
def test_case_g05_g06_g13_nested_repository_is_captured_whole(disk: Workspace, root: Path, tmp_path: Path) -> None:
    repository(root / "vendor/lib")
    (root / "app.py").write_text("one")
    git("clone", "-q", root / "vendor/lib", root / "child")
    before = picture(root)
    kept = disk.checkpoint()
    assert not kept.skipped
    assert " commit " not in git("--git-dir", tmp_path / "store", "ls-tree", "-r", kept.id)
    (root / "app.py").write_text("two")
    shutil.rmtree(root / "vendor/lib/.git")
    (root / "child/README").write_text("changed")
    disk.rollback(kept)
    assert picture(root) == before
    assert git("status", "--porcelain", cwd=root / "vendor/lib") == ""
    assert git("fsck", "--strict", cwd=root / "child") is not None
    fsck(tmp_path / "store")


def test_case_g08_l33_sub_folder_of_a_repository_is_scoped_to_itself(tmp_path: Path) -> None:
    outer = repository(tmp_path / "repo")
    for name in ("same.txt", "packages/a/same.txt"):
        (outer / name).parent.mkdir(parents=True, exist_ok=True)
        (outer / name).write_text(name)
    before = picture(outer)
    with opened(outer / "packages/a", tmp_path / "store") as ws:
        kept = ws.checkpoint()
        assert [entry.path for entry in ws.at(kept).walk()] == ["same.txt"]
        (outer / "same.txt").write_text("theirs")
        (outer / "packages/a/same.txt").write_text("changed")
        ws.rollback(kept)
    assert (outer / "same.txt").read_text() == "theirs"
    (outer / "same.txt").write_text("same.txt")
    assert picture(outer) == before


@pytest.mark.parametrize("parent", [None, "", "# only a comment\n", "!nothing\n"])
def test_case_g09_empty_ignore_file_above_cancels_nothing(root: Path, tmp_path: Path, parent: str | None) -> None:
    (root / "a/b/c").mkdir(parents=True)
    if parent is not None:
        (root / "a/.gitignore").write_text(parent)
    (root / "a/b/.gitignore").write_text("/*.bin\n")
    (root / "a/b/large.bin").write_text("large")
    (root / "a/b/c/large.bin").write_text("not anchored here")
    with opened(root, tmp_path / "store", ignore="gitignore") as ws:
        held = {entry.path for entry in ws.at(ws.checkpoint()).walk()}
        assert "a/b/large.bin" not in held
        assert "a/b/c/large.bin" in held


IGNORE_CASES = {
    "/node_modules/\n": ["node_modules/x", "sub/node_modules/x"],
    "*.log\n!keep.log\n": ["a.log", "keep.log", "sub/a.log", "sub/keep.log"],
    "build/\n": ["build/x", "sub/build/x", "builds/x"],
    "/only\n": ["only", "sub/only"],
    "a/**/z\n": ["a/z", "a/b/z", "a/b/c/z", "z"],
    "**/q\n": ["q", "x/q", "x/y/q"],
    "x/*\n!x/keep\n": ["x/a", "x/keep", "x/sub/b"],
    "trail \\ \n": ["trail  ", "trail"],
    "\\#x\n#y\n": ["#x", "#y"],
    "[ab].c\n": ["a.c", "b.c", "c.c"],
    "dir/sub\n": ["dir/sub", "other/dir/sub"],
    "*.tmp\r\n": ["a.tmp", "b.txt"],
    "?x\n": ["ax", "x", "bbx"],
    "foo\\\n": ["foo", "foo\\"],
    "*\n!*/\n!*.py\n": ["a.py", "s/b.py", "s/c.txt", "d.txt"],
    "\xe9\n": ["\xe9", "e"],
}


@pytest.mark.parametrize("rules", IGNORE_CASES)
def test_case_g09_g10_ignore_rules_mean_what_git_means(root: Path, tmp_path: Path, rules: str) -> None:
    for name in IGNORE_CASES[rules]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / ".gitignore").write_bytes(rules.encode())
    git("init", "-q", tmp_path / "git")
    listed = git(
        "--git-dir",
        tmp_path / "git/.git",
        "--work-tree",
        root,
        "ls-files",
        "-z",
        "--others",
        "--exclude-standard",
        cwd=root,
    )
    with opened(root, tmp_path / "store", ignore="gitignore") as ws:
        held = {entry.path for entry in ws.at(ws.checkpoint()).walk() if not entry.is_directory}
    assert held == {name for name in listed.split("\0") if name}


def test_case_g10_directory_rule_does_not_match_a_link(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "modules"
    outside.mkdir()
    (outside / "secret").write_text("outside")
    (root / ".gitignore").write_text("/node_modules/\n")
    (root / "node_modules").symlink_to(outside)
    with opened(root, tmp_path / "store", ignore="gitignore") as ws:
        kept = ws.checkpoint()
        assert [entry.path for entry in ws.at(kept).walk()] == [".gitignore", "node_modules"]
        (root / "node_modules").unlink()
        ws.rollback(kept)
        assert os.readlink(root / "node_modules") == str(outside)
        # As a directory it is ignored: not captured, and not touched by a rollback.
        (root / "node_modules").unlink()
        (root / "node_modules").mkdir()
        (root / "node_modules/x").write_text("mine")
        assert "node_modules/x" not in {entry.path for entry in ws.at(ws.checkpoint()).walk()}


def test_case_g11_excludes_of_the_repository_are_never_read(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    (main / ".git/info/exclude").write_text("ignoreme\n")
    git("worktree", "add", "-q", tmp_path / "linked", cwd=main)
    for number, root in enumerate((main, tmp_path / "linked")):
        (root / "ignoreme").write_text("x")
        for option in (None, "gitignore"):
            with opened(root, tmp_path / "store", id=f"w{number}{option}", ignore=option) as ws:
                assert ws.at(ws.checkpoint()).exists("ignoreme")


def test_case_g14_a_large_ignore_file_is_read_to_its_end(root: Path, tmp_path: Path) -> None:
    (root / ".gitignore").write_bytes(b"# a line of text that says nothing\n" * 60_000 + b"*.log\n")
    (root / "x.log").write_text("secret")
    with opened(root, tmp_path / "store", ignore="gitignore") as ws:
        assert [skipped.path for skipped in ws.head.skipped] == ["x.log"]


@pytest.mark.parametrize("how", ["unreadable", "directory", "fifo", "link", "dangling"])
def test_case_g14_ignore_file_that_cannot_be_read_ignores_nothing_by_accident(tmp_path: Path, how: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub/ignored").write_text("precious")
    place = root / "sub/.gitignore"
    match how:
        case "unreadable":
            place.write_text("ignored\n")
            place.chmod(0)
        case "directory":
            place.mkdir()
        case "fifo":
            os.mkfifo(place)
        case "link":
            (root / "rules").write_text("ignored\n")
            place.symlink_to("../rules")
        case _:
            place.symlink_to("nowhere")
    done = python(
        """
        import sys, hedgerow, json
        root, store = sys.argv[1:]
        try:
            with hedgerow.Workspace.open(root, store=store, id="w", ignore="gitignore") as ws:
                made = ws.checkpoint()
                print(json.dumps([[e.path for e in ws.at(made).walk()], [s.path for s in made.skipped]]))
        except hedgerow.WorkspaceError as error:  # opening takes the first capture
            print(json.dumps(["error", str(error.kind)]))
        """,
        root,
        tmp_path / "store",
        prefix=unprivileged(),
        timeout=30,
    )
    import json

    held, skipped = json.loads(done.stdout)
    if how in ("directory", "link", "dangling"):
        # git does not read these either: no rules, the file is captured. For "link" git refuses to follow, too.
        assert held == "error" or "sub/ignored" in held
    elif how == "unreadable":
        assert held == "error" or "sub/ignored" not in held or any("gitignore" in path for path in skipped), (
            held,
            skipped,
        )
    assert (root / "sub/ignored").read_text() == "precious"


CANARY_KEYS = [
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy", "diff.external", "diff.x.command",
    "diff.x.textconv", "filter.x.clean", "filter.x.smudge", "filter.x.process", "gpg.program", "gpg.ssh.program", "credential.helper",
    "merge.x.driver", "sequence.editor", "alias.st", "uploadpack.packObjectsHook", "gc.recentObjectsHook", "pager.log",
    "interactive.diffFilter",
]  # fmt: skip


def plant(config: Path, canary: Path, hooks: Path) -> None:
    """Write a git configuration whose every command leaves a mark, and hooks that do too."""
    script = canary.parent / "canary.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {canary}\nexit 1\n')
    script.chmod(0o755)
    hooks.mkdir(parents=True, exist_ok=True)
    for hook in (
        "pre-commit",
        "post-commit",
        "reference-transaction",
        "post-checkout",
        "post-index-change",
        "pre-auto-gc",
        "fsmonitor-watchman",
    ):
        shutil.copy(script, hooks / hook)
    for key in CANARY_KEYS:
        value = f"!{script}" if key.startswith(("alias", "credential")) else str(script)
        git("config", "--file", config, key, value)
    for key, value in {
        "core.hooksPath": str(hooks),
        "commit.gpgsign": "true",
        "tag.gpgsign": "true",
        "filter.x.required": "true",
        "core.autocrlf": "true",
        "core.eol": "crlf",
        "core.safecrlf": "true",
        "core.attributesFile": str(canary.parent / "attributes"),
        "core.excludesFile": str(canary.parent / "excludes"),
        "gc.auto": "1",
        "maintenance.auto": "true",
        "init.defaultBranch": "odd/../name",
        "init.templateDir": str(hooks),
        "commit.template": "/nonexistent",
        "core.compression": "-77",
        "core.sharedRepository": "0666",
        "core.worktree": str(canary.parent / "worktree"),
        "extensions.objectFormat": "sha256",
        "safe.directory": "",
        "user.useConfigOnly": "true",
        "core.precomposeUnicode": "true",
        "core.quotePath": "true",
        "core.fileMode": "false",
        "core.symlinks": "false",
    }.items():
        git("config", "--file", config, key, value)
    (canary.parent / "attributes").write_text("* filter=x diff=x merge=x text eol=crlf ident\n")
    (canary.parent / "excludes").write_text("*\n")


WORK = """
    import os, sys, hedgerow
    root, store = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with hedgerow.Workspace.open(root, store=store, id="w") as ws:
        start = ws.checkpoint("start")
        for turn in range(rounds):
            ws.write_bytes("a.txt", b"one\\r\\ntwo\\n$Id$ %d" % turn)
            ws.write_text("dir/b.bin", "b")
            ws.mkdir("empty")
            ws.symlink(f"link{turn}", "a.txt")
            ws.chmod("a.txt", 0o755)
            kept = ws.checkpoint("kept")
            kept = ws.resolve(kept.id)
            ws.edit("a.txt", "two", "three")
            ws.status(); ws.diff(start).patch(); ws.log("a.txt"); ws.blame("a.txt"); ws.changed_by(); ws.stats()
            ws.rollback(kept)
            assert ws.read_bytes("a.txt") == b"one\\r\\ntwo\\n$Id$ %d" % turn
            assert ws.readlink(f"link{turn}") == "a.txt" and ws.stat("a.txt").mode == 0o755
            assert ws.exists("empty")
            assert ws.at(kept).read_bytes("a.txt") == ws.read_bytes("a.txt")
            with ws.materialized(kept) as directory:
                assert (directory / "a.txt").read_bytes() == ws.read_bytes("a.txt")
        assert ws.export() and ws.checkpoints() and ws.history()
        ws.rollback(start)
    print("done")
"""


@pytest.mark.row("B10")
@pytest.mark.parametrize(
    "where", ["config", "include", "worktree config", "through a pointer", "the root is a bare repository"]
)
def test_case_g15_g16_hostile_repository_settings_run_nothing(tmp_path: Path, where: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    canary = tmp_path / "canary/ran"
    canary.parent.mkdir()
    if where == "the root is a bare repository":
        git("init", "-q", "--bare", root)
        plant(root / "config", canary, root / "hooks")
    else:
        repository(root)
        place = root / ".git/config"
        if where == "include":
            git("config", "--file", place, "include.path", "../hostile")
            place = root / "hostile"
        elif where == "worktree config":
            git("config", "--file", place, "extensions.worktreeConfig", "true")
            place = root / ".git/config.worktree"
        elif where == "through a pointer":
            (root / ".git").rename(root / "real-git")
            (root / ".git").write_text("gitdir: real-git\n")
            place = root / "real-git/config"
        plant(place, canary, place.parent / "hooks")
    (root / ".gitattributes").write_text("* filter=x diff=x merge=x ident text eol=crlf\n")
    before = picture(root)
    done = python(WORK, root, tmp_path / "store", cwd=root)
    assert done.stdout == "done\n"
    assert not canary.exists()
    assert picture(root) == before
    fsck(tmp_path / "store")


GIT_ALIASES = [".git", ".GIT", ".Git", "./.git", "a/../.git", "sub/.git", ".git ", ".git.", ".git::$INDEX_ALLOCATION",
    "git~1", "GIT~1", ".g\u200cit", ".git\\x"]  # fmt: skip


@pytest.mark.row("B35")
@pytest.mark.parametrize("alias", GIT_ALIASES)
@pytest.mark.parametrize("member", ["config", "hooks/pre-commit", "HEAD"])
def test_case_g17_tools_never_write_into_a_git_directory(disk: Workspace, root: Path, alias: str, member: str) -> None:
    repository(root / "sub")
    repository(root)
    (root / "a").mkdir()
    (root / "payload").write_text("payload")
    (root / "way").symlink_to(".git")
    (root / "way2").symlink_to(".git/hooks")
    before = picture(root)
    tools: Any = tools_of(disk)
    for path in (
        f"{alias}/{member}",
        f"/{alias}/{member}",
        f"way/{member}",
        "way2/x",
        alias if member == "HEAD" else f"{alias}/x",
    ):
        answers = [
            tools["write_file"](path=path, content="x"),
            tools["edit_file"](path=path, old="ref", new="x"),
            tools["move_file"](source="payload", destination=path),
            tools["make_directory"](path=path + "/new"),
            tools["delete_file"](path=path, recursive=True),
            tools["move_file"](source=path, destination="taken"),
        ]
        assert all(answer.startswith("Error") for answer in answers), (path, answers)
    # The directory above may not be taken away either, as long as it holds one.
    assert tools["delete_file"](path="sub", recursive=True).startswith("Error")
    assert picture(root) == before


def test_case_g17_moving_a_directory_that_holds_a_git_directory_plants_nothing(disk: Workspace, root: Path) -> None:
    tools: Any = tools_of(disk)
    tools["write_file"](path="evil/hooks/pre-commit", content="#!/bin/sh\n")
    assert tools["move_file"](source="evil", destination=".git").startswith("Error")
    tools["write_file"](path="nested/deep/x", content="x")
    assert tools["move_file"](source="nested/deep", destination="nested/.GIT").startswith("Error")
    assert not (root / ".git").exists()


@pytest.mark.row("B35")
def test_case_g17_api_takes_git_as_ordinary_data(disk: Workspace, root: Path) -> None:
    disk.write_text(".git/config", "[core]\n\tfsmonitor = false\n")
    kept = disk.checkpoint()
    disk.write_text(".git/config", "other")
    disk.rollback(kept)
    assert (root / ".git/config").read_text() == "[core]\n\tfsmonitor = false\n"


def test_case_g20_m05_user_repository_is_left_alone(tmp_path: Path) -> None:
    root = repository(tmp_path / "root", **{".gitignore": "ignored\n"})
    git("branch", "other", cwd=root)
    (root / "README").write_text("stashed\n")
    git("stash", cwd=root)
    (root / "staged").write_text("staged\n")
    git("add", "staged", cwd=root)
    (root / "ignored").write_text("ignored\n")

    def state() -> tuple[object, ...]:
        return (
            (root / ".git/index").read_bytes(),
            (root / ".git/HEAD").read_bytes(),
            git("for-each-ref", cwd=root),
            git("diff", "--cached", cwd=root),
            sorted(path for path in picture(root / ".git") if path.startswith(b"objects")),
        )

    before = state()
    with opened(root, tmp_path / "store") as ws:
        kept = ws.checkpoint()
        (root / "README").write_text("changed\n")
        (root / "ignored").write_text("changed\n")
        ws.rollback(kept)
    assert (root / "ignored").read_text() == "ignored\n"
    assert state() == before
    assert "hedgerow" not in git("for-each-ref", cwd=root)


def test_case_g22_required_filter_that_fails_is_not_asked(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / ".gitattributes").write_text("*.bin filter=lfs\n")
    git("config", "filter.lfs.smudge", "false", cwd=root)
    git("config", "filter.lfs.clean", "false", cwd=root)
    git("config", "filter.lfs.required", "true", cwd=root)
    (root / "a.bin").write_bytes(b"\0\1\2")
    with opened(root, tmp_path / "store") as ws:
        go_round(ws, root)
        kept = ws.checkpoint()
        (root / "a.bin").unlink()
        ws.rollback(kept)
    assert (root / "a.bin").read_bytes() == b"\0\1\2"


# H. settings of git and of the environment


@pytest.fixture
def poisoned(tmp_path: Path) -> tuple[dict[str, str], Path, Path]:
    """Return an environment in which every setting of git is hostile, the canary and another repository."""
    home, canary = tmp_path / "home", tmp_path / "canary/ran"
    (home / ".config/git").mkdir(parents=True)
    canary.parent.mkdir()
    plant(home / ".gitconfig", canary, tmp_path / "canary/hooks")
    shutil.copy(home / ".gitconfig", home / ".config/git/config")
    shutil.copy(home / ".gitconfig", tmp_path / "system")
    other = repository(tmp_path / "other")
    script = str(canary.parent / "canary.sh")
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "XDG_"))},
        "HOME": str(home),
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(other / ".git/objects"),
        "GIT_COMMON_DIR": str(other / ".git"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_SYSTEM": str(tmp_path / "system"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": script,
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={script}'",
        "GIT_SSH_COMMAND": script,
        "GIT_EXTERNAL_DIFF": script,
        "GIT_ASKPASS": script,
        "GIT_EDITOR": script,
        "GIT_PAGER": script,
        "GIT_TEMPLATE_DIR": str(canary.parent / "hooks"),
        "GIT_AUTHOR_DATE": "nonsense",
        "GIT_COMMITTER_NAME": "",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_TRACE": str(tmp_path / "canary/trace"),
        "GIT_TRACE2_EVENT": str(tmp_path / "canary/trace2"),
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "1",
        "EDITOR": script,
        "PAGER": script,
        "TMPDIR": str(tmp_path),
    }
    return environment, canary, other


@pytest.mark.parametrize("tree", ["plain", "repository", "hostile repository"])
def test_case_h01_h02_h04_h08_poisoned_environment_changes_nothing_and_runs_nothing(
    tmp_path: Path, poisoned: tuple[dict[str, str], Path, Path], tree: str
) -> None:
    environment, canary, other = poisoned
    root = tmp_path / "root"
    if tree == "plain":
        root.mkdir()
    else:
        repository(root)
        if tree == "hostile repository":
            plant(root / ".git/config", canary, root / ".git/hooks")
    elsewhere, before, home = picture(other), picture(root), picture(environment["HOME"])
    made = set(picture(canary.parent))
    done = python(WORK, root, tmp_path / "store", env=environment, cwd=other)
    assert done.stdout == "done\n"
    assert picture(other) == elsewhere
    assert picture(root) == before
    assert picture(environment["HOME"]) == home
    assert set(picture(canary.parent)) == made  # no mark, and no trace of a git that ran
    fsck(tmp_path / "store")
    assert "kept" in git("--git-dir", tmp_path / "store", "log", "--all", "--format=%s")


def test_case_h04_default_store_is_found_without_git_variables(
    tmp_path: Path, poisoned: tuple[dict[str, str], Path, Path]
) -> None:
    environment, canary, other = poisoned
    (tmp_path / "root").mkdir()
    elsewhere = picture(other)
    source = WORK.replace('store=store, id="w"', 'id="w"')
    assert python(source, tmp_path / "root", "-", env=environment).stdout == "done\n"
    assert picture(other) == elsewhere
    assert not canary.exists()
    store = Path(environment["HOME"]) / ".local/state/hedgerow"
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    fsck(store)


@pytest.mark.parametrize("hook", ["post-commit", "pre-commit", "pre-push", "post-checkout"])
def test_case_h05_inside_a_hook_of_another_repository(tmp_path: Path, hook: str) -> None:
    import sys
    import textwrap

    outer = repository(tmp_path / "outer")
    (tmp_path / "root").mkdir()
    program = tmp_path / "work.py"
    program.write_text(textwrap.dedent(WORK))
    script = outer / ".git/hooks" / hook
    script.write_text(
        f"#!/bin/sh\nexec {sys.executable} -W ignore {program} {tmp_path}/root {tmp_path}/store > {tmp_path}/said 2>&1\n"
    )
    script.chmod(0o755)
    git("init", "-q", "--bare", tmp_path / "remote")
    if hook == "pre-push":
        git("push", "-q", tmp_path / "remote", "HEAD:refs/heads/main", cwd=outer)
    elif hook == "post-checkout":
        git("checkout", "-q", "-b", "more", cwd=outer)
    else:
        git("commit", "-q", "--allow-empty", "-m", "second", cwd=outer)
    assert (tmp_path / "said").read_text() == "done\n"
    assert set(git("log", "--all", "--format=%s", cwd=outer).split()) <= {"first", "second"}
    assert git("status", "--porcelain", cwd=outer) == ""
    fsck(tmp_path / "store")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_case_h07_two_hundred_checkpoints_start_no_process(
    tmp_path: Path, poisoned: tuple[dict[str, str], Path, Path]
) -> None:
    environment, canary, _ = poisoned
    (tmp_path / "root").mkdir()
    strace = shutil.which("strace")
    prefix = (
        []
        if strace is None
        else [strace, "-f", "--seccomp-bpf", "-q", "-e", "trace=execve", "-o", str(tmp_path / "trace")]
    )
    # WORK makes two checkpoints and a rollback a round.
    done = python(WORK, tmp_path / "root", tmp_path / "store", 70, env=environment, prefix=prefix, timeout=230)
    assert done.stdout == "done\n"
    assert not canary.exists()
    if strace is not None:
        runs = [line for line in (tmp_path / "trace").read_text().splitlines() if "execve(" in line]
        assert len(runs) == 1, runs
    fsck(tmp_path / "store")


def test_case_h10_pointer_to_a_foreign_git_directory(disk: Workspace, root: Path, tmp_path: Path) -> None:
    foreign = repository(tmp_path / "foreign")
    if os.geteuid() == 0:
        for directory, names, files in os.walk(foreign):
            for name in (*names, *files):
                os.chown(os.path.join(directory, name), 12345, 12345)
    (root / ".git").write_text(f"gitdir: {foreign}/.git\n")
    (root / "f").write_text("f")
    go_round(disk, root)


# I. metadata and empty directories


def test_case_i01_directories_made_later_are_gone(disk: Workspace, root: Path) -> None:
    (root / "kept/empty").mkdir(parents=True)
    kept = disk.checkpoint()
    (root / "a/b/c").mkdir(parents=True)
    (root / "a/b/f").write_text("f")
    (root / "kept/more").mkdir()
    (root / "lonely").mkdir()
    disk.rollback(kept)
    assert set(picture(root)) == {b"kept", b"kept/empty"}


@pytest.mark.parametrize("first", ["file", "directory", "empty directory", "link"])
@pytest.mark.parametrize("second", ["file", "directory", "empty directory", "link"])
def test_case_i03_every_kind_becomes_every_other_kind_and_back(
    disk: Workspace, root: Path, first: str, second: str
) -> None:
    def make(kind: str) -> None:
        place = root / "config"
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        match kind:
            case "file":
                place.write_text("file")
            case "directory":
                place.mkdir()
                (place / "local.json").write_text("{}")
            case "empty directory":
                place.mkdir()
            case _:
                place.symlink_to("elsewhere")

    make(first)
    one, seen_one = disk.checkpoint(), picture(root)
    make(second)
    two, seen_two = disk.checkpoint(), picture(root)
    for _ in range(2):
        disk.rollback(one)
        assert picture(root) == seen_one
        disk.rollback(two)
        assert picture(root) == seen_two


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o755, 0o700, 0o000, 0o444, 0o777])
def test_case_i06_modes_stay_through_edits_and_rollbacks(disk: Workspace, root: Path, mode: int) -> None:
    place = root / "f"
    place.write_text("secret = 1\n")
    place.chmod(mode)
    kept = disk.checkpoint()
    if os.geteuid() != 0 and not mode & 0o600 == 0o600:
        pytest.skip("the file cannot be edited by its owner")
    calls: list[Callable[[], object]] = [
        lambda: disk.edit("f", "1", "2"),
        lambda: disk.write_text("f", "secret = 3\n"),
        lambda: disk.append_text("f", "more\n"),
        lambda: disk.rollback(kept),
    ]
    for call in calls:
        call()
        assert stat.S_IMODE(place.lstat().st_mode) == mode
    place.chmod(0o604)
    disk.rollback(kept)
    assert stat.S_IMODE(place.lstat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o500, 0o775])
def test_case_i06_modes_of_directories_come_back(disk: Workspace, root: Path, mode: int) -> None:
    (root / "d").mkdir()
    (root / "d/f").write_text("f")
    (root / "d").chmod(mode)
    kept = disk.checkpoint()
    (root / "d").chmod(0o711)
    disk.rollback(kept)
    assert stat.S_IMODE((root / "d").lstat().st_mode) == mode
    shutil.rmtree(root / "d")
    disk.rollback(kept)
    assert stat.S_IMODE((root / "d").lstat().st_mode) == mode
    assert (root / "d/f").read_text() == "f"


def test_case_i06_no_intermediate_file_is_wider_and_the_store_is_private(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace to watch the calls with")
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").write_text("secret = 1\n")
    (root / "f").chmod(0o600)
    python(
        """
        import os, sys, hedgerow
        os.umask(0)
        with hedgerow.Workspace.open(sys.argv[1], store=sys.argv[2], id="w") as ws:
            kept = ws.checkpoint()
            ws.edit("f", "1", "2"); ws.write_text("f", "secret = 3\\n"); ws.append_text("f", "4"); ws.rollback(kept)
        """,
        root,
        tmp_path / "store",
        prefix=[
            strace,
            "-f",
            "-q",
            "-e",
            "trace=open,openat,openat2,fchmod,fchmodat,chmod,mkdir,mkdirat",
            "-o",
            str(tmp_path / "trace"),
        ],
    )
    import re

    for line in (tmp_path / "trace").read_text().splitlines():
        if "O_CREAT" not in line or (str(tmp_path) in line and "__pycache__" in line):
            continue
        found = re.search(r"(?:, |mode=)0([0-7]{3,4})\b", line)
        assert found is None or int(found[1], 8) & 0o077 == 0, line
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    for path, (kind, mode, _) in picture(tmp_path / "store").items():
        assert mode & 0o077 == 0 or kind == "link", (path, oct(mode))


@pytest.mark.row("S20")
def test_case_i07_l05_untouched_files_keep_inode_and_times(disk: Workspace, root: Path) -> None:
    for number in range(200):
        place = root / f"d{number % 7}/f{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_text(str(number))
        os.utime(place, ns=(10**18 + number, 10**18 + number * 1_000_003))
    kept = disk.checkpoint()
    before = identities(root)
    (root / "d0/f0").write_text("changed")
    (root / "d1/new").write_text("new")
    result = disk.rollback(kept)
    assert {change.path for change in result.changes} == {"d0/f0", "d1/new"}
    after = identities(root)
    assert {path for path in before if before[path] != after[path]} == {b"d0/f0"}


def test_case_i08_i09_extended_attributes_and_acls_stay(disk: Workspace, root: Path) -> None:
    place = root / "f"
    place.write_text("one\n")
    try:
        os.setxattr(place, "user.k", b"v")
    except OSError:
        pytest.skip("the filesystem has no extended attributes")
    acl: bytes | None = (
        b"\x02\0\0\0" + b"\x01\0\x06\0\xff\xff\xff\xff" + b"\x02\0\x04\0\x39\x30\0\0"
        + b"\x04\0\x04\0\xff\xff\xff\xff" + b"\x10\0\x04\0\xff\xff\xff\xff" + b"\x20\0\x04\0\xff\xff\xff\xff"
    )  # fmt: skip
    try:
        os.setxattr(place, "system.posix_acl_access", acl)  # type: ignore[arg-type]
    except OSError:
        acl = None

    def check(what: str) -> None:
        assert os.getxattr(place, "user.k") == b"v", what
        if acl is not None:
            assert os.getxattr(place, "system.posix_acl_access") == acl, what

    kept = disk.checkpoint()
    disk.edit("f", "one", "two")
    check("edit")
    disk.write_text("f", "three\n")
    check("write_text")
    disk.append_text("f", "four\n")
    check("append_text")
    disk.rollback(kept)
    check("rollback")
    assert place.read_text() == "one\n"


def test_times_of_checkpoints_are_aware(disk: Workspace) -> None:
    assert disk.checkpoint().created.tzinfo is not None
    assert isinstance(disk.checkpoint().created, datetime)


def test_api_and_git_agree_on_content_ids(disk: Workspace, root: Path) -> None:
    for content in (b"", b"x", b"a\r\nb", bytes(range(256)) * 300):
        (root / "f").write_bytes(content)
        asked = subprocess.run(
            ["git", "hash-object", "--no-filters", root / "f"],
            env=plain_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        assert disk.content_id("f") == asked.stdout.strip()
    assert issubclass(hedgerow.PathEscapeError, PermissionError)
