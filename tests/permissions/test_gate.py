"""The hook that asks: what it lets pass, parks, refuses, and remembers."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

from loopwright import Agent, BeforeToolCall, BeforeToolCallResult, Harness, tool
from loopwright.harness.approvals import approve, pending_approvals
from loopwright.messages import TextContent, ToolResultMessage
from loopwright.permissions import (
    AllowAlways,
    AllowOnce,
    Answer,
    Deny,
    Policy,
    Question,
    Rule,
    parse_rule,
    permission_gate,
)
from loopwright.session import MemoryStore
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, read_tool

ran: list[str] = []


@tool(replay="never")
def bash(command: str) -> str:
    """Run a command."""
    ran.append(command)
    return f"ran {command}"


@tool(approval=True)
def read(path: str) -> str:
    """Read a file."""
    ran.append(path)
    return f"read {path}"


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


class Person:
    """Somebody at the front end, with answers prepared."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []
        self.busy = False

    async def ask(self, question: Question) -> Answer:
        assert not self.busy, "two questions at once"
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        self.questions.append(question)
        return self.answers.pop(0)


async def told(gate: Any, *calls: Call, tools: Any = (bash, read)) -> list[str]:
    model = ScriptedModel([Reply(calls=list(calls)), Reply("Done.")])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=list(tools), before_tool_call=gate)
    result = await agent.prompt("Go.")
    return [
        "".join(block.text for block in message.content if isinstance(block, TextContent))
        for message in result.messages
        if isinstance(message, ToolResultMessage)
    ]


def run(command: str) -> Call:
    return Call("bash", {"command": command})


async def test_what_is_allowed_runs_and_what_is_denied_is_explained(tmp_path: Path) -> None:
    rules = [parse_rule("allow", "bash(ls:*)"), parse_rule("deny", "bash(rm:*)")]

    results = await told(permission_gate(Policy("ask", rules, tmp_path)), run("ls -l"), run("rm x"))

    assert results[0] == "ran ls -l"
    assert "bash was not run: the rule 'bash(rm:*)' denies it." in results[1]
    assert ran == ["ls -l"]


async def test_somebody_is_asked_and_the_answer_holds_for_one_call(tmp_path: Path) -> None:
    person = Person(AllowOnce(), Deny("Use make."), Deny())
    gate = permission_gate(Policy("ask", (), tmp_path), person.ask)

    results = await told(gate, run("a"), run("b"), run("a"))

    assert results[0] == "ran a"
    assert 'bash was not run: the user declined and said: "Use make.". Do not' in results[1]
    assert "bash was not run: the user said no." in results[2]
    assert [q.args for q in person.questions] == [{"command": c} for c in "aba"]
    assert person.questions[0].decision.reason == "no rule allows 'a'"


async def test_always_settles_the_same_call_and_hands_out_the_rule(tmp_path: Path) -> None:
    person = Person(AllowAlways(), AllowAlways(parse_rule("allow", "bash(git log:*)")))
    kept: list[Rule] = []
    gate = permission_gate(Policy("ask", (), tmp_path), person.ask, on_granted=kept.append)

    results = await told(gate, run("a"), run("a"), run("git log -1"), run("git log -2"), run("a"))

    assert all(result.startswith("ran") for result in results)
    assert len(person.questions) == 2
    assert (
        [str(rule) for rule in gate.granted] == ["bash(a)", "bash(git log:*)"] == [*map(str, kept)]
    )


async def test_side_by_side_agents_ask_one_question_at_a_time(tmp_path: Path) -> None:
    person = Person(AllowAlways())
    gate = permission_gate(Policy("ask", (), tmp_path), person.ask)

    first, second = await asyncio.gather(told(gate, run("a")), told(gate, run("a")))

    assert first == second == ["ran a"]
    assert len(person.questions) == 1


async def test_nobody_to_ask_and_no_session_means_no(tmp_path: Path) -> None:
    results = await told(permission_gate(Policy("ask", (), tmp_path)), run("a"))

    assert "approval" in results[0]
    assert ran == []


async def test_nobody_to_ask_parks_the_call_in_the_session(tmp_path: Path) -> None:
    store = MemoryStore()
    model = ScriptedModel([Reply(calls=[run("a")]), Reply("Done.")])
    gate = permission_gate(Policy("ask", (), tmp_path))
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[bash], before_tool_call=gate)

    async with Harness.open(store, "s", agent=agent) as harness:
        parked = await harness.prompt("Go.")
        (waiting,) = await pending_approvals(store, "s")
        assert (parked.stopped_by, waiting.tool_name, ran) == ("approval", "bash", [])
        await approve(store, "s", waiting.id, by="ada")
        result = await harness.resume()

    assert result is not None
    assert (result.text, ran) == ("Done.", ["a"])


async def test_a_tool_that_wants_approval_is_quieted_by_a_rule_and_not_by_a_default(
    tmp_path: Path,
) -> None:
    call = Call("read", {"path": "a"})

    by_default = await told(permission_gate(Policy("ask", (), tmp_path)), call)
    by_rule = await told(
        permission_gate(Policy("ask", [parse_rule("allow", "read(a)")], tmp_path)), call
    )

    assert "approval" in by_default[0]
    assert by_rule == ["read a"]


async def test_a_front_end_that_fails_blocks_the_call(tmp_path: Path) -> None:
    async def ask(question: Question) -> Answer:
        raise RuntimeError("the window is gone")

    results = await told(permission_gate(Policy("ask", (), tmp_path), ask), run("a"))

    assert "the window is gone" in results[0]
    assert ran == []


async def test_a_front_end_without_an_answer_blocks_the_call(tmp_path: Path) -> None:
    async def ask(question: Question) -> Any:
        return None

    assert (
        "no answer" in (await told(permission_gate(Policy("ask", (), tmp_path), ask), run("a")))[0]
    )
    assert ran == []


async def test_where_a_rule_asks_always_is_not_offered(tmp_path: Path) -> None:
    person = Person(AllowAlways(), AllowAlways(), AllowAlways())
    gate = permission_gate(Policy("yolo", [parse_rule("ask", "bash(a:*)")], tmp_path), person.ask)

    results = await told(gate, run("a"), run("a"), run("for i in x; do b; done"))

    assert [q.rule and str(q.rule) for q in person.questions] == [
        None, None, "bash(for i in x; do b; done)",
    ]  # fmt: skip
    assert results[:2] == ["ran a", "ran a"]
    assert (await told(gate, run("for i in x; do b; done")))[0].startswith("ran")


async def test_an_abort_ends_the_question(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def ask(question: Question) -> Answer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    gate = permission_gate(Policy("ask", (), tmp_path), ask)
    model = ScriptedModel([Reply(calls=[run("a")])])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[bash], before_tool_call=gate)
    prompted = asyncio.ensure_future(agent.prompt("Go."))
    await asked.wait()

    agent.abort()

    assert (await prompted).stopped_by == "abort"
    assert ran == []


# -- what changes while a question is open -----------------------------------------------------


@pytest.mark.parametrize("answer", [AllowOnce(), AllowAlways()])
@pytest.mark.parametrize("to", ["../outside", "other"])
async def test_a_yes_is_to_the_file_that_was_shown(tmp_path: Path, answer: Answer, to: str) -> None:
    root = tmp_path / "work"
    for folder in (root / "d", root / "other", tmp_path / "outside"):
        folder.mkdir(parents=True)

    async def ask(question: Question) -> Answer:
        (root / "d").rmdir()
        (root / "d").symlink_to(to)
        return answer

    gate = permission_gate(Policy("ask", [parse_rule("ask", "read")], root), ask)
    results = await told(gate, Call("read", {"path": "d/x"}))

    assert "its path leads to another file now than when it was asked for" in results[0]
    assert (ran, gate.granted) == ([], [])


@pytest.mark.parametrize("answer", [AllowOnce(), AllowAlways()])
async def test_a_mode_chosen_while_a_question_is_open_holds(tmp_path: Path, answer: Answer) -> None:
    policy = Policy("ask", (), tmp_path)

    async def ask(question: Question) -> Answer:
        policy.mode = "read-only"
        return answer

    gate = permission_gate(policy, ask)
    results = await told(gate, run("a"))

    assert "the mode read-only does not allow bash" in results[0]
    assert (ran, gate.granted) == ([], [])


async def test_a_ban_made_while_a_question_is_open_holds(tmp_path: Path) -> None:
    policy = Policy("ask", (), tmp_path)

    async def ask(question: Question) -> Answer:
        policy.rules.append(parse_rule("deny", "bash(a)"))
        return AllowOnce()

    assert "denies it" in (await told(permission_gate(policy, ask), run("a")))[0]
    assert ran == []


# -- another hook ------------------------------------------------------------------------------


async def test_what_another_hook_makes_of_the_arguments_is_judged(tmp_path: Path) -> None:
    def other(call: BeforeToolCall) -> BeforeToolCallResult:
        return BeforeToolCallResult(args={"command": "rm x"}, approval=False)

    rules = [parse_rule("allow", "bash(ls)"), parse_rule("deny", "bash(rm:*)")]
    gate = permission_gate(Policy("ask", rules, tmp_path), then=other)

    assert "denies it" in (await told(gate, run("ls")))[0]
    assert ran == []


@pytest.mark.parametrize("args", [{"file_path": "secret"}, {"path": "'secret'"}])
async def test_other_words_for_the_arguments_are_judged_as_the_tool_takes_them(
    tmp_path: Path, args: dict[str, Any]
) -> None:
    (tmp_path / "secret").write_text("hidden")
    policy = Policy("yolo", [parse_rule("deny", "read(secret)")], tmp_path)
    gate = permission_gate(policy, then=lambda call: BeforeToolCallResult(args=args))
    tools = [read_tool(LocalWorkspace(tmp_path))]

    assert "denies it" in (await told(gate, Call("read", {"path": "a"}), tools=tools))[0]


async def test_another_hook_may_change_what_is_run_and_is_not_lost(tmp_path: Path) -> None:
    async def other(call: BeforeToolCall, signal: object) -> BeforeToolCallResult:
        return BeforeToolCallResult(args={"command": call.args["command"] + " -l"})

    gate = permission_gate(Policy("ask", [parse_rule("allow", "bash(ls:*)")], tmp_path), then=other)

    assert await told(gate, run("ls")) == ["ran ls -l"]


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (BeforeToolCallResult(block=True, reason="Not on a Friday."), "Not on a Friday."),
        (BeforeToolCallResult(approval=True), "approval"),
    ],
)
async def test_the_stricter_of_both_holds(
    tmp_path: Path, verdict: BeforeToolCallResult, said: str
) -> None:
    gate = permission_gate(Policy("yolo", (), tmp_path), then=lambda call: verdict)

    assert said in (await told(gate, run("ls")))[0]
    assert ran == []


async def test_another_hook_does_not_overrule_the_policy(tmp_path: Path) -> None:
    gate = permission_gate(
        Policy("ask", (), tmp_path), then=lambda call: BeforeToolCallResult(approval=False)
    )

    assert "approval" in (await told(gate, run("ls")))[0]
    assert ran == []


async def test_another_hook_that_raises_or_returns_nonsense_blocks_the_call(tmp_path: Path) -> None:
    def raises(call: BeforeToolCall) -> None:
        raise ValueError("no idea")

    policy = Policy("yolo", (), tmp_path)

    assert "no idea" in (await told(permission_gate(policy, then=raises), run("ls")))[0]
    nonsense: Any = lambda call: True  # noqa: E731
    assert "bool" in (await told(permission_gate(policy, then=nonsense), run("ls")))[0]
    assert ran == []


@pytest.mark.parametrize("kind", ["sync", "sync returning an awaitable", "callable", "async"])
async def test_case_141_an_asker_may_be_sync_or_async(tmp_path: Path, kind: str) -> None:
    def sync(question: Question) -> Answer:
        return AllowOnce()

    async def later(question: Question) -> Answer:
        return AllowOnce()

    def returning(other: Any, question: Question) -> Any:
        return other(question)

    class Asker:
        def __call__(self, question: Question) -> Answer:
            return AllowOnce()

    asker: Any = {
        "sync": sync,
        "sync returning an awaitable": functools.partial(returning, later),
        "callable": Asker(),
        "async": later,
    }[kind]

    assert await told(permission_gate(Policy("ask", (), tmp_path), asker), run("a")) == ["ran a"]


@pytest.mark.parametrize("answer", [None, True, "yes", AllowOnce, {"allow": True}])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_case_141_what_is_no_answer_is_refused_in_words_that_name_the_asker(
    tmp_path: Path, kind: str, answer: Any
) -> None:
    def my_asker(question: Question) -> Any:
        return answer

    async def my_async_asker(question: Question) -> Any:
        return answer

    asker = my_asker if kind == "sync" else my_async_asker

    (text,) = await told(permission_gate(Policy("ask", (), tmp_path), asker), run("a"))

    assert asker.__name__ in text
    assert "no answer" in text
    assert ran == []


@pytest.mark.parametrize("change", ["read-only", "deny", "hook", "none"])
async def test_case_170_an_approved_call_is_judged_again_when_it_runs(
    tmp_path: Path, change: str
) -> None:
    store = MemoryStore()
    policy = Policy("ask", (), tmp_path)
    blocked: list[bool] = []

    def hook(call: BeforeToolCall) -> BeforeToolCallResult | None:
        return BeforeToolCallResult(block=True, reason="no longer") if blocked else None

    model = ScriptedModel([Reply(calls=[run("a")]), Reply("Done.")])
    gate = permission_gate(policy, then=hook)
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[bash], before_tool_call=gate)

    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Go.")
        (waiting,) = await pending_approvals(store, "s")
        await approve(store, "s", waiting.id)
        if change == "read-only":
            policy.mode = "read-only"
        elif change == "deny":
            policy.rules.append(parse_rule("deny", "bash"))
        elif change == "hook":
            blocked.append(True)
        result = await harness.resume()

    assert result is not None
    assert result.text == "Done."
    assert ran == (["a"] if change == "none" else [])
    assert [a.status for a in await store.approvals("s")] == ["consumed"]
