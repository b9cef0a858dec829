"""Give a LangChain agent a workspace, and undo what it did.

Offline by default: the model is a script. Put `langchain.chat_models.init_chat_model("…")` in its place.
"""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from hedgerow import Workspace
from hedgerow.integrations.langchain import tools


class Scripted(GenericFakeChatModel):
    """A chat model that says what it was given, message by message."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        """Accept the tools; the script knows them."""
        return self


def call(name: str, **arguments: Any) -> AIMessage:
    """Return a turn of the model that calls one tool."""
    return AIMessage("", tool_calls=[{"id": name, "name": name, "args": arguments}])


model = Scripted(
    messages=iter(
        [
            call("read_file", path="todo.txt"),
            call("edit_file", path="todo.txt", old="milk", new="oat milk"),
            call("read_file", path="../secret.txt"),
            AIMessage("Changed to oat milk. The other file is outside my workspace."),
        ]
    )
)

with Workspace.memory() as ws:
    ws.write_text("todo.txt", "- milk\n- bread\n")
    before = ws.checkpoint("before the agent", author="me")

    agent = create_agent(model, tools=tools(ws.attributed("agent")))
    for message in agent.invoke({"messages": [HumanMessage("Make the milk oat milk.")]})["messages"]:
        if message.text:
            print(f"{message.type:>5}: {message.text.splitlines()[0]}")

    ws.checkpoint("after the agent", author="agent")
    print(ws.diff(before))
    ws.rollback(before)
    print(ws.read_text("todo.txt"))
