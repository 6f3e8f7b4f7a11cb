"""Stored messages: the same look, results with their calls."""

from __future__ import annotations

from loopwright.cli.interactive.theme import theme_named
from loopwright.cli.interactive.transcript import Transcript
from loopwright.events import MessageEnd
from loopwright.messages import (
    AssistantMessage,
    CustomMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.session.formats.pi_messages import CompactionSummaryMessage, ExtensionMessage
from loopwright.session.tree import branch_summary_text, compaction_text

PLAIN = theme_named("dark", {"NO_COLOR": "1"})


class Remark(CustomMessage, tag="remarkOfATest"):
    text: str


def test_results_are_joined_to_their_calls_in_the_order_of_the_reply() -> None:
    calls = [
        ToolCall("1", "ls", {}),
        ToolCall("2", "bash", {"command": "x"}),
        ToolCall("3", "own", {}),
    ]
    messages = [
        UserMessage("Go."),
        AssistantMessage([ThinkingContent("Two words."), TextContent("Look:"), *calls]),
        ToolResultMessage("2", "bash", [TextContent("out")], {"exitCode": 1, "seconds": 65}, is_error=True),
        ToolResultMessage("1", "ls", [TextContent("a.py")]),
        AssistantMessage([TextContent("Done.")]),
    ]  # fmt: skip

    shown = Transcript(PLAIN).replay(messages, 60)

    assert shown == (
        "› Go.\n\nthought, 2 words\n\nLook:\n\n✓ ls .\n  a.py\n\n"
        "✗ bash x · failed, exit code 1 · 1 min 5 s\n  out\n\n· own · no result\n\nDone.\n"
    )


def test_a_summary_is_no_word_of_the_users_and_has_no_tags() -> None:
    messages = [
        UserMessage(compaction_text("They met.")),
        UserMessage(branch_summary_text("**Tried** it\nin vain.")),
        UserMessage("Is </branch-summary> a tag, as in </branch-summary>"),
    ]

    shown = Transcript(PLAIN).replay(messages, 60)

    assert shown == (
        "what was said before, in short:\nThey met.\n\n"
        "what happened on the branch that was left:\n**Tried** it\nin vain.\n\n"
        "› Is </branch-summary> a tag, as in </branch-summary>\n"
    )


def test_the_children_of_a_stored_call_are_counted() -> None:
    details = {
        "subagent": {
            "id": "c", "agent": "explore", "depth": 1, "parentId": None, "turns": 3,
            "usage": {"totalTokens": 1234},
        }
    }  # fmt: skip
    messages = [
        AssistantMessage([ToolCall("1", "task", {"description": "look", "prompt": "x"})]),
        ToolResultMessage("1", "task", [TextContent("Found.")], details),
    ]

    shown = Transcript(PLAIN).replay(messages, 60)

    assert shown == "✓ task look\n  explore: 3 turns, 1,234 tokens\n  Found.\n"


def test_messages_of_other_programs_are_shown_unless_they_are_not_for_people() -> None:
    messages = [
        CompactionSummaryMessage(summary="They said hello."),
        ExtensionMessage(custom_type="x", content="hidden", display=False),
        Remark(text="by\x1b[2J me"),
    ]

    shown = Transcript(PLAIN).replay(messages, 60)

    assert shown == (
        "what was said before, in short:\nThey said hello.\n\nremarkOfATest:\nby␛[2J me\n"
    )


def test_what_follows_a_replay_stands_below_it_and_its_last_result_can_be_seen_whole() -> None:
    transcript = Transcript(PLAIN)
    call = AssistantMessage([ToolCall("1", "own", {})])

    transcript.replay([call, ToolResultMessage("1", "own", [TextContent("x")])], 60)
    transcript.feed(MessageEnd(UserMessage("More.")))

    assert transcript.take(60) == "\n› More.\n"
    assert transcript.expand_last(60) == "✓ own\n  x\n"


def test_nothing_is_replayed_as_nothing() -> None:
    assert Transcript(PLAIN).replay([], 60) == ""
