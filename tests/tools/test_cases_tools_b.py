"""Faults people reported of other tools: commands that hang, endless output, links."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.tools.calling import call, refusal
from tests.tools.search_trees import ENGINES, choose, plant
from tests.tools.started_processes import needs_proc, until, working_in

from loopwright.loop.tool import ToolContext
from loopwright.messages import AgentToolResult
from loopwright.signals import AbortController
from loopwright.tools.bash import bash_tool
from loopwright.tools.find import find_tool
from loopwright.tools.grep import grep_tool
from loopwright.tools.local_workspace import LocalWorkspace
from loopwright.tools.output_files import OutputFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def bash(root: Path, command: str, **args: Any) -> AgentToolResult:
    tool = bash_tool(LocalWorkspace(root), files=OutputFiles(root.parent / "outputs"))
    return await call(tool, command=command, **args)


@needs_proc
@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'while :; do echo tick; sleep 0.05; done' & echo ready",
        "sleep 60 & echo ready",
        "nohup sleep 60 & echo ready",
        "sleep 60 > /dev/null 2>&1 & echo ready",
    ],
)
async def test_case_038_a_background_child_does_not_keep_the_call(root: Path, command: str) -> None:
    started = time.monotonic()

    result = await bash(root, command)

    assert time.monotonic() - started < 20
    assert "ready\n" in result.text  # the child may have ticked before
    assert not result.is_error
    assert result.details["exitCode"] == 0
    # It is left alive, and named so that it can be ended. But one that goes on to write, which
    # nobody reads any more, is ended by its next word: SIGPIPE.
    group = result.details["backgroundGroup"]
    assert "tick" in command or working_in(root)
    with suppress(ProcessLookupError):
        os.killpg(group, 9)
    await until(lambda: not working_in(root))


@needs_proc
async def test_case_038_fifty_background_children_leave_no_descriptor_open(root: Path) -> None:
    await bash(root, "true")
    before = sorted(os.listdir("/proc/self/fd"))

    results: list[AgentToolResult] = []
    for _ in range(5):
        results += await asyncio.gather(*(bash(root, "sleep 60 & echo x") for _ in range(10)))

    assert sorted(os.listdir("/proc/self/fd")) == before
    for result in results:
        os.killpg(result.details["backgroundGroup"], 9)
    await until(lambda: not working_in(root))


@needs_proc
async def test_case_038_on_timeout_a_background_child_is_ended_too(root: Path) -> None:
    result = await bash(root, "sleep 60 & sleep 60", timeout=0.2)

    assert result.details["timedOut"]
    assert not working_in(root)


async def test_case_039_nothing_waits_for_input(root: Path) -> None:
    started = time.monotonic()

    silent = await bash(root, "cat")
    nothing = await bash(root, "grep needle")
    asking = await bash(root, f"{shlex.quote(sys.executable)} -c 'input()'")

    assert time.monotonic() - started < 10
    assert silent.text == "(no output)"
    assert nothing.text == "(no output)\n\n[Exit code 1]"
    assert "EOFError" in asking.text
    assert asking.is_error


async def test_case_039_a_default_timeout_says_how_long_the_command_ran(root: Path) -> None:
    tool = bash_tool(LocalWorkspace(root), default_timeout=0.2)

    result = await call(tool, command="sleep 60")

    assert "[Stopped: the command ran 0." in result.text
    assert "its timeout is 0.2" in result.text


@needs_proc
async def test_case_039_an_abort_works_during_the_wait(root: Path) -> None:
    controller = AbortController()
    tool = bash_tool(LocalWorkspace(root))
    context = ToolContext("1", controller.signal, None, lambda _: controller.abort())

    result = await tool.invoke(tool.bind({"command": "echo up; sleep 60"}), context)

    assert result.details["aborted"]
    assert not working_in(root)


@pytest.mark.parametrize("engine", ENGINES)
async def test_case_040_a_hit_in_an_enormous_line_is_shown_with_what_is_around_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    choose(engine, monkeypatch)
    plant(root, {"bundle.min.js": "é" * 6_000_000 + "needle" + "ü" * 6_000_000})

    result = await call(grep_tool(LocalWorkspace(root)), pattern="needle")

    row = result.text.split("\n")[0]
    assert row.startswith("bundle.min.js:1: …éé")
    assert "éneedleü" in row
    assert row.endswith("üü… [at column 6,000,001; 11,999,506 characters left out]")
    assert len(row) < 650
    assert result.details == {"matches": 1, "truncated": True}
    assert "Use bash (cut -c, grep -o) to see more." in result.text


@pytest.mark.parametrize("engine", ENGINES)
async def test_case_040_many_long_hits_together_respect_the_cap(
    root: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    choose(engine, monkeypatch)
    line = "😀" * 5000 + "needle" + "€" * 5000
    plant(root, {"a.txt": f"{line}\n" * 90})

    result = await call(grep_tool(LocalWorkspace(root)), pattern="needle")

    assert len(result.text.encode()) <= 50 * 1024
    assert "\ufffd" not in result.text
    assert "[50 KiB are shown, there is more" in result.text


async def test_case_040_cat_of_an_enormous_line_shows_its_end(root: Path) -> None:
    plant(root, {"bundle.min.js": "é" * 6_000_000 + "needle" + "ü" * 6_000_000})

    result = await bash(root, "cat bundle.min.js")

    shown, _, notice = result.text.partition("\n\n")
    assert set(shown) == {"ü"}
    assert len(result.text.encode()) <= 50 * 1024
    assert result.details["truncated"]
    assert result.details["fullOutputPath"] in notice
    assert Path(result.details["fullOutputPath"]).stat().st_size == 24_000_006


@pytest.mark.parametrize("engine", ENGINES)
async def test_case_041_links_that_lead_out_are_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    choose(engine, monkeypatch)
    plant(
        tmp_path,
        {"real/a.txt": "needle", "outside/secret.txt": "needle", "real/in/b.txt": "needle"},
    )
    (tmp_path / "root").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "outbox").symlink_to("../outside")
    (tmp_path / "real" / "note.txt").symlink_to("../outside/secret.txt")
    (tmp_path / "real" / "inner").symlink_to("in")
    workspace = LocalWorkspace(tmp_path / "root")
    grep, find = grep_tool(workspace), find_tool(workspace)

    assert (await call(grep, pattern="needle")).text == "a.txt:1: needle\nin/b.txt:1: needle"
    assert (await call(find, pattern="*")).text == "a.txt\nin/b.txt"
    for path in ("outbox", "note.txt", "outbox/secret.txt", "../outside"):
        assert "leads out" in await refusal(grep, pattern="needle", path=path)
        assert "leads out" in await refusal(find, pattern="*", path=path)
    # A link that stays inside works.
    assert (await call(grep, pattern="needle", path="inner")).text == "in/b.txt:1: needle"
    assert (await call(find, pattern="*", path="inner")).text == "in/b.txt"
