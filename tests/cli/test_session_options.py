"""`loopwright "prompt"` with a session: what is kept, gone on with, forked, and taken up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopwright.events import event_from_dict

from .conftest import Program, Terminal, Vendor


def sessions(program: Program, *arguments: str) -> list[dict[str, Any]]:
    listed = program.run("sessions", "list", "--all", "--mode", "json", *arguments)
    assert listed.returncode == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def database(program: Program) -> Path:
    return program.folder / "home" / ".local" / "share" / "loopwright" / "sessions.db"


def say(program: Program, vendor: Vendor, text: str, *arguments: str, answer: str = "Yes.") -> str:
    """One prompt; gives the id of its session."""
    vendor.will_say(answer)
    finished = program.run(text, *arguments, "--mode", "json")
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[0])["id"]


def killed_in_the_middle(program: Program, vendor: Vendor, *arguments: str) -> None:
    vendor.will_say("Once upon a", threading.Event(), " time")
    process = program.start("-p", "Tell me a tale.", *arguments)
    assert process.stdout
    os.read(process.stdout.fileno(), 100)
    process.kill()
    process.communicate(timeout=60)


# -- kept, and where -------------------------------------------------------------------------


def test_a_run_is_kept_in_the_users_data_folder_for_nobody_else(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Hello.")

    finished = program.run("-p", "Say hello.")

    assert (finished.stdout, finished.stderr) == ("Hello.\n", "")
    (kept,) = sessions(program)
    assert (kept["preview"], kept["entries"], kept["cwd"]) == (
        "Say hello.",
        2,
        str(program.folder),
    )
    assert kept["usage"]["output"] == 5
    assert database(program).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("variable", ["LOOPWRIGHT_SESSION_DIR", "LOOPWRIGHT_HOME", "XDG_DATA_HOME"])
def test_the_environment_says_where_sessions_are_kept(
    program: Program, vendor: Vendor, variable: str
) -> None:
    program.env[variable] = str(program.folder / "kept")

    say(program, vendor, "hi")

    below = Path("loopwright") if variable.startswith("XDG") else Path()
    assert (program.folder / "kept" / below / "sessions.db").is_file()
    assert not database(program).exists()
    assert len(sessions(program)) == 1


def test_no_session_keeps_nothing(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Hello.")

    finished = program.run("-p", "hi", "--no-session", "--mode", "json")

    assert json.loads(finished.stdout.splitlines()[0])["type"] == "agent_start"
    assert not database(program).exists()


def test_a_name_is_given_and_found_by(program: Program, vendor: Vendor) -> None:
    first = say(program, vendor, "hi", "--name", "greeting")

    again = say(program, vendor, "still there?", "--session", "greeting")

    assert again == first
    assert [kept["name"] for kept in sessions(program)] == ["greeting"]


def test_json_mode_tells_the_session_before_all_events(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Hello.")

    finished = program.run("hi", "--mode", "json", "--name", "x")

    head, *rest = finished.stdout.splitlines()
    (kept,) = sessions(program)
    assert json.loads(head) == {
        "type": "session",
        "version": 1,
        "id": kept["id"],
        "createdAt": kept["createdAt"],
        "cwd": str(program.folder),
        "name": "x",
        "parentId": None,
        "entries": 0,
    }
    assert event_from_dict(json.loads(rest[0])).type == "agent_start"


# -- going on --------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-c", "--continue"])
def test_the_last_session_of_this_folder_is_continued(
    program: Program, vendor: Vendor, flag: str
) -> None:
    say(program, vendor, "An older one.")
    last = say(program, vendor, "I am Ada.", answer="Hello Ada.")
    elsewhere = Program(program.folder / "elsewhere", program.env)
    elsewhere.folder.mkdir()
    say(elsewhere, vendor, "Something else.")

    again = say(program, vendor, "Who am I?", flag)

    assert again == last
    assert vendor.messages() == [
        ("user", "I am Ada."),
        ("assistant", "Hello Ada."),
        ("user", "Who am I?"),
    ]


def test_where_there_is_no_session_to_continue_that_is_an_error(
    program: Program, vendor: Vendor
) -> None:
    nothing = program.run("-c", "-p", "hi")
    elsewhere = Program(program.folder / "elsewhere", program.env)
    elsewhere.folder.mkdir()
    say(elsewhere, vendor, "hi")
    not_here = program.run("-c", "-p", "hi")

    assert (nothing.returncode, not_here.returncode) == (4, 4)
    assert "there are no sessions yet" in nothing.stderr
    assert "no session of the folder" in not_here.stderr
    assert "hint: " in not_here.stderr
    assert len(vendor.requests) == 1


def test_a_session_is_named_by_the_beginning_of_its_id_if_that_is_enough(
    program: Program, vendor: Vendor
) -> None:
    first = say(program, vendor, "one")
    second = say(program, vendor, "two")
    unique = next(n for n in range(1, len(first)) if first[:n] != second[:n])

    again = say(program, vendor, "more", "--session", first[:unique])
    ambiguous = program.run("-p", "more", "--session", first[:1])
    unknown = program.run("-p", "more", "--session", "zzz")

    assert again == first
    assert (ambiguous.returncode, unknown.returncode) == (4, 4)
    assert first in ambiguous.stderr
    assert second in ambiguous.stderr
    assert "no session has the id or name 'zzz'" in unknown.stderr


def test_a_continued_session_keeps_its_model_unless_another_is_asked_for(
    program: Program, vendor: Vendor
) -> None:
    say(program, vendor, "one", "--model", "toy/two:low")
    say(program, vendor, "two", "-c")
    say(program, vendor, "three", "-c", "--model", "toy/one")

    assert [(r["model"], r.get("reasoning_effort")) for r in vendor.requests] == [
        ("two", "low"),
        ("two", "low"),
        ("one", None),
    ]


def test_the_model_of_a_session_that_is_gone_is_told(program: Program, vendor: Vendor) -> None:
    say(program, vendor, "one", "--model", "toy/two")
    program.write_models_file('[providers.other]\nbase_url = "http://127.0.0.1:9/v1"\n')

    finished = program.run("-c", "-p", "two")

    assert finished.returncode == 3
    assert "the session's last model was toy/two; `--model` chooses another" in finished.stderr


def test_a_fork_goes_on_in_a_copy_and_the_first_stays_as_it_is(
    program: Program, vendor: Vendor
) -> None:
    first = say(program, vendor, "I am Ada.", answer="Hello Ada.")

    fork = say(program, vendor, "Who am I?", "--fork", first)

    assert fork != first
    assert vendor.messages()[0] == ("user", "I am Ada.")
    kept = {each["id"]: each for each in sessions(program)}
    assert (kept[first]["entries"], kept[fork]["entries"]) == (2, 4)
    assert kept[fork]["parentId"] == first
    assert say(program, vendor, "And now?", "-c") == fork


# -- taken up --------------------------------------------------------------------------------


def test_a_run_that_was_killed_is_taken_up_before_the_prompt_is_sent(
    program: Program, vendor: Vendor
) -> None:
    killed_in_the_middle(program, vendor)
    vendor.will_say("Once upon a time it was over.")
    vendor.will_say("That was it.")

    finished = program.run("-c", "-p", "Is that all?")

    assert (finished.returncode, finished.stdout) == (
        0,
        "Once upon a time it was over.\n\nThat was it.\n",
    )
    assert "an earlier process left a run unfinished; taking it up" in finished.stderr
    assert vendor.messages() == [
        ("user", "Tell me a tale."),
        ("assistant", "Once upon a time it was over."),
        ("user", "Is that all?"),
    ]
    assert [kept["entries"] for kept in sessions(program)] == [4]


def test_without_a_prompt_a_run_that_was_killed_is_only_taken_up(
    program: Program, vendor: Vendor
) -> None:
    killed_in_the_middle(program, vendor)
    vendor.will_say("Once upon a time it was over.")

    finished = program.run("-c", "-p")
    again = program.run("-c", "-p")

    assert (finished.returncode, finished.stdout) == (0, "Once upon a time it was over.\n")
    assert again.returncode == 2
    assert "the session has nothing unfinished, and there is nothing to say" in again.stderr


def test_if_what_was_left_fails_the_prompt_is_not_sent(program: Program, vendor: Vendor) -> None:
    killed_in_the_middle(program, vendor)
    vendor.will_refuse(401, "no")

    finished = program.run("-c", "-p", "Is that all?")

    assert finished.returncode == 1
    assert "the prompt was not sent" in finished.stderr
    assert len(vendor.requests) == 2


def test_a_run_that_was_killed_again_and_again_survives_each_time(
    program: Program, vendor: Vendor
) -> None:
    killed_in_the_middle(program, vendor)
    vendor.will_say("Once upon a", threading.Event())
    process = program.start("-p", "-c")
    assert process.stdout
    os.read(process.stdout.fileno(), 100)
    process.kill()
    process.communicate(timeout=60)
    vendor.will_say("The end.")

    finished = program.run("-c", "-p")

    assert finished.stdout == "The end.\n"
    assert vendor.messages() == [("user", "Tell me a tale.")]


def test_ctrl_c_is_remembered_and_nothing_is_taken_up_afterwards(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Once upon a", threading.Event(), " time")
    process = program.start("-p", "Tell me a tale.")
    assert process.stdout
    os.read(process.stdout.fileno(), 100)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    vendor.will_say("Fine.")

    finished = program.run("-c", "-p", "Never mind.")

    assert process.returncode == 130
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "Fine.\n", "")
    assert vendor.messages() == [("user", "Tell me a tale."), ("user", "Never mind.")]


def test_a_session_that_is_in_use_is_said_to_be_and_can_be_forked(
    program: Program, vendor: Vendor
) -> None:
    more = threading.Event()
    vendor.will_say("Once upon a", more, " time")
    process = program.start("-p", "Tell me a tale.")
    assert process.stdout
    os.read(process.stdout.fileno(), 100)
    (kept,) = sessions(program)

    locked = program.run("-c", "-p", "hi")
    vendor.will_say("A fork.")
    forked = program.run("--fork", kept["id"], "-p", "hi")
    shown = program.run("sessions", "show", kept["id"])
    more.set()
    process.communicate(timeout=60)

    assert locked.returncode == 4
    assert f"open for writing in process {process.pid}" in locked.stderr
    assert f"`loopwright --fork {kept['id']}`" in locked.stderr
    assert (forked.returncode, forked.stdout) == (0, "A fork.\n")
    assert "Tell me a tale." in shown.stdout
    assert kept["lockedBy"]
    assert process.returncode == 0


PROGRAM_WITH_A_TOOL = """
import asyncio, os, signal, sys
from loopwright import Agent, Harness, tool
from loopwright.session import SqliteStore
from loopwright.testing import Call, Reply, ScriptedModel

@tool
def explode() -> str:
    "End this process."
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    model = ScriptedModel([Reply(calls=[Call("explode", {})])])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[explode])
    async with await SqliteStore.open(sys.argv[1]) as store:
        async with Harness.open(store, "s", agent=agent, cwd=os.getcwd()) as harness:
            await harness.prompt("Go.")

asyncio.run(main())
"""


def test_what_needs_tools_that_are_not_here_is_left_alone(program: Program, vendor: Vendor) -> None:
    command = [sys.executable, "-c", PROGRAM_WITH_A_TOOL, str(database(program))]
    subprocess.run(command, cwd=program.folder, env=program.env, timeout=60)

    refused = program.run("-c", "-p", "hi", "--model", "toy/one")
    vendor.will_say("Hello.")
    forked = program.run("--fork", "s", "-p", "hi", "--model", "toy/one")

    assert refused.returncode == 4
    assert "with tools that this command does not have: explode" in refused.stderr
    assert (forked.returncode, forked.stdout) == (0, "Hello.\n")


# -- the store -------------------------------------------------------------------------------


def test_a_store_that_cannot_be_used_is_an_error_that_names_the_way_round(
    program: Program, vendor: Vendor
) -> None:
    (program.folder / "blocked").write_text("a file, not a folder")
    program.env["LOOPWRIGHT_SESSION_DIR"] = str(program.folder / "blocked")

    refused = program.run("-p", "hi")
    vendor.will_say("Hello.")
    without = program.run("-p", "hi", "--no-session")

    assert (refused.returncode, refused.stdout) == (4, "")
    assert "error: " in refused.stderr
    assert "`--no-session` answers without keeping anything" in refused.stderr
    assert (without.returncode, without.stdout) == (0, "Hello.\n")


def test_a_database_of_a_later_version_or_another_program_is_left_alone(
    program: Program, vendor: Vendor
) -> None:
    database(program).parent.mkdir(parents=True)
    database(program).write_bytes(b"somebody else's file")

    refused = program.run("-p", "hi")

    assert refused.returncode == 4
    assert "not an SQLite database" in refused.stderr
    assert "--no-session" in refused.stderr
    assert database(program).read_bytes() == b"somebody else's file"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_a_full_disk_is_told_with_the_way_round(program: Program, vendor: Vendor) -> None:
    say(program, vendor, "hi")
    command = " ".join(program.command("-p", "hi"))

    finished = subprocess.run(
        ["bash", "-c", f"ulimit -f 8; exec {command}"],
        cwd=program.folder,
        env=program.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert finished.returncode == 4, finished.stderr
    assert finished.stderr.startswith("error: ")
    assert "--no-session" in finished.stderr


# -- what files say --------------------------------------------------------------------------


def test_context_files_and_appended_texts_are_told_and_can_be_left_out(
    program: Program, vendor: Vendor
) -> None:
    (program.folder / "AGENTS.md").write_text("Answer in French.")
    say(program, vendor, "hi", "--system-prompt", "Be brief.", "--append-system-prompt", "Be kind.")
    told = vendor.system_prompt()
    say(program, vendor, "hi", "--no-context-files", "--append-system-prompt", "Be kind.")
    without = vendor.system_prompt()
    bare = ("--no-context-files", "--tools", "none")
    say(program, vendor, "hi", *bare, "--append-system-prompt", "Be kind.")
    alone = vendor.system_prompt()
    say(program, vendor, "hi", *bare)

    assert told.index("Be brief.") < told.index("Be kind.") < told.index("in French.")
    assert "You are a coding agent" not in told
    assert "You are a coding agent" in without
    assert "in French." not in without
    assert alone == "Be kind."
    assert vendor.system_prompt() == ""
    assert vendor.messages() == [("user", "hi")]


def test_a_continued_session_has_the_system_prompt_of_its_start(
    program: Program, vendor: Vendor
) -> None:
    (program.folder / "AGENTS.md").write_text("Answer in French.")
    say(program, vendor, "one")
    say(program, vendor, "two", "-c")

    first, second = (request["messages"] for request in vendor.requests)
    assert second[: len(first)] == first


def test_templates_and_skills_are_called_by_name_but_not_from_what_is_piped_in(
    program: Program, vendor: Vendor
) -> None:
    templates = program.folder / ".loopwright" / "templates"
    templates.mkdir(parents=True)
    (templates / "review.md").write_text("Review $1.")
    skill = program.folder / "mine" / "release"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\ndescription: How to release\n---\nTag it.")
    vendor.will_say("a")
    vendor.will_say("b")
    vendor.will_say("c")

    program.run("/review", "a.py", stdin=b"/review b.py")
    program.run("-p", "/skill:release now", "--skill", "mine/release")
    program.run("-p", "/usr/bin is full")

    said = [request["messages"][-1]["content"] for request in vendor.requests]
    assert said[0] == "/review b.py\n\nReview a.py."
    assert "Tag it." in said[1]
    assert said[1].endswith("now")
    assert said[2] == "/usr/bin is full"


# -- on a terminal ---------------------------------------------------------------------------


def test_a_conversation_is_one_session_and_an_empty_one_is_none(
    program: Program, terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    silent = terminal(NO_COLOR="1", TERM="dumb")
    silent.read_until("> ")
    silent.type("\x04")
    silent.end()
    assert not database(program).exists()
    vendor.will_say("Hello.")
    vendor.will_say("Still here.")
    screen = terminal(NO_COLOR="1", TERM="dumb")
    screen.read_until("> ")

    screen.type("hi\r")
    screen.read_until("> ", times=2)
    screen.type("there?\r")
    screen.read_until("> ", times=3)
    screen.type("\x04")

    assert screen.end() == 0
    assert [kept["entries"] for kept in sessions(program)] == [4]


def test_a_conversation_that_waits_locks_nobody_out_and_hears_what_was_said_meanwhile(
    program: Program, terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    vendor.will_say("Hello.")
    screen = terminal(NO_COLOR="1", TERM="dumb")
    screen.read_until("> ")
    screen.type("hi\r")
    screen.read_until("> ", times=2)

    say(program, vendor, "From elsewhere.", "-c", answer="Noted.")
    vendor.will_say("Yes.")
    screen.type("Heard it?\r")
    screen.read_until("gone on with elsewhere")
    screen.read_until("> ", times=3)
    screen.type("\x04")

    assert screen.end() == 0
    assert vendor.messages()[2:] == [
        ("user", "From elsewhere."),
        ("assistant", "Noted."),
        ("user", "Heard it?"),
    ]


def test_a_conversation_goes_on_with_what_was_left_unfinished(
    program: Program, terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    killed_in_the_middle(program, vendor)
    vendor.will_say("The end.")
    screen = terminal("-c", NO_COLOR="1", TERM="dumb")

    screen.read_until("The end.")
    screen.read_until("> ")
    screen.type("\x04")

    assert screen.end() == 0
    assert "going on with Tell me a tale." in screen.screen


def test_resume_lets_a_person_pick_by_number(
    program: Program, terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    first = say(program, vendor, "The first one.\x1b[31m")
    say(program, vendor, "The second one.")
    vendor.will_say("Back again.")
    screen = terminal("-r", "-p", "Hello again.", NO_COLOR="1")

    screen.read_until("Which one?")
    screen.type("7\r")
    screen.read_until("none of the numbers")
    screen.read_until("Which one?", times=2)
    screen.type("2\r")
    screen.read_until("Back again.")

    assert screen.end() == 0
    assert vendor.messages()[0][1].startswith("The first one.")
    assert "\x1b" not in screen.screen
    kept = {each["id"]: each["entries"] for each in sessions(program)}
    assert kept[first] == 4


def test_who_picks_none_starts_nothing(
    program: Program, terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    say(program, vendor, "The first one.")
    screen = terminal("--resume", NO_COLOR="1", TERM="dumb")

    screen.read_until("Which one?")
    screen.type("\r")

    assert screen.end() == 0
    assert len(vendor.requests) == 1


def test_ctrl_c_at_the_list_of_sessions_ends_the_program(
    program: Program, vendor: Vendor, terminal: Callable[..., Terminal]
) -> None:
    say(program, vendor, "hi")
    screen = terminal("-r")
    screen.read_until("Which one?")

    screen.type("\x03")

    assert screen.end() == 130
    assert "sys.exit" not in screen.screen
