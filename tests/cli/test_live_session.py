"""A workbench in a session that stays open: what front ends build on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loopwright.cli.bench.setting_up import set_up
from loopwright.cli.live.session import LiveSession
from loopwright.cli.options import Caps, RunOptions
from loopwright.errors import (
    AgentBusy,
    ConfigurationError,
    SessionExists,
    SessionLocked,
    SessionNotFound,
)
from loopwright.events import AgentEvent, AgentStart, ToolExecutionStart
from loopwright.messages import ToolResultMessage, UserMessage
from loopwright.models import Models, Provider
from loopwright.models.provider import Endpoint
from loopwright.permissions import AllowAlways, AllowOnce, Answer, Deny, Question
from loopwright.testing import Call, Reply, ScriptedModel

Start = Callable[..., Awaitable[LiveSession]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project of a user who has set up nothing."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("LOOPWRIGHT_SESSION_DIR", str(tmp_path / "sessions"))
    monkeypatch.delenv("LOOPWRIGHT_MODEL", raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
async def start(project: Path) -> AsyncIterator[Start]:
    """Opens a session with the model `scripted`: `await start([Reply("Yes.")])`."""
    opened: list[LiveSession] = []

    async def begin(
        replies: list[Reply],
        *,
        session_id: str | None = None,
        fork: bool = False,
        prepare: Callable[[], Awaitable[Endpoint]] | None = None,
        **said: object,
    ) -> LiveSession:
        model = ScriptedModel(replies)
        models = Models()
        models.add(Provider(id="openai", env=("OPENAI_API_KEY",)))
        models.add(replace(model.provider, prepare=prepare))
        reference = f"{model.model.provider}/{model.model.id}"
        options = RunOptions(model=reference, **said)  # pyright: ignore[reportArgumentType]
        bench = await set_up(options, project, models=models)
        live = await LiveSession.start(
            bench, session_id=session_id, fork=fork, keep=options.sessions.keep
        )
        opened.append(live)
        return live

    yield begin
    for live in opened:
        await live.aclose()


def results(live: LiveSession) -> list[str]:
    """What the tools answered, oldest first."""
    return [
        "".join(getattr(block, "text", "") for block in message.content)
        for message in live.messages()
        if isinstance(message, ToolResultMessage)
    ]


def said(live: LiveSession) -> list[str]:
    """What the user said, oldest first."""
    return [
        message.content
        if isinstance(message.content, str)
        else "".join(getattr(block, "text", "") for block in message.content)
        for message in live.messages()
        if isinstance(message, UserMessage)
    ]


# -- sessions ----------------------------------------------------------------------------------


async def test_looking_around_leaves_no_session_behind(start: Start) -> None:
    live = await start([])

    before = live.info
    await live.abort()
    outline = await live.outline()

    assert before is None
    assert outline == []
    assert await live.sessions(everywhere=True) == []


async def test_the_first_prompt_makes_the_session_and_a_name_given_before_is_its(
    start: Start, project: Path
) -> None:
    live = await start([Reply("Yes.")])
    await live.rename("a question")

    result = await live.prompt("Is it?")

    assert result.text == "Yes."
    assert live.info is not None
    assert (live.info.name, live.info.cwd) == ("a question", str(project))


async def test_what_was_said_is_there_when_the_session_is_opened_again(start: Start) -> None:
    first = await start([Reply("Blue.")])
    await first.prompt("Which colour?")
    assert first.info is not None
    known = first.info.id
    await first.aclose()

    again = await start([], session_id=known)

    assert [message.role for message in again.messages()] == ["user", "assistant"]


async def test_a_session_that_is_busy_elsewhere_is_refused_and_the_own_one_is_gone_on_with(
    start: Start,
) -> None:
    own = await start([Reply("Two."), Reply("Three.")])
    await own.prompt("Second.")
    other = await start([Reply(calls=[Call("ls", {})]), Reply("One.")])
    refusals: list[str] = []

    async def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            assert other.info is not None
            with pytest.raises(SessionLocked) as refused:
                await own.open(other.info.id)
            refusals.append(refused.value.hint or "")

    other.subscribe(listen)
    await other.prompt("First.")

    assert "--fork" in refusals[0]
    third = await own.prompt("Third.")
    assert third.text == "Three.", third.error_message
    assert len(own.messages()) == 4


async def test_a_session_that_waits_locks_nobody_out_and_hears_what_was_said_elsewhere(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    here = await start([Reply("One."), Reply("Three.")])
    await here.prompt("First.")
    assert here.info is not None
    elsewhere = await start([Reply("Two.")], session_id=here.info.id)
    await elsewhere.prompt("Second.")

    await here.prompt("Third.")

    assert said(here) == ["First.", "Second.", "Third."]
    assert "gone on with elsewhere" in capsys.readouterr().err


async def test_an_unknown_session_is_refused_and_nothing_is_lost(start: Start) -> None:
    live = await start([Reply("One."), Reply("Two.")])
    await live.prompt("First.")

    with pytest.raises(SessionNotFound):
        await live.open("no such thing")

    await live.prompt("Second.")
    assert len(live.messages()) == 4


async def test_listeners_go_along_into_another_session(start: Start) -> None:
    live = await start([Reply("One."), Reply("Two.")])
    heard: list[AgentEvent] = []
    live.subscribe(lambda event: heard.append(event))
    await live.prompt("First.")

    await live.new()
    await live.prompt("Second.")

    assert sum(isinstance(event, AgentStart) for event in heard) == 2
    assert len(live.messages()) == 2
    assert len(await live.sessions()) == 2


async def test_a_fork_goes_on_in_the_copy_from_before_what_was_said(start: Start) -> None:
    live = await start([Reply("One."), Reply("Two."), Reply("Other.")])
    await live.prompt("First.")
    await live.prompt("Second.")
    original = live.info
    assert original is not None
    second = [node for node in await live.outline() if node.role == "user"][1]

    made = await live.fork(second.id)
    await live.prompt("Second, but different.")

    assert made.id != original.id
    assert said(live) == ["First.", "Second, but different."]
    assert len(await live.sessions()) == 2


async def test_going_back_in_the_tree_keeps_both_branches(start: Start) -> None:
    live = await start([Reply("One."), Reply("Two."), Reply("Three.")])
    await live.prompt("First.")
    leaf = next(node for node in await live.outline() if node.role == "assistant")
    await live.prompt("Second.")

    await live.navigate(leaf.id)
    await live.prompt("Third.")

    assert said(live) == ["First.", "Third."]
    assert sum(node.role == "user" for node in await live.outline()) == 3


async def test_a_name_for_a_new_session_is_not_given_to_another_one(start: Start) -> None:
    alpha = await start([Reply("One.")])
    await alpha.rename("alpha")
    await alpha.prompt("First.")
    live = await start([])
    await live.rename("bravo")

    await live.open("alpha")

    assert live.name == "alpha"
    await live.rename(None)  # holds the session, and writes
    assert [info.name for info in await live.sessions()] == [None]


async def test_a_name_may_not_be_the_id_of_another_session(start: Start) -> None:
    other = await start([Reply("One.")])
    await other.prompt("First.")
    assert other.info is not None
    live = await start([])

    with pytest.raises(SessionExists):
        await live.rename(other.info.id)

    assert live.name is None


async def test_every_new_session_begins_with_what_the_users_agent_brought(
    start: Start, project: Path
) -> None:
    (project / "brought.py").write_text(
        "from loopwright import Agent\n"
        "from loopwright.messages import UserMessage\n"
        "from loopwright.testing import Reply, ScriptedModel\n"
        'model = ScriptedModel([Reply("One."), Reply("Two.")])\n'
        "agent = Agent(model.model, stream_fn=model.stream_fn,\n"
        '              messages=[UserMessage("Remember: we speak French.")])\n'
    )
    bench = await set_up(RunOptions(agent="brought.py:agent"), project)
    live = await LiveSession.start(bench)
    await live.prompt("First.")

    await live.new()
    await live.prompt("Second.")

    assert said(live) == ["Remember: we speak French.", "Second."]
    with pytest.raises(ConfigurationError) as refused:
        live.choose_model("openai/gpt-5")
    assert "with a function of its own" in refused.value.message
    assert [model.id for model in live.known_models()] == [live.agent.model.id]
    await live.aclose()


# -- before a run has begun --------------------------------------------------------------------


async def forever() -> Endpoint:
    await asyncio.Event().wait()
    raise AssertionError


async def test_an_abort_while_the_model_is_started_ends_the_run_before_it_begins(
    start: Start,
) -> None:
    live = await start([Reply("Never said.")], prepare=forever)
    running = asyncio.create_task(live.prompt("Go."))
    await asyncio.sleep(0)

    await live.abort("stopped by the user")
    result = await asyncio.wait_for(running, 30)

    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")
    assert not live.working
    assert live.info is None  # and no empty session was left behind


async def test_closing_while_the_model_is_started_leaves_nothing_behind(start: Start) -> None:
    live = await start([Reply("Never said.")], prepare=forever)
    running = asyncio.create_task(live.prompt("Go."))
    await asyncio.sleep(0)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await live.aclose()

    assert not live.working


# -- in the middle of a run --------------------------------------------------------------------


async def test_steering_is_queued_until_the_model_is_told(start: Start) -> None:
    live = await start([Reply(calls=[Call("bash", {"command": "true"})]), Reply("Changed.")])
    live.permission_mode = "yolo"
    queued: list[int] = []

    async def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            await live.steer("Rather the other one.")
            queued.append(len(live.queued()))

    live.subscribe(listen)
    await live.prompt("Do it.")

    assert queued == [1]
    assert live.queued() == []
    assert said(live) == ["Do it.", "Rather the other one."]


async def test_a_switch_that_is_refused_forgets_neither_queue_nor_budget(
    start: Start, project: Path
) -> None:
    config = Path.home().parent / "xdg_config_home" / "loopwright"
    config.mkdir()
    (config / "settings.toml").write_text("[budget.session]\nmax_turns = 1\n")
    other = await start([Reply(calls=[Call("ls", {})]), Reply("One.")])
    live = await start([Reply("Two."), Reply("Never said.")])
    await live.prompt("Second.")
    await live.steer("Before the next one.")

    async def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            assert other.info is not None
            with pytest.raises(SessionLocked):
                await live.open(other.info.id)

    other.subscribe(listen)
    await other.prompt("First.")
    third = await live.prompt("Third.")

    assert len(live.queued()) == 1 or "Before the next one." in said(live)
    assert third.stop_reason == "error"
    assert "max_turns" in (third.error_message or "")


async def test_what_another_process_used_of_a_session_counts(start: Start) -> None:
    config = Path.home().parent / "xdg_config_home" / "loopwright"
    config.mkdir()
    (config / "settings.toml").write_text("[budget.session]\nmax_turns = 2\n")
    here = await start([Reply("One."), Reply("Never said.")])
    await here.prompt("First.")
    assert here.info is not None
    elsewhere = await start([Reply("Two.")], session_id=here.info.id)
    await elsewhere.prompt("Second.")

    third = await here.prompt("Third.")

    assert third.stop_reason == "error"


async def test_two_messages_at_once_are_both_queued(start: Start) -> None:
    live = await start([Reply(calls=[Call("ls", {})]), Reply("Done."), Reply("Done again.")])

    async def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            await asyncio.gather(live.steer("One."), live.steer("Two."))

    live.subscribe(listen)
    await live.prompt("Do it.")

    assert sorted(said(live)[1:]) == ["One.", "Two."]


async def test_what_is_queued_can_be_taken_back(start: Start) -> None:
    live = await start([Reply(calls=[Call("bash", {"command": "true"})]), Reply("Done.")])
    live.permission_mode = "yolo"

    async def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            item = await live.follow_up("And then?")
            assert await live.withdraw(item.id) == "withdrawn"

    live.subscribe(listen)
    await live.prompt("Do it.")

    assert sum(isinstance(m, UserMessage) for m in live.messages()) == 1


async def test_a_second_prompt_is_refused_while_one_is_answered(start: Start) -> None:
    live = await start([Reply(calls=[Call("bash", {"command": "true"})]), Reply("Done.")])
    live.permission_mode = "yolo"
    refusals: list[str] = []

    async def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            assert live.working
            with pytest.raises(AgentBusy) as refused:
                await live.prompt("Me too.")
            refusals.append(refused.value.message)

    live.subscribe(listen)
    await live.prompt("Do it.")

    assert len(refusals) == 1
    assert not live.working


async def test_an_abort_ends_the_run_and_the_session_goes_on(start: Start) -> None:
    live = await start([Reply(calls=[Call("bash", {"command": "sleep 60"})]), Reply("Fine.")])
    live.permission_mode = "yolo"

    def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            stopping.append(asyncio.create_task(live.abort("stopped by the user")))

    stopping: list[asyncio.Task[None]] = []
    live.subscribe(listen)
    result = await live.prompt("Do it.")
    await stopping[0]

    assert result.stop_reason == "aborted"
    assert live.unfinished is None
    assert (await live.prompt("And now?")).text == "Fine."


# -- what tools may do -------------------------------------------------------------------------


async def test_where_nobody_can_be_asked_a_call_is_refused_and_the_run_goes_on(
    start: Start, project: Path
) -> None:
    call = Call("write", {"path": "made.txt", "content": "x"})
    live = await start([Reply(calls=[call]), Reply("I may not.")])

    result = await live.prompt("Make it.")

    assert result.text == "I may not."
    assert "nobody can be asked" in results(live)[0]
    assert not (project / "made.txt").exists()


async def test_a_person_who_is_asked_decides(start: Start, project: Path) -> None:
    calls = [Call("write", {"path": f"{n}.txt", "content": "x"}) for n in "ab"]
    live = await start([Reply(calls=calls), Reply("Half of it.")])
    asked: list[str] = []

    async def answer(question: Question) -> Answer:
        asked.append(question.args["path"])
        return AllowOnce() if question.args["path"] == "a.txt" else Deny("not that one")

    live.on_question = answer
    await live.prompt("Make them.")

    assert sorted(asked) == ["a.txt", "b.txt"]
    assert (project / "a.txt").exists()
    assert not (project / "b.txt").exists()
    assert any("not that one" in text for text in results(live))


async def test_always_is_remembered_for_the_folder(start: Start) -> None:
    async def always(_question: Question) -> Answer:
        return AllowAlways()

    async def never(_question: Question) -> Answer:
        raise AssertionError("asked again")

    call = Call("bash", {"command": "echo hello"})
    first = await start([Reply(calls=[call]), Reply("Said.")])
    first.on_question = always
    await first.prompt("Say it.")
    await first.aclose()

    second = await start([Reply(calls=[call]), Reply("Said.")])
    second.on_question = never
    await second.prompt("Say it.")

    assert "hello" in results(second)[0]


async def test_a_file_outside_of_the_folder_can_be_read_once_it_is_allowed(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "outside.txt").write_text("far away")
    call = Call("read", {"path": "../outside.txt"})
    live = await start([Reply(calls=[call]), Reply(calls=[call]), Reply("Read.")])
    asked: list[Answer] = [AllowOnce(), Deny()]

    async def answer(_question: Question) -> Answer:
        return asked.pop(0)

    live.on_question = answer
    await live.prompt("Read it twice.")

    first, second = results(live)
    assert "far away" in first
    assert "far away" not in second


async def test_a_search_leaves_out_what_may_not_be_read(start: Start, project: Path) -> None:
    (project / ".loopwright").mkdir()
    config = Path.home().parent / "xdg_config_home" / "loopwright"
    config.mkdir()
    (config / "settings.toml").write_text('[permissions]\ndeny = ["read(secret.txt)"]\n')
    (project / "secret.txt").write_text("the needle, sharp\n")
    (project / "open.txt").write_text("the needle, blunt\n")
    live = await start([Reply(calls=[Call("grep", {"pattern": "needle"})]), Reply("Found.")])

    await live.prompt("Look for it.")

    assert "blunt" in results(live)[0]
    assert "sharp" not in results(live)[0]


def keep_for_commands(variable: str) -> None:
    """Commands get no vendor's key unless the settings say so."""
    config = Path.home().parent / "xdg_config_home" / "loopwright"
    config.mkdir(parents=True, exist_ok=True)
    (config / "settings.toml").write_text(f'[bash]\nkeep_env = ["{variable}"]\n')


async def test_a_key_that_a_tool_prints_reaches_neither_the_model_nor_the_session(
    start: Start, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-notreal-0123456789abcdef")
    keep_for_commands("OPENAI_API_KEY")
    live = await start(
        [Reply(calls=[Call("bash", {"command": "echo key=$OPENAI_API_KEY."})]), Reply("Ok.")]
    )
    live.permission_mode = "yolo"

    await live.prompt("Print it.")

    assert "key=[OPENAI_API_KEY, not shown]." in results(live)[0]
    await live.aclose()
    for file in (project.parent / "sessions").rglob("*"):
        assert b"sk-notreal-0123456789abcdef" not in file.read_bytes()


async def test_a_key_in_long_output_does_not_reach_its_file(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-notreal-0123456789abcdef")
    keep_for_commands("OPENAI_API_KEY")
    command = 'for i in $(seq 3000); do echo "$i key=$OPENAI_API_KEY."; done'
    live = await start([Reply(calls=[Call("bash", {"command": command})]), Reply("Ok.")])
    live.permission_mode = "yolo"

    await live.prompt("Print it often.")
    done = await live.user_command(command, told=True).run()

    (told,) = [m for m in live.messages() if isinstance(m, ToolResultMessage)]
    for path in (told.details["fullOutputPath"], done.full_output_path):
        kept = Path(str(path)).read_text()
        assert kept.count("key=[OPENAI_API_KEY, not shown].") == 3000
        assert "sk-notreal" not in kept
    assert "sk-notreal" not in done.output


async def test_what_the_model_is_told_of_and_what_the_settings_name_may_be_read_unasked(
    start: Start, project: Path
) -> None:
    books = project.parent / "books"
    books.mkdir()
    (books / "a.txt").write_text("far away\n")
    config = Path.home().parent / "xdg_config_home" / "loopwright"
    config.mkdir()
    (config / "settings.toml").write_text(
        f'[permissions]\nreadable = ["{books}"]\nallow = ["bash(seq:*)"]\n'
    )
    live = await start([Reply(calls=[Call("bash", {"command": "seq 20000"})]), Reply("Ok.")])
    await live.prompt("Count.")
    (told,) = [m for m in live.messages() if isinstance(m, ToolResultMessage)]
    kept = told.details["fullOutputPath"]

    decide = live.bench.policy.decide

    assert decide("read", {"path": kept}).effect == "allow"
    assert decide("ls", {"path": str(Path(kept).parent)}).effect == "ask"
    assert decide("read", {"path": str(books / "a.txt")}).effect == "allow"
    assert decide("write", {"path": str(books / "a.txt")}).effect == "ask"


@pytest.mark.parametrize("agent", [None, "brought.py:agent"])
async def test_keys_of_models_toml_are_kept_out_as_well(
    project: Path, monkeypatch: pytest.MonkeyPatch, agent: str | None
) -> None:
    monkeypatch.setenv("TEAM_KEY", "team-notreal-0123456789")
    config = Path.home().parent / "xdg_config_home" / "loopwright"
    config.mkdir()
    (config / "models.toml").write_text(
        '[providers.team]\nbase_url = "http://127.0.0.1:9/v1"\nenv = "TEAM_KEY"\nmodels = ["m"]\n'
        '[providers.other]\nbase_url = "http://127.0.0.1:9/v1"\n'
        'api_key = "other-unreal-9876543210"\nmodels = ["m"]\n'
    )
    (project / "brought.py").write_text(
        "from loopwright import Agent\nfrom loopwright.testing import ScriptedModel\n"
        "model = ScriptedModel([])\nagent = Agent(model.model, stream_fn=model.stream_fn)\n"
    )
    model = None if agent else "team/m"

    bench = await set_up(RunOptions(agent=agent, model=model), project, models=Models())

    hidden = bench.secrets.hide("team-notreal-0123456789 other-unreal-9876543210")
    assert hidden == "[TEAM_KEY, not shown] [key of other, not shown]"


# -- limits ------------------------------------------------------------------------------------


async def test_the_caps_of_the_options_end_a_run(start: Start) -> None:
    call = Call("ls", {})
    live = await start([Reply(calls=[call]) for _ in range(9)], caps=Caps(max_turns=2))

    result = await live.prompt("Look around.")

    assert result.stop_reason == "error"
    assert "max_turns" in (result.error_message or "")
    assert len(results(live)) == 2


async def test_the_cap_of_a_session_counts_what_was_used_before(start: Start) -> None:
    config = Path.home().parent / "xdg_config_home" / "loopwright"
    config.mkdir()
    (config / "settings.toml").write_text("[budget.session]\nmax_turns = 1\n")
    live = await start([Reply("One."), Reply("Never said."), Reply("Fresh.")])
    await live.prompt("First.")

    second = await live.prompt("Second.")
    await live.new()
    third = await live.prompt("Elsewhere.")

    assert second.stop_reason == "error"
    assert third.stop_reason == "stop"


async def test_the_meter_knows_the_context_and_the_session(start: Start) -> None:
    live = await start([Reply("Yes.")])
    empty = live.meter()

    await live.prompt("Is it?")

    assert empty.context_tokens is None
    assert (live.meter().context_tokens or 0) > 0
    assert live.meter().usage.output > 0


async def test_nothing_is_kept_without_a_session(start: Start, project: Path) -> None:
    from loopwright.cli.options import SessionOptions

    live = await start([Reply("Yes.")], sessions=SessionOptions(keep=False))

    await live.prompt("Is it?")

    assert len(live.messages()) == 2
    assert not (project.parent / "sessions").exists()


async def test_most_of_a_key_is_hidden_where_long_output_was_cut_within_it(
    start: Start, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-notreal-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    (project / "with_key.txt").write_text(f"the key is {key}\n")
    flood = f"yes {key} | tr -d '\\n' | head -c 300001"
    live = await start(
        [Reply(calls=[Call("bash", {"command": flood})]), Reply("Ok."), Reply("Ok.")]
    )
    live.permission_mode = "yolo"

    await live.prompt("Print it.")
    await live.prompt("And this: @with_key.txt")

    assert "the key is [OPENAI_API_KEY, not shown]" in said(live)[1]
    for text in (*results(live), *said(live)):
        assert key[:20] not in text
        assert key[-20:] not in text


# -- agents of the user's ----------------------------------------------------------------------

OWN_AGENT = """
from loopwright import Agent
from loopwright.testing import Call, Reply, ScriptedModel

def look() -> str:
    \"\"\"Look.\"\"\"
    return "seen"

def explode() -> str:
    \"\"\"Explode.\"\"\"
    return "boom"

model = ScriptedModel([Reply(calls=[Call("explode")]), Reply("Done.")])
agent = Agent(model.model, stream_fn=model.stream_fn, tools=[look, explode],
              system_prompt="You are mine.")
"""


async def own(project: Path, **said: object) -> LiveSession:
    (project / "own.py").write_text(OWN_AGENT)
    options = RunOptions(agent="own.py:agent", **said)  # pyright: ignore[reportArgumentType]
    return await LiveSession.start(await set_up(options, project, models=Models()))


async def test_options_hold_for_an_agent_of_the_users_as_well(project: Path) -> None:
    live = await own(project, thinking="high", tools=("look",), append_system_prompt=("Be brief.",))

    assert live.thinking_level == "high"
    assert [tool.name for tool in live.agent.state.tools] == ["look"]
    assert live.agent.state.system_prompt == "You are mine.\n\nBe brief."
    await live.aclose()


async def test_a_tool_that_an_agent_has_not_is_refused_by_name(project: Path) -> None:
    with pytest.raises(ConfigurationError, match="no tool 'dance'"):
        await own(project, tools=("dance",))


async def test_the_calls_of_an_agent_of_the_users_are_asked_for(project: Path) -> None:
    live = await own(project)
    asked: list[str] = []

    async def answer(question: Question) -> Answer:
        asked.append(question.tool_name)
        return Deny("not today")

    live.on_question = answer
    result = await live.prompt("Go.")

    assert asked == ["explode"]
    assert result.text == "Done."
    assert "not today" in results(live)[0]
    await live.aclose()


async def test_a_call_of_a_tool_that_is_not_there_asks_nobody(start: Start) -> None:
    live = await start([Reply(calls=[Call("dance", {})]), Reply("Sorry.")])

    async def answer(_question: Question) -> Answer:
        raise AssertionError("asked")

    live.on_question = answer
    await live.prompt("Dance.")

    assert "No tool is named 'dance'" in results(live)[0]


async def test_a_copy_has_a_name_of_its_own(start: Start) -> None:
    live = await start([Reply("One.")])
    await live.rename("my talk")
    await live.prompt("First.")

    first = await live.fork()
    second = await live.fork()

    assert (first.name, second.name) == ("my talk (2)", "my talk (3)")
