"""The two faces agree: the same names, signatures and results."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import hedgerow
from hedgerow import AsyncWorkspace, Workspace

# Nothing to wait for: they only make another handle, or an object that does the waiting itself.
PLAIN = {"memory", "read_only", "attributed", "writer", "materialized", "tools", "iter_bytes"}
PROPERTIES = {"id", "author", "root", "store", "is_read_only", "is_closed", "features"}


def methods(cls: type) -> dict[str, Callable[..., Any]]:
    """Return the public methods, class methods unwrapped."""
    return {
        name: value.__func__ if isinstance(value, classmethod) else value
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, classmethod))
    }


def properties(cls: type) -> set[str]:
    """Return the names of the public properties."""
    return {name for name, value in vars(cls).items() if isinstance(value, property) and not name.startswith("_")}


def test_both_faces_have_the_same_names() -> None:
    assert methods(Workspace).keys() == methods(AsyncWorkspace).keys()
    assert properties(Workspace) - {"aio"} == properties(AsyncWorkspace) - {"sync"}
    assert properties(Workspace) >= PROPERTIES | {"head"}


@pytest.mark.parametrize("name", sorted(methods(Workspace)))
def test_twin_is_a_coroutine_with_the_same_signature(name: str) -> None:
    sync, twin = methods(Workspace)[name], methods(AsyncWorkspace)[name]
    assert inspect.iscoroutinefunction(twin) == (name not in PLAIN)
    assert not inspect.iscoroutinefunction(sync)
    ours, theirs = inspect.signature(sync), inspect.signature(twin)
    assert ours.parameters == theirs.parameters
    returned = str(theirs.return_annotation).replace("AbstractAsyncContextManager", "AbstractContextManager")
    assert ours.return_annotation == returned


@pytest.mark.parametrize("cls", [Workspace, AsyncWorkspace])
def test_every_method_says_what_it_does(cls: type) -> None:
    for name, method in methods(cls).items():
        assert (method.__doc__ or "").strip(), name
    for name in properties(cls):
        assert (vars(cls)[name].__doc__ or "").strip(), name


def test_arguments_beside_path_and_content_are_keywords() -> None:
    allowed = {"path", "paths", "files", "text", "data", "content", "value", "source", "destination", "target", "mode"}
    allowed |= {"old", "new", "pattern", "label", "ref", "a", "b", "record", "through", "author", "archive", "access"}
    allowed |= {"root", "self", "cls"}
    for name, method in methods(Workspace).items():
        for parameter in inspect.signature(method).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY or parameter.name in allowed, (name, parameter.name)


def test_all_names_can_be_imported() -> None:
    for name in hedgerow.__all__:
        assert getattr(hedgerow, name) is not None
    assert set(hedgerow.__all__) <= set(dir(hedgerow))
    with pytest.raises(AttributeError, match="nothing"):
        _ = hedgerow.nothing


async def test_both_faces_share_one_workspace() -> None:
    with Workspace.memory() as ws:
        aws = ws.aio
        await aws.write_text("a.txt", "one")
        assert ws.read_text("a.txt") == "one"
        assert await aws.sync.aio.exists("a.txt")
        async with ws.aio:
            pass
        assert not ws.is_closed  # one more handle does not close what it did not open


async def test_results_are_the_same_in_both_faces() -> None:
    async with AsyncWorkspace.memory() as aws:
        ws = aws.sync
        await aws.write_many({"src/a.py": "x = 1\n", "b.bin": b"\0\1"}, author="ada")
        first = await aws.checkpoint("first", author="ada")
        edited = await aws.edit("src/a.py", "1", "2", author="bob")
        assert edited.id == await aws.content_id("src/a.py") == ws.content_id("src/a.py")
        await aws.checkpoint("second", author="bob")

        assert await aws.read_text("src/a.py") == ws.read_text("src/a.py") == "x = 2\n"
        assert await aws.read_bytes("b.bin", offset=1) == ws.read_bytes("b.bin", offset=1) == b"\1"
        assert await aws.read_many(["src/a.py"]) == ws.read_many(["src/a.py"]) == {"src/a.py": "x = 2\n"}
        assert await aws.stat("src/a.py") == ws.stat("src/a.py")
        assert await aws.list_dir() == ws.list_dir()
        assert await aws.walk() == ws.walk()
        assert await aws.tree() == ws.tree()
        assert await aws.summary() == ws.summary()
        assert await aws.glob("**/*.py") == ws.glob("**/*.py") == ["src/a.py"]
        assert await aws.search("x = ") == ws.search("x = ")
        assert await aws.exists("nope") is ws.exists("nope") is False
        assert await aws.head == ws.head
        assert await aws.checkpoints() == ws.checkpoints()
        assert await aws.resolve("first") == ws.resolve(first) == first
        assert (await aws.diff(first)).changes == ws.diff(first).changes
        assert (await (await aws.diff(first)).aunified()).text == ws.diff(first).patch()
        assert not await aws.status()
        assert await aws.history() == ws.history()
        assert await aws.log("src/a.py") == ws.log("src/a.py")
        assert await aws.blame("src/a.py") == ws.blame("src/a.py")
        assert await aws.changed_by() == ws.changed_by()
        assert await aws.last_author("src/a.py") == ws.last_author("src/a.py") == "bob"
        assert await aws.stats() == ws.stats()
        assert await (await aws.at("first")).read_text("src/a.py") == ws.at("first").read_text("src/a.py") == "x = 1\n"
        assert [piece async for piece in aws.iter_bytes("src/a.py", chunk=4)] == list(
            ws.iter_bytes("src/a.py", chunk=4)
        )
        assert (await aws.rollback(first)).target == first.id
