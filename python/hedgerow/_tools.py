r"""The tools a model works with.

One body a tool, written as a coroutine over a way to call the core, serves both faces: `call` runs it in place and
`acall` on the core's threads. A body answers with text. What a model can get wrong (a path, an argument, an edit
that does not match) is raised as a `WorkspaceError` inside and leaves as `Error: …` text with the hint; everything
else propagates, because a model cannot mend it. No answer holds a host path: the core's messages never do, and what
a caller could have put in (a host path as an argument) is taken out before an answer leaves.

Rules the bodies keep:

* `read_file` shows text without line numbers or other decoration, so that anything shown can be the `old` of
  `edit_file`. Only the last line may be ours; it is in brackets and says how to go on.
* An answer is never empty and never longer than the limit; what was left out is said.
* `protect` is checked on what the caller wrote and on where its links lead. It is a fence for a model that is alone
  with the tree; a process beside it could swap a link between the check and the write. The jail below it cannot be
  fooled that way.
"""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _convert as convert
from ._call import at_once, finish, later
from ._errors import InvalidArgumentError, NotFoundError, PathEscapeError, WorkspaceError, _make
from ._text import escaped, unescaped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Protocol, TypeVar

    from ._native import Workspace as Native

    T = TypeVar("T")

    class Call(Protocol):
        """Calls the core: at once, or on a thread."""

        def __call__(self, method: Callable[..., T], /, *args: object, **keywords: object) -> Awaitable[T]:
            """Call `method` and await its result."""
            ...

    Body = Callable[..., Awaitable[str]]

_WHOLE = 4 << 20
"""Files up to this many bytes are shown as the core views them; larger ones are read piece by piece."""
_PIECE = 1 << 20
_LARGEST = (1 << 31) - 1
"""No file of ours has more lines, characters of a line or places of a text."""
_SNIFF = 8000
"""Bytes looked at to tell text from something else, as git and the core do."""
_MAX_MATCHES = 1_000
_MAX_LINE = 500
_MAX_PATHS = 10_000
_MAX_LINKS = 40
_CUT = " … "
_PATH_ARGUMENTS = frozenset({"path", "subdir", "source", "destination"})
"""Arguments that may name what is not UTF-8, with surrogateescape; every other text must be encodable."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool said, and whether it is an error."""

    text: str
    is_error: bool = False


class Tool:
    """One tool: a name, a description for a model, a JSON schema, and the call.

    Attributes:
        name: Name a model calls it by.
        description: What it does, when to use it, and what its errors mean.
        parameters: JSON schema of the arguments: an object that allows no other properties.
        writes: Whether it can change the workspace.
    """

    __slots__ = ("_body", "_toolbox", "description", "name", "parameters", "writes")

    name: str
    description: str
    parameters: dict[str, Any]
    writes: bool

    def __init__(
        self, name: str, description: str, parameters: dict[str, Any], *, writes: bool, body: Body, toolbox: _Toolbox
    ) -> None:
        """Make a tool; users get theirs from `Workspace.tools`."""
        self.name = name
        self.description = description
        self.parameters = parameters
        self.writes = writes
        self._body = body
        self._toolbox = toolbox

    def __call__(self, *values: object, **arguments: object) -> str:
        """Run the tool and return its answer; a mistake in the arguments is an answer too."""
        return self.run(*values, **arguments).text

    async def acall(self, *values: object, **arguments: object) -> str:
        """Await the tool; same arguments and answer as calling it."""
        return (await self.arun(*values, **arguments)).text

    def run(self, *values: object, **arguments: object) -> Answer:
        """Run the tool and return the answer with its status."""
        return finish(self._answer(at_once, values, arguments))

    async def arun(self, *values: object, **arguments: object) -> Answer:
        """Await the tool; same arguments and answer as `run`."""
        return await self._answer(later, values, arguments)

    async def _answer(self, call: Call, values: tuple[object, ...], arguments: dict[str, object]) -> Answer:
        toolbox = self._toolbox
        try:
            return Answer(toolbox.bounded(_encodable(await self._body(call, **self.check(values, arguments)))))
        except WorkspaceError as error:
            if toolbox.raise_errors:
                raise
            return Answer(toolbox.bounded(_encodable(toolbox.clean(error_text(error)))), True)

    def check(self, values: tuple[object, ...], arguments: dict[str, object]) -> dict[str, object]:
        """Return the arguments by name, with defaults left out.

        Raises:
            InvalidArgumentError: One is missing, unknown, given twice or of the wrong type (`invalid-argument`).
        """
        properties: dict[str, dict[str, Any]] = self.parameters["properties"]
        names = list(properties)
        if len(values) > len(names):
            raise _bad_argument(f"{self.name} takes at most {len(names)} arguments")
        given = dict(zip(names, values, strict=False))
        for name, value in arguments.items():
            if name not in properties:
                raise _bad_argument(
                    f"unknown argument '{escaped(self._toolbox.clean(str(name))[:80])}'; {self.name} takes {', '.join(names)}"
                )
            if name in given:
                raise _bad_argument(f"argument '{name}' was given twice")
            given[name] = value
        for name in self.parameters["required"]:
            if given.get(name) is None:
                raise _bad_argument(f"argument '{name}' is missing")
        return {
            name: check_value(name, properties[name], value)
            for name, value in given.items()
            if value is not None or "null" in _types(properties[name])
        }

    def to_openai(self) -> dict[str, Any]:
        """Return the tool in the form of the OpenAI chat completions interface."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }

    def to_anthropic(self) -> dict[str, Any]:
        """Return the tool in the form of the Anthropic messages interface."""
        return {"name": self.name, "description": self.description, "input_schema": self.parameters}

    def __repr__(self) -> str:
        """Show the name and the arguments."""
        return f"Tool({self.name}({', '.join(self.parameters['properties'])}))"


def make_tools(
    native: Native,
    access: str,
    *,
    absolute: str,
    author: str | None,
    max_output_bytes: int,
    max_write_bytes: int,
    raise_errors: bool,
    protect: bool,
) -> list[Tool]:
    """Make the tools of a workspace; the arguments are those of `Workspace.tools`."""
    if access not in ("read", "write"):
        raise _bad_argument(f"access must be 'read' or 'write', not {access!r}")
    if absolute not in ("virtual", "reject"):
        raise _bad_argument(f"absolute must be 'virtual' or 'reject', not {absolute!r}")
    if max_output_bytes < 256:
        raise _bad_argument("max_output_bytes must be at least 256")
    if max_write_bytes < 0:
        raise _bad_argument("max_write_bytes must not be negative")
    if access == "read" and not native.is_read_only:
        native = native.read_only()
    toolbox = _Toolbox(native, absolute, author, max_output_bytes, max_write_bytes, raise_errors, protect)
    tools = [
        Tool(
            name,
            description.format(write_limit=_size(max_write_bytes), output_limit=_size(max_output_bytes)),
            {
                "type": "object",
                "properties": {name: _without_null_default(schema) for name, schema in properties.items()},
                "required": [name for name, schema in properties.items() if "default" not in schema],
                "additionalProperties": False,
            },
            writes=writes,
            body=getattr(toolbox, name),
            toolbox=toolbox,
        )
        for name, writes, description, properties in _specifications()
    ]
    return [tool for tool in tools if not (tool.writes and native.is_read_only)]


def error_text(error: WorkspaceError) -> str:
    """Return what a model is told: the sentence, the path it concerns, and what to do."""
    message = error.message
    path = None if error.path is None else escaped(error.path)
    where = f" ({path})" if path is not None and path not in message else ""
    said = _HINTS.get(error.kind, error.hint)
    hint = f" {said}" if said else ""
    stop = "." if hint and not where and not message.endswith((".", "!", "?")) else ""
    return f"Error: {message}{where}{stop}{hint}"


# What a model can do about it with these tools, where the hint of the error names what only a program has.
_HINTS = {
    "file-exists": "Choose another path, or delete what is there first.",
    "binary-file": "It holds no text; leave it alone, or replace it as a whole.",
    "not-utf8": "Leave what cannot be shown alone, or replace the file as a whole.",
    "directory-not-empty": "Delete it with recursive set to true if what it holds may go too.",
    "quota-exceeded": "Nothing was changed; say that no space is left.",
    "path-race": "Something keeps changing this path; retry in a moment.",
}


def check_value(name: str, schema: dict[str, Any], value: object) -> object:
    """Return `value` if it fits the schema of one argument.

    Raises:
        InvalidArgumentError: It does not (`invalid-argument`); the message names the argument.
    """
    types = _types(schema)
    if value is None and "null" in types:
        return None
    if "string" in types:
        if not isinstance(value, str):
            raise _bad_argument(f"argument '{name}' must be text, not {_type_name(value)}")
        _check_text(name, value)
        return value
    if "boolean" in types:
        if not isinstance(value, bool):
            raise _bad_argument(f"argument '{name}' must be true or false, not {_type_name(value)}")
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # in JSON 10 and 10.0 are the same number
    if not isinstance(value, int) or isinstance(value, bool):
        raise _bad_argument(f"argument '{name}' must be a whole number, not {_type_name(value)}")
    value = min(value, _LARGEST)
    least = schema.get("minimum")
    if least is not None and value < least:
        raise _bad_argument(f"argument '{name}' must be at least {least}")
    return value


def _encodable(text: str) -> str:
    """Return text that every interface can carry: half characters, from names that are not UTF-8, are escaped."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _types(schema: dict[str, Any]) -> list[str]:
    kind: str | list[str] = schema["type"]
    return [kind] if isinstance(kind, str) else kind


def _without_null_default(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop a default of null: it marks an argument as optional, and is no value of its type."""
    return {key: value for key, value in schema.items() if key != "default" or value is not None}


def _check_text(name: str, value: str) -> None:
    try:
        value.encode("utf-8", "surrogateescape" if name in _PATH_ARGUMENTS else "strict")
    except UnicodeEncodeError:
        raise _bad_argument(f"argument '{name}' holds half a character (a lone surrogate)") from None


def _type_name(value: object) -> str:
    names = {"NoneType": "null", "str": "text", "bool": "a boolean", "int": "a number", "float": "a number"}
    names |= {"list": "a list", "dict": "an object"}
    return names.get(type(value).__name__, type(value).__name__)


def _bad_argument(message: str) -> InvalidArgumentError:
    return InvalidArgumentError("invalid-argument", message, None, "Correct the argument and retry.")


def _below(glob: str, path: str) -> str:
    """Return a pattern relative to `path`: models write it from the root as well."""
    base = path.strip("/") + "/"
    return glob.lstrip("/").removeprefix(base) if base not in ("/", "./") and "/" in glob else glob


def _without_classes(glob: str) -> str:
    """Return a pattern whose brackets are part of a name, as in `app/[id]/page.tsx`: for one that found nothing else."""
    return glob.replace("[", "[[]")


def _size(count: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size}{unit}"
    return f"{count} bytes"


# the bodies


class _Toolbox:
    """What the bodies share: the handle and the options."""

    def __init__(
        self,
        native: Native,
        absolute: str,
        author: str | None,
        max_output_bytes: int,
        max_write_bytes: int,
        raise_errors: bool,
        protect: bool,
    ) -> None:
        self.native = native
        self.reject: bool = absolute == "reject"
        self.author = author
        self.max_output = max_output_bytes
        self.max_write = max_write_bytes
        self.raise_errors = raise_errors
        self.protect = protect
        root = None if native.root is None else os.fspath(native.root)
        # The root as it was opened and as it really is: a model may have seen either.
        self._roots = [] if root is None else sorted({root, os.path.realpath(root)} - {"/"}, key=len, reverse=True)
        self._secret = [*self._roots, *(os.fspath(path) for path in [native.store] if path is not None)]

    def clean(self, text: str) -> str:
        """Take host paths out of a text; a caller may have put one in."""
        for path in self._secret:
            text = text.replace(path, "<workspace>")
        return text

    def bounded(self, text: str) -> str:
        """Cut the middle out of an answer that is too long because of what it quotes: a path, or a pattern."""
        data = text.encode()
        if len(data) <= self.max_output:
            return text
        half = (self.max_output - len(_CUT.encode())) // 2
        return f"{_clip(text, half)[0]}{_CUT}{data[-half:].decode('utf-8', 'ignore')}"

    def path(self, path: str) -> str:
        """Return what a model wrote as a path of the workspace."""
        if not path.startswith("/"):
            return path
        for root in self._roots:
            if path == root or path.startswith(root + "/"):
                return path[len(root) :].lstrip("/") or "."
        if self.reject and path.strip("/"):
            raise PathEscapeError(
                "path-absolute",
                "absolute paths are not accepted",
                path,
                "Use a path relative to the workspace root.",
            )
        return path

    async def found(self, call: Call, path: str) -> str:
        r"""Return what a model wrote as a path; a name as it was shown, with `\x0a` for a line end, is found too."""
        path = self.path(path)
        others = unescaped(path)
        for candidate in (path, *others) if others else ():
            if await self._is_there(call, candidate):
                return candidate
        return path

    async def writable(self, call: Call, path: str, *, entry: bool = False) -> str:
        """Return a path that may be changed; with `entry` the link itself is meant, not where it leads."""
        path = await self.found(call, path)
        if not self.protect:
            return path
        self._refuse_git(path, path)
        names = [name for name in path.split("/") if name not in ("", ".")]
        await self._refuse_git_behind(call, names[:-1] if entry else names, path)
        return path

    async def _refuse_git_behind(self, call: Call, names: list[str], shown: str) -> None:
        """Follow the links of a path: they can lead into a `.git` under another name, even to what is not there yet."""
        hops = 0
        while names and hops < _MAX_LINKS:
            here = "/" + "/".join(names)
            try:
                self._refuse_git(await call(self.native.realpath, here), shown)
                return
            except NotFoundError:
                target = await self._target(call, here)
            except PathEscapeError as error:
                if error.kind == "reserved-name":
                    raise
                return  # the call itself is refused too, and says it better
            except WorkspaceError:
                return
            names.pop()
            if target is not None:
                self._refuse_git(target, shown)
                hops += 1
                names += [name for name in target.split("/") if name not in ("", ".")]

    async def _target(self, call: Call, path: str) -> str | None:
        try:
            return await call(self.native.readlink, path)
        except WorkspaceError:
            return None

    @staticmethod
    def _refuse_git(path: str, shown: str) -> None:
        if any(map(is_git, path.split("/"))):
            raise _make(
                "reserved-name",
                "git's own files are protected",
                shown,
                "Leave .git alone; change the files of the project instead.",
            )

    async def read_file(self, call: Call, path: str, offset: int = 0, limit: int | None = None, column: int = 0) -> str:
        native, path = self.native, await self.found(call, path)
        head = await call(native.read_bytes, path, 0, _SNIFF)
        if not head:
            return "(empty file)"
        wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if b"\0" in head and not wide:
            size = (await call(native.stat, path))["size"]
            return _about_binary(path, size, head)
        page = _Page(offset, limit, column, self.max_output - _RESERVED)
        size = len(head) if len(head) < _SNIFF else (await call(native.stat, path))["size"]
        if size <= _WHOLE:
            try:
                view = await call(native.view, path)
            except WorkspaceError as error:
                if error.kind != "binary-file":
                    raise
                return _about_binary(path, size, head)
            text: str = view["text"]
            if not text:
                return "(empty file)"
            page.feed(text)
            page.finish()
            return page.answer(lossy=view["lossy"], encoding=view["encoding"])
        if wide:
            raise _make(
                "file-too-large",
                f"the file has {size} bytes and is not UTF-8",
                _shown(path),
                "Use search_files to find the part you need.",
            )
        lossy = await self._read_pieces(call, path, page)
        return page.answer(lossy=lossy, encoding="utf-8")

    async def _read_pieces(self, call: Call, path: str, page: _Page) -> bool:
        """Feed a large file to a page without holding more of it than one piece."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        reader = await call(self.native.open_reader, path)
        lossy, first = False, True
        try:
            while not page.full:
                piece = await call(reader.read, _PIECE)
                if first:
                    piece, first = piece.removeprefix(codecs.BOM_UTF8), False
                text = decoder.decode(piece, final=not piece)
                if page.feed(text):
                    lossy = lossy or "\ufffd" in text
                if not piece:
                    page.finish()
                    break
        finally:
            reader.close()
        return lossy

    async def write_file(self, call: Call, path: str, content: str) -> str:
        path = await self.writable(call, path)
        size = len(content.encode())
        if size > self.max_write:
            raise _make(
                "file-too-large",
                f"the content has {size} bytes, more than the limit of {_size(self.max_write)}; nothing was written",
                _shown(path),
                "Write a smaller file, or split it.",
            )
        written = await call(
            self.native.write_text,
            path,
            content,
            parents=True,
            create_only=False,
            if_hash=None,
            author=self.author,
            keep_encoding=True,
        )
        return f"Written {written} bytes to {_shown(path)}"

    async def list_files(self, call: Call, subdir: str = ".") -> str:
        path = await self.found(call, subdir or ".")
        try:
            entries = await call(self.native.walk, path, max_depth=None)
        except NotFoundError:
            return "(empty)"
        marks = {"file": "", "symlink": " (link)"}
        found = [(convert.path(entry["path"]), entry["kind"]) for entry in entries]
        lines = sorted((name, marks.get(kind, f" ({kind})")) for name, kind in found if kind != "directory")
        notes = []
        full = {name.rpartition("/")[0] for name, _ in found}
        if any(kind == "directory" and name not in full for name, kind in found):
            # Empty, or not to be looked into: a walk does not tell.
            notes = _unreadable((await call(self.native.glob, "**/", path, max_results=0))["unreadable"])
        return self._lines(
            (escaped(name) + mark for name, mark in lines),
            len(lines),
            "files",
            "list a subdirectory or use glob_files",
            notes,
        )

    async def edit_file(self, call: Call, path: str, old: str, new: str, count: int | None = 1) -> str:
        path = await self.writable(call, path)
        raw = await call(self.native.edit, path, old, new, count=count, if_hash=None, encoding=None, author=self.author)
        times = "1 place" if raw["replaced"] == 1 else f"{raw['replaced']} places, the first"
        if old == new:
            return (
                f"Nothing to change: old and new are the same text, in {times} at line {raw['line']} of {_shown(path)}"
            )
        head = f"Edited {_shown(path)} in {times} at line {raw['line']}"
        body, cut = _clip(raw["diff"], self.max_output - len(head.encode()) - _RESERVED)
        if cut or raw["truncated"]:
            body += "\n[truncated: the diff is longer; read the file to see the rest]"
        return f"{head}\n{body}"

    async def search_files(
        self, call: Call, pattern: str, path: str = ".", glob: str | None = None, regex: bool = False
    ) -> str:
        if not pattern:
            raise _bad_argument("argument 'pattern' is empty")

        async def search(include: list[str]) -> dict[str, Any]:
            return await call(
                self.native.search,
                pattern,
                self.path(path or "."),
                regex=regex,
                ignore_case=False,
                include=include,
                exclude=[],
                context=0,
                max_file_bytes=1 << 20,
                max_files=10_000,
                max_matches=_MAX_MATCHES,
                max_line_bytes=_MAX_LINE,
            )

        include = [] if glob is None else [_below(self.path(glob), path)]
        raw = await search(include)
        if not raw["files_searched"] and any("[" in each for each in include):
            raw = await search([_without_classes(each) for each in include])
        matches = raw["matches"]
        notes = []
        if raw["truncated"] is not None:
            notes.append(f"[stopped at the limit of {raw['truncated']}; narrow the path, glob or pattern]")
        if raw["skipped"]:
            reasons: dict[str, int] = {}
            for item in raw["skipped"]:
                reasons[item["reason"]] = reasons.get(item["reason"], 0) + 1
            listed = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
            notes.append(f"[not searched: {listed}]")
        if not matches and glob is not None and not raw["files_searched"] and not raw["skipped"]:
            return f"No files match the glob '{escaped(self.clean(glob)[:80])}'; nothing was searched"
        if not matches:
            return "\n".join([f"No matches in {raw['files_searched']} files", *notes])
        lines = (
            f"{escaped(convert.path(match['path']))}:{match['line']}: {match['text']}"
            f"{' [part of a longer line]' if match['clamped'] else ''}"
            for match in matches
        )
        return self._lines(lines, len(matches), "matches", "narrow the path, glob or pattern", notes)

    async def glob_files(self, call: Call, pattern: str, path: str = ".") -> str:
        base = self.path(path or ".")
        raw = await call(self.native.glob, self.path(pattern), base, max_results=_MAX_PATHS)
        if not raw["paths"] and "[" in pattern:
            raw = await call(self.native.glob, _without_classes(self.path(pattern)), base, max_results=_MAX_PATHS)
        notes = _unreadable(raw["unreadable"])
        if raw["truncated"]:
            notes.append(f"[stopped at {_MAX_PATHS} paths; narrow the pattern]")
        paths = [convert.path(found) for found in raw["paths"]]
        if not paths:
            return "\n".join(["No files match", *notes])
        return self._lines(map(escaped, paths), len(paths), "paths", "narrow the pattern", notes)

    async def _is_there(self, call: Call, path: str) -> bool:
        try:
            return await call(self.native.exists, path)
        except WorkspaceError:
            return False

    async def move_file(self, call: Call, source: str, destination: str) -> str:
        source = await self.writable(call, source, entry=True)
        destination = await self.writable(call, destination, entry=True)
        await call(self.native.move, source, destination, overwrite=False, parents=True, author=self.author)
        return f"Moved {_shown(source)} to {_shown(destination)}"

    async def delete_file(self, call: Call, path: str, recursive: bool = False) -> str:
        path = await self.writable(call, path, entry=True)
        if recursive and self.protect:
            await self._refuse_git_below(call, path)
        await call(self.native.remove, path, recursive=recursive, missing_ok=False, author=self.author)
        return f"Deleted {_shown(path)}"

    async def _refuse_git_below(self, call: Call, path: str) -> None:
        if (await call(self.native.stat, path))["kind"] == "directory":
            for entry in await call(self.native.walk, path, max_depth=None):
                below = convert.path(entry["path"])
                self._refuse_git(below, below)

    async def make_directory(self, call: Call, path: str) -> str:
        path = await self.writable(call, path)
        await call(self.native.mkdir, path, parents=True, exist_ok=True, author=self.author)
        return f"Created directory {_shown(path)}"

    def _lines(self, lines: Iterator[str], total: int, things: str, advice: str, notes: list[str] | None = None) -> str:
        """Join lines up to the limit, whole lines only but for the first."""
        shown: list[str] = []
        room = self.max_output - _RESERVED - sum(len(note) + 1 for note in notes or ())
        for line in lines:
            size = len(line.encode()) + 1
            if size > room:
                if not shown:
                    shown.append(_clip(line, room)[0] + "…")
                break
            room -= size
            shown.append(line)
        if not shown:
            shown.append("(empty)")
        if len(shown) < total:
            shown.append(f"[truncated: {len(shown)} of {total} {things} shown; {advice}]")
        return "\n".join([*shown, *(notes or ())])


_RESERVED = 200
"""Bytes of an answer kept for the note at its end."""


class _Page:
    """Cuts the wanted lines out of a text that comes in pieces."""

    def __init__(self, offset: int, limit: int | None, column: int, budget: int) -> None:
        self.offset = offset
        self.limit = limit
        self.column = column
        self.budget = budget
        self.full = False
        self._skip_lines = offset
        self._skip_characters = column
        self._kept: list[str] = []
        self._bytes = 0
        self._lines = 0  # complete lines kept
        self._seen = 0  # line ends seen
        self._total: int | None = None
        self._last = ""

    def feed(self, text: str) -> bool:
        """Take a piece of text; tells whether anything of it was kept."""
        if not text:
            return False
        self._seen += text.count("\n")
        self._last = text[-1]
        at = 0
        if self._skip_lines:
            count = text.count("\n")
            if count < self._skip_lines:
                self._skip_lines -= count
                return False
            at = len(text) - len(text.split("\n", self._skip_lines)[-1])
            self._skip_lines = 0
        if self._skip_characters:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            step = min(self._skip_characters, end - at)
            at += step
            self._skip_characters -= step
            if self._skip_characters and end < len(text):
                raise _bad_argument(f"column {self.column} is past the end of line {self.offset + 1}")
        # One line or byte more than is wanted, so that it is known whether there is more.
        part = text[at : at + self.budget + 1 - self._bytes]
        if self.limit is not None:
            pieces = part.split("\n", self.limit - self._lines)
            if len(pieces) > self.limit - self._lines and pieces[-1]:
                part = part[: len(part) - len(pieces[-1])]
                self.full = True
        if part:
            self._kept.append(part)
            self._bytes += len(part.encode())
            self._lines += part.count("\n")
        if self._bytes > self.budget:
            self.full = True
        return bool(part)

    def finish(self) -> None:
        """Say that the text is at its end."""
        self._total = self._seen + (self._last not in ("", "\n"))
        if self._skip_lines or (self.offset >= self._total > 0):
            raise _bad_argument(f"offset {self.offset} is past the end: the file has {self._total} lines")
        if self._skip_characters:
            raise _bad_argument(f"column {self.column} is past the end of line {self.offset + 1}")

    def answer(self, *, lossy: bool, encoding: str) -> str:
        """Return the text with the notes a reader needs."""
        text, cut = _clip("".join(self._kept), self.budget)
        next_line, next_column = self.offset + text.count("\n"), 0
        if cut and not text.endswith("\n"):
            whole = text.rfind("\n") + 1
            if whole:
                text = text[:whole]
            else:
                next_column = len(text) + self.column
        notes = []
        if lossy:
            notes.append(
                f"[note: not valid {encoding}; what could not be decoded is shown as \ufffd and cannot be edited]"
            )
        if cut or self.full:
            of = "" if self._total is None else f" of {self._total}"
            if next_column:
                notes.append(
                    f"[truncated: showing part of line {next_line + 1}{of}; "
                    f"continue with offset={next_line} column={next_column}]"
                )
            else:
                notes.append(
                    f"[truncated: showing lines {self.offset + 1}-{next_line}{of}; continue with offset={next_line}]"
                )
        if not notes:
            return text or "(no more text in this line)"
        return "\n".join([text.removesuffix("\n"), *notes])


def _clip(text: str, budget: int) -> tuple[str, bool]:
    """Cut a text to so many bytes, never within a character."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) <= budget:
        return text, False
    return data[: max(budget, 0)].decode("utf-8", "ignore"), True


def _shown(path: str) -> str:
    """Return a path as the answers show it: relative, one line."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return escaped("/".join(parts)) or "/"


def _unreadable(directories: list[object]) -> list[str]:
    many = "1 directory" if len(directories) == 1 else f"{len(directories)} directories"
    return [f"[{many} could not be read]"] if directories else []


def _about_binary(path: str, size: int, head: bytes) -> str:
    kind = next((name for magic, name in _MAGIC if head.startswith(magic)), "unknown kind")
    return f"[binary file, not shown: {_shown(path)}, {kind}, {size} bytes]"


_MAGIC = [
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"RIFF", "RIFF media (WebP, WAV or AVI)"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive (also Office documents, JAR and wheels)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"(\xb5/\xfd", "zstandard data"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\0asm", "WebAssembly module"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\x93NUMPY", "NumPy array"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
]


def is_git(name: str) -> bool:
    r"""Tell whether some file system takes one name of a path for `.git`.

    Case is folded (APFS, NTFS), characters HFS+ ignores are taken out, trailing dots and spaces and a stream name
    after `:` are cut as NTFS does, a backslash separates names there, and `git~1` is the short name of `.git`.
    """
    for piece in name.translate(_IGNORED).split("\\"):
        plain = piece.partition(":")[0].rstrip(" .").casefold()
        if plain == ".git" or (plain.startswith("git~") and plain[4:].isdigit()):
            return True
    return False


_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


# what a model is told


def _specifications() -> list[tuple[str, bool, str, dict[str, dict[str, Any]]]]:
    """Return name, whether it writes, description and properties of each tool."""

    def text(description: str, **more: object) -> dict[str, Any]:
        return {"type": "string", "description": description, **more}

    def number(description: str, least: int, **more: object) -> dict[str, Any]:
        return {"type": "integer", "minimum": least, "description": description, **more}

    def flag(description: str) -> dict[str, Any]:
        return {"type": "boolean", "description": description, "default": False}

    file = text("Path of the file, relative to the workspace root, such as 'src/app.py'.")
    return [
        (
            "read_file",
            False,
            "Read a text file. Use it before you edit a file, and to look at anything by name. The text is shown "
            "exactly as it is, without line numbers, so that you can copy any part of it into edit_file. An answer "
            "has at most {output_limit}; a longer file ends with a line in brackets that says how to read on. "
            "Binary files are described, not shown. Errors: no such file (list the directory to see what exists), "
            "or the path is a directory (use list_files).",
            {
                "path": file,
                "offset": number("Lines to skip; 0 starts at the first line.", 0, default=0),
                "limit": {**number("Most lines to show; leave out to see as much as fits.", 1), "default": None},
                "column": number("Characters to skip in the first line shown; for very long lines.", 0, default=0),
            },
        ),
        (
            "write_file",
            True,
            "Write a whole file: create it, or replace everything it held. Missing directories are made. Use "
            "edit_file to change a part of a file. A byte order mark of the old file, and UTF-16 with one, stay. The "
            "content may have at most {write_limit} as UTF-8. Errors: the path leaves the workspace, is a directory, "
            "or is protected; nothing is written then.",
            {"path": file, "content": text("The whole new content of the file.")},
        ),
        (
            "list_files",
            False,
            "List all files below a directory, recursively, one path a line, sorted, relative to the workspace root. "
            "Use it first, to see what there is. Links are marked and not followed. The answer is (empty) for an "
            "empty or missing directory.",
            {"subdir": text("Directory to list; '.' is the whole workspace.", default=".")},
        ),
        (
            "edit_file",
            True,
            "Replace text in a file. Read the file first and copy `old` exactly, with its indentation; it must occur "
            "exactly `count` times, so take enough lines to make it unique. `new` is inserted literally, with the line "
            "ends of the place. The rest of the file stays as it is, and a failed edit changes nothing. The answer is a "
            "diff. Errors: `old` was not found (read the file again) or occurs more often (use a longer text, or set "
            "count).",
            {
                "path": file,
                "old": text("Text to replace, exactly as it stands in the file; may span lines."),
                "new": text("Text to put in its place."),
                "count": {
                    "type": ["integer", "null"],
                    "minimum": 1,
                    "description": "How often `old` must occur; all these are replaced. null replaces all there are.",
                    "default": 1,
                },
            },
        ),
        (
            "search_files",
            False,
            "Find lines by their text, in all files below a path. Each match is a line `path:line: text` with the "
            "line number counted from 1, sorted by path. Use it to find where something is defined or used. Files "
            "that are binary or larger than 1MB are not searched. Errors: the regular expression is not valid, or "
            "the path does not exist.",
            {
                "pattern": text("Text to find, exactly; with regex=true a regular expression for one line."),
                "path": text("Directory or file to search.", default="."),
                "glob": text("Search only files that match, such as '*.py' or 'src/**/*.ts'.", default=None),
                "regex": flag("Whether the pattern is a regular expression (no look-around, no back references)."),
            },
        ),
        (
            "glob_files",
            False,
            "Find files by name. `*` and `?` match within one name, `**` any number of directories, so '**/*.py' "
            "finds every Python file. One path a line, sorted, relative to the workspace root.",
            {
                "pattern": text("Pattern relative to `path`."),
                "path": text("Directory to search.", default="."),
            },
        ),
        (
            "move_file",
            True,
            "Move or rename a file or directory. Missing directories of the destination are made. Errors: there is "
            "no such source, or the destination exists already (delete it first, or choose another name).",
            {
                "source": text("Path of what to move."),
                "destination": text("Its new path; not the directory to put it into."),
            },
        ),
        (
            "delete_file",
            True,
            "Delete a file or link, or an empty directory; with recursive=true a directory with everything in it. "
            "Errors: there is no such entry, or the directory is not empty and recursive is not set.",
            {"path": text("Path of what to delete."), "recursive": flag("Delete a directory with all its contents.")},
        ),
        (
            "make_directory",
            True,
            "Make a directory, with the missing ones above it. Seldom needed: write_file makes directories itself. "
            "A directory that exists already is fine. Errors: a part of the path is a file.",
            {"path": text("Path of the directory.")},
        ),
    ]
