"""The tool `bash`, with real shells."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shlex
import shutil
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.started_processes import needs_proc, until, working_in, zombies

from loopwright import Agent, AgentToolResult
from loopwright.errors import ToolError
from loopwright.loop.tool import AgentTool, ToolContext
from loopwright.messages import ToolResultMessage
from loopwright.permissions import Policy, parse_rule
from loopwright.signals import AbortController, AbortSignal
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import coding_tools
from loopwright.tools.bash import bash_tool, command_environment
from loopwright.tools.local_workspace import LocalWorkspace
from loopwright.tools.memory_workspace import MemoryWorkspace
from loopwright.tools.output_files import OutputFiles, Spool
from loopwright.tools.process_output import ProcessOutput
from loopwright.tools.terminal_text import TerminalText, plain_text

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the tool needs a POSIX system")

PYTHON = shlex.quote(sys.executable)


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Path]:
    """A workspace; no process may be left in it when the test is over."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    yield folder
    await until(lambda: not working_in(folder), seconds=5)
    assert not zombies() if os.path.exists("/proc/self/stat") else True


@pytest.fixture
def files(tmp_path: Path) -> OutputFiles:
    return OutputFiles(tmp_path / "outputs")


@pytest.fixture
def bash(root: Path, files: OutputFiles) -> AgentTool[Any, Any]:
    return bash_tool(LocalWorkspace(root), files=files)


async def run(
    tool: AgentTool[Any, Any],
    command: str,
    timeout: float | None = None,
    *,
    abort: AbortSignal | None = None,
    updates: Callable[[AgentToolResult], object] | None = None,
) -> AgentToolResult:
    arguments = {"command": command} | ({} if timeout is None else {"timeout": timeout})
    return await tool.invoke(tool.bind(arguments), ToolContext("1", abort, None, updates))


# -- what a command sees and says --------------------------------------------------------------


async def test_both_streams_come_in_the_order_they_were_written(
    bash: AgentTool[Any, Any], root: Path
) -> None:
    result = await run(bash, "pwd; echo one >&2; echo two; echo three >&2")

    assert result.text == f"{root}\none\ntwo\nthree\n"
    assert not result.is_error
    assert result.details["exitCode"] == 0


async def test_a_command_has_no_terminal_and_no_secret_of_ours(root: Path) -> None:
    base = {**os.environ, "LOOPWRIGHT_WEB_TOKEN": "hush", "LOOPWRIGHT_HOME": "/h", "SOME_KEY": "k"}
    bash = bash_tool(LocalWorkspace(root), environment=command_environment(base))

    result = await run(bash, "env; (echo x > /dev/tty) 2>/dev/null || echo no terminal")

    assert "hush" not in result.text
    assert "LOOPWRIGHT_HOME=/h" in result.text
    assert "SOME_KEY=k" in result.text
    assert "TERM=dumb" in result.text
    assert "no terminal" in result.text


async def test_a_failing_command_is_an_error_with_its_output(bash: AgentTool[Any, Any]) -> None:
    result = await run(bash, "echo before; exit 3")

    assert result.is_error
    assert result.text == "before\n\n[Exit code 3]"
    assert result.details["exitCode"] == 3


async def test_a_command_that_is_killed_says_by_which_signal(bash: AgentTool[Any, Any]) -> None:
    result = await run(bash, "echo before; kill -9 $$")

    assert result.is_error
    assert result.text == "before\n\n[Ended by the signal SIGKILL]"


async def test_a_program_that_was_killed_under_the_shell_is_told(
    bash: AgentTool[Any, Any],
) -> None:
    result = await run(bash, "sh -c 'kill -9 $$'; exit $?")

    assert "[Exit code 137, as after the signal SIGKILL]" in result.text
    assert "[Exit code 200]" in (await run(bash, "exit 200")).text


async def test_a_silent_command_says_so(bash: AgentTool[Any, Any]) -> None:
    assert (await run(bash, "true")).text == "(no output)"


async def test_a_command_that_looks_like_an_option_is_a_command(bash: AgentTool[Any, Any]) -> None:
    result = await run(bash, "--version")

    assert result.details["exitCode"] == 127


@pytest.mark.parametrize(
    ("command", "words"), [("echo a\0b", "NUL character"), ("x" * 5_000_000, "write a long one")]
)
async def test_what_cannot_be_started_is_explained(
    bash: AgentTool[Any, Any], command: str, words: str
) -> None:
    with pytest.raises(ToolError, match=words):
        await run(bash, command)


async def test_a_workspace_that_is_gone_is_named(bash: AgentTool[Any, Any], root: Path) -> None:
    root.rmdir()

    with pytest.raises(ToolError, match="is gone"):
        await run(bash, "true")


async def test_a_workspace_in_memory_runs_no_commands() -> None:
    with pytest.raises(ToolError, match="not on a disk"):
        await run(bash_tool(MemoryWorkspace()), "true")


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), 2_147_484])
async def test_a_timeout_that_makes_no_sense_is_refused(
    bash: AgentTool[Any, Any], root: Path, seconds: float
) -> None:
    with pytest.raises(ToolError, match="above 0 and at most 2,147,483|not a JSON number"):
        await run(bash, "touch ran", seconds)

    assert not (root / "ran").exists()


# -- text --------------------------------------------------------------------------------------


async def test_characters_are_not_torn_where_two_writes_meet(bash: AgentTool[Any, Any]) -> None:
    program = (
        "import os, time\n"
        "for byte in 'ä€😀'.encode():\n"
        "    os.write(1, bytes([byte])); time.sleep(0.01)\n"
        "os.write(1, b'\\xff\\xe2\\x82')"
    )

    result = await run(bash, f"{PYTHON} -c {shlex.quote(program)}")

    assert result.text == "ä€😀\ufffd\ufffd"


async def test_what_is_meant_for_a_terminal_is_taken_out(bash: AgentTool[Any, Any]) -> None:
    result = await run(
        bash, r"printf '\033[1;31mred\033[0m\r\n\033]0;title\007a\tb\010\000c\302\233d\n'"
    )

    assert result.text == "red\na\tbc\n"


@given(
    st.lists(
        st.sampled_from(
            [
                "é",
                "😀",
                "\n",
                "\x1b[31m",
                "\x1b]8;;http://x\x1b\\",
                "\x1b]0;t\x07",
                "\x1b",
                "[",
                "]",
                "m",
                "\r",
                "\x00",
                "\x9b",
                "\x1b(B",
                ";",
            ]
        )
    ),
    st.lists(st.integers(1, 3)),
)
def test_pieces_of_any_size_give_the_same_text(parts: list[str], sizes: list[int]) -> None:
    data = "".join(parts).encode()
    text = TerminalText()

    pieces: list[str] = []
    at = 0
    for size in sizes:
        pieces.append(text.feed(data[at : at + size]))
        at += size
    pieces.append(text.feed(data[at:], final=True))

    assert "".join(pieces) == plain_text("".join(parts))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_plain_text_holds_no_control_characters(text: str) -> None:
    left = plain_text(text)

    assert not [c for c in left if (c < " " and c not in "\t\n") or "\x7f" <= c <= "\x9f"]


def test_an_escape_sequence_that_never_ends_holds_nothing_back_for_ever() -> None:
    text = TerminalText()

    shown = text.feed(b"\x1b]" + b"x" * 5000)

    assert shown == "]" + "x" * 5000


# -- long output -------------------------------------------------------------------------------


async def test_of_long_output_the_end_is_shown_and_a_file_has_all(
    bash: AgentTool[Any, Any], tmp_path: Path
) -> None:
    result = await run(bash, "seq 1 3000; exit 1")

    lines = result.text.split("\n\n[")[0].split("\n")
    path = Path(result.details["fullOutputPath"])
    assert lines == [str(number) for number in range(1001, 3001)]
    assert "the last 2,000 of 3,000 lines" in result.text
    assert str(path) in result.text
    assert result.text.endswith("\n[Exit code 1]")
    assert path.read_text() == "".join(f"{number}\n" for number in range(1, 3001))
    assert path.parent == tmp_path / "outputs"
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


async def test_output_at_the_limit_is_shown_whole_and_makes_no_file(
    bash: AgentTool[Any, Any], tmp_path: Path
) -> None:
    result = await run(bash, "seq 1 2000")

    assert result.text.count("\n") == 2000
    assert not result.details["truncated"]
    assert not (tmp_path / "outputs").exists()


async def test_of_one_endless_line_its_end_is_shown(bash: AgentTool[Any, Any]) -> None:
    result = await run(bash, "head -c 200000 /dev/zero | tr '\\0' x; printf 'ä€'")

    assert len(result.text.encode()) <= 50 * 1024
    assert "xxä€\n\n[Output cut: the end of the last line of 1 lines" in result.text


async def test_fifty_megabytes_neither_fill_memory_nor_stall_the_loop(
    bash: AgentTool[Any, Any],
) -> None:
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            gaps.append(time.perf_counter() - before)

    await run(bash, "seq 1 5000")  # so that what is loaded once does not count
    beating = asyncio.ensure_future(beat())
    tracemalloc.start()
    try:
        result = await run(bash, "yes | head -c 50000000")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        beating.cancel()

    path = Path(result.details["fullOutputPath"])
    assert result.details["totalLines"] == 25_000_000
    assert path.stat().st_size == 50_000_000
    assert peak < 5_000_000
    assert max(gaps) < max(0.5, sum(gaps) / 4)


def test_single_characters_take_no_more_memory_than_a_lump(files: OutputFiles) -> None:
    output = ProcessOutput(files)
    tracemalloc.start()
    try:
        for _ in range(100_000):
            output.feed(b"x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        output.abandon()

    assert peak < 1_000_000


@given(st.lists(st.sampled_from([b"a", b"\n", b"bb\n", b"\n\n", "é".encode(), b"c" * 30])))
def test_what_is_shown_is_the_end_of_what_came(pieces: list[bytes]) -> None:
    output = ProcessOutput(OutputFiles(os.devnull), max_lines=3, max_bytes=20)
    for piece in pieces:
        output.feed(piece)
    output.feed(b"", final=True)
    text = b"".join(pieces).decode()

    cut = output.shown()

    assert text.endswith(cut.text) or text.removesuffix("\n").endswith(cut.text)
    assert cut.total_bytes == len(text.encode())
    assert cut.total_lines == len(text.removesuffix("\n").split("\n")) if text else True
    assert output.is_cut is (cut.by is not None)
    assert output.is_cut or cut.text == text


def test_old_files_are_removed_by_whoever_makes_a_new_one(tmp_path: Path) -> None:
    files = OutputFiles(tmp_path, keep_seconds=60)
    with files.create() as old, files.create() as young:
        pass
    os.utime(old.name, (0, 0))
    (tmp_path / "notes.txt").touch()
    os.utime(tmp_path / "notes.txt", (0, 0))

    with files.create() as new:
        pass

    kept = {str(path) for path in tmp_path.iterdir()}
    assert kept == {young.name, new.name, str(tmp_path / "notes.txt")}


def test_a_folder_that_was_replaced_meanwhile_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = OutputFiles()
    first = files.folder

    files.create().close()
    shutil.rmtree(first)
    os.mkdir(first)
    os.chmod(first, 0o777)
    with files.create() as made:
        other = os.path.dirname(made.name)

    assert os.listdir(first) == []
    assert other != first
    assert os.stat(other).st_mode & 0o077 == 0


def test_without_any_folder_for_temporary_files_there_is_still_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)

    assert OutputFiles().folder == f"/tmp/loopwright-output-{os.getuid()}"


def test_a_rule_may_name_the_files_and_not_their_folder(tmp_path: Path) -> None:
    files = OutputFiles(tmp_path / "outputs")
    with files.create() as made:
        policy = Policy("ask", [parse_rule("allow", f"read({files.pattern})")], tmp_path / "work")

    assert policy.decide("read", {"path": made.name}).effect == "allow"
    assert policy.decide("grep", {"pattern": "x", "path": made.name}).effect == "allow"
    for path in (files.folder, f"{files.folder}/output-x", f"{made.name}/../../other.txt"):
        assert policy.decide("ls", {"path": path}).effect == "ask"


def test_a_folder_that_somebody_else_prepared_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    trap = tmp_path / "trap"
    trap.mkdir(0o777)
    (tmp_path / f"loopwright-output-{os.getuid()}").symlink_to(trap)

    with OutputFiles().create() as file:
        assert Path(file.name).resolve().parent != trap


def test_a_file_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    spool = Spool(OutputFiles(tmp_path / "taken"))

    spool.add(b"x")
    spool.close()

    assert spool.path is None
    assert spool.problem is not None


def test_a_file_grows_no_further_than_its_limit(files: OutputFiles) -> None:
    spool = Spool(files, most_bytes=1 << 20)

    for _ in range(3):
        spool.add(b"x" * 700_000)
        spool.write()
    spool.close()

    assert spool.path is not None
    assert os.path.getsize(spool.path) == 1 << 20
    assert spool.problem == "only the first 1 MiB were kept"


# -- progress ----------------------------------------------------------------------------------


async def test_progress_is_shown_at_most_every_tenth_of_a_second(
    bash: AgentTool[Any, Any],
) -> None:
    updates: list[tuple[float, AgentToolResult]] = []

    result = await run(
        bash,
        "for i in $(seq 1 25); do echo line $i; sleep 0.02; done",
        updates=lambda update: updates.append((time.monotonic(), update)),
    )

    times = [at for at, _ in updates]
    texts = [update.text for _, update in updates]
    assert 2 <= len(updates) <= result.details["seconds"] / 0.1 + 2
    assert all(later - earlier > 0.09 for earlier, later in itertools.pairwise(times))
    assert all(result.text.startswith(text) for text in texts)


# -- stopping ----------------------------------------------------------------------------------


@needs_proc
async def test_a_timeout_ends_the_whole_group_and_keeps_the_output(
    bash: AgentTool[Any, Any], root: Path
) -> None:
    started = time.monotonic()

    result = await run(bash, "echo before; sh -c 'sleep 50; sleep 50' & sleep 50 | cat", 0.3)

    assert time.monotonic() - started < 5
    assert result.is_error
    assert result.text.startswith("before\n\n[Stopped: the command ran ")
    assert result.details["timedOut"]
    assert not working_in(root)


@needs_proc
@pytest.mark.parametrize(
    "command",
    [
        "timeout 300 sleep 50; echo",
        "set -m; sleep 50 & wait",
        "setsid sleep 50; sleep 50",
        "setsid -w sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'; echo",
    ],
)
async def test_what_made_a_group_of_its_own_is_ended_as_well(
    bash: AgentTool[Any, Any], root: Path, command: str
) -> None:
    result = await run(bash, command, 0.5)

    assert result.details["timedOut"]
    assert not working_in(root)


@needs_proc
async def test_who_ignores_the_request_to_end_is_killed(
    bash: AgentTool[Any, Any], root: Path
) -> None:
    command = (
        "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & while :; do sleep 1; done"
    )

    result = await run(bash, command, 0.3)

    assert result.details["timedOut"]
    assert not working_in(root)


async def test_who_heeds_the_request_may_say_something(bash: AgentTool[Any, Any]) -> None:
    result = await run(bash, "trap 'echo tidied up; exit' TERM; while :; do sleep 0.05; done", 0.3)

    assert "tidied up\n" in result.text


async def test_the_default_timeout_holds_where_none_is_named(root: Path) -> None:
    bash = bash_tool(LocalWorkspace(root), default_timeout=0.2)

    result = await run(bash, "sleep 50")

    assert "its timeout is 0.2" in result.text


@needs_proc
async def test_an_aborted_run_has_the_output_so_far(bash: AgentTool[Any, Any], root: Path) -> None:
    model = ScriptedModel([Reply(calls=[Call("bash", {"command": "echo before; sleep 50"})])])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[bash])
    agent.subscribe(
        lambda event, _: agent.abort() if event.type == "tool_execution_update" else None
    )

    outcome = await agent.prompt("go")

    told = outcome.messages[-1]
    assert outcome.stop_reason == "aborted"
    assert isinstance(told, ToolResultMessage)
    assert told.is_error
    assert told.text.startswith("before\n\n[Operation aborted: the command ran ")
    assert not working_in(root)


@needs_proc
async def test_the_signal_alone_ends_a_command(bash: AgentTool[Any, Any], root: Path) -> None:
    controller = AbortController()

    result = await run(
        bash, "echo before; sleep 50", abort=controller.signal, updates=lambda _: controller.abort()
    )

    assert result.is_error
    assert result.details["aborted"]
    assert not working_in(root)


async def test_nothing_is_started_after_an_abort(bash: AgentTool[Any, Any], root: Path) -> None:
    controller = AbortController()
    controller.abort()

    with pytest.raises(ToolError, match="Operation aborted"):
        await run(bash, "touch ran", abort=controller.signal)

    assert not (root / "ran").exists()


@needs_proc
@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancelled_caller_leaves_nothing_behind(
    bash: AgentTool[Any, Any], root: Path, times: int
) -> None:
    running = asyncio.ensure_future(run(bash, "trap '' TERM; sleep 50 & while :; do sleep 1; done"))
    await until(lambda: len(working_in(root)) >= 2)

    for _ in range(times):
        running.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await running

    await until(lambda: not working_in(root), seconds=2)
    await until(lambda: not zombies(), seconds=2)


@needs_proc
async def test_what_is_left_running_is_named_and_can_be_ended(
    bash: AgentTool[Any, Any], root: Path
) -> None:
    result = await run(bash, "sleep 50 > log 2>&1 & echo started")

    group = result.details["backgroundGroup"]
    assert f"[Still running in the background: process group {group}. " in result.text
    assert not result.is_error
    assert len(working_in(root)) == 1
    ended = await run(bash, f"kill -- -{group}")
    assert not ended.is_error


@needs_proc
async def test_every_group_that_is_left_running_is_named(
    bash: AgentTool[Any, Any], root: Path
) -> None:
    quiet = "> /dev/null 2>&1 &"

    result = await run(bash, f"set -m; sleep 50 {quiet} sleep 50 {quiet} echo started")

    said = result.text.partition("To end them: ")[2].removesuffix("]")
    assert result.text.startswith("started\n\n[Still running in the background: process groups ")
    assert result.details["backgroundGroup"]
    assert not (await run(bash, said)).is_error
    await until(lambda: not working_in(root))


async def test_output_of_a_helper_that_outlives_the_shell_is_not_lost(
    bash: AgentTool[Any, Any],
) -> None:
    result = await run(bash, "echo early > >(cat; echo late)")

    assert result.text == "early\nlate\n"
    assert "backgroundGroup" not in result.details


async def test_many_commands_run_side_by_side(bash: AgentTool[Any, Any]) -> None:
    started = time.monotonic()

    results = await asyncio.gather(*(run(bash, f"sleep 0.4; echo {i}") for i in range(80)))

    assert [result.text for result in results] == [f"{i}\n" for i in range(80)]
    assert time.monotonic() - started < 15


async def test_eighty_noisy_commands_do_not_block_one_another(bash: AgentTool[Any, Any]) -> None:
    results = await asyncio.gather(*(run(bash, "seq 1 20000") for _ in range(80)))

    for result in results:
        assert result.details["totalLines"] == 20_000
        assert Path(result.details["fullOutputPath"]).read_bytes().count(b"\n") == 20_000


@needs_proc
async def test_fifty_calls_leave_neither_descriptors_nor_threads(
    bash: AgentTool[Any, Any],
) -> None:
    await run(bash, "seq 1 3000")
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(50):
        await run(bash, "seq 1 3000")

    assert len(os.listdir("/proc/self/fd")) == before
    assert not [each for each in threading.enumerate() if each.name == "loopwright-process"]


def test_a_command_runs_on_more_than_one_event_loop(bash: AgentTool[Any, Any]) -> None:
    assert [asyncio.run(run(bash, "echo hi")).text for _ in range(2)] == ["hi\n", "hi\n"]


def test_signal_numbers_without_a_name_are_shown_as_they_are() -> None:
    from loopwright.tools.bash import _exit_notice

    assert _exit_notice(-int(signal.SIGTERM)) == "Ended by the signal SIGTERM"
    assert _exit_notice(-250) == "Ended by signal 250"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_no_editor_is_opened(root: Path) -> None:
    base = dict(os.environ) | dict.fromkeys(
        ["EDITOR", "GIT_EDITOR", "VISUAL"], "touch opened; sleep 9"
    )
    bash = bash_tool(LocalWorkspace(root), environment=command_environment(base))

    begun = await run(
        bash, "git init -q . && git config user.name a && git config user.email a@example.org"
    )
    empty = await run(bash, "git commit --allow-empty")
    made = await run(
        bash, "git commit -q --allow-empty -m first && git commit --amend --allow-empty"
    )

    assert not begun.is_error
    assert "empty commit message" in empty.text
    assert not made.is_error
    assert not (root / "opened").exists()


def test_cd_goes_where_it_says_and_text_is_utf8() -> None:
    assert "CDPATH" not in command_environment({"CDPATH": "/srv"})
    for spoken in (
        {},
        {"LANG": "C"},
        {"LANG": "de_DE.UTF-8"},
        {"LANG": "zh_CN.GBK", "LC_ALL": "C.utf8"},
    ):
        assert command_environment(spoken).get("LC_ALL") == spoken.get("LC_ALL")
    for other in ({"LANG": "zh_CN.GBK"}, {"LC_CTYPE": "ja_JP.SJIS"}, {"LC_ALL": "de_DE"}):
        assert command_environment(other)["LC_ALL"].endswith("UTF-8")


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_what_output_goes_through_is_shown_and_kept(files: OutputFiles, size: int) -> None:
    class Shout:
        """Holds one character back, as what looks for words would."""

        held = ""

        def __call__(self, text: str, *, final: bool) -> str:
            text = self.held + text
            self.held = "" if final else text[-1:]
            return text[: len(text) - len(self.held)].upper()

    output = ProcessOutput(files, max_bytes=40, clean=Shout)
    data = b"".join(b"line %d\n" % number for number in range(20))

    for at in range(0, len(data), size):
        output.feed(data[at : at + size])
    output.feed(b"", final=True)
    asyncio.run(output.close())

    assert output.path is not None
    assert Path(output.path).read_bytes() == data.upper()
    assert output.shown().text == "LINE 15\nLINE 16\nLINE 17\nLINE 18\nLINE 19"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_git_takes_no_orders_from_a_repository_among_the_files(tmp_path: Path) -> None:
    for name in ("objects", "refs/heads"):
        (tmp_path / "sub" / name).mkdir(parents=True)
    (tmp_path / "sub" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "sub" / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"
        f'\tfsmonitor = "touch {tmp_path}/obeyed; false"\n'
    )

    with contextlib.suppress(ToolError):
        await run(bash_tool(LocalWorkspace(tmp_path)), "cd sub && git status -s")

    assert not (tmp_path / "obeyed").exists()


async def test_an_aborted_run_keeps_what_its_command_had_printed(root: Path) -> None:
    call = Call("bash", {"command": "echo first; echo second; touch there; sleep 60"})
    model = ScriptedModel([Reply(calls=[call])])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[bash_tool(LocalWorkspace(root))])
    running = asyncio.create_task(agent.prompt("Go."))
    await until(lambda: (root / "there").exists())

    agent.abort("enough")
    result = await running

    message = result.messages[2]
    assert isinstance(message, ToolResultMessage)
    assert "first\nsecond\n" in message.content[0].text  # pyright: ignore[reportAttributeAccessIssue]
    assert "Operation aborted" in message.content[0].text  # pyright: ignore[reportAttributeAccessIssue]


async def test_calls_that_change_something_keep_the_order_of_the_reply(root: Path) -> None:
    calls = [
        Call("write", {"path": "n.txt", "content": "new\n"}),
        Call("edit", {"path": "n.txt", "edits": [{"oldText": "new", "newText": "newer"}]}),
        Call("bash", {"command": "cat n.txt"}),
    ]
    model = ScriptedModel([Reply(calls=calls), Reply("Done.")])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=coding_tools(LocalWorkspace(root)))

    result = await agent.prompt("Go.")

    last = result.messages[4]
    assert isinstance(last, ToolResultMessage)
    assert last.content[0].text == "newer\n"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "name", ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "LOOPWRIGHT_WEB_TOKEN"]
)
async def test_case_167_a_command_gets_no_vendors_key_unless_it_is_listed(
    root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("SOME_KEY", "ordinary")

    plain = bash_tool(LocalWorkspace(root))
    keeping = bash_tool(LocalWorkspace(root), keep_env=[name])

    assert (await run(plain, f"echo ${name}-$SOME_KEY")).text == "-ordinary\n"
    assert (await run(keeping, f"echo ${name}")).text == "s3cret\n"
