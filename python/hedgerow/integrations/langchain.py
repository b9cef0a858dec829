"""Tools for LangChain and LangGraph agents.

    from hedgerow.integrations.langchain import tools

    agent = create_agent(model, tools(ws))

Each tool has a synchronous and an asynchronous form. A mistake of the model never ends a run: wrong arguments and
workspace errors come back as a tool message with the status `error`, whose text begins with `Error:` and says what
to do. Arguments are checked by the tools' own rules, so that a message reads the same in every framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

try:
    from langchain_core.tools import BaseTool, BaseToolkit, StructuredTool, ToolException
    from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
except ImportError as _error:
    raise ImportError("LangChain is not installed: pip install hedgerow[langchain]") from _error

from hedgerow._async import AsyncWorkspace
from hedgerow._errors import InvalidArgumentError
from hedgerow._tools import check_value, error_text
from hedgerow._workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from hedgerow._tools import Answer, Tool

__all__ = ["HedgerowToolkit", "tools"]


def tools(
    workspace: Workspace | AsyncWorkspace,
    access: Literal["read", "write"] = "write",
    *,
    absolute: Literal["virtual", "reject"] = "virtual",
    author: str | None = None,
    max_output_bytes: int = 48 * 1024,
    max_write_bytes: int = 10 * 1024 * 1024,
    raise_errors: bool = False,
    protect: bool = True,
) -> list[BaseTool]:
    """Return the tools of a workspace as LangChain tools.

    Args:
        workspace: The workspace.
        access: `write` for all tools, `read` for those that change nothing.
        absolute: What an absolute path means: a path from the workspace root (`virtual`), or an error (`reject`).
        author: Who the changes are recorded for; by default the author of the handle.
        max_output_bytes: Longest answer.
        max_write_bytes: Largest content `write_file` takes.
        raise_errors: Raise workspace errors instead of answering with text.
        protect: Refuse to change anything inside a `.git`.

    Returns:
        The tools, in the order of `Workspace.tools`.

    Raises:
        ValueError: `access` or `absolute` has another value.
    """
    made = workspace.tools(
        access,
        absolute=absolute,
        author=author,
        max_output_bytes=max_output_bytes,
        max_write_bytes=max_write_bytes,
        raise_errors=raise_errors,
        protect=protect,
    )
    return [_adapt(tool) for tool in made]


class HedgerowToolkit(BaseToolkit):
    """The tools of one workspace as a LangChain toolkit; the fields are the arguments of `tools`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    workspace: Workspace | AsyncWorkspace
    access: Literal["read", "write"] = "write"
    absolute: Literal["virtual", "reject"] = "virtual"
    author: str | None = None
    max_output_bytes: int = 48 * 1024
    max_write_bytes: int = 10 * 1024 * 1024
    raise_errors: bool = False
    protect: bool = True

    def get_tools(self) -> list[BaseTool]:
        """Return the tools."""
        return tools(
            self.workspace,
            self.access,
            absolute=self.absolute,
            author=self.author,
            max_output_bytes=self.max_output_bytes,
            max_write_bytes=self.max_write_bytes,
            raise_errors=self.raise_errors,
            protect=self.protect,
        )


def _adapt(tool: Tool) -> BaseTool:
    def run(*values: Any, **arguments: Any) -> str:
        return _said(tool.run(*values, **arguments))

    async def arun(*values: Any, **arguments: Any) -> str:
        return _said(await tool.arun(*values, **arguments))

    return StructuredTool.from_function(
        run,
        arun,
        name=tool.name,
        description=tool.description,
        args_schema=_schema(tool),
        handle_tool_error=True,
        handle_validation_error=_wrong_arguments(tool),
    )


def _said(answer: Answer) -> str:
    if answer.is_error:
        raise ToolException(answer.text)  # becomes a message with the status `error`
    return answer.text


def _schema(tool: Tool) -> type[BaseModel]:
    """Return a model with exactly the tool's JSON schema, whose fields are checked by the tool's own rules."""
    required = tool.parameters["required"]
    fields: dict[str, Any] = {}
    for name, schema in tool.parameters["properties"].items():
        kind = Annotated[Any, BeforeValidator(_checker(name, schema, name in required)), WithJsonSchema(schema)]
        if name in required:
            fields[name] = (kind, Field(description=schema["description"]))
        elif "default" in schema:
            fields[name] = (kind, Field(default=schema["default"], description=schema["description"]))
        else:
            # A factory keeps `null`, which is no value of the type, out of the schema.
            fields[name] = (kind, Field(default_factory=_nothing, description=schema["description"]))
    model: type[BaseModel] = create_model(
        tool.name, __config__=ConfigDict(extra="forbid"), __doc__=tool.description, **fields
    )
    return model


def _nothing() -> None:
    return None


def _checker(name: str, schema: dict[str, Any], required: bool) -> Callable[[Any], object]:
    def check(value: Any) -> object:
        return None if value is None and not required else check_value(name, schema, value)

    return check


def _wrong_arguments(tool: Tool) -> Callable[[Any], str]:
    def answer(error: ValidationError) -> str:
        """Say what is wrong with the words of the tool itself, which knows all its arguments."""
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "missing":
            problem = f"argument '{name}' is missing"
        elif first["type"] == "extra_forbidden":
            known = ", ".join(tool.parameters["properties"])
            problem = f"unknown argument '{name}'; {tool.name} takes {known}"
        else:
            cause = first.get("ctx", {}).get("error")
            if isinstance(cause, InvalidArgumentError):
                return error_text(cause)
            problem = f"argument '{name}': {first['msg']}"
        return error_text(InvalidArgumentError("invalid-argument", problem, None, "Correct the argument and retry."))

    return answer
