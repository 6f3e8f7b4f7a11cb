"""Prompts, and what is said and decided while they run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.rpc.vendor import Call, Refusal, Thought, ToolVendor

if TYPE_CHECKING:
    from tests.cli.conftest import Program
    from tests.cli.rpc.conftest import Start

OpenGate = Callable[[], None]
WAIT = Call("bash", {"command": "cat gate"})


def types(lines: list[dict[str, Any]]) -> list[str]:
    return [line["type"] for line in lines]


def text_of_reply(lines: list[dict[str, Any]]) -> str:
    """As a client puts it together that shows it while it comes."""
    events = [e["assistantMessageEvent"] for e in lines if e["type"] == "message_update"]
    return "".join(event["delta"] for event in events if event["type"] == "text_delta")


# -- prompts ---------------------------------------------------------------------------------


def test_the_first_line_says_who_is_there_and_an_end_of_input_ends_with_0(
    start: Start, program: Program
) -> None:
    client = start("--no-session")

    ready = client.receive()
    code = client.end()

    assert ready is not None
    assert (ready["type"], ready["version"], ready["sessionId"]) == ("ready", 1, None)
    assert (ready["model"], ready["folder"]) == ("toy/one", str(program.folder))
    assert (code, client.lines, client.errors) == (0, [ready], b"")


def test_a_prompt_is_accepted_then_streamed_then_ended(
    start: Start, tool_vendor: ToolVendor
) -> None:
    tool_vendor.will(Thought("Hm."), "Good ", "day\u2028.")
    client = start()

    end = client.run("hello")

    assert types(client.lines)[:4] == ["ready", "session", "response", "agent_start"]
    assert types(client.lines)[-2:] == ["agent_end", "run_end"]
    session_id = client.lines[1]["id"]
    assert client.lines[2]["data"] == {"started": True, "sessionId": session_id}
    assert (end["id"], end["stopReason"], end["code"]) == ("c1", "stop", 0)
    assert (end["sessionId"], end["usage"]["totalTokens"]) == (session_id, 55)
    assert text_of_reply(client.lines) == "Good day\u2028."


def test_a_second_prompt_goes_on_in_the_same_session(start: Start, tool_vendor: ToolVendor) -> None:
    client = start()

    client.run("one")
    client.run("two")

    assert types(client.lines).count("session") == 1
    assert [text for role, text in tool_vendor.heard() if role == "user"] == ["one", "two"]


def test_a_vendor_that_fails_ends_the_run_and_not_the_program(
    start: Start, tool_vendor: ToolVendor
) -> None:
    tool_vendor.will(Refusal(401, "who are you?"))
    client = start()

    end = client.run("hello")
    again = client.run("again")

    assert (end["stopReason"], end["code"]) == ("error", 1)
    assert "who are you?" in end["errorMessage"]
    assert again["stopReason"] == "stop"


def test_a_request_that_is_sent_again_is_told(start: Start, tool_vendor: ToolVendor) -> None:
    tool_vendor.will(Refusal(503, "overloaded"))
    client = start()

    end = client.run("hello")

    assert "retry" in types(client.lines)
    assert end["code"] == 0


def test_a_prompt_during_a_run_is_refused_as_busy(start: Start, tool_vendor: ToolVendor) -> None:
    held = tool_vendor.hold()
    tool_vendor.will("One ", held, "two")
    client = start()
    client.ask("prompt", text="count")
    client.event("text_delta")

    for command in ({"type": "prompt", "text": "x"}, {"type": "compact"}, {"type": "new"}):
        assert client.refused(**command)["kind"] == "busy"
    held.set()

    assert client.until("run_end")["stopReason"] == "stop"


def test_the_same_request_id_runs_once(start: Start, tool_vendor: ToolVendor) -> None:
    client = start()
    client.run("pay the bill", requestId="r1")

    end = client.run("pay the bill", requestId="r1")

    assert end["stopReason"] == "stop"
    assert len(tool_vendor.requests) == 1


def test_an_image_reaches_the_model_and_one_that_is_none_is_refused(
    start: Start, program: Program, tool_vendor: ToolVendor
) -> None:
    program.write_models_file(
        f'default = "toy/one"\n[providers.toy]\nbase_url = "{tool_vendor.base_url}"\n'
        '[[providers.toy.models]]\nid = "one"\ninput = ["text", "image"]\n'
    )
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    client = start("--no-session")

    end = client.run("what is it?", images=[{"data": dot, "mimeType": "image/png"}])
    broken = client.refused("prompt", text="x", images=[{"data": "?", "mimeType": "image/png"}])
    other = client.refused("prompt", text="x", images=[{"data": dot, "mimeType": "text/plain"}])

    assert end["code"] == 0
    assert dot in json.dumps(tool_vendor.requests[0])
    assert (broken["kind"], other["kind"]) == ("invalid", "invalid")
    assert client.run("still there?")["code"] == 0


# -- steering --------------------------------------------------------------------------------


def test_steering_is_heard_when_the_running_tool_is_done(
    start: Start, tool_vendor: ToolVendor, gate: OpenGate
) -> None:
    tool_vendor.will(WAIT)
    client = start("--permission-mode", "yolo")
    client.ask("prompt", text="wait")
    client.until("tool_execution_start")

    item = client.ask("steer", text="and be brief")
    waiting = client.ask("queued")["items"]
    gate()
    client.until("run_end")

    assert (item["queue"], item["text"], item["urgent"]) == ("steer", "and be brief", False)
    assert waiting == [item]
    assert tool_vendor.heard()[-2:] == [("tool", "opened\n"), ("user", "and be brief")]
    assert client.ask("queued")["items"] == []


def test_an_urgent_word_interrupts_the_running_tool(
    start: Start, tool_vendor: ToolVendor, gate: OpenGate
) -> None:
    tool_vendor.will(WAIT)
    client = start("--permission-mode", "yolo")
    client.ask("prompt", text="wait")
    client.until("tool_execution_start")

    client.ask("steer", text="leave that", when="interrupt")
    end = client.until("run_end")

    assert end["stopReason"] == "stop"
    assert tool_vendor.heard()[-1] == ("user", "leave that")


def test_a_follow_up_is_said_when_the_run_would_end(start: Start, tool_vendor: ToolVendor) -> None:
    held = tool_vendor.hold()
    tool_vendor.will("One", held)
    client = start()
    client.ask("prompt", text="first")
    client.event("text_delta")

    client.ask("follow_up", text="second")
    withdrawn = client.ask("follow_up", text="third")
    status = client.ask("withdraw", itemId=withdrawn["id"])["status"]
    held.set()
    client.until("run_end")

    assert status == "withdrawn"
    assert [text for role, text in tool_vendor.heard() if role == "user"] == ["first", "second"]


# -- stopping --------------------------------------------------------------------------------


def test_an_abort_stops_a_running_tool(
    start: Start, tool_vendor: ToolVendor, gate: OpenGate
) -> None:
    tool_vendor.will(WAIT)
    client = start("--permission-mode", "yolo")
    client.ask("prompt", text="wait")
    client.until("tool_execution_start")

    stopping = client.ask("abort", reason="enough")["stopping"]
    end = client.until("run_end")

    assert stopping
    assert (end["stopReason"], end["stoppedBy"], end["code"]) == ("aborted", "abort", 1)
    assert "tool_execution_end" in types(client.lines)
    assert client.run("still there?")["code"] == 0


def test_an_abort_stops_a_stream(start: Start, tool_vendor: ToolVendor) -> None:
    tool_vendor.will("Once upon", tool_vendor.hold(), "a time")
    client = start()
    client.ask("prompt", text="tell")
    client.event("text_delta")

    client.ask("abort")
    end = client.until("run_end")

    assert end["stopReason"] == "aborted"
    events = [kind for kind in types(client.lines) if kind not in ("response", "run_end")]
    assert events[-3:] == ["message_end", "turn_end", "agent_end"]


def test_an_abort_right_behind_a_prompt_is_not_lost(start: Start, tool_vendor: ToolVendor) -> None:
    tool_vendor.will("Once", tool_vendor.hold())
    client = start()
    client.receive()

    client.send("prompt", text="tell")
    client.send("abort")
    end = client.until("run_end")

    assert end["stopReason"] == "aborted"


def test_an_abort_with_nothing_to_stop_says_so(start: Start) -> None:
    client = start("--no-session")

    assert client.ask("abort") == {"stopping": False}


# -- approvals -------------------------------------------------------------------------------


def ask_for(start: Start, vendor: ToolVendor, *calls: Call) -> Any:
    for call in calls:
        vendor.will(call)
    client = start()
    client.ask("prompt", text="go")
    return client


def test_an_approved_call_runs(start: Start, tool_vendor: ToolVendor) -> None:
    client = ask_for(start, tool_vendor, Call("bash", {"command": "echo hello"}))
    request = client.until("approval_request")

    listed = client.ask("approvals")["approvals"]
    decided = client.ask("approve", approvalId=request["approvalId"])
    settled = client.until("approval_settled")
    client.until("run_end")

    assert (request["toolName"], request["args"]) == ("bash", {"command": "echo hello"})
    assert (request["rule"], listed[0]["approvalId"]) == ("bash(echo hello)", settled["approvalId"])
    assert decided == {"needsResume": False}
    assert (settled["outcome"], settled["approvalId"]) == ("approved", request["approvalId"])
    assert tool_vendor.heard()[-1] == ("tool", "hello\n")
    assert client.ask("approvals") == {"approvals": []}


def test_a_second_word_on_the_same_call_comes_too_late(
    start: Start, tool_vendor: ToolVendor
) -> None:
    client = ask_for(start, tool_vendor, Call("bash", {"command": "echo hello"}))
    request = client.until("approval_request")

    first = client.send("approve", approvalId=request["approvalId"])
    second = client.send("deny", approvalId=request["approvalId"])

    assert client.response_to(first)["success"]
    assert client.response_to(second)["error"]["kind"] == "not_found"
    client.until("run_end")
    assert tool_vendor.heard()[-1] == ("tool", "hello\n")


def test_always_is_not_asked_again(start: Start, tool_vendor: ToolVendor) -> None:
    call = Call("bash", {"command": "echo hello"})
    client = ask_for(start, tool_vendor, call, call)
    request = client.until("approval_request")

    client.ask("approve", approvalId=request["approvalId"], always=True)
    client.until("run_end")

    assert types(client.lines).count("approval_request") == 1
    assert types(client.lines).count("tool_execution_end") == 2
    assert tool_vendor.heard()[-1] == ("tool", "hello\n")


def test_a_denied_call_does_not_run_and_the_model_hears_why(
    start: Start, tool_vendor: ToolVendor
) -> None:
    client = ask_for(start, tool_vendor, Call("bash", {"command": "touch made"}))
    request = client.until("approval_request")

    client.ask("deny", approvalId=request["toolCallId"], reason="not now")
    end = client.until("run_end")

    assert end["stopReason"] == "stop"
    assert 'the user declined and said: "not now"' in tool_vendor.heard()[-1][1]


def test_what_cannot_be_decided_is_refused_and_the_call_still_waits(
    start: Start, tool_vendor: ToolVendor
) -> None:
    client = ask_for(start, tool_vendor, Call("bash", {"command": "echo a; echo b:*"}))
    approval = client.until("approval_request")["approvalId"]

    assert client.refused("approve", approvalId="nonsense")["kind"] == "not_found"
    assert client.refused("approve", approvalId=approval, arguments={})["kind"] == "refused"
    assert client.refused("approve", approvalId=approval, always=True)["kind"] == "refused"
    client.ask("approve", approvalId=approval)

    assert client.until("run_end")["stopReason"] == "stop"


def test_an_abort_settles_what_waits_for_approval(
    start: Start, tool_vendor: ToolVendor, program: Program
) -> None:
    client = ask_for(start, tool_vendor, Call("bash", {"command": "touch made"}))
    client.until("approval_request")

    client.ask("abort")
    client.until("run_end")

    settled = [line for line in client.lines if line["type"] == "approval_settled"]
    assert [line["outcome"] for line in settled] == ["cancelled"]
    assert not (program.folder / "made").exists()


@pytest.mark.parametrize("way", ["input ends", "shutdown"])
def test_the_end_settles_what_waits_for_approval_as_refused(
    start: Start, tool_vendor: ToolVendor, program: Program, way: str
) -> None:
    client = ask_for(start, tool_vendor, Call("bash", {"command": "touch made"}))
    client.until("approval_request")

    if way == "shutdown":
        client.send("shutdown")
    else:
        client.end_input()
    rest = types(client.rest())

    assert client.wait() == 0
    assert "approval_settled" in rest
    assert "run_end" in rest
    assert not (program.folder / "made").exists()
