"""AGENTS.md and its kin are found from the user's folder down to the working folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopwright.harness.context_files import ContextFile, load_context_files, load_system_file
from loopwright.harness.resource_files import Diagnostic
from loopwright.harness.resources import load_resources

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


class Machine:
    """A home with a project in it. What this machine has above the test's folder is left out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.config = self.home / ".config" / "loopwright"
        self.project = self.home / "code" / "project"
        self.cwd = self.project / "src"
        self.cwd.mkdir(parents=True)
        (self.project / ".git").mkdir()
        self.notes: list[Diagnostic] = []

    def load(self) -> list[ContextFile]:
        files, notes = load_context_files(self.cwd, home=self.home, config_dir=self.config)
        self.notes = [note for note in notes if note.path.is_relative_to(self.root)]
        return [file for file in files if file.path.is_relative_to(self.root)]

    def texts(self) -> list[str]:
        return [file.text for file in self.load()]

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(note.code, note.path.relative_to(self.root).as_posix()) for note in self.notes]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path.resolve())


def test_the_users_file_comes_first_and_the_nearest_last(machine: Machine) -> None:
    write(machine.config / "AGENTS.md", "user")
    write(machine.root / "AGENTS.md", "root")
    write(machine.home / "AGENTS.md", "home")
    write(machine.project / "AGENTS.md", "project")
    write(machine.cwd / "AGENTS.md", "cwd")
    write(machine.cwd / "below" / "AGENTS.md", "not found")

    found = machine.load()

    assert [file.text for file in found] == ["user", "root", "home", "project", "cwd"]
    assert [file.scope for file in found] == ["user"] + ["project"] * 4
    assert found[-1].path == machine.cwd / "AGENTS.md"
    assert machine.notes == []


def test_claude_md_counts_where_there_is_no_agents_md(machine: Machine) -> None:
    write(machine.config / "CLAUDE.md", "user claude")
    write(machine.project / "CLAUDE.md", "left out")
    write(machine.project / "AGENTS.md", "project agents")
    write(machine.cwd / "CLAUDE.md", "cwd claude")

    assert machine.texts() == ["user claude", "project agents", "cwd claude"]


def test_the_same_real_file_is_not_repeated(machine: Machine) -> None:
    agents = write(machine.project / "AGENTS.md", "once")
    (machine.cwd / "AGENTS.md").symlink_to(agents)
    (machine.cwd / "CLAUDE.md").symlink_to("AGENTS.md")

    assert machine.texts() == ["once"]
    assert machine.notes == []


def test_what_cannot_be_read_is_told_and_the_next_name_is_tried(machine: Machine) -> None:
    (machine.cwd / "AGENTS.md").write_bytes(b"caf\xe9")
    write(machine.cwd / "CLAUDE.md", "instead")
    (machine.project / "AGENTS.md").mkdir()
    os.mkfifo(machine.home / "AGENTS.md")
    (machine.root / "AGENTS.md").symlink_to("AGENTS.md")

    assert machine.texts() == ["instead"]
    assert sorted(machine.told) == [
        ("not-text", "home/code/project/src/AGENTS.md"),
        ("unreadable", "AGENTS.md"),
        ("unreadable", "home/AGENTS.md"),
        ("unreadable", "home/code/project/AGENTS.md"),
    ]


@pytest.mark.skipif(AS_ROOT, reason="root may read everything")
def test_a_file_without_rights_is_told(machine: Machine) -> None:
    write(machine.cwd / "AGENTS.md", "x").chmod(0)

    assert machine.texts() == []
    assert machine.told == [("unreadable", "home/code/project/src/AGENTS.md")]


@pytest.mark.skipif(AS_ROOT is False, reason="only root can give a file to another user")
def test_above_the_project_another_users_files_do_not_count(machine: Machine) -> None:
    for folder in (machine.root, machine.home, machine.project):
        os.chown(write(folder / "AGENTS.md", "theirs"), 12345, 12345)
    private = write(machine.home / "private.md", "mine")
    link = machine.project.parent / "AGENTS.md"
    link.symlink_to(private)
    os.lchown(link, 12345, 12345)

    found = machine.load()

    assert [file.path for file in found] == [machine.project / "AGENTS.md"]
    assert [code for code, _ in machine.told] == ["not-ours", "not-ours", "outside-project"]


def test_a_link_in_a_project_may_not_show_the_users_other_files(machine: Machine) -> None:
    secret = write(machine.home / ".ssh" / "id", "secret")
    (machine.cwd / "AGENTS.md").symlink_to(secret)
    (machine.project / "CLAUDE.md").symlink_to("/proc/self/environ")

    assert machine.texts() == []
    assert [code for code, _ in machine.told] == ["outside-project", "outside-project"]


def test_the_users_own_file_may_be_a_link(machine: Machine) -> None:
    dotfiles = write(machine.root / "dotfiles" / "AGENTS.md", "mine")
    machine.config.mkdir(parents=True)
    (machine.config / "AGENTS.md").symlink_to(dotfiles)

    assert machine.texts() == ["mine"]


def test_line_ends_byte_order_marks_and_empty_files_make_no_difference(machine: Machine) -> None:
    (machine.project / "AGENTS.md").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n\r\n")
    write(machine.cwd / "AGENTS.md", " \n\n")

    assert machine.texts() == ["a\nb"]


def test_of_a_large_file_the_beginning_is_used_and_it_says_so(machine: Machine) -> None:
    line = "é" * 49 + "\n"
    write(machine.cwd / "AGENTS.md", line * 1_000)

    (found,) = machine.texts()

    body, _, note = found.rpartition("\n\n")
    assert set(body.split("\n")) == {line.strip()}
    assert 65_000 < len(body.encode()) <= 65_536
    assert note == (
        "[Cut here: only the first 64 KiB of 99,000 bytes are used. Read the file for the rest.]"
    )
    assert machine.told == [("cut", "home/code/project/src/AGENTS.md")]


def test_a_large_file_in_one_line_is_cut_between_characters(machine: Machine) -> None:
    write(machine.cwd / "AGENTS.md", "x" + "é" * 40_000)

    (found,) = machine.texts()

    assert found.startswith("x" + "é" * 32_767 + "\n\n[Cut here")


def test_an_endless_file_is_not_read(machine: Machine) -> None:
    machine.config.mkdir(parents=True)
    (machine.config / "AGENTS.md").symlink_to("/dev/zero")

    assert machine.texts() == []
    assert [code for code, _ in machine.told] == ["unreadable"]


@pytest.mark.parametrize("name", ["SYSTEM.md", "APPEND_SYSTEM.md"])
def test_a_system_file_of_the_project_beats_that_of_the_user(machine: Machine, name: str) -> None:
    def found() -> str | None:
        file, notes = load_system_file(
            name, machine.cwd, home=machine.home, config_dir=machine.config
        )
        assert notes == []
        return None if file is None else file.text

    assert found() is None
    write(machine.config / name, "user")
    assert found() == "user"
    write(machine.project / ".loopwright" / name, "project")
    assert found() == "project"
    write(machine.cwd / ".loopwright" / name, "nearest")
    assert found() == "nearest"


@pytest.mark.parametrize("name", ["SYSTEM.md", "APPEND_SYSTEM.md"])
def test_a_system_file_counts_only_where_its_folder_is_trusted(machine: Machine, name: str) -> None:
    write(machine.config / name, "user")
    far = write(machine.project / ".loopwright" / name, "project")
    near = write(machine.cwd / ".loopwright" / name, "nearest")

    def found(*trusted: Path) -> tuple[str | None, list[tuple[str, Path]]]:
        file, notes = load_system_file(
            name,
            machine.cwd,
            home=machine.home,
            config_dir=machine.config,
            is_trusted=lambda folder: folder in trusted,
        )
        return file and file.text, [(note.code, note.path) for note in notes]

    assert found() == ("user", [("not-trusted", near), ("not-trusted", far)])
    assert found(machine.project) == ("project", [("not-trusted", near)])
    assert found(machine.cwd) == ("nearest", [("not-trusted", far)])
    assert found(machine.cwd, machine.project) == ("nearest", [])


def test_one_call_finds_everything(machine: Machine) -> None:
    write(machine.cwd / "AGENTS.md", "context")
    write(machine.cwd / ".agents" / "skills" / "s" / "SKILL.md", "---\ndescription: d\n---\nskill")
    write(machine.cwd / ".loopwright" / "templates" / "t.md", "template $1")
    write(machine.config / "SYSTEM.md", "system")
    write(machine.config / "APPEND_SYSTEM.md", "append")
    write(machine.cwd / ".loopwright" / "templates" / "bad.md", "---\n- x\n---\n")

    found = load_resources(machine.cwd, home=machine.home)

    assert [skill.name for skill in found.skills] == ["s"]
    assert [template.name for template in found.templates] == ["t"]
    assert found.context_files[-1].text == "context"
    assert found.system is not None
    assert found.system.text == "system"
    assert found.append_system is not None
    assert found.append_system.text == "append"
    assert [note.code for note in found.diagnostics if note.path.is_relative_to(machine.root)] == [
        "bad-frontmatter"
    ]
    assert found.expand("/t a") == "template a"
    assert "skill" in found.expand("/skill:s")


def test_each_search_can_be_left_out_but_what_is_given_counts(machine: Machine) -> None:
    write(machine.cwd / "AGENTS.md", "context")
    write(machine.cwd / ".agents" / "skills" / "s" / "SKILL.md", "---\ndescription: d\n---\nskill")
    write(machine.cwd / ".loopwright" / "templates" / "t.md", "template")
    given = write(machine.cwd / "given" / "SKILL.md", "---\ndescription: d\n---\nskill")

    found = load_resources(
        machine.cwd,
        home=machine.home,
        skill_paths=["given"],
        find_skills=False,
        find_templates=False,
        find_context_files=False,
    )

    assert [skill.file for skill in found.skills] == [given]
    assert found.templates == []
    assert found.context_files == []


def test_paths_that_lead_nowhere_or_nonsense_raise_nothing(machine: Machine) -> None:
    found = load_resources(
        machine.cwd,
        home=machine.root / "no-home",
        config_dir=Path("\0"),
        skill_paths=["\0", "~nobody-of-that-name/x", "x" * 5000],
        template_paths=["\0", "no/where"],
    )

    codes = [note.code for note in found.diagnostics if note.code != "not-ours"]
    assert codes == ["not-found"] * 5


@pytest.mark.parametrize("name", ["agents.md", "Agents.md", "claude.MD"])
def test_case_155_a_context_file_in_other_letters_is_named_once(tmp_path: Path, name: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text("Be kind.")

    files, notes = load_context_files(tmp_path, home=None, config_dir=None)

    mine = [note for note in notes if note.path.name == name]
    assert [note.code for note in mine] == ["misnamed"]
    assert name.upper().split(".")[0] in mine[0].message
    assert all(file.path.parent != tmp_path for file in files)
