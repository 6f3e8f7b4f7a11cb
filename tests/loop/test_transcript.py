"""`next_step` decides everything and awaits nothing: its rules, without a loop."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from loopwright.loop.transcript import (
    AskModel,
    BeginTurn,
    Deliver,
    EndTurn,
    Finish,
    Poll,
    Progress,
    RunTools,
    next_step,
    unanswered_calls,
)
from loopwright.messages import (
    AgentMessage,
    AssistantMessage,
    StopReason,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

HELLO = UserMessage("hello")


def reply(*ids: str, stop_reason: StopReason = "toolUse") -> AssistantMessage:
    return AssistantMessage(
        [ToolCall(id, "tool", {"n": n}) for n, id in enumerate(ids)], stop_reason=stop_reason
    )


def result(id: str) -> ToolResultMessage:
    return ToolResultMessage(id, "tool", [TextContent("done")])


def answer() -> AssistantMessage:
    return AssistantMessage([TextContent("done")])


# -- a turn begins ---------------------------------------------------------------------------


def test_a_prompt_begins_a_turn_and_is_said_inside_it() -> None:
    progress = Progress(prompts=[HELLO])

    assert next_step([], progress) == BeginTurn()
    progress.turn = "open"
    assert next_step([], progress) == Deliver([HELLO])


def test_behaviour_004_steering_is_polled_before_the_first_request() -> None:
    assert next_step([HELLO], Progress(turn="open")) == Poll("steering")
    assert next_step([HELLO], Progress(turn="open", steering=[])) == AskModel()


def test_messages_that_wait_are_said_before_the_model_is_asked() -> None:
    steering, follow_up = UserMessage("steering"), UserMessage("follow-up")

    step = next_step([HELLO], Progress(turn="open", steering=[steering], follow_up=[follow_up]))
    assert step == Deliver([steering])

    step = next_step([HELLO], Progress(turn="open", steering=[], follow_up=[follow_up]))
    assert step == Deliver([follow_up])


# -- a reply is answered ---------------------------------------------------------------------


def test_behaviour_005_calls_are_run_whatever_the_stop_reason_says() -> None:
    said = reply("a", "b", stop_reason="stop")

    assert next_step([HELLO, said], Progress(turn="answered")) == RunTools(said, said.tool_calls)


def test_a_cut_reply_is_answered_call_by_call_as_well() -> None:
    said = reply("a", stop_reason="length")

    assert next_step([said], Progress(turn="answered")) == RunTools(said, said.tool_calls)


def test_behaviour_006_calls_of_a_failed_or_aborted_reply_are_owed_nothing() -> None:
    for reason in ("error", "aborted"):
        said = reply("a", stop_reason=reason)
        assert next_step([said], Progress(turn="answered")) == EndTurn()


def test_only_calls_without_a_result_are_run() -> None:
    said = reply("a", "b", "c")

    step = next_step([said, result("a")], Progress(turn="answered"))

    assert step == RunTools(said, said.tool_calls[1:])


def test_a_turn_ends_when_every_call_has_its_result() -> None:
    transcript = [HELLO, reply("a", "b"), result("a"), result("b")]

    assert next_step(transcript, Progress(turn="answered")) == EndTurn()
    assert next_step([HELLO, answer()], Progress(turn="answered")) == EndTurn()


def test_calls_are_answered_even_after_a_stop() -> None:
    said = reply("a")

    step = next_step([said], Progress(turn="answered", stopped_by="abort"))

    assert step == RunTools(said, said.tool_calls)


def test_behaviour_088_repeated_ids_are_matched_by_position() -> None:
    said = reply("x", "x", "y", "x")

    assert unanswered_calls([said, result("x")])[1] == said.tool_calls[1:]
    assert unanswered_calls([said, result("x"), result("x")])[1] == said.tool_calls[2:]
    assert unanswered_calls([said, result("x"), result("y")])[1] == [
        said.tool_calls[1],
        said.tool_calls[3],
    ]


def test_results_of_an_earlier_reply_answer_nothing_of_the_last() -> None:
    transcript = [reply("a"), result("a"), HELLO, reply("a")]

    assert unanswered_calls(transcript)[1] == transcript[-1].tool_calls


def test_without_a_reply_nothing_is_owed() -> None:
    assert unanswered_calls([]) == (None, [])
    assert unanswered_calls([HELLO]) == (None, [])


# -- after a turn ----------------------------------------------------------------------------


def test_behaviour_003_steering_is_polled_after_every_turn_and_follow_ups_only_at_the_end() -> None:
    owing = [HELLO, reply("a"), result("a")]
    done = [HELLO, answer()]

    assert next_step(owing, Progress()) == Poll("steering")
    assert next_step(owing, Progress(steering=[])) == BeginTurn()
    assert next_step(done, Progress()) == Poll("steering")
    assert next_step(done, Progress(steering=[HELLO])) == BeginTurn()
    assert next_step(done, Progress(steering=[])) == Poll("follow_up")
    assert next_step(done, Progress(steering=[], follow_up=[HELLO])) == BeginTurn()
    assert next_step(done, Progress(steering=[], follow_up=[])) == Finish()


def test_behaviour_081_after_a_terminated_batch_the_queues_are_still_polled() -> None:
    transcript = [HELLO, reply("a"), result("a")]

    assert next_step(transcript, Progress(terminated=True)) == Poll("steering")
    assert next_step(transcript, Progress(terminated=True, steering=[])) == Poll("follow_up")
    step = next_step(transcript, Progress(terminated=True, steering=[], follow_up=[]))
    assert step == Finish()


def test_an_extra_turn_that_a_hook_asked_for_goes_before_follow_ups() -> None:
    step = next_step([HELLO, answer()], Progress(steering=[], extra_turn=True))

    assert step == BeginTurn()


# -- after a stop ----------------------------------------------------------------------------


def test_behaviour_016_after_a_stop_no_queue_is_polled() -> None:
    for reason in ("terminate", "hook", "max_turns", "abort", "timeout", "error"):
        stopped = Progress(stopped_by=reason)
        assert next_step([HELLO, reply("a"), result("a")], stopped) == Finish()
        assert next_step([HELLO, answer()], stopped) == Finish()


def test_after_a_stop_an_open_turn_is_closed_without_polling() -> None:
    """The step is `AskModel`; the kernel then makes up the reply instead of asking."""
    assert next_step([HELLO], Progress(turn="open", stopped_by="abort")) == AskModel()


def test_what_the_run_was_started_with_is_said_even_after_a_stop() -> None:
    progress = Progress(prompts=[HELLO], stopped_by="abort")

    assert next_step([], progress) == BeginTurn()
    progress.turn = "open"
    assert next_step([], progress) == Deliver([HELLO])


# -- purity ----------------------------------------------------------------------------------

messages = st.one_of(
    st.builds(UserMessage, st.just("said")),
    st.builds(
        lambda ids, reason: reply(*ids, stop_reason=reason),
        st.lists(st.sampled_from("ab"), max_size=3),
        st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]),
    ),
    st.builds(result, st.sampled_from("ab")),
)
queues = st.one_of(st.none(), st.lists(st.builds(UserMessage, st.just("queued")), max_size=2))


@given(
    st.lists(messages, max_size=6),
    st.builds(
        Progress,
        turn=st.sampled_from(["closed", "open", "answered"]),
        prompts=st.lists(st.builds(UserMessage, st.just("prompt")), max_size=2),
        steering=queues,
        follow_up=queues,
        stopped_by=st.sampled_from([None, "abort", "hook", "error"]),
        terminated=st.booleans(),
        extra_turn=st.booleans(),
    ),
)
def test_asking_changes_nothing_and_asking_twice_gives_the_same(
    transcript: list[AgentMessage], progress: Progress
) -> None:
    before = copy.deepcopy((transcript, progress))

    step = next_step(transcript, progress)

    assert (transcript, progress) == before
    assert next_step(transcript, progress) == step
    if progress.stopped_by is not None:
        assert not isinstance(step, Poll)
    if progress.turn == "answered":
        assert isinstance(step, RunTools | EndTurn)
