"""Let an agent work on a real package, watch it go wrong, and put everything back.

    make demo

The package is the published source of click, fetched by pip. The agent is LangChain's own loop with hedgerow's tools.
By default its model is a script, so the demo needs no key and always tells the same story; `HEDGEROW_MODEL`
(for instance `openai:gpt-5`, with the package and key it needs) puts a real one in its place.

The demo believes nothing that hedgerow says about the tree: what is on disk is read by `fingerprint`, which uses
the standard library alone. The exit status is 0 only if every check holds, and 75 if the package could not be fetched.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from hedgerow import Workspace
from hedgerow.integrations.langchain import tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel

NAME, VERSION = "click", "8.1.8"
SHA256 = "ed53c9d8990d83c2a27deae68e4ee337473f6330c040a31d4225c9574d16096a"
MODEL = os.environ.get("HEDGEROW_MODEL")

PAGER = "src/click/_termui_impl.py"
OLD = """\
    # TODO: This never terminates if the passed generator never terminates.
    text = "".join(generator)
    if not color:
        text = strip_ansi(text)
    encoding = get_best_encoding(sys.stdout)
    with open_stream(filename, "wb")[0] as f:
        f.write(text.encode(encoding))
"""
NEW = """\
    encoding = get_best_encoding(sys.stdout)
    # Written piece by piece: a long text is never held in memory as a whole.
    with open_stream(filename, "wb")[0] as f:
        for text in generator:
            if not color:
                text = strip_ansi(text)
            f.write(text.encode(encoding))
"""


class Scripted(GenericFakeChatModel):
    """A chat model that says what it was given, message by message."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        """Accept the tools; the script knows them."""
        return self


class Account:
    """Prints the story, and remembers what did not hold."""

    def __init__(self) -> None:
        """Start with nothing failed."""
        self.failed: list[str] = []
        self.checks = 0
        self._chapter = count(1)

    def chapter(self, title: str) -> None:
        """Print a heading."""
        print(f"\n{next(self._chapter)}  {title}\n{'─' * 78}")

    def check(self, holds: bool, what: str) -> None:
        """Print whether a claim holds."""
        self.checks += 1
        if not holds:
            self.failed.append(what)
        print(f"  {'✓' if holds else '✗ NOT SO:'} {what}")


def download(into: Path) -> Path:
    """Fetch the sdist with pip, check that it is the published one, and unpack it where nothing can leave."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--no-build-isolation", "--no-binary", ":all:", f"{NAME}=={VERSION}", "--dest", str(into)]
    if subprocess.run(pip, check=False).returncode:
        print(f"pip could not fetch {NAME} {VERSION}; the demo needs its source", file=sys.stderr)
        raise SystemExit(os.EX_TEMPFAIL)
    archive = into / f"{NAME}-{VERSION}.tar.gz"
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{archive.name} is not the published archive")
    with tarfile.open(archive) as tar:
        tar.extractall(into / "unpacked", filter="data")
    return into / "unpacked" / f"{NAME}-{VERSION}"


def fingerprint(root: Path) -> dict[str, tuple[str, int, str]]:
    """Read the kind, mode and content of every entry below `root`, following no link."""
    found: dict[str, tuple[str, int, str]] = {}
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                entry = ("link", 0, os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                entry = ("directory", mode, "")
            else:
                entry = ("file", mode, hashlib.sha256(Path(path).read_bytes()).hexdigest())
            found[os.path.relpath(path, root)] = entry
    return found


def digest(prints: dict[str, tuple[str, int, str]]) -> str:
    """Return one short hash of a whole fingerprint."""
    return hashlib.sha256(repr(sorted(prints.items())).encode()).hexdigest()[:16]


def unparsable(root: Path) -> list[str]:
    """List the Python files that Python refuses to read, without running any."""
    broken = []
    for path in sorted(root.joinpath("src").rglob("*.py")):
        try:
            compile(path.read_bytes(), path.name, "exec")
        except SyntaxError as error:
            broken.append(f"{path.relative_to(root)}, line {error.lineno}: {error.msg}")
    return broken


def model(*calls: dict[str, Any], answer: str) -> BaseChatModel:
    """Return the real model if one is named, else one that makes these calls, one a turn, and then answers."""
    if MODEL:
        return init_chat_model(MODEL)
    turns = [
        AIMessage("", tool_calls=[{"id": f"call-{turn}", "name": call.pop("tool"), "args": call}])
        for turn, call in enumerate(calls)
    ]
    return Scripted(messages=iter([*turns, AIMessage(answer)]))


def work(ws: Workspace, author: str, task: str, chat: BaseChatModel) -> list[str]:
    """Let an agent do a task under its own name; print each call with the answer, and return the answers."""
    print(textwrap.fill(f"{author}: {task}", 76, initial_indent="  ", subsequent_indent="    "))
    agent = create_agent(chat, tools=tools(ws.attributed(author)))
    answers: list[str] = []
    asked: dict[str, str] = {}
    for message in agent.invoke({"messages": [HumanMessage(task)]})["messages"]:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                subject = call["args"].get("path", call["args"].get("subdir", call["args"].get("source", "")))
                asked[call["id"] or ""] = f"{call['name']} {subject}"
        elif isinstance(message, ToolMessage):
            answers.append(message.text)
            lines = message.text.strip().splitlines() or [""]
            more = f"  (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
            print(f"    → {asked[message.tool_call_id]}")
            print(textwrap.fill(lines[0] + more, 92, initial_indent="      ", subsequent_indent="      "))
    return answers


def main() -> int:
    """Tell the story; return the exit status."""
    began = time.perf_counter()
    say = Account()
    with tempfile.TemporaryDirectory(prefix="hedgerow-demo-") as temporary:
        root = download(Path(temporary))
        published = fingerprint(root)
        with Workspace.open(root, store=Path(temporary, "store"), id="demo") as ws:
            story(ws, root, published, say)
    if say.failed:
        print(f"\n{len(say.failed)} of {say.checks} checks failed:", *say.failed, sep="\n  ✗ ")
        return 1
    print(f"\nAll {say.checks} checks hold. {time.perf_counter() - began:.1f} s, download included.")
    return 0


def story(ws: Workspace, root: Path, published: dict[str, tuple[str, int, str]], say: Account) -> None:
    """Work, go wrong, try to get out, look back, put back."""
    say.chapter(f"A real package: {NAME} {VERSION}, as published")
    summary = ws.summary()
    print(f"  {summary.files} files in {summary.directories} directories, {summary.bytes:,} bytes\n")
    print(textwrap.indent(str(ws.tree(max_depth=1)).lstrip("/\n"), "  "))
    start = ws.checkpoint("as published", author="demo")
    say.check(digest(fingerprint(root)) == digest(published), "the checkpoint put nothing into the tree")

    say.chapter("An agent improves it")
    work(
        ws,
        "improver",
        "Find the TODO in src/click and stop that function from holding the whole text in memory.",
        model(
            {"tool": "list_files", "subdir": "src/click"},
            {"tool": "search_files", "pattern": "TODO", "path": "src"},
            {"tool": "read_file", "path": PAGER, "offset": 465, "limit": 35},
            {"tool": "edit_file", "path": PAGER, "old": OLD, "new": NEW},
            answer="The temporary file is written piece by piece.",
        ),
    )
    improved = ws.checkpoint("pager writes piece by piece", author="improver")
    good = fingerprint(root)
    print(f"\n{textwrap.indent(ws.diff(start, improved).unified(context=1, max_lines=30).text, '  ', lambda _: True)}")
    if not MODEL:
        changed = {path for path in published if good.get(path) != published[path]}
        say.check(changed == {PAGER}, f"only {PAGER} differs on disk")
    say.check(not unparsable(root), "Python still reads every file")

    say.chapter("Another agent breaks it")
    work(
        ws,
        "hurried",
        "Tidy this package up: shorten src/click/types.py, rename README.md to README.old.md, remove tests.",
        model(
            {"tool": "write_file", "path": "src/click/types.py", "content": "class ParamType:\n    def convert(self\n"},
            {"tool": "move_file", "source": "README.md", "destination": "README.old.md"},
            {"tool": "delete_file", "path": "tests", "recursive": True},
            answer="All tidy.",
        ),
    )
    mess = ws.checkpoint("tidied", author="hurried")
    print()
    for problem in unparsable(root):
        print(f"  {problem}")
    if not MODEL:
        say.check(bool(unparsable(root)), "the package is broken")
    say.check(fingerprint(root) != good, f"{len(ws.diff(improved, mess))} paths changed")

    say.chapter("A third one tries to get out")
    os.symlink("/etc/passwd", root / "docs" / "accounts.txt")
    ws.checkpoint("found on disk", author="(outside)")
    print("  A program outside plants docs/accounts.txt, a link to /etc/passwd.\n")
    answers = work(
        ws,
        "curious",
        "Show me ../../etc/passwd and docs/accounts.txt.",
        model(
            {"tool": "read_file", "path": "../../etc/passwd"},
            {"tool": "read_file", "path": "docs/accounts.txt"},
            answer="I was not let out.",
        ),
    )
    print()
    say.check(bool(answers) and all(text.startswith("Error") for text in answers), "both were refused, with a hint")
    say.check("root:" not in "".join(answers), "nothing of the file was shown")
    ws.checkpoint("looked around", author="curious")

    say.chapter("Who changed what")
    for author, visits in ws.changed_by().items():
        for visit in visits:
            effects = [
                f"{change.effect} {f'{change.source} to ' if change.source else ''}{change.path}"
                for change in visit.changes
            ]
            more = f", and {len(effects) - 3} more" if len(effects) > 3 else ""
            shown = ", ".join(effects[:3]) + more if effects else "nothing"
            line = f"  {visit.checkpoint[:10]}  {author:<9} {shown}"
            print(textwrap.fill(line, 96, subsequent_indent=" " * 24, break_on_hyphens=False))
    culprit = ws.log("src/click/types.py")[0].author
    if not MODEL:
        say.check(culprit == "hurried", f"the log of src/click/types.py names who broke it: {culprit}")

    say.chapter("Put back")
    ws.rollback(improved, author="demo")
    now = fingerprint(root)
    print(f"  to {improved}\n    on disk {digest(now)}, then {digest(good)}")
    say.check(now == good, f"{len(now)} entries, byte for byte, mode for mode, link for link")
    ws.rollback(start, author="demo")
    now = fingerprint(root)
    print(f"  to {start}\n    on disk {digest(now)}, as published {digest(published)}")
    say.check(now == published, f"{len(now)} entries, byte for byte, mode for mode, link for link")
    kept = {checkpoint.id for checkpoint in ws.checkpoints()}
    say.check(
        {start.id, improved.id, mess.id} <= kept,
        f"nothing was lost: each of the {len(kept)} checkpoints can be gone back to",
    )


if __name__ == "__main__":
    sys.exit(main())
