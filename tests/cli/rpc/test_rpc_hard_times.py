"""Malformed lines, clients that go, do not read or die, and processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.rpc.client import Client
from tests.cli.rpc.vendor import Call, ToolVendor

from loopwright import Agent
from loopwright.harness import Harness
from loopwright.permissions import Policy, permission_gate
from loopwright.session.sqlite import SqliteStore
from loopwright.testing import Call as ScriptedCall
from loopwright.testing import Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, bash_tool

if TYPE_CHECKING:
    from tests.cli.conftest import Program
    from tests.cli.rpc.conftest import Start

WAIT = Call("bash", {"command": "cat gate"})
MEGABYTE = 1024 * 1024


def error_for(client: Client, line: bytes) -> dict[str, Any]:
    client.send_bytes(line + b"\n")
    response = client.until("response")
    assert not response["success"]
    return response


# -- lines that are no commands --------------------------------------------------------------


def test_every_wrong_line_is_answered_with_its_id_and_the_next_command_is_done(
    start: Start,
) -> None:
    client = start("--no-session")
    wrong: list[tuple[bytes, str, str | None, str]] = [
        (b"hello", "malformed", None, "not JSON"),
        (b'{"id":"1","type":"state"', "malformed", "1", "not JSON"),
        (b'{"id":"1","type":"state"} x', "malformed", "1", "not JSON"),
        (b"[1]", "malformed", None, "not a JSON object"),
        (b'"state"', "malformed", None, "not a JSON object"),
        (b"", "malformed", None, "empty"),
        (b"\r", "malformed", None, "empty"),
        (b'\xef\xbb\xbf{"id":"1","type":"state"}', "malformed", "1", "byte order mark"),
        (b'{"id":"1","type":"prompt","text":"\xff"}', "malformed", "1", "UTF-8"),
        (b"[" * 100_000, "malformed", None, ""),
        (b'{"id":"1"}', "malformed", "1", "no type"),
        (b'{"id":"1","type":7}', "malformed", "1", "no string"),
        (b'{"id":7,"type":"state"}', "invalid", None, "id"),
        (b'{"id":"1","type":"promt","text":"x"}', "unknown_command", "1", "'promt'"),
        (b'{"id":"1","type":"prompt"}', "invalid", "1", "`text`"),
        (b'{"id":"1","type":"prompt","text":" "}', "invalid", "1", "empty"),
        (b'{"id":"1","type":"prompt","text":5}', "invalid", "1", "$.text"),
        (b'{"id":"1","type":"prompt","txt":"x","text":"x"}', "invalid", "1", "'txt'"),
        (b'{"id":"1","type":"prompt","text":"x","images":[{"dat":1}]}', "invalid", "1", "images"),
        (b'{"id":"1","type":"thinking","level":"lots"}', "invalid", "1", "lots"),
        (b'{"id":"1","type":"messages","limit":0}', "invalid", "1", "limit"),
    ]

    for line, kind, id, part in wrong:
        response = error_for(client, line)
        assert (response["error"]["kind"], response["id"]) == (kind, id), line[:80]
        assert part in response["error"]["message"], line[:80]

    assert client.ask("state")["sessionId"] is None


def test_the_nearest_name_is_told(start: Start) -> None:
    client = start("--no-session")

    command = error_for(client, b'{"type":"promt","text":"x"}')
    field = error_for(client, b'{"type":"withdraw","itemID":"x"}')

    assert command["error"]["hint"] == "did you mean 'prompt'?"
    assert (field["error"]["hint"], field["command"]) == ("did you mean 'itemId'?", "withdraw")


def test_a_line_that_is_too_long_is_refused_and_one_at_the_limit_is_not(start: Start) -> None:
    client = start("--no-session")
    head, tail = b'{"id":"long","type":"name","name":"', b'"}'
    room = 16 * MEGABYTE - len(head) - len(tail)

    client.send_bytes(head + b"x" * room + tail + b"\n")
    fits = client.until("response")
    client.send_bytes(head + b"x" * (room + 1) + tail + b"\n")
    refused = client.until("response")
    client.send_bytes(head + b"x" * (3 * room) + tail + b"\n")
    refused_too = client.until("response")

    assert (fits["success"], fits["id"]) == (True, "long")
    assert (refused["error"]["kind"], refused["id"]) == ("too_long", "long")
    assert (refused_too["error"]["kind"], refused_too["id"]) == ("too_long", "long")
    assert client.ask("new")


def test_lines_may_end_with_crlf_come_in_pieces_and_lack_a_break_at_the_end(start: Start) -> None:
    client = start("--no-session")

    client.send_bytes(b'{"id":"1","type":"queued"}\r\n{"id":"2","ty')
    client.response_to("1")
    client.send_bytes(b'pe":"queued"}\n{"id":"3","type":"queued"}')
    client.end_input()

    assert [line["id"] for line in client.rest() if line["type"] == "response"] == ["2", "3"]
    assert client.wait() == 0


# -- ends ------------------------------------------------------------------------------------


def test_the_end_of_the_input_stops_the_run_and_frees_the_session(
    start: Start, tool_vendor: ToolVendor, gate: Callable[[], None]
) -> None:
    tool_vendor.will("Once", WAIT)
    client = start("--permission-mode", "yolo")
    client.ask("prompt", text="tell")
    session = client.until("tool_execution_start") and client.lines[1]["id"]

    client.end_input()
    rest = client.rest()
    code = client.wait()
    second = start("--session", session)
    ready = second.receive()

    assert code == 0
    assert [rest[-1]["type"], rest[-1]["stopReason"]] == ["run_end", "aborted"]
    assert ready is not None
    assert (ready["sessionId"], ready["unfinished"]) == (session, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_run_with_its_exit_code(
    start: Start, tool_vendor: ToolVendor, number: signal.Signals
) -> None:
    tool_vendor.will("Once", tool_vendor.hold())
    client = start()
    client.ask("prompt", text="tell")
    client.event("text_delta")

    client.process.send_signal(number)
    rest = client.rest()

    assert client.wait() == 128 + number
    assert rest[-1]["type"] == "run_end"


def test_shutdown_is_answered_when_all_is_closed(start: Start, tool_vendor: ToolVendor) -> None:
    tool_vendor.will("Once", tool_vendor.hold())
    client = start()
    client.ask("prompt", text="tell")
    client.event("text_delta")

    asked = client.send("shutdown")
    rest = client.rest()

    assert [line["type"] for line in rest[-2:]] == ["run_end", "response"]
    assert (rest[-1]["id"], client.wait()) == (asked, 0)


def test_a_command_of_an_extension_that_never_ends_holds_up_no_end(
    start: Start, program: Program
) -> None:
    (program.folder / "stuck.py").write_text(
        "import asyncio\n"
        "from loopwright.extensions import Command, Extension\n"
        "async def wait(context, argument):\n"
        "    context.note('waiting')\n"
        "    await asyncio.Event().wait()\n"
        'extension = Extension("stuck", commands=[Command("wait", "waits for ever", wait)])\n'
    )
    client = start("--extension", "stuck.py")
    client.send("run_command", name="wait", argument="")
    client.until("note")

    client.end_input()

    assert client.wait() == 0


def test_a_client_that_closes_its_end_ends_the_run(start: Start, tool_vendor: ToolVendor) -> None:
    held = tool_vendor.hold()
    tool_vendor.will("Once", held, *["more"] * 200, tool_vendor.hold())
    client = start(reads=False)
    assert client.process.stdout
    client.send("prompt", text="tell")
    while b"text_delta" not in client.process.stdout.readline():
        pass

    client.process.stdout.close()
    held.set()

    assert client.wait() == 141


# -- clients that do not read ----------------------------------------------------------------


def test_a_client_that_does_not_read_makes_the_run_wait_and_loses_nothing(
    start: Start, tool_vendor: ToolVendor
) -> None:
    piece = "x" * 64 * 1024
    tool_vendor.will(*[piece] * 400)
    client = start("--no-session", reads=False)

    client.send("prompt", text="flood")
    sent = wait_until_it_stalls(tool_vendor)
    client.start_reading()
    client.until("run_end")

    assert sent < 400, "nothing held the vendor back"
    texts = [line["message"]["content"] for line in client.lines if line["type"] == "message_end"]
    assert texts[-1][0]["text"] == piece * 400


def test_a_client_that_never_reads_cannot_hold_up_the_end(
    start: Start, tool_vendor: ToolVendor
) -> None:
    tool_vendor.will(*["x" * 64 * 1024] * 400)
    client = start("--no-session", reads=False)
    client.send("prompt", text="flood")
    wait_until_it_stalls(tool_vendor)

    client.end_input()

    assert client.process.wait(30) == 0


def wait_until_it_stalls(vendor: ToolVendor) -> int:
    """How many pieces were sent when for a second no more were."""
    before = -1
    while vendor.sent == 0 or vendor.sent != before:
        before = vendor.sent
        time.sleep(1)
    return before


# -- more than one process -------------------------------------------------------------------


def test_after_a_kill_another_process_resumes(
    start: Start, tool_vendor: ToolVendor, program: Program, gate: Callable[[], None]
) -> None:
    (program.folder / "note.txt").write_text("remember\n")
    tool_vendor.will(Call("read", {"path": "note.txt"}), WAIT)
    first = start("--permission-mode", "yolo")
    first.ask("prompt", text="work")
    first.until("tool_execution_start", lambda line: line["toolName"] == "bash")
    session = first.lines[1]["id"]

    first.process.kill()
    first.wait()
    second = start("--permission-mode", "yolo", "--session", session)
    ready = second.receive()
    refused = second.refused("prompt", text="more")
    started = second.ask("resume")
    end = second.until("run_end")

    assert ready is not None
    assert (ready["unfinished"]["kind"], refused["kind"]) == ("run", "unfinished")
    assert started == {"started": True, "sessionId": session}
    assert (end["command"], end["stopReason"]) == ("resume", "stop")
    assert [role for role, _ in tool_vendor.heard()] == ["user", "assistant", "tool", "tool"]
    assert second.ask("resume")["started"] is False


def test_a_session_that_another_process_has_is_locked(
    start: Start, tool_vendor: ToolVendor
) -> None:
    tool_vendor.will("One", tool_vendor.hold())
    first = start()
    first.ask("prompt", text="count")
    first.event("text_delta")
    session = first.lines[1]["id"]

    second = start()
    refused = second.refused("open", session=session)
    third = start("--session", session)
    failed = third.receive()

    assert refused["kind"] == "locked"
    assert second.run("still there?")["code"] == 0
    assert failed is not None
    assert (failed["type"], failed["error"]["kind"]) == ("start_failed", "locked")
    assert third.rest() == []
    assert third.wait() == 4


# -- nothing but the protocol ----------------------------------------------------------------


def test_what_is_printed_goes_to_standard_error_and_children_take_no_lines(
    start: Start, program: Program, tool_vendor: ToolVendor
) -> None:
    (program.folder / "noisy.py").write_text(
        "import os, subprocess, sys\n"
        "from loopwright.extensions import Extension, Hooks\n"
        "def noise(event):\n"
        "    if event.type == 'agent_start':\n"
        "        print('from print')\n"
        "        os.write(1, b'from a library\\n')\n"
        "        subprocess.run(['sh', '-c', 'echo from a child; cat'])\n"
        "extension = Extension('noisy', hooks=Hooks(on_event=noise))\n"
    )
    client = start("--extension", str(program.folder / "noisy.py"), "--no-session")

    client.send("prompt", text="go")
    client.send("queued")
    client.until("run_end")

    assert client.end() == 0
    for text in (b"from print", b"from a library", b"from a child"):
        assert text in client.errors
    assert len([line for line in client.lines if line["type"] == "response"]) == 2


def test_a_key_that_a_tool_prints_is_in_no_line(
    start: Start, program: Program, tool_vendor: ToolVendor
) -> None:
    program.write_models_file(
        f'default = "toy/one"\n[providers.toy]\nbase_url = "{tool_vendor.base_url}"\n'
        'env = "TOY_KEY"\nmodels = ["one"]\n'
    )
    tool_vendor.will(Call("bash", {"command": "echo $TOY_KEY"}))
    client = start("--permission-mode", "yolo", env={"TOY_KEY": "sk-quite-secret-123456"})

    client.run("go")
    client.ask("state")
    client.ask("models")

    assert tool_vendor.heard()[-1][0] == "tool"
    assert "sk-quite-secret-123456" not in json.dumps(client.lines)


def test_the_client_of_these_tests_is_independent() -> None:
    source = Path(__file__).with_name("client.py").read_text("utf-8")

    assert "loopwright" not in "".join(
        line for line in source.splitlines() if line.startswith(("import ", "from "))
    )
    assert os.path.isdir(Path(__file__).parents[3] / "docs" / "schemas")


def test_commands_can_come_from_a_file(program: Program, tool_vendor: ToolVendor) -> None:
    (program.folder / "commands").write_text('{"type":"state","id":"1"}\n{"type":"shutdown"}')
    command = " ".join(program.command("--mode", "rpc", "--no-session"))

    finished = subprocess.run(
        ["sh", "-c", f"exec {command} < commands"],
        cwd=program.folder,
        env=program.env,
        capture_output=True,
        timeout=60,
    )

    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["ready", "response", "response"]
    assert (finished.returncode, finished.stderr) == (0, b"")


async def leave_a_call_waiting(file: Path, folder: Path) -> str:
    """A session of another program, in which nobody has decided yet; its id."""
    bash = bash_tool(LocalWorkspace(folder))
    model = ScriptedModel([Reply(calls=[ScriptedCall("bash", {"command": "touch made"})])])
    agent = Agent(
        model.model,
        stream_fn=model.stream_fn,
        tools=[bash],
        before_tool_call=permission_gate(Policy("ask", (), folder)),
    )
    async with await SqliteStore.open(file) as store, Harness.open(store, agent=agent) as harness:
        await harness.prompt("go")
        return harness.session.id


async def test_a_call_that_another_program_left_waiting_is_decided_and_run(
    start: Start, tool_vendor: ToolVendor, program: Program
) -> None:
    sessions = program.folder / "sessions"
    sessions.mkdir()
    session = await leave_a_call_waiting(sessions / "sessions.db", program.folder)
    env = {"LOOPWRIGHT_SESSION_DIR": str(sessions)}
    client = start("--session", session, "--model", "toy/one", env=env)

    waiting = client.ask("approvals")["approvals"]
    always = client.refused("approve", approvalId=waiting[0]["approvalId"], always=True)
    decided = client.ask(
        "approve", approvalId=waiting[0]["approvalId"], arguments={"command": "echo instead"}
    )
    client.ask("resume")
    client.until("run_end")

    assert [(one["toolName"], one["parked"]) for one in waiting] == [("bash", True)]
    assert (always["kind"], decided) == ("refused", {"needsResume": True})
    assert tool_vendor.heard()[-1] == ("tool", "instead\n")
    assert not (program.folder / "made").exists()
