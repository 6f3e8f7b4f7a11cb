"""What a client can ask about the session, and change in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.rpc.client import Client
from tests.cli.rpc.vendor import Call, ToolVendor

if TYPE_CHECKING:
    from tests.cli.conftest import Program
    from tests.cli.rpc.conftest import Start


def write_settings(program: Program, text: str) -> None:
    file = program.folder / "config" / "loopwright" / "settings.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def said(client: Client) -> list[str]:
    """The texts of users and models on the branch."""
    entries = client.ask("messages")["entries"]
    return [text_of(entry["message"]) for entry in entries if entry["type"] == "message"]


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(b.get("text", "") for b in content)


def test_the_state_tells_what_is_going_on(start: Start, tool_vendor: ToolVendor) -> None:
    held = tool_vendor.hold()
    tool_vendor.will("One", held)
    client = start("--name", "counting")

    before = client.ask("state")
    client.ask("prompt", text="count")
    client.event("text_delta")
    during = client.ask("state")
    held.set()
    client.until("run_end")
    after = client.ask("state")

    assert (before["sessionId"], before["activity"], before["name"]) == (None, None, "counting")
    assert (during["activity"], during["unfinished"]) == ("prompt", None)
    assert after["sessionId"] == during["sessionId"] is not None
    assert (after["activity"], after["usage"]["totalTokens"]) == (None, 55)
    assert "bash" in after["tools"]


def test_messages_are_paged_by_the_last_entry_that_is_known(
    start: Start, tool_vendor: ToolVendor
) -> None:
    client = start()
    client.run("one")
    client.run("two")

    first = client.ask("messages", limit=3)
    rest = client.ask("messages", sinceEntry=first["entries"][-1]["id"])
    nothing = client.ask("messages", sinceEntry=rest["entries"][-1]["id"])

    texts = [text_of(entry["message"]) for entry in first["entries"] + rest["entries"]]
    assert texts == ["one", "Done.", "two", "Done."]
    assert (first["more"], rest["more"]) == (True, False)
    assert nothing == {"entries": [], "more": False}
    assert client.refused("messages", sinceEntry="nonsense")["kind"] == "not_found"


def test_another_model_is_asked_from_then_on(start: Start, tool_vendor: ToolVendor) -> None:
    client = start()
    client.run("one")

    chosen = client.ask("model", model="toy/two")
    client.run("two")
    refused = client.refused("model", model="toi/two")

    assert chosen["model"] == "toy/two"
    assert [request["model"] for request in tool_vendor.requests] == ["one", "two"]
    assert refused["kind"] == "configuration"
    assert {"toy/one", "toy/two"} <= {one["model"] for one in client.ask("models")["models"]}


def test_thinking_and_permissions_are_changed(start: Start, tool_vendor: ToolVendor) -> None:
    client = start("--no-session")

    assert client.ask("thinking", level="high") == {"thinking": "high"}
    assert client.ask("permission_mode", mode="yolo") == {"permissionMode": "yolo"}
    tool_vendor.will(Call("bash", {"command": "echo hello"}))
    client.run("go")

    assert tool_vendor.heard()[-1] == ("tool", "hello\n")
    assert client.ask("state")["permissionMode"] == "yolo"


def test_a_session_is_compacted(start: Start, program: Program, tool_vendor: ToolVendor) -> None:
    write_settings(program, "[compaction]\nkeep_recent_tokens = 1\n")
    client = start()
    client.run("one " * 50)
    client.run("two " * 50)
    tool_vendor.will("They counted.")

    done = client.ask("compact", instructions="only numbers")
    client.run("three")

    assert "They counted." in done["summary"]
    assert "They counted." in json.dumps(tool_vendor.requests[-1]["messages"])
    kinds = [entry["type"] for entry in client.ask("messages")["entries"]]
    assert "compaction" in kinds


def test_a_new_session_has_nothing_to_compact_to_fork_or_to_export(start: Start) -> None:
    client = start("--no-session")

    assert client.ask("compact") == {"entryId": None, "summary": None, "tokensBefore": None}
    assert client.ask("tree") == {"leafId": None, "nodes": []}
    assert client.refused("fork")["kind"] == "configuration"
    assert client.refused("export", path="x.md")["kind"] == "configuration"
    assert client.refused("navigate", entryId=None)["kind"] == "configuration"


def test_a_fork_goes_on_in_a_copy(start: Start, tool_vendor: ToolVendor) -> None:
    client = start()
    client.run("one")
    client.run("two")
    entries = client.ask("messages")["entries"]
    first = client.ask("state")["sessionId"]

    place = client.ask("fork", entryId=entries[2]["id"], name="another way")
    client.run("other")

    assert place["sessionId"] not in (None, first)
    assert said(client) == ["one", "Done.", "other", "Done."]
    assert [line["id"] for line in client.lines if line["type"] == "session"] == [
        first,
        place["sessionId"],
    ]
    client.ask("open", session=first)
    assert said(client) == ["one", "Done.", "two", "Done."]
    assert client.ask("open", session="another way")["sessionId"] == place["sessionId"]


def test_one_goes_on_from_an_earlier_entry_and_the_tree_shows_both_branches(
    start: Start, tool_vendor: ToolVendor
) -> None:
    client = start()
    client.run("one")
    client.run("two")
    leaf = client.ask("tree")["leafId"]
    after_one = client.ask("messages")["entries"][1]["id"]
    tool_vendor.will("Two was tried.")

    place = client.ask("navigate", entryId=after_one, summarize=True)
    client.run("three")

    nodes = {node["id"]: node for node in client.ask("tree")["nodes"]}
    assert place["leafId"] != leaf
    assert (nodes[leaf]["onBranch"], nodes[leaf]["preview"]) == (False, "Done.")
    assert "branch_summary" in [entry["type"] for entry in client.ask("messages")["entries"]]
    assert "Two was tried." in json.dumps(tool_vendor.requests[-1]["messages"])
    assert client.refused("navigate", entryId="nonsense")["kind"] == "refused"


def test_sessions_are_listed_named_left_and_found_again(
    start: Start, tool_vendor: ToolVendor
) -> None:
    client = start()
    client.run("one")
    assert client.ask("name", name="first") == {"name": "first"}

    empty = client.ask("new")
    client.run("two")

    assert empty == {"sessionId": None, "leafId": None}
    listed = client.ask("sessions")["sessions"]
    assert [one["preview"] for one in listed] == ["two", "one"]
    assert listed[1]["name"] == "first"
    client.ask("open", session="first")
    assert said(client) == ["one", "Done."]
    assert client.refused("open", session="nonsense")["kind"] == "not_found"
    assert said(client) == ["one", "Done."]


def test_a_session_is_written_to_a_file_and_over_one_only_by_force(
    start: Start, program: Program, tool_vendor: ToolVendor
) -> None:
    client = start()
    client.run("one")

    written = client.ask("export", path="talk.html")["path"]
    refused = client.refused("export", path="talk.html")
    client.ask("export", path="talk.html", force=True, format="md")
    lost = client.refused("export", path="nowhere/talk.md")

    assert written == str(program.folder / "talk.html")
    assert (program.folder / "talk.html").read_text("utf-8").startswith("# ")
    assert (refused["kind"], lost["kind"]) == ("io", "io")
    assert "force" in refused["hint"]


def test_templates_skills_and_commands_are_listed_and_can_be_used(
    start: Start, program: Program, tool_vendor: ToolVendor
) -> None:
    templates = program.folder / "config" / "loopwright" / "templates"
    templates.mkdir(parents=True)
    (templates / "review.md").write_text("---\ndescription: look hard\n---\nReview $1 hard.\n")
    (program.folder / "extra.py").write_text(
        "from loopwright.extensions import Command, Extension\n"
        "def shout(context, argument):\n"
        "    context.note('as you wish')\n"
        "    print('this would break the protocol')\n"
        "    return argument.upper()\n"
        "def fail(context, argument):\n"
        "    raise ValueError('no')\n"
        "extension = Extension('extra', commands=[Command('shout', 'says it loud', shout),\n"
        "    Command('fail', 'fails', fail)])\n"
    )
    client = start("--extension", str(program.folder / "extra.py"))

    listed = {one["name"]: one["kind"] for one in client.ask("commands")["commands"]}
    loud = client.ask("run_command", name="shout", argument="hey")
    failed = client.refused("run_command", name="fail")
    unknown = client.refused("run_command", name="shuot")
    client.run("/review main.py")

    assert listed == {"review": "template", "shout": "command", "fail": "command"}
    assert loud == {"text": "HEY"}
    assert [line["text"] for line in client.lines if line["type"] == "note"] == ["as you wish"]
    assert (failed["kind"], unknown["kind"]) == ("internal", "not_found")
    assert tool_vendor.heard()[0] == ("user", "Review main.py hard.")
    assert client.end() == 0
    assert b"this would break the protocol" in client.errors


def test_a_model_that_is_not_there_ends_the_start_with_a_line_and_3(start: Start) -> None:
    client = start("--model", "toi/three")

    line = client.receive()

    assert line is not None
    assert (line["type"], line["error"]["kind"]) == ("start_failed", "configuration")
    assert client.receive() is None
    assert client.wait() == 3
    assert b"error: " in client.errors


@pytest.mark.parametrize("line", ["", "x", "{}"])
def test_whatever_is_sent_a_wrong_line_is_answered_and_costs_nothing(
    start: Start, line: str
) -> None:
    client = start("--no-session")

    client.send_bytes(line.encode() + b"\n")
    refused = client.until("response")

    assert (refused["success"], refused["error"]["kind"]) == (False, "malformed")
    assert client.ask("state")["activity"] is None
