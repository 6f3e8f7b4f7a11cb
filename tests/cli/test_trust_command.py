"""`loopwright trust`: whose files may give orders, and what is asked before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cyclopts import App, Parameter

from loopwright.cli.exit_codes import ExitCode
from loopwright.cli.places import trust_file
from loopwright.cli.settings.app import add_setup_commands
from loopwright.cli.settings.grants import add_grant, granted_rules
from loopwright.cli.settings.trust import is_trusted, trust_question
from loopwright.errors import ConfigurationError
from loopwright.permissions import parse_rule

from .conftest import Program, Vendor

Run = Callable[..., tuple[ExitCode, str, str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "LOOPWRIGHT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "project"
    (folder / ".loopwright").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    app = App(
        name="loopwright",
        default_parameter=Parameter(negative=()),
        result_action="return_value",
        exit_on_error=False,
    )
    add_setup_commands(app)

    def run(*arguments: str) -> tuple[ExitCode, str, str]:
        capsys.readouterr()
        code = app(["trust", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_folder_is_trusted_once_it_was_said(project: Path, run: Run) -> None:
    (project / ".loopwright" / "extensions").mkdir()
    assert not is_trusted(project)

    code, out, err = run()

    assert (code, out) == (ExitCode.DONE, "")
    assert is_trusted(project)
    assert err.splitlines() == [
        f"trusted from now on: {project}",
        "  .loopwright/extensions: Python code that runs with all your rights",
    ]


def test_another_folder_can_be_named(project: Path, run: Run) -> None:
    other = project.parent / "other"
    other.mkdir()

    run("../other")

    assert is_trusted(other)
    assert not is_trusted(project)


def test_trusted_folders_are_listed_and_told_if_they_changed(project: Path, run: Run) -> None:
    other = project.parent / "other"
    other.mkdir()
    run()
    run(str(other))
    other.rmdir()

    code, out, err = run("--list")

    assert (code, out.splitlines()) == (ExitCode.DONE, [str(other), str(project)])
    assert f"{other}: trusted no more, it is not there" in err


def test_without_any_trusted_folder_the_list_says_so(run: Run) -> None:
    assert run("--list") == (ExitCode.DONE, "", "no folder is trusted\n")


def test_forgetting_takes_back_trust_and_granted_rules(project: Path, run: Run) -> None:
    run()
    add_grant(project, parse_rule("allow", "bash(make)"))

    code, _, err = run("--forget")

    assert code == ExitCode.DONE
    assert not is_trusted(project)
    assert granted_rules(project) == []
    assert f"trusted no more: {project}" in err
    assert 'forgotten: 1 rule granted with "always"' in err


def test_forgetting_what_was_not_trusted_fails(project: Path, run: Run) -> None:
    code, _, err = run("--forget", str(project))

    assert code == ExitCode.FAILED
    assert "was not trusted" in err


def test_a_folder_in_a_trusted_one_cannot_be_forgotten_alone(project: Path, run: Run) -> None:
    inner = project / "inner"
    inner.mkdir()
    run()

    code, _, err = run("--forget", "inner")

    assert code == ExitCode.FAILED
    assert f"{inner} is still trusted, because it lies in {project}" in err
    assert f"loopwright trust --forget {project}" in err


def test_a_list_and_a_folder_are_not_meant_together(run: Run) -> None:
    assert run("--list", "x")[0] == ExitCode.USAGE
    assert run("--list", "--forget")[0] == ExitCode.USAGE


def test_a_folder_that_holds_everything_is_not_taken(project: Path, run: Run) -> None:
    with pytest.raises(ConfigurationError, match="holds more than a project"):
        run(str(project.parent))


@pytest.mark.parametrize("damage", ["no list", "writable", "link", "folder"])
def test_a_list_that_cannot_be_believed_is_told_of_and_trusts_nothing(
    project: Path, run: Run, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    run()
    file = trust_file()
    if damage == "no list":
        file.write_text("{")
    elif damage == "writable":
        file.chmod(0o666)
    else:
        file.rename(file.with_name("moved"))
        file.symlink_to("moved") if damage == "link" else file.mkdir()

    trusted = is_trusted(project)

    assert not trusted
    assert str(file) in capsys.readouterr().err


# -- the question ------------------------------------------------------------------------------


def test_there_is_no_question_where_nothing_gives_orders(project: Path) -> None:
    (project / ".loopwright" / "skills").mkdir()

    assert trust_question(project) is None


def test_the_question_names_what_gives_orders(project: Path) -> None:
    ours = project / ".loopwright"
    (ours / "settings.toml").write_text("")
    (ours / "extensions" / "__pycache__").mkdir(parents=True)
    (ours / "extensions" / "greet.py").write_text("")

    text = trust_question(project)

    assert text is not None
    assert text.splitlines() == [
        f"{project} has files that give orders to loopwright:",
        "  .loopwright/settings.toml  model, permissions, extensions and the other settings",
        "  .loopwright/extensions/    Python code that runs with all your rights",
        "      greet.py",
        "They are passed over unless you trust the folder, and all that lies in it.",
    ]


def test_names_in_the_question_do_nothing_to_the_terminal(project: Path) -> None:
    folder = project / ".loopwright" / "extensions"
    folder.mkdir()
    (folder / "\x1b[2J\nnothing here\x9b.py").write_text("")

    text = trust_question(project)

    assert text is not None
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\nnothing here" not in text


def test_the_question_stays_short_however_many_files_there_are(project: Path) -> None:
    folder = project / ".loopwright" / "extensions"
    folder.mkdir()
    for number in range(500):
        (folder / f"{number:03}.py").touch()

    text = trust_question(project)

    assert text is not None
    assert "and 492 more" in text
    assert len(text.splitlines()) == 12


def test_a_link_to_elsewhere_is_asked_about_as_well(project: Path) -> None:
    os.symlink("/nowhere", project / ".loopwright" / "extensions")

    assert ".loopwright/extensions" in (trust_question(project) or "")


def test_a_system_prompt_of_a_project_counts_once_it_is_trusted(
    program: Program, vendor: Vendor
) -> None:
    program.folder /= "project"  # the home, which is beside it, is not for trusting
    (program.folder / ".loopwright").mkdir(parents=True)
    for name in ("SYSTEM.md", "APPEND_SYSTEM.md"):
        (program.folder / ".loopwright" / name).write_text(f"This is {name}.")
    (program.folder / "AGENTS.md").write_text("Here tabs are used.")
    for _ in range(4):
        vendor.will_say("Hello.")

    before = program.run("-p", "hi")
    unlike = vendor.system_prompt()
    program.run("-p", "hi", "--tools", "none", "--no-context-files")
    bare = vendor.system_prompt()
    program.run("trust")
    after = program.run("-p", "hi")

    for name in ("SYSTEM.md", "APPEND_SYSTEM.md"):
        told = [line for line in before.stderr.splitlines() if f"/{name}" in line]
        assert any(line.endswith("loopwright trust") for line in told)
        assert f"This is {name}." not in unlike + bare
        assert f"This is {name}." in vendor.system_prompt()
        assert name not in after.stderr
    assert "Here tabs are used." in unlike
