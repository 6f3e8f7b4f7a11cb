"""`loopwright doctor`: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loopwright.cli.checkup import install as checkup_install
from loopwright.cli.checkup.lines import Checked, Learned, checked
from loopwright.cli.extras import install_command
from loopwright.errors import ConfigurationError
from loopwright.permissions.trust import TrustFile

from .conftest import Program, Terminal, Vendor

KEY = "sk-this-is-a-secret-0123456789"
is_root = hasattr(os, "geteuid") and os.geteuid() == 0


def examine(program: Program, *arguments: str, **env: str) -> dict[str, list[dict[str, Any]]]:
    """The lines of a checkup, by their area. It must say all of them, whatever is wrong."""
    finished = program.run("doctor", "--mode", "json", *arguments, env=env)
    assert "Traceback" not in finished.stderr, finished.stderr
    *lines, report = [json.loads(line) for line in finished.stdout.splitlines()]
    assert report["type"] == "report", finished.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        assert line["type"] == "check"
        found.setdefault(line["area"], []).append(line)
    levels = [line["level"] for line in lines]
    assert report["problems"] == levels.count("problem")
    assert report["warnings"] == levels.count("warning")
    assert finished.returncode == (1 if "problem" in levels else 0)
    assert {"python", "packages", "tools", "terminal", "sessions", "sandbox"} <= found.keys()
    return found


def worst(lines: list[dict[str, Any]]) -> dict[str, Any]:
    order = ["ok", "note", "warning", "problem"]
    return max(lines, key=lambda line: order.index(line["level"]))


def saying(lines: list[dict[str, Any]], text: str) -> dict[str, Any]:
    found = [line for line in lines if text in line["message"]]
    assert found, f"nothing says {text!r}: {lines}"
    return found[0]


def settings_file(program: Program) -> Path:
    file = program.folder / "config" / "loopwright" / "settings.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def database(program: Program) -> Path:
    return program.folder / "home" / ".local" / "share" / "loopwright" / "sessions.db"


# -- as a whole ------------------------------------------------------------------------------


def test_where_all_is_well_it_says_so_and_ends_with_0(program: Program, vendor: Vendor) -> None:
    text = program.run("doctor")
    found = examine(program)

    assert text.returncode == 0, text.stdout
    assert "problem" not in text.stdout
    assert saying(found["model"], "toy/one")["level"] == "ok"
    assert vendor.requests == [], "nobody is asked"


def test_a_new_user_is_told_what_to_do_first(program: Program) -> None:
    finished = program.run("doctor")

    assert finished.returncode == 1
    lines = finished.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("problem"))
    assert "no model was chosen" in lines[at]
    assert "hint: say `--model PROVIDER/MODEL`" in lines[at + 1]
    assert lines[-1].startswith("1 problem")
    assert finished.stderr == ""


def test_it_is_quick_and_changes_nothing(program: Program, vendor: Vendor) -> None:
    program.run("doctor")  # compiled modules are there
    before = sorted(program.folder.rglob("*"))
    start = time.perf_counter()
    program.run("-h")
    between = time.perf_counter()

    program.run("doctor")

    took = time.perf_counter() - between
    assert took < (between - start) + 2
    assert sorted(program.folder.rglob("*")) == before


def test_on_a_terminal_it_fits_and_obeys_nothing(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    (program.folder / "a\x1b[2Jb").mkdir()
    inside = Program(program.folder / "a\x1b[2Jb", program.env)
    screen = terminal("doctor", NO_COLOR="1")
    assert screen.end() == 1
    evil = Terminal(inside, "doctor", NO_COLOR="1")
    assert evil.end() == 1

    # What cannot be broken, such as a path, may be longer.
    assert all(len(line) <= 80 or " " not in line[22:] for line in screen.screen.splitlines())
    assert "xterm-256color, 80x24, colours: none (NO_COLOR is set)" in screen.screen
    assert "\x1b" not in evil.screen
    assert "a␛[2Jb" in evil.screen


def test_a_check_that_fails_unexpectedly_is_a_problem_and_says_nothing_of_what_it_read() -> None:
    def broken(_learned: Learned) -> Iterator[Checked]:
        yield Checked("area", "ok", "so far")
        raise ValueError(KEY)

    def refused(_learned: Learned) -> Iterator[Checked]:
        raise ConfigurationError("no", hint="yes")

    def leaving(_learned: Learned) -> Iterator[Checked]:
        raise SystemExit(3)

    found = list(checked("area", broken, Learned(False)))

    assert [one.level for one in found] == ["ok", "problem"]
    assert "ValueError" in found[1].message
    assert KEY not in str(found)
    assert list(checked("area", refused, Learned(False))) == [
        Checked("area", "problem", "no", "yes")
    ]
    assert [one.level for one in checked("area", leaving, Learned(False))] == ["problem"]


def test_in_a_folder_that_is_gone_the_rest_is_still_looked_at(program: Program) -> None:
    gone = program.folder / "gone"
    gone.mkdir()
    command = ["bash", "-c", 'cd gone && rmdir "$PWD" && exec "$@"', "-"]
    finished = subprocess.run(
        [*command, *program.command("doctor", "--mode", "json")],
        cwd=program.folder,
        env=program.env,
        capture_output=True,
        text=True,
        timeout=60,
    )

    areas = {json.loads(line).get("area") for line in finished.stdout.splitlines()}
    assert finished.returncode == 1
    assert {"folder", "tools", "sessions", "sandbox"} <= areas


# -- python and packages ---------------------------------------------------------------------


def test_what_is_not_installed_is_named_with_the_command_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = [
        "msgspec>=0.21",
        "not-there-at-all>=1; python_version >= '3'",
        "msgspec; extra == 'full'",
        'not-there-either[x]<3,>=2; extra == "half"',
        'msgspec; extra == "half"',
        "loopwright[half]; extra == 'sum'",
        "not-there; extra == 'dev'",
    ]
    monkeypatch.setattr(checkup_install.metadata, "requires", lambda _name: wanted)

    needed, there, absent = checkup_install.check_packages(Learned(False))

    assert (needed.level, needed.hint) == ("problem", "pip install not-there-at-all")
    assert (there.level, there.message) == ("ok", "extras that are installed: full")
    assert absent.level == "note"
    assert absent.message.endswith("half (not-there-either), sum (not-there-either)")
    assert absent.hint == f"what you want of them: {install_command('half', 'sum')}"


def test_what_python_and_which_extras_are_there_is_told(program: Program) -> None:
    found = examine(program)

    assert saying(found["python"], sys.version.split()[0])["level"] == "ok"
    assert found["packages"]


# -- settings --------------------------------------------------------------------------------


def test_a_mistake_in_the_settings_is_a_problem_and_the_rest_goes_on(program: Program) -> None:
    settings_file(program).write_text('modell = "toy/one"\n')

    found = examine(program)

    line = worst(found["settings"])
    assert line["level"] == "problem"
    assert "modell" in line["message"] + (line["hint"] or "")
    assert "settings.toml" in line["message"]


def test_what_a_project_says_is_passed_over_until_its_folder_is_trusted(program: Program) -> None:
    project = program.folder / "project"
    (project / ".loopwright" / "extensions").mkdir(parents=True)
    (project / ".loopwright" / "settings.toml").write_text(
        'model = "theirs/one"\n[permissions]\nmode = "read-only"\n'
    )
    (project / ".loopwright" / "models.toml").write_text(
        '[providers.theirs]\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["one"]\n'
    )
    ran = project / "ran"
    (project / ".loopwright" / "extensions" / "mine.py").write_text(
        f"open({str(ran)!r}, 'w').close()\n"
        "from loopwright.extensions import Extension\nextension = Extension('mine')\n"
    )
    inside = Program(project, program.env)

    before = examine(inside)
    untouched = not ran.exists()
    TrustFile(
        program.folder / "config" / "loopwright" / "trust.json", home=program.folder / "home"
    ).trust(project)
    after = examine(inside)

    assert untouched
    assert "passed over" in worst(before["settings"])["message"]
    assert "loopwright trust" in str(worst(before["settings"]))
    assert saying(before["permissions"], "ask (default)")
    assert "theirs" not in json.dumps(before)
    assert saying(after["model"], "theirs/one (.loopwright/settings.toml)")["level"] == "ok"
    assert saying(after["settings"], "this folder is trusted")
    assert saying(after["permissions"], "read-only")
    assert saying(after["extensions"], "mine")["level"] == "ok"
    assert ran.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_a_list_of_trusted_folders_that_others_may_write_is_a_problem(program: Program) -> None:
    file = program.folder / "config" / "loopwright" / "trust.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"version": 1, "folders": {}}')
    file.chmod(0o666)

    line = worst(examine(program)["settings"])

    assert line["level"] == "problem"
    assert "may be written by others" in line["message"]


def test_a_mode_that_asks_nobody_is_warned_of(program: Program) -> None:
    settings_file(program).write_text('[permissions]\nmode = "yolo"\ndeny = ["bash(rm:*)"]\n')

    found = examine(program)

    line = saying(found["permissions"], "yolo")
    assert (line["level"], "everything is done without asking" in line["message"]) == (
        "warning",
        True,
    )
    assert saying(found["permissions"], "1 deny")


def test_an_extension_that_fails_or_talks_or_leaves_is_a_line(program: Program) -> None:
    for name, text in {
        "broken.py": f"raise RuntimeError({KEY[:4]!r})",
        "leaving.py": "import sys; sys.exit(3)",
        "loud.py": "print('hello')\nfrom loopwright.extensions import Extension\n"
        "extension = Extension('loud', version='2.1')",
    }.items():
        (program.folder / name).write_text(text)
    files = [str(program.folder / name) for name in ("broken.py", "leaving.py", "loud.py")]
    settings_file(program).write_text(f"[extensions]\nload = {json.dumps(files)}\n")

    found = examine(program)

    assert saying(found["extensions"], "loud 2.1")["level"] == "ok"
    levels = [line["level"] for line in found["extensions"]]
    assert levels.count("problem") == 2
    assert all(line["hint"] for line in found["extensions"] if line["level"] == "problem")


# -- keys and models -------------------------------------------------------------------------


def test_keys_are_told_by_where_they_come_from_and_never_shown(program: Program) -> None:
    program.run("keys", "set", "groq", stdin=KEY.encode())

    text = program.run("doctor", env={"OPENAI_API_KEY": KEY})
    found = examine(program, OPENAI_API_KEY=KEY)

    (line,) = found["keys"]
    assert "OpenAI (OPENAI_API_KEY)" in line["message"]
    assert "Groq (credentials file)" in line["message"]
    assert KEY not in text.stdout + text.stderr + json.dumps(found)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_files_with_keys_that_others_can_read_are_told(program: Program) -> None:
    program.run("keys", "set", "groq", stdin=KEY.encode())
    kept = program.folder / "config" / "loopwright" / "credentials.json"
    kept.chmod(0o644)
    program.write_models_file(
        f'[providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "{KEY}"\n'
    )
    (kept.parent / "models.toml").chmod(0o644)
    kept.parent.chmod(0o777)

    found = examine(program)

    assert saying(found["keys"], "credentials.json can be read by others")["level"] == "problem"
    assert saying(found["keys"], "models.toml has a key in it")["level"] == "warning"
    assert saying(found["keys"], "others may put files into")["level"] == "warning"
    assert all("chmod" in line["hint"] for line in found["keys"])
    assert KEY not in json.dumps(found)


@pytest.mark.parametrize(
    "text",
    [
        'default = 7\n[providers.toy]\napi_key = "KEY"\nbase_url = "http://127.0.0.1:9"',
        '[providers.toy]\napi_key = "KEY\nbase_url = "http://127.0.0.1:9"',
        '[providers.toy]\napi_key = ["KEY"]\nbase_url = "http://127.0.0.1:9"',
        '[providers.toy]\napi_kee = "KEY"\nbase_url = "http://127.0.0.1:9"',
        '[providers.toy]\nheaders = { Authorization = ["KEY"] }\nbase_url = "http://127.0.0.1:9"',
    ],
)
def test_a_file_of_models_that_cannot_be_read_is_a_problem_without_its_keys(
    program: Program, text: str
) -> None:
    program.write_models_file(text.replace("KEY", KEY))

    found = examine(program)

    assert worst(found["models"])["level"] == "problem"
    assert "models.toml" in worst(found["models"])["message"]
    assert KEY not in json.dumps(found)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("toy/one", None),
        ("openai/gpt-5", "OPENAI_API_KEY"),
        ("toyy/one", "toyy"),
    ],
)
def test_the_model_that_a_run_would_take_is_looked_at(
    program: Program, vendor: Vendor, reference: str, told: str | None
) -> None:
    found = examine(program, LOOPWRIGHT_MODEL=reference)

    line = worst(found["model"])
    assert line["level"] == ("ok" if told is None else "problem")
    assert (told or "toy/one (LOOPWRIGHT_MODEL)") in line["message"] + (line["hint"] or "")


def test_with_ask_the_model_is_asked_one_tiny_thing(program: Program, vendor: Vendor) -> None:
    vendor.will_say("yes")
    answered = examine(program, "--ask")
    vendor.will_refuse(401, f"the key {KEY} is wrong")
    refused = examine(program, "--ask", OPENAI_API_KEY=KEY)

    assert saying(answered["model"], "it answered in ")["level"] == "ok"
    assert saying(refused["model"], "it did not answer")["level"] == "problem"
    assert [len(request["messages"]) for request in vendor.requests] == [1, 1]


def test_with_ask_a_vendor_that_is_overloaded_is_not_asked_again_and_again(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_refuse(529, "later")

    found = examine(program, "--ask")

    assert saying(found["model"], "it did not answer")["level"] == "problem"
    assert len(vendor.requests) == 1


# -- tools and terminal ----------------------------------------------------------------------


def test_programs_that_are_missing_are_told_with_what_becomes_of_it(
    program: Program, tmp_path: Path
) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()

    found = examine(program, PATH=str(empty))

    assert saying(found["tools"], "no shell")["level"] == "problem"
    assert saying(found["tools"], "no ripgrep")["level"] == "note"
    assert saying(found["tools"], "no git")["level"] == "warning"
    assert saying(found["sandbox"], "groups of their own")["level"] == "ok", "also without sleep"


def test_a_dumb_small_terminal_without_utf_8_is_told(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    screen = terminal(
        "doctor", columns=60, TERM="dumb", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    screen.end()

    said = " ".join(screen.screen.split())
    assert "TERM is dumb" in said
    assert "it is small" in said
    assert "locale with UTF-8" in said


# -- sessions --------------------------------------------------------------------------------


def test_the_database_is_told_with_its_format_and_size(program: Program, vendor: Vendor) -> None:
    before = examine(program)
    vendor.will_say("Hello.")
    program.run("-p", "hi")

    after = examine(program)

    assert saying(before["sessions"], "is made by the first run")
    assert not [line for line in before["sessions"] if line["level"] == "problem"]
    assert saying(after["sessions"], "1 session, format 2, ")["level"] == "ok"
    assert saying(after["sessions"], "are free on its disk")


def test_what_is_wrong_with_the_database_is_a_problem(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Hello.")
    program.run("-p", "hi")
    good = database(program).read_bytes()

    database(program).write_bytes(b"somebody else's file")
    foreign = worst(examine(program)["sessions"])
    database(program).write_bytes(good)
    with closing(sqlite3.connect(database(program))) as connection, connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'loopwright_format'")
    later = worst(examine(program)["sessions"])
    database(program).write_bytes(b"")
    empty = worst(examine(program)["sessions"])

    assert (foreign["level"], later["level"], empty["level"]) == ("problem", "problem", "note")
    assert "not an SQLite database" in foreign["message"]
    assert "99" in later["message"]
    assert database(program).read_bytes() == b"", "looking changes nothing"


def test_a_database_that_somebody_keeps_locked_is_warned_of(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Hello.")
    program.run("-p", "hi")

    with closing(sqlite3.connect(database(program), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        found = examine(program)

    line = saying(found["sessions"], "another process is writing")
    assert line["level"] == "warning"


@pytest.mark.skipif(sys.platform == "win32" or is_root, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_problem(program: Program) -> None:
    kept = program.folder / "kept"
    kept.mkdir(mode=0o500)

    found = examine(program, LOOPWRIGHT_SESSION_DIR=str(kept))

    assert saying(found["sessions"], "nothing can be written to")["level"] == "problem"


def test_a_store_below_a_file_is_a_problem(program: Program) -> None:
    (program.folder / "blocked").write_text("a file, not a folder")

    found = examine(program, LOOPWRIGHT_SESSION_DIR=str(program.folder / "blocked"))

    line = worst(found["sessions"])
    assert line["level"] == "problem"
    assert "LOOPWRIGHT_SESSION_DIR" in str(line["hint"])


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_sessions_that_others_can_read_are_warned_of(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Hello.")
    program.run("-p", "hi")
    database(program).chmod(0o644)

    line = saying(examine(program)["sessions"], "can be read by others")

    assert (line["level"], "chmod 600" in line["hint"]) == ("warning", True)


def test_sessions_that_are_not_over_are_told_with_what_to_do(
    program: Program, vendor: Vendor
) -> None:
    import threading

    vendor.will_say("Once upon a", threading.Event())
    process = program.start("-p", "Tell me a tale.")
    assert process.stdout
    os.read(process.stdout.fileno(), 100)
    working = saying(examine(program)["sessions"], "Tell me a tale.")
    process.kill()
    process.communicate(timeout=60)

    left = saying(examine(program)["sessions"], "Tell me a tale.")
    elsewhere = Program(program.folder / "elsewhere", program.env)
    elsewhere.folder.mkdir()
    not_there = examine(elsewhere)["sessions"]

    assert (working["level"], f"process {process.pid}" in working["message"]) == ("note", True)
    assert (left["level"], "was left unfinished" in left["message"]) == ("warning", True)
    assert "loopwright sessions stop" in left["hint"]
    assert not [line for line in not_there if "Tell me a tale." in line["message"]]


# -- sandbox ---------------------------------------------------------------------------------


def test_where_tools_work_is_told(program: Program) -> None:
    found = examine(program)["sandbox"]

    assert saying(found, f"the workspace can be written: {program.folder}")["level"] == "ok"
    assert saying(found, "the temporary folder can be written")["level"] == "ok"
    assert saying(found, "groups of their own, which can be killed")["level"] == "ok"
    assert bool([line for line in found if "root" in line["message"]]) == is_root


@pytest.mark.skipif(sys.platform == "win32" or is_root, reason="root may write everywhere")
def test_a_workspace_that_cannot_be_written_is_told(program: Program) -> None:
    kept = program.folder / "kept"
    kept.mkdir()
    kept.chmod(stat.S_IRUSR | stat.S_IXUSR)

    found = examine(Program(kept, program.env))["sandbox"]

    assert saying(found, "cannot be written")["level"] == "warning"


def test_a_temporary_folder_that_is_gone_is_no_end_of_it(program: Program) -> None:
    found = examine(program, TMPDIR=str(program.folder / "gone"))["sandbox"]

    assert saying(found, "temporary folder")
