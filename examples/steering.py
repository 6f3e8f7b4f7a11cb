"""Saying something to an agent that is already at work.

`steer` is heard before the next request, `follow_up` when the work would be over.

Prints:
    user: Count the files.
    assistant: (calls count_files)
    toolResult: 3
    user: Leave out the hidden ones.
    assistant: Then it is 2.
    user: Thanks. And the largest?
    assistant: notes.txt.
"""

from loopwright import AbortSignal, Agent, CustomMessage
from loopwright.events import AgentEvent, ToolExecutionStart
from loopwright.messages import AssistantMessage, ToolResultMessage, UserMessage
from loopwright.testing import Call, Reply, ScriptedModel


def count_files() -> int:
    """Count the files in the folder."""
    return 3


model = ScriptedModel(
    [
        Reply(calls=[Call("count_files")]),
        Reply("Then it is 2."),
        Reply("notes.txt."),
    ]
)
agent = Agent(model.model, stream_fn=model.stream_fn, tools=[count_files])


def speak_up(event: AgentEvent, _signal: AbortSignal) -> None:
    """Both can be called at any moment and from any thread: here, while the tool runs."""
    if isinstance(event, ToolExecutionStart):
        # The tool finishes first; steer(..., when="interrupt") would abort it instead.
        agent.steer("Leave out the hidden ones.")
        agent.follow_up("Thanks. And the largest?")


agent.subscribe(speak_up)
result = agent.prompt_sync("Count the files.")

for message in result.messages:
    match message:
        case AssistantMessage(tool_calls=[call]):
            print(f"assistant: (calls {call.name})")
        case UserMessage() | AssistantMessage() | ToolResultMessage():
            print(f"{message.role}: {message.text}")
        case CustomMessage():
            pass
