"""Faults people met in software like this, for the tools that read and change files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from tests.tools.calling import call, refusal

from loopwright import Agent
from loopwright.messages import ToolResultMessage
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, edit_tool, ls_tool, read_tool, write_tool

BOM = b"\xef\xbb\xbf"


async def test_case_035_an_edit_keeps_crlf_and_the_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(BOM + b"one\r\ntwo\r\nthree\r\n")
    edit = edit_tool(LocalWorkspace(tmp_path))

    result = await call(edit, path="f", edits=[{"oldText": "one\ntwo", "newText": "1\n2"}])

    assert file.read_bytes() == BOM + b"1\r\n2\r\nthree\r\n"
    assert result.details["diff"].split("\n")[:3] == ["-1 \ufeffone", "-2 two", "+1 \ufeff1"]
    told = await refusal(edit, path="f", edits=[{"oldText": "1\r\n2", "newText": "1\n2"}])
    assert "no change" in told
    assert file.read_bytes() == BOM + b"1\r\n2\r\nthree\r\n"


@pytest.mark.parametrize(
    "content",
    [
        b'name = "Jos\xe9"\nlimit = 5\n',
        "\u540d\u5b57 = 1\nlimit = 5\n".encode("gbk"),
        'name = "\ufffd"\nlimit = 5\n'.encode(),
    ],
)
async def test_case_036_bytes_that_are_no_utf_8_survive_an_edit(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "f"
    file.write_bytes(content)
    workspace = LocalWorkspace(tmp_path)

    shown = await call(read_tool(workspace), path="f")
    await call(edit_tool(workspace), path="f", oldText="limit = 5", newText="limit = 6")

    assert "limit = 5" in shown.text
    assert file.read_bytes() == content.replace(b"5", b"6")
    await call(write_tool(workspace), path="f", content="x")
    assert file.read_bytes() == b"x"


@pytest.mark.parametrize("other", ["./x/../f.txt", "link.txt", "x/up/f.txt", "@f.txt"])
async def test_case_037_two_edits_of_one_file_in_one_turn_are_both_made(
    tmp_path: Path, other: str
) -> None:
    (tmp_path / "f.txt").write_text("a=1\nb=2\n")
    (tmp_path / "link.txt").symlink_to("f.txt")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "up").symlink_to("..")
    calls = [
        Call("edit", {"path": "f.txt", "edits": [{"oldText": "a=1", "newText": "a=10"}]}),
        Call("edit", {"path": other, "edits": [{"oldText": "b=2", "newText": "b=20"}]}),
    ]
    model = ScriptedModel([Reply(calls=calls), Reply("Done.")])
    agent = Agent(
        model.model, stream_fn=model.stream_fn, tools=[edit_tool(LocalWorkspace(tmp_path))]
    )

    result = await agent.prompt("Change both.")

    assert (tmp_path / "f.txt").read_text() == "a=10\nb=20\n"
    results = [each for each in result.messages if isinstance(each, ToolResultMessage)]
    assert [message.is_error for message in results] == [False, False]
    assert (tmp_path / "link.txt").is_symlink()


async def test_case_037_edit_and_write_of_one_file_share_a_lock(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("0")
    workspace = LocalWorkspace(tmp_path)
    begun, go_on = threading.Event(), threading.Event()

    def slow(old: bytes) -> tuple[bytes, None]:
        begun.set()
        go_on.wait(10)
        return old + b"1", None

    changing = asyncio.create_task(workspace.mutate(await workspace.resolve("f"), slow))
    await asyncio.to_thread(begun.wait, 10)
    writing = asyncio.create_task(call(write_tool(workspace), path="f", content="0 written"))
    other = LocalWorkspace(tmp_path)  # the lock is the file's, not the workspace's
    editing = asyncio.create_task(call(edit_tool(other), path="f", oldText="0", newText="edited"))
    await call(write_tool(workspace), path="g", content="not held up")
    held = not writing.done() and not editing.done()
    go_on.set()
    await asyncio.gather(changing, writing, editing)

    assert held
    # Each looks up its path in a thread of its own, so either may be the first to ask for the lock.
    assert (tmp_path / "f").read_text() in ("edited written", "0 written")


async def test_case_037_an_aborted_run_leaves_the_file_whole_and_the_lock_free(
    tmp_path: Path,
) -> None:
    old = "old line\n" * 20_000
    (tmp_path / "f").write_text(old)
    edit = {"oldText": old, "newText": "new line\n" * 20_000}
    model = ScriptedModel([Reply(calls=[Call("edit", {"path": "f", "edits": [edit]})])])
    workspace = LocalWorkspace(tmp_path)
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[edit_tool(workspace)])
    agent.subscribe(lambda event: agent.abort() if event.type == "tool_execution_start" else None)

    result = await agent.prompt("Change it.")

    assert result.stop_reason == "aborted"
    assert (tmp_path / "f").read_text() in (old, edit["newText"])
    assert os.listdir(tmp_path) == ["f"]
    async with asyncio.timeout(5):
        await call(write_tool(workspace), path="f", content="free")


def test_case_037_a_process_killed_while_writing_leaves_the_old_or_the_new_file(
    tmp_path: Path,
) -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        from loopwright.tools import LocalWorkspace

        async def main():
            workspace = LocalWorkspace(sys.argv[1])
            path = await workspace.resolve("f")
            print("ready", flush=True)
            while True:
                for letter in (b"a", b"b"):
                    await workspace.write(path, letter * 3_000_000)

        asyncio.run(main())
    """)
    file = tmp_path / "f"
    file.write_bytes(b"a" * 3_000_000)
    for delay in (0.0, 0.01, 0.023, 0.04):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(delay)

        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

        content = file.read_bytes()
        assert len(content) == 3_000_000
        assert len(set(content)) == 1


async def test_case_040_one_enormous_line_stays_under_the_cap(tmp_path: Path) -> None:
    line = b"\xc3\xa9" * 3_000_000 + b"needle" + b"y" * 6_000_000
    (tmp_path / "bundle.min.js").write_bytes(line)

    result = await call(read_tool(LocalWorkspace(tmp_path)), path="bundle.min.js")

    assert len(result.text.encode()) <= 50 * 1024
    assert "Line 1 of 1 is 11.4 MiB long" in result.text
    assert "grep" in result.text
    assert result.details["truncated"] is True
    assert "\ufffd" not in result.text


async def test_case_041_no_link_leads_a_tool_out_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    (tmp_path / "real").mkdir()
    (tmp_path / "workspace").symlink_to("real")
    (tmp_path / "real" / "outbox").symlink_to("../outside")
    (tmp_path / "real" / "note.md").symlink_to("../outside/new.md")
    (tmp_path / "real" / "d").mkdir()
    (tmp_path / "real" / "d" / "in").symlink_to("../d")
    workspace = LocalWorkspace(tmp_path / "workspace")
    read, write, edit = read_tool(workspace), write_tool(workspace), edit_tool(workspace)

    for told in (
        await refusal(write, path="outbox/x.txt", content="1"),
        await refusal(write, path="note.md", content="2"),
        await refusal(read, path="outbox/secret.txt"),
        await refusal(read, path="note.md"),
        await refusal(edit, path="outbox/secret.txt", oldText="secret", newText="x"),
        await refusal(edit, path="note.md", oldText="a", newText="b"),
        await refusal(ls_tool(workspace), path="outbox"),
        await refusal(write, path="outbox/deep/er/x.txt", content="1"),
    ):
        assert "leads out of the workspace" in told
        assert "secret" not in told.replace("secret.txt", "")
    assert os.listdir(tmp_path / "outside") == ["secret.txt"]
    assert (tmp_path / "outside" / "secret.txt").read_text() == "secret"

    await call(write, path="d/in/f.txt", content="inside")
    assert (await call(read, path=str(tmp_path / "workspace" / "d" / "f.txt"))).text == "inside"
