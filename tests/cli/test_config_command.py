"""`loopwright config` shows what holds and who said it, and changes one key at a time."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cyclopts import App, Parameter

from loopwright.cli.exit_codes import ExitCode
from loopwright.cli.settings.app import add_setup_commands
from loopwright.cli.settings.files import load_settings
from loopwright.cli.settings.grants import add_grant
from loopwright.errors import ConfigurationError
from loopwright.permissions import parse_rule

from .conftest import Program, Terminal


@dataclass
class Scene:
    """A user who stands in a project, and our commands."""

    project: Path
    user: Path
    app: App
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> tuple[ExitCode, str, str]:
        self.capsys.readouterr()
        code = self.app(list(arguments))
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def set(self, key: str, value: str, *more: str) -> str:
        code, out, err = self.run("config", "set", key, value, *more)
        assert (code, out) == (ExitCode.DONE, "")
        return err

    def refusal(self, *arguments: str) -> ConfigurationError:
        with pytest.raises(ConfigurationError) as caught:
            self.run("config", *arguments)
        return caught.value


@pytest.fixture
def scene(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Scene:
    for name in ("XDG_CONFIG_HOME", "LOOPWRIGHT_HOME", "LOOPWRIGHT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "code" / "project"
    project.mkdir(parents=True)
    monkeypatch.chdir(project)
    app = App(
        name="loopwright",
        default_parameter=Parameter(negative=()),
        result_action="return_value",
        exit_on_error=False,
    )
    add_setup_commands(app)
    return Scene(project, tmp_path / ".config" / "loopwright" / "settings.toml", app, capsys)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# -- showing -----------------------------------------------------------------------------------


def test_every_setting_is_shown_with_who_set_it(scene: Scene) -> None:
    write(scene.user, 'theme = "dark"\n[permissions]\nallow = ["bash(git status:*)"]\n')
    write(scene.project / ".loopwright" / "settings.toml", "[bash]\ntimeout_seconds = 5\n")
    add_grant(scene.project, parse_rule("allow", "bash(make)"))
    scene.run("trust")

    code, out, err = scene.run("config")

    lines = out.splitlines()
    assert (code, err) == (ExitCode.DONE, "")
    assert lines[:3] == [
        "# user     ~/.config/loopwright/settings.toml",
        "# grants   ~/.config/loopwright/grants.toml",
        "# project  .loopwright/settings.toml",
    ]
    assert 'theme         = "dark"                                # user' in lines
    assert "tools         = not set                               # default" in lines
    assert '    "bash(git status:*)",                             # user' in lines
    assert '    "bash(make)",                                     # grants' in lines
    assert "timeout_seconds = 5                                   # project" in lines
    assert max(map(len, lines)) <= 80


def test_what_is_shown_can_be_read_as_toml(scene: Scene) -> None:
    write(
        scene.user,
        'skills.paths = ["/srv/a-rather-long-folder-name", "/srv/another-rather-long-one"]\n'
        f'[agents.a]\nsystem_prompt = "{"long " * 40}\\u007f\\u001b"\n',
    )

    _, out, _ = scene.run("config")

    shown = tomllib.loads("\n".join(x for x in out.splitlines() if "= not set" not in x))
    assert shown["skills"]["paths"] == [
        "/srv/a-rather-long-folder-name",
        "/srv/another-rather-long-one",
    ]
    assert shown["agents"]["a"]["system_prompt"].endswith("long \x7f\x1b")
    assert "# user:\nsystem_prompt" in out


def test_an_untrusted_projects_file_is_named_as_passed_over(scene: Scene) -> None:
    write(scene.project / ".loopwright" / "settings.toml", "not even TOML")

    code, out, err = scene.run("config")

    assert code == ExitCode.DONE
    assert "# project  .loopwright/settings.toml (not trusted: passed over)\n" in out
    assert "loopwright trust" in err


def test_for_programs_there_is_one_setting_a_line(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_MODEL", "a/b")
    code = "import sys; from loopwright.cli.settings.command import show_settings as show; show('json')"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    rows = {row["key"]: row for row in map(json.loads, done.stdout.splitlines())}
    source = {"layer": "environment", "name": "LOOPWRIGHT_MODEL"}
    assert rows["model"] == {"key": "model", "value": "a/b", "sources": [source]}
    assert rows["tools"]["value"] is None
    assert rows["budget.run.allow_unknown_prices"]["value"] is False


def test_one_value_is_printed_for_scripts(scene: Scene) -> None:
    write(scene.user, 'model = "a/b"\ntools = ["read", "ls"]\n[bash]\ntimeout_seconds = 7.5\n')

    assert scene.run("config", "get", "model")[1] == "a/b\n"
    assert scene.run("config", "get", "tools")[1] == '["read", "ls"]\n'
    assert scene.run("config", "get", "bash.timeout_seconds")[1] == "7.5\n"
    assert scene.run("config", "get", "show_thinking")[1] == "false\n"
    assert "[bash]\ntimeout_seconds = 7.5" in scene.run("config", "get", "bash")[1]


def test_what_is_not_set_prints_nothing_and_fails(scene: Scene) -> None:
    code, out, err = scene.run("config", "get", "thinking")

    assert (code, out) == (ExitCode.FAILED, "")
    assert "thinking is not set" in err


def test_the_path_is_printed_whether_or_not_there_is_a_file(scene: Scene) -> None:
    assert scene.run("config", "path")[1] == f"{scene.user}\n"
    assert scene.run("config", "path", "--project")[1] == (
        f"{scene.project / '.loopwright' / 'settings.toml'}\n"
    )


# -- changing ----------------------------------------------------------------------------------


def test_the_first_setting_makes_the_file_for_the_user_alone(scene: Scene) -> None:
    said = scene.set("permissions.mode", "auto-edit")

    assert scene.user.read_text() == '[permissions]\nmode = "auto-edit"\n'
    assert stat.S_IMODE(scene.user.stat().st_mode) == 0o600
    assert 'permissions.mode = "auto-edit", in ~/.config/loopwright/settings.toml' in said


@pytest.mark.parametrize(
    ("key", "value", "loaded"),
    [
        ("model", "anthropic/claude-sonnet-5:high", "anthropic/claude-sonnet-5:high"),
        ("model", '"a/b"', "a/b"),
        ("model", "5", "5"),
        ("model", 'x"\nshow_thinking = true', 'x"\nshow_thinking = true'),
        ("theme", "dark", "dark"),
        ("show_thinking", "true", True),
        ("budget.run.max_turns", "20", 20),
        ("budget.run.max_cost_usd", "0.5", 0.5),
        ("tools", "[]", []),
        ("permissions.deny", "[\"bash(rm:*)\", 'read(.env)']", ["bash(rm:*)", "read(.env)"]),
        ("agents.review.tools", '["read"]', ["read"]),
        ("agents.review.system_prompt", "Be strict.", "Be strict."),
    ],
)
def test_a_value_is_toml_or_plain_text(scene: Scene, key: str, value: str, loaded: object) -> None:
    scene.set(key, value)

    found: object = load_settings(scene.project, trusted=False).settings
    for name in key.split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert found == loaded


def test_comments_order_and_mode_of_the_file_stay(scene: Scene) -> None:
    write(
        scene.user,
        "# mine\n[bash]\ntimeout_seconds = 5 # slow disk\n\n# rules\n[permissions]\n"
        "allow = [\n  'bash(ls)', # harmless\n]\n",
    )
    scene.user.chmod(0o640)

    scene.set("bash.timeout_seconds", "9")
    scene.set("theme", "dark")
    scene.set("permissions.mode", "ask")
    scene.set("budget.session.max_turns", "3")

    assert scene.user.read_text() == (
        'theme = "dark"\n\n# mine\n[bash]\ntimeout_seconds = 9 # slow disk\n\n# rules\n'
        "[permissions]\nallow = [\n  'bash(ls)', # harmless\n]\nmode = \"ask\"\n\n"
        "[budget.session]\nmax_turns = 3\n"
    )
    assert stat.S_IMODE(scene.user.stat().st_mode) == 0o640


def test_a_comment_stays_with_what_it_is_about(scene: Scene) -> None:
    write(
        scene.user,
        "# All of this is mine.\n\n# how commands run\n[bash]\n\n# children\n"
        "[agents.a] # first\nmodel = 'x' # good\n\n# caps\n[budget.run]\nmax_turns = 1\n",
    )

    scene.set("theme", "dark")
    scene.set("agents.a.max_turns", "3")
    scene.set("agents.b.model", "y")
    assert scene.user.read_text() == (
        '# All of this is mine.\n\ntheme = "dark"\n\n# how commands run\n[bash]\n\n# children\n'
        "[agents.a] # first\nmodel = 'x' # good\nmax_turns = 3\n\n# caps\n[budget.run]\n"
        'max_turns = 1\n\n[agents.b]\nmodel = "y"\n'
    )

    scene.run("config", "unset", "agents.a")
    scene.run("config", "unset", "agents.b")
    scene.run("config", "unset", "theme")
    assert scene.user.read_text() == (
        "# All of this is mine.\n\n# how commands run\n[bash]\n\n# children\n"
        "\n# caps\n[budget.run]\nmax_turns = 1\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "budget.run.max_turns = 1\n",
        "[budget.run]\nmax_turns = 1\n[bash]\n[budget.session]\nmax_turns = 2",
        "budget = { run = { max_turns = 1 } }\n",
        "[agents.a]\nmodel = 'x'\r\n[bash]\r\n[agents.b]\r\nmodel = 'y'\r\n",
        "\ufeffmodel = 'x'\n",
        "# only a comment",
    ],
)
def test_however_the_file_is_written_the_change_is_made_or_refused(scene: Scene, text: str) -> None:
    for key, value in (("budget.session.max_tokens", 3), ("agents.c.max_turns", 4)):
        write(scene.user, text)
        expected = tomllib.loads(text.lstrip("\ufeff"))
        table = expected
        for name in key.split(".")[:-1]:
            table = table.setdefault(name, {})
        table[key.split(".")[-1]] = value
        try:
            scene.set(key, str(value))
        except ConfigurationError:
            assert scene.user.read_text() == text
        else:
            assert tomllib.loads(scene.user.read_text()) == expected


@pytest.mark.parametrize(
    ("key", "value", "message", "hint"),
    [
        ("theme", "blue", "`theme` cannot be 'blue'", '"dark"'),
        ("show_thinking", "yes", "cannot be 'yes'", "true or false"),
        ("budget.run.max_turns", "-1", "cannot be -1", "at least 0"),
        ("budget.run.max_turns", "1\nmodel = 'x'", "cannot be", "whole number"),
        ("budget.run.max_turns", "1 # why", "", ""),
        ("tools", "read", "cannot be 'read'", '["a", "b"]'),
        ("thme", "dark", "nothing is called `thme`", "`theme`"),
        ("permissions", "ask", "is a table", "permissions.KEY"),
        ("theme.x", "dark", "`theme` is no table", "loopwright config"),
        ("agents.a b.model", "x", "an agent named 'a b'", "letters"),
        ("permissions.deny", '["bash(rm"]', "permissions.deny[1]", "bash(git"),
        ("extensions.load", '["mine"]', "`extensions.load` cannot have 'mine'", "module:var"),
    ],
)
def test_a_value_that_would_not_load_is_refused_and_nothing_is_written(
    scene: Scene, key: str, value: str, message: str, hint: str
) -> None:
    if not message:  # a comment behind it is no harm
        scene.set(key, value)
        return
    error = scene.refusal("set", key, value)

    assert message in error.message
    assert hint in (error.hint or "")
    assert not scene.user.exists()


def test_a_wrong_value_can_be_set_right_and_another_wrong_one_is_named_with_its_line(
    scene: Scene,
) -> None:
    write(scene.user, 'theme = "blue"\n')
    scene.set("theme", "dark")
    assert scene.user.read_text() == 'theme = "dark"\n'

    write(scene.user, '# x\nthmee = "blue"\n')
    assert "line 2: nothing is called `thmee`" in scene.refusal("set", "theme", "dark").message
    assert scene.run("config", "unset", "thmee")[0] == ExitCode.DONE
    assert scene.user.read_text() == "# x\n"


def test_a_file_that_is_no_toml_is_left_alone(scene: Scene) -> None:
    write(scene.user, "theme = \n")

    assert "line 1: it is not valid TOML" in scene.refusal("set", "theme", "dark").message
    assert scene.user.read_text() == "theme = \n"


def test_a_setting_or_a_whole_table_can_be_taken_out(scene: Scene) -> None:
    write(scene.user, 'theme = "dark"\nmodel = "a/b" # x\n[agents.a]\nmodel = "c/d"\n')

    assert scene.run("config", "unset", "theme")[0] == ExitCode.DONE
    assert scene.run("config", "unset", "agents.a")[0] == ExitCode.DONE

    assert tomllib.loads(scene.user.read_text()) == {"model": "a/b"}
    code, _, err = scene.run("config", "unset", "theme")
    assert code == ExitCode.FAILED
    assert "theme is not set in ~/.config/loopwright/settings.toml" in err


def test_the_projects_file_is_changed_when_asked_for(scene: Scene) -> None:
    said = scene.set("budget.run.max_turns", "9", "--project")

    file = scene.project / ".loopwright" / "settings.toml"
    assert file.read_text() == "[budget.run]\nmax_turns = 9\n"
    assert [path.name for path in file.parent.iterdir()] == ["settings.toml"]
    assert not scene.user.exists()
    assert "passed over until the folder is trusted" in said


def test_it_is_told_when_something_stronger_says_otherwise(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_MODEL", "c/d")

    assert "but LOOPWRIGHT_MODEL says otherwise" in scene.set("model", "a/b")


def test_a_link_of_the_users_stays_one(scene: Scene) -> None:
    kept = scene.user.parents[2] / "dotfiles.toml"
    write(kept, "# mine\n")
    scene.user.parent.mkdir(parents=True)
    scene.user.symlink_to(kept)

    scene.set("theme", "dark")

    assert scene.user.is_symlink()
    assert kept.read_text() == '# mine\n\ntheme = "dark"\n'


@pytest.mark.parametrize("linked", ["settings.toml", "."])
def test_a_projects_link_is_not_written_through(scene: Scene, linked: str) -> None:
    write(scene.user, "# mine\n")
    folder = scene.project / ".loopwright"
    if linked == ".":
        folder.symlink_to(scene.user.parent)
    else:
        folder.mkdir()
        (folder / linked).symlink_to(scene.user)

    error = scene.refusal("set", "--project", "theme", "dark")

    assert "leads out of the project" in error.message
    assert scene.user.read_text() == "# mine\n"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_write_protected_file_is_left_alone(scene: Scene) -> None:
    write(scene.user, "# mine\n")
    scene.user.chmod(0o400)

    assert "write-protected" in scene.refusal("set", "theme", "dark").message


def test_processes_that_change_it_at_once_lose_nothing(scene: Scene) -> None:
    code = (
        "import sys\n"
        "from loopwright.cli.settings.edit import EditedFile, parse_key, set_value\n"
        "sys.stdin.read()\n"
        "for number in range(10):\n"
        "    key = parse_key(f'agents.{sys.argv[1]}{number}.max_turns')\n"
        "    set_value(EditedFile.of_user(), key, number)\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code, name], stdin=subprocess.PIPE)
        for name in ("a", "b")
    ]
    for one in both:  # they wait for this, so that both are ready
        assert one.stdin is not None
        one.stdin.close()
    assert [one.wait(60) for one in both] == [0, 0]

    agents = load_settings(scene.project, trusted=False).settings.agents
    assert set(agents) == {f"{name}{number}" for name in "ab" for number in range(10)}


@pytest.fixture
def failing_rename(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def start() -> None:
        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", refuse)

    return start


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(
    scene: Scene, failing_rename: Callable[[], None]
) -> None:
    write(scene.user, "# mine\n")
    failing_rename()

    error = scene.refusal("set", "theme", "dark")

    assert "cannot be written: No space left on device" in error.message
    assert [path.name for path in scene.user.parent.iterdir()] == ["settings.toml"]
    assert scene.user.read_text() == "# mine\n"


# -- the real program --------------------------------------------------------------------------


def test_the_program_changes_and_shows_settings(program: Program) -> None:
    changed = program.run("config", "set", "theme", "dark")
    shown = program.run("config", "get", "theme")
    listed = program.run("config", "--mode", "json")

    assert (changed.returncode, changed.stdout) == (0, "")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "dark\n", "")
    rows = {row["key"]: row for row in map(json.loads, listed.stdout.splitlines())}
    assert rows["theme"]["sources"][0]["layer"] == "user"


def test_a_wrong_file_ends_the_program_before_anything_runs(program: Program) -> None:
    write(program.folder / "config" / "loopwright" / "settings.toml", '\ntheme = "\\u001b[2J"\n')

    done = program.run("config")

    assert (done.returncode, done.stdout) == (ExitCode.CONFIGURATION, "")
    assert "settings.toml, line 2: `theme` cannot be" in done.stderr
    assert "\x1b" not in done.stderr


def test_escape_sequences_in_a_setting_do_nothing_to_the_terminal(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    text = "[agents.a]\ndescription = 'x'\nsystem_prompt = \"a\\u009b2Jb\"\n"
    write(program.folder / "config" / "loopwright" / "settings.toml", text)

    shown = terminal("config", NO_COLOR="1")

    assert shown.end() == 0
    assert "\x9b" not in shown.screen
