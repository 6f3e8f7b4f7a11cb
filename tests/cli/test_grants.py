"""What was granted with "always" holds in that folder, and nobody else can write it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from loopwright.cli.places import grants_file
from loopwright.cli.settings.grants import add_grant, forget_grants, granted_rules
from loopwright.errors import ConfigurationError
from loopwright.permissions import Rule, parse_rule


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LOOPWRIGHT_HOME", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    return project


def allow(text: str) -> Rule:
    return parse_rule("allow", text)


def texts(folder: Path) -> list[str]:
    return [str(rule) for rule in granted_rules(folder)]


def test_a_granted_rule_holds_in_its_folder_and_neither_above_nor_below(folder: Path) -> None:
    add_grant(folder, allow("bash(npm test)"))
    add_grant(folder, allow("edit(src/**)"))
    add_grant(folder, allow("bash(npm test)"))

    assert texts(folder) == ["bash(npm test)", "edit(src/**)"]
    assert texts(folder / "sub") == texts(folder.parent) == []


def test_a_folder_is_known_by_its_real_path(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)

    add_grant(link, allow("bash(make)"))

    assert texts(folder) == texts(folder / "sub" / "..") == ["bash(make)"]


@pytest.mark.parametrize(
    "rule",
    [
        "bash(echo \"a\" 'b' \\ # c)",
        "bash(cat <<'X'\nmany\n\tlines\nX)",
        "bash(echo \x7f \x1b[31m \u202e é 日本 \U0001f600)",
        "mcp__*",
        "write(docs/[draft].md)",
    ],
)
def test_any_rule_comes_back_as_it_was(folder: Path, rule: str) -> None:
    add_grant(folder, allow(rule))

    assert granted_rules(folder) == [allow(rule)]


def test_only_the_user_may_read_and_write_the_file(folder: Path) -> None:
    add_grant(folder, allow("bash(make)"))

    assert stat.S_IMODE(grants_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(grants_file().parent.stat().st_mode) == 0o700
    names = {path.name for path in grants_file().parent.iterdir()}
    assert names == {"grants.toml", "grants.toml.lock"}


def test_it_is_kept_where_the_keys_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(folder.parent / "kept"))

    add_grant(folder, allow("bash(make)"))

    assert (folder.parent / "kept" / "grants.toml").is_file()


def test_forgetting_takes_back_what_was_granted_there(folder: Path) -> None:
    add_grant(folder, allow("bash(make)"))
    add_grant(folder, allow("bash(npm test)"))
    add_grant(folder / "sub", allow("bash(ls)"))

    assert forget_grants(folder) == 2
    assert forget_grants(folder) == 0
    assert (texts(folder), texts(folder / "sub")) == ([], ["bash(ls)"])


def test_forgetting_where_nothing_was_ever_granted_makes_no_file(folder: Path) -> None:
    assert forget_grants(folder) == 0
    assert not grants_file().parent.exists()


def test_only_an_allowance_can_be_granted(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be granted"):
        add_grant(folder, parse_rule("deny", "bash(make)"))
    with pytest.raises(ConfigurationError):  # one that was not checked when it was made
        add_grant(folder, Rule("allow", "bash", "  "))


def test_a_rule_that_is_no_text_is_refused_and_changes_nothing(folder: Path) -> None:
    add_grant(folder, allow("bash(make)"))

    with pytest.raises(ConfigurationError, match="cannot be kept"):
        add_grant(folder, Rule("allow", "tool\udc80"))

    assert texts(folder) == ["bash(make)"]


def test_nothing_is_kept_for_a_folder_that_everybody_may_write_to(folder: Path) -> None:
    folder.chmod(0o777)

    with pytest.raises(ConfigurationError, match="may be written by everybody"):
        add_grant(folder, allow("bash(make)"))


def test_a_grant_does_not_outlive_a_change_of_owner_or_rights(folder: Path) -> None:
    add_grant(folder, allow("bash(make)"))

    text = grants_file().read_text()
    grants_file().write_text(text.replace(f"owner = {os.geteuid()}", "owner = 54321"))
    assert texts(folder) == []

    add_grant(folder, allow("bash(ls)"))  # what another one was granted is not taken over
    assert texts(folder) == ["bash(ls)"]
    folder.chmod(0o757)
    assert texts(folder) == []


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\xff", "is not a list"),
        (b"version = ", "is not a list"),
        (b"version = 2\n", "is not of version 1"),
        (b"[folders]\n'/srv/x' = 5\n", "is not a list"),
        (b"folders = " + b"[" * 9000, "is not a list"),
        (b"[folders.'/srv/x']\nowner = 0\nallow = 'bash'\n", "is not a list"),
        (b"# " + b"x" * 5_000_000, "is far too large"),
    ],
)
def test_a_damaged_file_grants_nothing_and_is_not_written_over(
    folder: Path, content: bytes, what: str
) -> None:
    add_grant(folder, allow("bash(make)"))
    grants_file().write_bytes(content)

    for attempt in (granted_rules, forget_grants, lambda f: add_grant(f, allow("bash(ls)"))):
        with pytest.raises(ConfigurationError, match=what):
            attempt(folder)
    assert grants_file().read_bytes() == content


def test_a_file_that_somebody_else_may_have_made_grants_nothing(folder: Path) -> None:
    add_grant(folder, allow("bash(make)"))
    file = grants_file()

    file.chmod(0o620)
    with pytest.raises(ConfigurationError, match="may be written by others"):
        granted_rules(folder)

    file.chmod(0o600)
    file.parent.chmod(0o777)
    with pytest.raises(ConfigurationError, match="lies in a folder that may be written by others"):
        granted_rules(folder)

    file.parent.chmod(0o700)
    second = file.with_name("second")
    os.link(file, second)
    with pytest.raises(ConfigurationError, match="hard link"):
        granted_rules(folder)

    second.unlink()
    file.rename(second)
    file.symlink_to(second)
    with pytest.raises(ConfigurationError, match="is a symbolic link"):
        granted_rules(folder)

    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigurationError, match="is no plain file"):
        granted_rules(folder)


def test_a_lock_that_is_a_link_is_not_followed(folder: Path) -> None:
    add_grant(folder, allow("bash(make)"))
    lock = grants_file().with_name("grants.toml.lock")
    lock.unlink()
    lock.symlink_to(folder / "made")

    with pytest.raises(ConfigurationError, match="cannot be changed"):
        add_grant(folder, allow("bash(ls)"))

    assert not (folder / "made").exists()


def test_processes_that_grant_at_once_lose_nothing(folder: Path) -> None:
    code = (
        "import sys\n"
        "from loopwright.cli.settings.grants import add_grant\n"
        "from loopwright.permissions import parse_rule\n"
        "sys.stdin.read()\n"
        "for number in range(15):\n"
        "    rule = parse_rule('allow', f'bash(make {sys.argv[2]}-{number})')\n"
        "    add_grant(sys.argv[1], rule)\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code, folder, name], stdin=subprocess.PIPE)
        for name in ("a", "b")
    ]
    for one in both:  # they wait for this, so that both are ready
        assert one.stdin is not None
        one.stdin.close()
    assert [one.wait(60) for one in both] == [0, 0]

    expected = {f"bash(make {name}-{number})" for name in "ab" for number in range(15)}
    assert set(texts(folder)) == expected
