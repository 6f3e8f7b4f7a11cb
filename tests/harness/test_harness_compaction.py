"""A session stays within the model's window, and stops trying when that cannot be done."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.dying_store import DyingStore

from loopwright import Agent, Harness, tool
from loopwright.errors import ContextOverflow
from loopwright.harness.compaction import CompactionSettings
from loopwright.harness.compactor import CompactionRequest, CompactionVerdict
from loopwright.harness.summary import SummaryFailed
from loopwright.messages import AssistantMessage, TextContent, Usage, UserMessage
from loopwright.models import Context, Model
from loopwright.session import CompactionEntry, MemoryStore, MessageEntry, Session
from loopwright.testing import Call, Reply, ScriptedModel

SMALL = CompactionSettings(reserve_tokens=500, keep_recent_tokens=200)


def agent_of(
    *replies: Any, window: int = 8_000, tools: Any = (), system_prompt: str = ""
) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(
        list(replies), model=Model("scripted", "small", "scripted", context_window=window)
    )
    agent: Agent[Any] = Agent(
        model.model, stream_fn=model.stream_fn, tools=tools, system_prompt=system_prompt
    )
    return agent, model


def is_summary_request(context: Context) -> bool:
    """The request for a summary has no tools and a prompt of its own; the conversation's has ours."""
    return "You are a test." not in context.system_prompt


def by_kind(answer: Any, summary: Any = None) -> Any:
    """A script for either kind of request."""

    def reply(context: Context) -> Reply:
        given: Any = answer
        if is_summary_request(context):
            given = summary or Reply("A summary.")
        reply: Any = given(context) if callable(given) else given
        return reply

    return reply


def used(total: int) -> Usage:
    return Usage(input=total, output=10, total_tokens=total + 10)


async def compactions(store: Any) -> list[CompactionEntry]:
    entries = [row.entry() for row in await store.entries("s")]
    return [entry for entry in entries if isinstance(entry, CompactionEntry)]


async def test_a_context_past_the_threshold_is_compacted_before_the_next_request() -> None:
    store = MemoryStore()
    agent, model = agent_of(
        *[by_kind(Reply("word " * 100, usage=used(7_900)))] * 4, system_prompt="You are a test."
    )
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await harness.prompt("first " * 200)
        result = await harness.prompt("second")
        shown = harness.session.messages()

    [entry] = await compactions(store)
    kinds = [is_summary_request(request.context) for request in model.requests]
    assert kinds == [False, True, False]
    assert "A summary." in str(shown[0])
    assert "first first" not in str(model.requests[2].context.messages)
    assert result.stop_reason == "stop"
    causes = [row.cause for row in await store.usage("s")]
    assert causes == ["assistant", "compaction", "assistant"]
    assert entry.tokens_before > 7_000
    assert text_of(await Session.read(store, "s")) == [getattr(m, "text", "") for m in shown]


def text_of(session: Session) -> list[str]:
    return [getattr(message, "text", "") for message in session.messages()]


async def test_a_long_run_of_tools_is_compacted_between_its_turns() -> None:
    @tool
    async def read() -> str:
        return "line of text " * 120

    def turn(context: Context) -> Reply:
        size = sum(len(getattr(m, "text", "")) for m in context.messages) // 4
        done = len([m for m in context.messages if "summary" in getattr(m, "text", "")])
        if done and size > 900:
            return Reply("Done.", usage=used(size))
        return Reply(calls=[Call("read", {})], usage=used(size))

    store = MemoryStore()
    agent, model = agent_of(
        *[by_kind(turn)] * 60, window=2_500, tools=[read], system_prompt="You are a test."
    )
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        result = await harness.prompt("Read it all")

    assert result.text == "Done."
    assert len(await compactions(store)) >= 1
    for request in model.requests:
        roles = [message.role for message in request.context.messages]
        assert roles[0] == "user"


async def test_an_overflow_is_mended_once_and_the_prompt_is_answered() -> None:
    store = MemoryStore()
    agent, model = agent_of(
        by_kind(Reply("long answer " * 50)),
        by_kind(Reply(error=ContextOverflow("prompt is too long"))),
        by_kind(None),
        by_kind(Reply("Answered.")),
        system_prompt="You are a test.",
    )
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await harness.prompt("history " * 300)
        result = await harness.prompt("now")

    assert (result.text, result.stop_reason) == ("Answered.", "stop")
    assert len(await compactions(store)) == 1
    kinds = [is_summary_request(request.context) for request in model.requests]
    assert kinds == [False, False, True, False]
    failed = [
        entry.message.stop_reason
        for entry in [row.entry() for row in await store.entries("s")]
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage)
    ]
    assert failed == ["stop", "error", "stop"]


async def test_case_031_compaction_that_cannot_help_ends_with_the_overhead_named() -> None:
    store = MemoryStore()
    agent, model = agent_of(
        *[by_kind(Reply(error=ContextOverflow("prompt is too long")))] * 20,
        system_prompt="You are a test. " + "rules " * 6_000,
    )
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await harness.session.append(UserMessage("history " * 300))
        await harness.session.append(AssistantMessage([TextContent("answer " * 300)]))
        result = await harness.prompt("go")

    assert result.stop_reason == "error"
    assert result.error_message is not None
    assert "system prompt" in result.error_message
    assert len(model.requests) <= 6


async def test_case_031_a_summary_that_overflows_itself_ends_the_run() -> None:
    store = MemoryStore()
    overflow = Reply(error=ContextOverflow("prompt is too long"))
    agent, model = agent_of(*[by_kind(overflow, overflow)] * 20, system_prompt="You are a test.")
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await harness.session.append(UserMessage("history " * 300))
        await harness.session.append(AssistantMessage([TextContent("answer " * 300)]))
        result = await harness.prompt("go")

    assert result.stop_reason == "error"
    assert len(model.requests) <= 6


async def test_case_031_with_compaction_off_the_overflow_is_the_answer() -> None:
    store = MemoryStore()
    agent, model = agent_of(
        by_kind(Reply(error=ContextOverflow("prompt is too long"))),
        system_prompt="You are a test.",
    )
    off = CompactionSettings(enabled=False)
    async with Harness.open(store, "s", agent=agent, compaction=off) as harness:
        await harness.session.append(UserMessage("history " * 300))
        await harness.session.append(AssistantMessage([TextContent("answer " * 300)]))
        result = await harness.prompt("go")

    assert result.stop_reason == "error"
    assert "too long" in (result.error_message or "")
    assert len(model.requests) == 1
    assert await compactions(store) == []


async def test_case_032_usage_from_before_a_compaction_triggers_no_other() -> None:
    store = MemoryStore()
    agent, model = agent_of(
        *[by_kind(Reply("kept", usage=used(7_900)))] * 2, system_prompt="You are a test."
    )
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await harness.prompt("first " * 200)
        assert await harness.compact() is not None
        await harness.session.append(UserMessage("a short note"))
    other, again = agent_of(
        by_kind(Reply("Straight away.")), window=8_000, system_prompt="You are a test."
    )
    async with Harness.open(store, "s", agent=other, compaction=SMALL) as harness:
        result = await harness.prompt("go on")

    assert result.text == "Straight away."
    assert len(again.requests) == 1
    assert len(await compactions(store)) == 1
    assert len(model.requests) == 2


async def test_a_summary_that_fails_at_the_threshold_does_not_stop_the_run() -> None:
    store = MemoryStore()
    told: list[str] = []
    agent, _ = agent_of(
        *[by_kind(Reply("word " * 100, usage=used(7_900)), Reply(error="broken"))] * 9,
        system_prompt="You are a test.",
    )
    agent.on_error = lambda error, where: told.append(f"{where}: {error}")
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await harness.prompt("first " * 200)
        result = await harness.prompt("second")

    assert result.stop_reason == "stop"
    assert await compactions(store) == []
    assert len(told) == 1
    assert told[0].startswith("compaction:")


async def test_a_hook_supplies_the_summary_or_declines() -> None:
    store = MemoryStore()
    asked: list[CompactionRequest] = []

    def hook(request: CompactionRequest) -> CompactionVerdict:
        asked.append(request)
        if request.instructions == "no":
            return CompactionVerdict(decline=True)
        return CompactionVerdict(summary="By hand.", details={"by": "hook"})

    agent, model = agent_of(Reply("answer " * 100), system_prompt="You are a test.")
    async with Harness.open(
        store, "s", agent=agent, compaction=SMALL, before_compaction=hook
    ) as harness:
        assert await harness.compact() is None
        await harness.prompt("first " * 200)
        assert await harness.compact("no") is None
        entry = await harness.compact("yes")
        assert harness.open_operation is None

    assert entry is not None
    assert (entry.summary, entry.details, entry.from_hook) == ("By hand.", {"by": "hook"}, True)
    assert [request.reason for request in asked] == ["manual", "manual"]
    assert len(model.requests) == 1


async def test_a_compaction_by_hand_that_fails_says_so_and_frees_the_lane() -> None:
    store = MemoryStore()
    agent, _ = agent_of(
        by_kind(Reply("answer " * 100)),
        by_kind(None, Reply(error="broken")),
        by_kind(Reply("Still here.")),
        system_prompt="You are a test.",
    )
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await harness.prompt("first " * 200)
        with pytest.raises(SummaryFailed, match="broken"):
            await harness.compact()
        assert harness.open_operation is None
        assert harness.session.last_operation is not None
        assert harness.session.last_operation.status == "failed"
        assert (await harness.prompt("more")).text == "Still here."


async def test_killed_at_any_commit_of_a_compaction_by_hand_it_is_made_once() -> None:
    for k in range(1, 8):
        store = MemoryStore()
        dying: Any = DyingStore(store, k)
        agent, _ = agent_of(*[by_kind(Reply("answer " * 100))] * 4, system_prompt="You are a test.")
        async with Harness.open(dying, "s", agent=agent, compaction=SMALL) as harness:
            try:
                await harness.prompt("first " * 200)
                await harness.compact()
            except Exception:
                assert dying.dead
        survivor, _ = agent_of(
            *[by_kind(Reply("answer " * 100))] * 4, system_prompt="You are a test."
        )
        async with Harness.open(store, "s", agent=survivor, compaction=SMALL) as harness:
            await harness.resume()
            assert harness.open_operation is None
            if not await compactions(store):
                await harness.compact()
        assert len(await compactions(store)) == 1, k


async def test_a_branch_that_is_left_is_summed_up_for_the_one_that_is_gone_on_with() -> None:
    store = MemoryStore()
    agent, model = agent_of(
        by_kind(Reply("One.")),
        by_kind(Reply("Two.")),
        by_kind(None, Reply("They tried two.")),
        by_kind(Reply("Three.")),
        system_prompt="You are a test.",
    )
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("first")
        back = harness.session.leaf_id
        await harness.prompt("second")
        await harness.navigate(back, summarize=True, label="again")
        shown = [getattr(m, "text", "") for m in harness.session.messages()]
        leaf = harness.session.leaf_id
        assert leaf is not None
        assert harness.session.label_of(leaf) == "again"
        result = await harness.prompt("third")

    assert shown[:2] == ["first", "One."]
    assert "They tried two." in shown[2]
    assert result.text == "Three."
    assert "Two." not in str(list(model.requests[3].context.messages))
    again = await Session.read(store, "s")
    assert [getattr(m, "text", "") for m in again.messages()][3:] == ["third", "Three."]


async def test_going_back_without_a_summary_only_moves_the_lane() -> None:
    store = MemoryStore()
    agent, model = agent_of(*[Reply("Yes.")] * 3)
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("first")
        await harness.navigate(None)
        assert harness.session.messages() == []
        await harness.prompt("anew")
        fork = await harness.fork()

    assert len(model.requests[1].context.messages) == 1
    assert len((await Session.read(store, "s")).messages()) == 2
    assert len((await Session.read(store, fork.id)).messages()) == 2
    assert fork.parent_id == "s"


async def test_case_092_summaries_go_where_the_agent_sends_its_requests() -> None:
    private = {
        "base_url": "http://private.test/v1",
        "headers": {"X-Tenant": "t1"},
        "aws_region": "eu-central-1",
    }
    store = MemoryStore()
    agent, model = agent_of(*[by_kind(Reply("word " * 100))] * 8, system_prompt="You are a test.")
    agent.stream_options = {**private, "max_tokens": 9, "tool_choice": "required"}
    agent.get_api_key = lambda provider: f"key of {provider}"

    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await harness.prompt("first " * 200)
        await harness.prompt("second " * 200)
        await harness.compact()
        await harness.prompt("third")
        await harness.navigate(None, summarize=True)

    kinds = [is_summary_request(request.context) for request in model.requests]
    assert kinds == [False, False, True, False, True]
    for request in model.requests:
        assert request.options.items() >= private.items()
        assert request.options["api_key"] == "key of scripted"
    summaries = [r for r in model.requests if is_summary_request(r.context)]
    for request in summaries:
        assert request.options["max_tokens"] > 9, "a summary has a limit of its own"
        assert "tool_choice" not in request.options
        assert not request.context.tools
