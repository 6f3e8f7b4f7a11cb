"""Settings come from layers, each value has a source, and a wrong file is named with its line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loopwright.cli.settings.check import leaves
from loopwright.cli.settings.files import LoadedSettings, load_settings
from loopwright.cli.settings.grants import add_grant
from loopwright.cli.settings.schema import (
    LONGEST_SECONDS,
    AgentTable,
    BashTable,
    BudgetCaps,
    CompactionTable,
    Settings,
)
from loopwright.cli.settings.toml_file import MOST_BYTES
from loopwright.errors import ConfigurationError
from loopwright.harness.compaction import CompactionSettings
from loopwright.loop.budget import Budget
from loopwright.permissions import MODES, parse_rule
from loopwright.tools.bash import DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS
from loopwright.tools.task import AgentSpec


class Scene:
    """A user's home and a project in it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.user = self.home / ".config" / "loopwright" / "settings.toml"
        self.project = self.home / "code" / "project"
        self.project_file = self.project / ".loopwright" / "settings.toml"
        self.user.parent.mkdir(parents=True)
        self.project_file.parent.mkdir(parents=True)

    def load(self, *, user: str = "", project: str = "", trusted: bool = True) -> LoadedSettings:
        self.user.write_text(user)
        if project:
            self.project_file.write_text(project)
        return load_settings(self.project, trusted=trusted)

    def refusal(self, *, user: str = "", project: str = "") -> ConfigurationError:
        with pytest.raises(ConfigurationError) as caught:
            self.load(user=user, project=project)
        return caught.value


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    for name in ("XDG_CONFIG_HOME", "LOOPWRIGHT_HOME", "LOOPWRIGHT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Scene(tmp_path)


# -- layers ------------------------------------------------------------------------------------


def test_without_any_file_everything_is_the_default(scene: Scene) -> None:
    loaded = load_settings(scene.project, trusted=True)

    assert loaded.settings == Settings()
    assert (loaded.rules, loaded.notes) == ([], [])
    assert loaded.source_of("permissions.mode") == "default"


def test_a_trusted_project_is_over_the_user_key_by_key(scene: Scene) -> None:
    loaded = scene.load(
        user='theme = "dark"\nediting = "vi"\n[budget.run]\nmax_turns = 5\nmax_tokens = 7\n',
        project='editing = "emacs"\n[budget.run]\nmax_turns = 9\n',
    )

    assert loaded.settings.theme == "dark"
    assert loaded.settings.editing == "emacs"
    assert loaded.settings.budget.run == BudgetCaps(max_turns=9, max_tokens=7)
    assert loaded.source_of("theme") == "~/.config/loopwright/settings.toml"
    assert loaded.source_of("budget.run.max_turns") == ".loopwright/settings.toml"
    assert loaded.source_of("budget.run.max_tokens") == "~/.config/loopwright/settings.toml"


def test_rules_of_all_layers_are_added_up_and_other_lists_replaced(scene: Scene) -> None:
    add_grant(scene.project, parse_rule("allow", "bash(make)"))

    loaded = scene.load(
        user='tools = ["read"]\n[permissions]\nallow = ["edit(src/**)"]\ndeny = ["read(.env)"]\n',
        project='tools = ["grep", "ls"]\n[permissions]\nallow = ["bash(npm test)"]\n',
    )

    assert loaded.settings.tools == ["grep", "ls"]
    assert loaded.settings.permissions.allow == ["edit(src/**)", "bash(make)", "bash(npm test)"]
    assert {(r.effect, str(r), r.where) for r in loaded.rules} == {
        ("allow", "edit(src/**)", "~/.config/loopwright/settings.toml: permissions.allow[1]"),
        ("deny", "read(.env)", "~/.config/loopwright/settings.toml: permissions.deny[1]"),
        ("allow", "bash(make)", "~/.config/loopwright/grants.toml: allow[1]"),
        ("allow", "bash(npm test)", ".loopwright/settings.toml: permissions.allow[1]"),
    }
    assert loaded.source_of("permissions.allow") == (
        "~/.config/loopwright/settings.toml and ~/.config/loopwright/grants.toml and "
        ".loopwright/settings.toml"
    )


def test_an_agent_is_put_together_from_both_files(scene: Scene) -> None:
    loaded = scene.load(
        user='[agents.review]\ntools = ["read"]\n[agents.other]\n',
        project='[agents.review]\nmodel = "a/b"\nmax_cost_usd = 1\n',
    )

    review = AgentTable(tools=["read"], model="a/b", max_cost_usd=1.0)
    assert loaded.settings.agents == {"review": review, "other": AgentTable()}
    assert loaded.source_of("agents.review.model") == ".loopwright/settings.toml"


def test_the_variable_chooses_the_model(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_MODEL", "env/model")
    loaded = scene.load(user='model = "user/model"\n', project='model = "project/model"\n')

    assert (loaded.settings.model, loaded.source_of("model")) == ("env/model", "LOOPWRIGHT_MODEL")


def test_the_source_of_what_is_no_key_is_a_mistake(scene: Scene) -> None:
    with pytest.raises(KeyError, match="permissions.mod"):
        scene.load().source_of("permissions.mod")


def test_paths_begin_at_the_folder_of_their_file_or_at_home(scene: Scene) -> None:
    loaded = scene.load(
        user='[skills]\npaths = ["mine", "~/skills"]\n[extensions]\nload = ["a.b:c", "x.py"]\n',
        project='[templates]\npaths = ["docs/../prompts"]\n[permissions]\nreadable = ["/srv/x"]\n',
    )

    config = scene.home / ".config" / "loopwright"
    assert loaded.settings.skills.paths == [str(config / "mine"), str(scene.home / "skills")]
    assert loaded.settings.extensions.load == ["a.b:c", str(config / "x.py")]
    assert loaded.settings.templates.paths == [str(scene.project / "prompts")]
    assert loaded.settings.permissions.readable == ["/srv/x"]


# -- trust -------------------------------------------------------------------------------------


def test_an_untrusted_project_has_no_say_and_that_is_told(scene: Scene) -> None:
    loaded = scene.load(project='model = "evil/m"\n[permissions]\nmode = "yolo"\n', trusted=False)

    assert loaded.settings == Settings()
    (note,) = loaded.notes
    assert ".loopwright/settings.toml: passed over" in note
    assert "loopwright trust" in note


def test_an_untrusted_projects_file_is_not_even_opened(scene: Scene) -> None:
    os.mkfifo(scene.project_file)

    loaded = load_settings(scene.project, trusted=False)

    assert loaded.settings == Settings()


def test_a_trusted_project_that_widens_the_mode_is_told_of(scene: Scene) -> None:
    wider = scene.load(project='[permissions]\nmode = "auto-edit"\n')
    narrower = scene.load(
        user='[permissions]\nmode = "yolo"\n', project='[permissions]\nmode = "auto-edit"\n'
    )

    assert wider.notes == ['.loopwright/settings.toml sets permissions.mode to "auto-edit"']
    assert narrower.notes == []


@pytest.mark.parametrize("linked", ["the file", "its folder"])
def test_a_project_cannot_have_its_settings_elsewhere_by_a_link(scene: Scene, linked: str) -> None:
    elsewhere = scene.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "settings.toml").write_text('model = "evil/m"\n')
    if linked == "the file":
        scene.project_file.symlink_to(elsewhere / "settings.toml")
    else:
        scene.project_file.parent.rmdir()
        scene.project_file.parent.symlink_to(elsewhere)

    error = scene.refusal()

    assert "leads out of the project" in error.message


def test_a_link_within_the_project_is_followed(scene: Scene) -> None:
    (scene.project / "team.toml").write_text('theme = "light"\n')
    scene.project_file.symlink_to("../team.toml")

    assert scene.load().settings.theme == "light"


def test_a_projects_file_that_everybody_may_write_is_refused(scene: Scene) -> None:
    scene.project_file.write_text('theme = "light"\n')
    scene.project_file.chmod(0o666)

    error = scene.refusal()

    assert ".loopwright/settings.toml: everybody may write to it" in error.message


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives a file away")
def test_a_projects_file_of_another_user_is_refused(scene: Scene) -> None:
    scene.project_file.write_text('theme = "light"\n')
    os.chown(scene.project_file, 12345, 12345)

    assert "belongs to another user" in scene.refusal().message


def test_the_users_own_file_may_be_a_link(scene: Scene) -> None:
    (scene.home / "dotfile.toml").write_text('theme = "light"\n')
    scene.user.symlink_to(scene.home / "dotfile.toml")

    assert load_settings(scene.project, trusted=True).settings.theme == "light"


def test_damaged_grants_are_told_of_and_grant_nothing(scene: Scene) -> None:
    add_grant(scene.project, parse_rule("allow", "bash(make)"))
    (scene.user.parent / "grants.toml").chmod(0o666)

    loaded = scene.load()

    assert loaded.rules == []
    assert "may be written by others, so no rule in it counts" in loaded.notes[0]


# -- what is wrong, and where ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("\ntheme = dark\n", "line 2: it is not valid TOML: ", "a line is"),
        ("tools = [\n", "it is not valid TOML: ", "a line is"),
        ('# theme\ntheme = "blue"\n', "line 2: `theme` cannot be 'blue'", '"dark"'),
        ('thinking = "hard"', "line 1: `thinking` cannot be", '"off", "minimal", "low"'),
        ("show_thinking = 1", "line 1: `show_thinking` cannot be 1", "true or false"),
        ('model = ""', "`model` cannot be ''", "not empty"),
        ("\n[budget.run]\nmax_turns = 1.5\n", "line 3: `budget.run.max_turns`", "whole number"),
        ("budget.session.max_tokens = -1", "line 1: `budget.session", "at least 0"),
        ("budget.run.max_cost_usd = inf", "cannot be inf", "a number, at least 0"),
        ("budget.run.max_cost_usd = nan", "cannot be nan", "a number, at least 0"),
        ("[bash]\ntimeout_seconds = 0", "line 2: `bash.timeout_seconds`", "above 0"),
        ("tools = 'read'", "line 1: `tools` cannot be 'read'", '["a", "b"]'),
        ("tools = [1]", "line 1: `tools` cannot be [1]", '["a", "b"]'),
        ("permissions = 'yolo'", "line 1: `permissions` is a table", "[permissions]"),
        ("[theme]\na = 1", "line 1: `theme` cannot be a table", '"auto"'),
        ("thme = 'dark'", "line 1: nothing is called `thme`", "did you mean `theme`?"),
        ("show-thinking = true", "nothing is called", "did you mean `show_thinking`?"),
        ("mode = 'yolo'", "nothing is called `mode`", "did you mean `permissions.mode`?"),
        ("[budget]\nmax_turns = 1", "`budget.max_turns`", "`budget.run.max_turns`"),
        ("[bash]\nxyzzy = 1", "line 2: nothing is called `bash.xyzzy`", "timeout_seconds"),
        ("[agents.a]\ntols = []", "line 2: nothing is called `agents.a.tols`", "agents.a.tools"),
        ("[agents.'a b']\n", "an agent named 'a b'", "letters"),
        ("[permissions]\ndeny = ['bash(rm']", "permissions.deny[1]: the rule", "bash(git"),
        ("[extensions]\nload = ['mine']", "line 2: `extensions.load`", "module:variable"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_what_is_right(
    scene: Scene, text: str, message: str, hint: str
) -> None:
    error = scene.refusal(user=text)

    assert error.message.startswith("~/.config/loopwright/settings.toml")
    assert message in error.message
    assert hint in (error.hint or "")


def test_a_projects_wrong_file_is_named_as_the_projects(scene: Scene) -> None:
    error = scene.refusal(project='\n\ntheme = "blue"')

    assert error.message == ".loopwright/settings.toml, line 3: `theme` cannot be 'blue'"


def test_the_line_is_that_of_the_key_and_not_of_a_text_that_speaks_of_it(scene: Scene) -> None:
    text = '[agents.a]\nsystem_prompt = """\ntheme = "x"\n"""\n# theme = 1\n[bash]\ntheme = 3\n'

    assert "line 7" in scene.refusal(user=text).message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'theme = "d\xe4rk"\n', "line 1: it is not UTF-8"),
        (b"# x\n" * (MOST_BYTES // 4 + 1), "it is larger than 256 KB"),
        (b"tools = " + b"[" * 5000 + b"]" * 5000, "it is nested too deeply"),
        (b"bash.timeout_seconds = " + b"9" * 5000, "it is not valid TOML"),
    ],
)
def test_a_file_that_is_no_text_or_far_too_much_is_refused(
    scene: Scene, data: bytes, message: str
) -> None:
    scene.user.write_bytes(data)

    with pytest.raises(ConfigurationError) as caught:
        load_settings(scene.project, trusted=True)

    assert message in caught.value.message


def test_what_is_no_file_is_refused_and_not_waited_for(scene: Scene) -> None:
    scene.user.mkdir()
    with pytest.raises(ConfigurationError, match="it is a folder"):
        load_settings(scene.project, trusted=True)

    scene.user.rmdir()
    os.mkfifo(scene.user)
    with pytest.raises(ConfigurationError, match="it is no regular file"):
        load_settings(scene.project, trusted=True)

    scene.user.unlink()
    scene.user.symlink_to("nowhere")
    with pytest.raises(ConfigurationError, match="it is a link to nothing"):
        load_settings(scene.project, trusted=True)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_refused(scene: Scene) -> None:
    scene.user.write_text("")
    scene.user.chmod(0)

    with pytest.raises(ConfigurationError, match="it cannot be read: Permission denied"):
        load_settings(scene.project, trusted=True)


def test_a_byte_order_mark_is_no_fault(scene: Scene) -> None:
    scene.user.write_bytes(b'\xef\xbb\xbftheme = "dark"\r\n')

    assert load_settings(scene.project, trusted=True).settings.theme == "dark"


# -- one home for each default -----------------------------------------------------------------


def test_defaults_are_those_of_the_parts_that_they_are_for() -> None:
    compaction = msgspec.structs.asdict(CompactionTable())
    assert compaction == msgspec.structs.asdict(CompactionSettings())
    assert BashTable().timeout_seconds == DEFAULT_TIMEOUT_SECONDS
    assert LONGEST_SECONDS == MAX_TIMEOUT_SECONDS


def test_caps_and_agents_have_the_names_of_the_parts_that_they_are_for() -> None:
    budget = Budget(**msgspec.structs.asdict(BudgetCaps()))
    agent = set(AgentTable.__struct_fields__)

    assert budget.max_turns is None
    assert agent - {"thinking"} <= set(AgentSpec.__struct_fields__)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_can_be_set(scene: Scene, mode: str) -> None:
    loaded = scene.load(project=f'[permissions]\nmode = "{mode}"\n')

    assert loaded.settings.permissions.mode == mode


def test_every_key_stands_in_the_documentation_with_its_default() -> None:
    text = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    rows = {
        cells[1].strip().strip("`"): cells[2].strip()
        for line in text.splitlines()
        if line.startswith("| `") and len(cells := line.split("|")) > 3
    }
    agent = {name: getattr(AgentTable(), name) for name in AgentTable.__struct_fields__}
    expected: dict[str, Any] = {".".join(key): value for key, value in leaves(Settings())}

    for key, value in {**expected, **agent}.items():
        assert key in rows, f"docs/settings.md does not tell of {key}"
        if value is None:
            assert rows[key].startswith("not set")
        elif key not in ("model", "thinking", "tools"):
            shown = msgspec.json.encode(value).decode().removesuffix(".0")
            assert rows[key] == f"`{shown}`"


def test_a_file_of_extensions_is_looked_for_beside_the_settings_and_nowhere_else(
    scene: Scene,
) -> None:
    loaded = scene.load(
        project='[extensions]\nload = ["tools/mine.py:extension", "tools/mine.py", "package:thing"]'
    )

    mine = str(scene.project.resolve() / "tools" / "mine.py")
    assert loaded.settings.extensions.load == [f"{mine}:extension", mine, "package:thing"]
