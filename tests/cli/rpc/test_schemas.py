"""docs/schemas is what the code makes, is strict, and holds for what really comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import typing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from tests.cli.rpc.client import COMMAND, SCHEMAS, validator
from tests.cli.rpc.vendor import Call, Refusal, Thought, ToolVendor

from loopwright.cli.json_mode import json_line
from loopwright.cli.rpc.commands import COMMANDS, Command
from loopwright.cli.rpc.requests import LineRefused, read_command
from loopwright.cli.rpc.response_data import DATA
from loopwright.cli.rpc.schemas import schemas
from loopwright.events import AgentEvent, MessageEnd, MessageStart, event_from_dict
from loopwright.messages import CustomMessage

if TYPE_CHECKING:
    from tests.cli.conftest import Program

JSON_MODE = validator("json-mode")


# -- the files -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", schemas())
def test_a_schema_file_is_what_the_code_makes(name: str) -> None:
    """If not: python -m loopwright.cli.rpc.schemas"""
    written = json.loads((SCHEMAS / name).read_text("utf-8"))

    assert written == schemas()[name]
    Draft202012Validator.check_schema(written)


def test_there_is_no_schema_file_that_nobody_makes() -> None:
    assert {file.name for file in SCHEMAS.iterdir()} == set(schemas())


def test_every_command_has_an_answer_and_every_answer_a_command() -> None:
    assert set(COMMANDS) == set(DATA)


def test_every_command_and_field_is_documented() -> None:
    page = (SCHEMAS.parent / "rpc.md").read_text("utf-8")

    for name, kind in COMMANDS.items():
        row = next((line for line in page.splitlines() if line.startswith(f"| `{name}`")), "")
        assert row, f"docs/rpc.md has no row for {name}"
        for field in msgspec.structs.fields(kind):
            assert field.name == "id" or field.encode_name in row, f"{name}: {field.encode_name}"


def test_every_kind_of_error_is_documented() -> None:
    page = (SCHEMAS.parent / "rpc.md").read_text("utf-8")
    fault = schemas()["rpc-output.schema.json"]["$defs"]["Fault"]

    assert [kind for kind in fault["properties"]["kind"]["enum"] if f"`{kind}`" not in page] == []


# -- strictness ------------------------------------------------------------------------------


VALID: list[dict[str, Any]] = [
    {"type": "prompt", "text": "x", "images": [{"data": "eA==", "mimeType": "image/png"}]},
    {"type": "steer", "text": "x", "when": "interrupt", "id": "1"},
    {"type": "navigate", "entryId": None},
    {"type": "approve", "approvalId": "x", "arguments": {"a": [1]}},
    {"type": "messages", "limit": 1},
    {"type": "name", "name": None},
    {"type": "sessions"},
]


@pytest.mark.parametrize("line", VALID, ids=lambda line: line["type"])
def test_what_the_schema_allows_is_understood(line: dict[str, Any]) -> None:
    COMMAND.validate(line)

    assert isinstance(read_command(json.dumps(line).encode()), typing.get_args(Command))


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"type": "nonsense"},
        {"type": "prompt"},
        {"type": "prompt", "text": 1},
        {"type": "prompt", "text": "x", "more": 1},
        {"type": "prompt", "text": "x", "images": [{"data": "eA=="}]},
        {"type": "steer", "text": "x", "when": "later"},
        {"type": "navigate"},
        {"type": "messages", "limit": 0},
        {"type": "thinking", "level": "lots"},
        {"type": "state", "id": 1},
    ],
    ids=str,
)
def test_what_the_schema_refuses_is_refused(line: dict[str, Any]) -> None:
    assert not COMMAND.is_valid(line)

    with pytest.raises(LineRefused):
        read_command(json.dumps(line).encode())


def test_a_wrong_or_missing_field_of_an_event_is_caught() -> None:
    start = {"type": "tool_execution_start", "toolCallId": "1", "toolName": "x", "args": {}}
    JSON_MODE.validate(start)

    for name in start:
        assert not JSON_MODE.is_valid({k: v for k, v in start.items() if k != name}), name
    assert not JSON_MODE.is_valid({**start, "tool_name": "x"})
    assert not JSON_MODE.is_valid({**start, "toolName": None})
    assert not JSON_MODE.is_valid({"type": "agent_start"}), "the first line tells the version"


class Marked(CustomMessage, tag="marked"):
    anything: int


def test_a_message_of_a_programs_own_may_have_fields_of_its_own() -> None:
    for event in (MessageStart(Marked(anything=1)), MessageEnd(Marked(anything=1))):
        JSON_MODE.validate(json.loads(json_line(event)))


def test_the_event_of_a_child_is_held_as_well() -> None:
    event = {"type": "turn_start"}
    envelope = {
        "id": "1",
        "agent": "a",
        "depth": 1,
        "parentId": None,
        "seq": 0,
        "event": event,
    }
    result = {"content": [], "details": {"subagent": envelope}, "isError": False}
    update = {
        "type": "tool_execution_update",
        "toolCallId": "1",
        "toolName": "task",
        "args": {},
        "partialResult": result,
    }

    assert JSON_MODE.is_valid(update)
    envelope["event"] = {"type": "turn_strat"}
    assert not JSON_MODE.is_valid(update)
    result["details"] = {"subagent": "a field of somebody else's"}
    assert JSON_MODE.is_valid(update)


# -- real runs in json mode ------------------------------------------------------------------


def lines_of(program: Program, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    finished = program.run("-p", "go", "--mode", "json", *arguments)
    assert finished.returncode == code, finished.stderr
    return checked(finished.stdout)


def checked(output: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in output.split("\n")[:-1]]
    for line in lines:
        JSON_MODE.validate(line)
        if line["type"] != "session":
            assert isinstance(event_from_dict(line), typing.get_args(AgentEvent))
    return lines


def test_thinking_tools_and_text_fit(program: Program, tool_vendor: ToolVendor) -> None:
    (program.folder / "a.txt").write_text("one\n")
    tool_vendor.will(
        Thought("Let me look."), "I look.", Call("read", {"path": "a.txt"}), Call("raed", {})
    )
    tool_vendor.will(Call("bash", {"command": "echo one; echo two"}))

    lines = lines_of(program, "--permission-mode", "yolo")

    seen = {line["type"] for line in lines}
    parts = {
        line["assistantMessageEvent"]["type"] for line in lines if line["type"] == "message_update"
    }
    assert {"session", "tool_execution_end", "agent_end"} <= seen
    assert {"thinking_delta", "text_delta", "toolcall_delta", "toolcall_end"} <= parts


def test_retries_and_failures_fit(program: Program, tool_vendor: ToolVendor) -> None:
    tool_vendor.will(Refusal(503, "overloaded"))
    tool_vendor.will(Refusal(401, "no"))

    lines = lines_of(program, code=1)

    assert "retry" in [line["type"] for line in lines]
    assert lines[-1]["messages"][-1]["stopReason"] == "error"


def test_an_abort_fits(program: Program, tool_vendor: ToolVendor) -> None:
    tool_vendor.will("Once", tool_vendor.hold())
    process = program.start("-p", "go", "--mode", "json")
    assert process.stdout
    first = b""
    while b"text_delta" not in first:
        first += process.stdout.readline()

    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)

    assert checked((first + rest).decode())[-1]["messages"][-1]["stopReason"] == "aborted"


def test_a_child_agent_fits(program: Program, tool_vendor: ToolVendor) -> None:
    settings = program.folder / "config" / "loopwright" / "settings.toml"
    settings.write_text('[agents.counter]\ndescription = "counts"\n')
    work = {"description": "count", "prompt": "count", "agent": "counter"}
    tool_vendor.will(Call("task", work))
    tool_vendor.will(Thought("Hm."), "I count.", Call("ls", {}))

    lines = lines_of(program, "--permission-mode", "yolo")

    updates = [line["partialResult"] for line in lines if line["type"] == "tool_execution_update"]
    told = [one["details"]["subagent"]["event"]["type"] for one in updates if "details" in one]
    assert {"agent_start", "message_update", "tool_execution_end", "agent_end"} <= set(told)


def test_the_demo_fits(program: Program) -> None:
    finished = subprocess.run(
        program.command("demo", "--mode", "json"),
        cwd=program.folder,
        env={**os.environ, **program.env},
        capture_output=True,
        timeout=60,
    )

    assert len(checked(finished.stdout.decode())) > 10
