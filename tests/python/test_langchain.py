"""The LangChain adapter, with LangChain's own suites for every tool."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("langchain_tests")

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from hedgerow import Workspace
from hedgerow.integrations.langchain import HedgerowToolkit, tools

EXAMPLES: dict[str, dict[str, Any]] = {
    "read_file": {"path": "a.txt"},
    "write_file": {"path": "b.txt", "content": "text"},
    "list_files": {"subdir": "."},
    "edit_file": {"path": "a.txt", "old": "one", "new": "two"},
    "search_files": {"pattern": "one"},
    "glob_files": {"pattern": "*.txt"},
    "move_file": {"source": "a.txt", "destination": "c.txt"},
    "delete_file": {"path": "a.txt"},
    "make_directory": {"path": "d"},
}


def example() -> Workspace:
    """Return a workspace with one file."""
    ws = Workspace.memory()
    ws.write_text("a.txt", "one\n")
    return ws


def named(ws: Workspace, **options: Any) -> dict[str, BaseTool]:
    """Return the tools by name."""
    return {tool.name: tool for tool in tools(ws, **options)}


class Suite:
    """What both suites need to know of one tool."""

    name: str

    @property
    def tool_constructor(self) -> BaseTool:
        return named(example())[self.name]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return EXAMPLES[self.name]


def suites() -> dict[str, type]:
    """Make LangChain's unit and integration suite for each tool."""
    made: dict[str, type] = {}
    for name in EXAMPLES:
        title = name.title().replace("_", "")
        made[f"Test{title}Unit"] = type(f"Test{title}Unit", (Suite, ToolsUnitTests), {"name": name})
        made[f"Test{title}Integration"] = type(
            f"Test{title}Integration", (Suite, ToolsIntegrationTests), {"name": name}
        )
    return made


globals().update(suites())


def test_every_tool_is_judged() -> None:
    assert sorted(named(example())) == sorted(EXAMPLES)
    assert sorted(named(example(), access="read")) == ["glob_files", "list_files", "read_file", "search_files"]


@pytest.mark.row("B27")
def test_models_see_our_own_schema() -> None:
    for ours, theirs in zip(example().tools(), tools(example()), strict=True):
        function = convert_to_openai_tool(theirs)["function"]
        assert (function["name"], function["description"]) == (ours.name, ours.description)
        assert function["parameters"]["properties"].keys() == ours.parameters["properties"].keys()
        for name, schema in ours.parameters["properties"].items():
            assert function["parameters"]["properties"][name] == schema
        assert function["parameters"].get("required", []) == ours.parameters["required"]
        model: Any = theirs.args_schema
        assert model.model_json_schema()["additionalProperties"] is False


@pytest.mark.row("B29")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "'path' is missing"),
        ({"path": "missing"}, "Error: "),
        ({"path": "../x"}, "Error: "),
        ({"path": 3}, "'path' must be text"),
        ({"path": "a.txt", "offset": "1"}, "'offset' must be a whole number"),
        ({"path": "a.txt", "nonsense": 1}, "unknown argument 'nonsense'"),
        ({"path": "a.txt", "config": {}}, "unknown argument 'config'"),
    ],
)
async def test_mistakes_come_back_as_messages_with_the_status_error(arguments: dict[str, Any], said: str) -> None:
    tool = named(example())["read_file"]
    call = {"name": "read_file", "args": arguments, "id": "1", "type": "tool_call"}
    for message in (tool.invoke(dict(call)), await tool.ainvoke(dict(call))):
        assert isinstance(message, ToolMessage)
        assert message.status == "error"
        assert message.text.startswith("Error: ")
        assert said in message.text


async def test_right_calls_answer_with_text() -> None:
    tool = named(example())["read_file"]
    assert tool.invoke({"path": "a.txt", "limit": None}) == await tool.ainvoke({"path": "a.txt"}) == "one\n"
    assert tool.invoke("a.txt") == "one\n"


class Scripted(GenericFakeChatModel):
    """A chat model that says what it was given."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


@pytest.mark.parametrize("face", ["invoke", "ainvoke"])
async def test_an_agent_works_errs_and_goes_on(face: str) -> None:
    from langchain.agents import create_agent

    def call(name: str, **arguments: Any) -> AIMessage:
        return AIMessage("", tool_calls=[{"id": name, "name": name, "args": arguments}])

    turns = [
        call("read_file", path="a.txt"),
        call("edit_file", path="a.txt", old="absent", new="x"),
        call("edit_file", path="a.txt", wrong=True),
        call("edit_file", path="a.txt", old="one", new="two"),
        call("write_file", path="../out", content="x"),
        AIMessage("done"),
    ]
    with example() as ws:
        agent = create_agent(Scripted(messages=iter(turns)), tools=tools(ws.attributed("agent")))
        question: Any = {"messages": [("user", "go")]}
        result = agent.invoke(question) if face == "invoke" else await agent.ainvoke(question)
        assert result["messages"][-1].text == "done"
        statuses = [message.status for message in result["messages"] if isinstance(message, ToolMessage)]
        assert statuses == ["success", "error", "error", "success", "error"]
        assert ws.read_text("a.txt") == "two\n"
        assert ws.history()[-1].author == "agent"


def test_toolkit_gives_the_same_tools() -> None:
    toolkit = HedgerowToolkit(workspace=example(), access="read")
    assert [tool.name for tool in toolkit.get_tools()] == [tool.name for tool in tools(example(), "read")]
    assert HedgerowToolkit(workspace=example().aio).get_tools()
    with pytest.raises(ValueError, match="access"):
        HedgerowToolkit(workspace=example(), access="all")  # type: ignore[arg-type]


def test_missing_extra_is_one_sentence() -> None:
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); sys.modules['langchain_core'] = None\n"
        "try:\n import hedgerow.integrations.langchain\n"
        "except ImportError as error:\n print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "LangChain is not installed: pip install hedgerow[langchain]"
