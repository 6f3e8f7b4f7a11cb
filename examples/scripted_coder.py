"""An agent that repairs a small program with the real coding tools, while its model is scripted.

In the command line, without a key and without a network:

    loopwright --agent examples/scripted_coder.py:agent "Fix the failing test"

Files are read, changed and run for real, in the folder `practice` of the folder you are in, which
is made if it is missing. What the model says next depends on what the tools answered, so the
conversation can be steered, stopped, resumed, and go on for as long as you like. Run as a script
it does the job in a temporary folder.

Prints:
    write practice/basket.py
    write practice/test_basket.py
    bash python3 -B practice/test_basket.py
    read practice/basket.py
    edit practice/basket.py
    bash python3 -B practice/test_basket.py
    Repaired: `practice/test_basket.py` now says "2 of 2 are right".
"""

import os
import tempfile

from loopwright import Agent
from loopwright.messages import AssistantMessage, ToolResultMessage, UserMessage
from loopwright.models import Context
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, coding_tools

PROGRAM, TEST = "practice/basket.py", "practice/test_basket.py"
WRONG, RIGHT = "full - discount_percent", "full * (1 - discount_percent / 100)"

FILES = {
    PROGRAM: f'''\
def total(prices: list[float], discount_percent: float = 0) -> float:
    """What is to be paid, rounded to cents."""
    full = sum(prices)
    return round({WRONG}, 2)
''',
    TEST: """\
from basket import total

paid = total([3.20, 4.50, 7.30])
assert paid == 15.00, f"without a discount 15.00 is to be paid, not {paid}"
paid = total([20.00], discount_percent=10)
assert paid == 18.00, f"10 percent off 20.00 is 18.00, not {paid}"
print("2 of 2 are right")
""",
}
RUN_TEST = Call("bash", {"command": f"python3 -B {TEST}"})


def next_reply(context: Context) -> Reply:
    """What the model says to *context*: the last thing a tool answered decides."""
    if not context.tools:  # somebody wants a summary
        return Reply(f"The work so far is about {PROGRAM} and the test of it, {TEST}.")
    calls, answer, heard = present_run(context)
    stopped = answer is None or (answer.is_error and "AssertionError" not in answer.text)
    if answer is None or (heard and stopped):
        return first_step(heard)
    reply = step_after(calls, answer)
    if heard:
        told = f"You say “{short(heard)}”. I keep it in mind. "
        return Reply(told + reply.text, calls=reply.calls)
    return reply


def present_run(context: Context) -> tuple[list[Call], ToolResultMessage | None, str]:
    """What was called since the run began, the last answer to that, and what the user has said
    since that answer."""
    calls: list[Call] = []
    answer, heard = None, ""
    for message in reversed(context.messages):
        match message:
            case UserMessage() if answer is None:
                heard = heard or message.text
            case ToolResultMessage():
                answer = answer or message
            case AssistantMessage(tool_calls=[_, *_]) if answer is not None:
                calls = [Call(each.name, each.arguments) for each in message.tool_calls] + calls
            case AssistantMessage():
                break  # the end of the run before
            case _:
                pass
    return calls, answer, heard


def first_step(heard: str) -> Reply:
    return Reply(
        f"You say “{short(heard)}”. I am scripted and know one thing: to repair `{PROGRAM}`. "
        "Let me see whether it is there.",
        calls=[Call("find", {"pattern": "practice/*.py"})],
        thinking="The model of this agent was written beforehand. Only what the tools answer is news.",
    )


def step_after(calls: list[Call], answer: ToolResultMessage) -> Reply:
    text, failed = answer.text, answer.is_error
    arguments = calls[-1].arguments or {}
    match calls[-1].name:
        case "find" if not failed:
            missing = [path for path in FILES if path not in text.split()]
            if not missing:
                return Reply("It is. Let me run its test.", calls=[RUN_TEST])
            if PROGRAM in missing:
                said = "It is not, so I make one that has a fault."
            else:
                said = f"It is, but `{TEST}` is not, so I write that."
            return Reply(
                said,
                calls=[Call("write", {"path": path, "content": FILES[path]}) for path in missing],
            )
        case "write" if not failed:
            return Reply("Now the test of it.", calls=[RUN_TEST])
        case "bash" if not failed:
            said = text.strip().splitlines()[-1]
            if "edit" not in [call.name for call in calls]:
                return Reply(
                    f'Nothing is left to repair: `{TEST}` says "{said}". '
                    "Remove the folder `practice` to see it all from the beginning."
                )
            return Reply(
                f'Repaired: `{TEST}` now says "{said}".\n\n'
                "- A discount is **percent** of the price, not an amount.\n"
                "- The other test was right before, and still is."
            )
        case "bash" if "AssertionError" in text:
            wrong = text[text.rindex("AssertionError") :].splitlines()[0]
            return Reply(
                f"The test fails:\n\n> {wrong}\n\nLet me read the program.",
                calls=[Call("read", {"path": PROGRAM})],
            )
        case "read" if WRONG in text:
            return Reply(
                "`discount_percent` is taken off as if it were an amount:\n\n"
                f"```python\nreturn round({WRONG}, 2)\n```\n\nI put it right.",
                calls=[Call("edit", {"path": PROGRAM, "oldText": WRONG, "newText": RIGHT})],
            )
        case "edit" if not failed:
            return Reply("Does the test agree?", calls=[RUN_TEST])
        case name:
            what = arguments.get("path") or arguments.get("command") or ""
            return Reply(
                f"I stop here: `{name} {what}` came to this.\n\n> {short(text, 300)}\n\n"
                "Say something, and I begin again."
            )


def short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


def coder(folder: str, *, seconds: float = 0.0) -> Agent:
    """The agent, at work in *folder*. Its model rests so many *seconds* between pieces of text."""

    def reply(context: Context) -> Reply:
        model.extend([reply])  # the script has no end
        next_one = next_reply(context)
        return Reply(
            next_one.text,
            calls=next_one.calls,
            thinking=next_one.thinking,
            chunk_size=4 if seconds else None,
            delay=seconds,
        )

    model = ScriptedModel([reply])
    return Agent(
        model.model,
        stream_fn=model.stream_fn,
        system_prompt="You repair small programs.",
        tools=coding_tools(LocalWorkspace(folder)),
    )


agent = coder(".", seconds=0.015)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        result = coder(os.path.realpath(folder)).prompt_sync("Fix the failing test")
    for message in result.messages:
        if isinstance(message, AssistantMessage):
            for each in message.tool_calls:
                if each.name != "find":
                    print(each.name, each.arguments.get("path") or each.arguments["command"])
    print(result.text.splitlines()[0])
