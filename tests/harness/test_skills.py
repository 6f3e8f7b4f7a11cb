"""Skills are found where people put them, listed safely, and called by name."""

from __future__ import annotations

import os
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopwright.harness.places import project_places
from loopwright.harness.resource_files import Diagnostic
from loopwright.harness.skills import (
    Skill,
    UnknownSkill,
    expand_skill,
    list_for_prompt,
    load_skills,
)

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def write_skill(
    folder: Path, name: str | None = None, description: str = "d", more: str = ""
) -> Path:
    """A folder with a SKILL.md; *name* is that of the folder unless said."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    file.write_text(
        f"---\nname: {name or folder.name}\ndescription: {description}\n{more}---\n\nbody of {folder.name}\n",
        "utf-8",
    )
    return file


class Machine:
    """A home, a configuration folder, and a project with a repository, each where it belongs."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.config = self.home / ".config" / "loopwright"
        self.project = self.home / "code" / "project"
        self.cwd = self.project / "src" / "deep"
        self.cwd.mkdir(parents=True)
        (self.project / ".git").mkdir()
        self.notes: list[Diagnostic] = []

    def load(self, *explicit: Path | str, cwd: Path | None = None) -> dict[str, Skill]:
        skills, self.notes = load_skills(
            cwd or self.cwd,
            home=self.home,
            config_dir=self.config,
            explicit=[Path(path) for path in explicit],
        )
        assert len({skill.name for skill in skills}) == len(skills)
        return {skill.name: skill for skill in skills}

    @property
    def told(self) -> list[tuple[str, str]]:
        """Code and last two parts of the path of each diagnostic."""
        return [(note.code, "/".join(note.path.parts[-2:])) for note in self.notes]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path.resolve())


def test_skills_are_found_in_the_project_above_it_and_at_home(machine: Machine) -> None:
    write_skill(machine.cwd / ".loopwright" / "skills" / "near")
    write_skill(machine.cwd / ".agents" / "skills" / "near-agents")
    write_skill(machine.project / ".loopwright" / "skills" / "far")
    write_skill(machine.project / ".agents" / "skills" / "group" / "far-agents")
    write_skill(machine.config / "skills" / "mine")
    write_skill(machine.home / ".agents" / "skills" / "mine-agents")
    write_skill(machine.project.parent / ".agents" / "skills" / "beyond-the-repository")

    found = machine.load()

    assert {name: skill.scope for name, skill in found.items()} == {
        "near": "project",
        "near-agents": "project",
        "far": "project",
        "far-agents": "project",
        "mine": "user",
        "mine-agents": "user",
    }
    assert list(found) == ["near", "near-agents", "far", "far-agents", "mine", "mine-agents"]
    assert found["near"].body == "body of near"
    assert machine.notes == []


def test_without_a_repository_the_search_ends_below_home(machine: Machine) -> None:
    cwd = machine.home / "a" / "b"
    cwd.mkdir(parents=True)
    write_skill(machine.home / "a" / ".agents" / "skills" / "above")
    write_skill(machine.home / ".loopwright" / "skills" / "of-home")
    write_skill(machine.home.parent / ".agents" / "skills" / "above-home")

    assert list(machine.load(cwd=cwd)) == ["above"]
    assert list(machine.load(cwd=machine.home)) == ["of-home"]


def test_home_under_version_control_makes_no_project_of_everything_below(machine: Machine) -> None:
    (machine.home / ".git").mkdir()
    cwd = machine.home / "a"
    cwd.mkdir()
    write_skill(machine.home / ".loopwright" / "skills" / "of-home")

    assert machine.load(cwd=cwd) == {}


def test_the_first_of_a_name_wins_and_the_others_are_told(machine: Machine) -> None:
    given = write_skill(machine.home / "given" / "x")
    near = write_skill(machine.cwd / ".loopwright" / "skills" / "x")
    agents = write_skill(machine.cwd / ".agents" / "skills" / "x")
    far = write_skill(machine.project / ".loopwright" / "skills" / "x")
    user = write_skill(machine.config / "skills" / "x")

    assert machine.load(given)["x"].file == given
    assert [(note.code, note.path) for note in machine.notes] == [
        ("name-collision", path) for path in (near, agents, far, user)
    ]
    assert str(given) in machine.notes[0].message
    assert machine.load()["x"].file == near


def test_an_explicit_path_is_a_file_or_a_skill_or_a_folder_of_skills(machine: Machine) -> None:
    single = machine.cwd / "my-notes.md"
    single.write_text("---\ndescription: d\n---\nbody")
    write_skill(machine.cwd / "one")
    write_skill(machine.cwd / "many" / "two")
    write_skill(machine.cwd / "many" / "three")

    found = machine.load("my-notes.md", machine.cwd / "one", "many", "gone")

    assert set(found) == {"my-notes", "one", "two", "three"}
    assert {skill.scope for skill in found.values()} == {"explicit"}
    assert machine.told == [("not-found", "deep/gone")]


def test_a_skill_folder_is_not_searched_further_and_loose_files_count_in_the_root_only(
    machine: Machine,
) -> None:
    skills = machine.project / ".agents" / "skills"
    write_skill(skills / "outer")
    write_skill(skills / "outer" / "inner")
    write_skill(skills / "group" / "member")
    (skills / "group" / "loose.md").write_text("---\ndescription: d\n---\n")
    (skills / "direct.md").write_text("---\ndescription: d\n---\nx")
    (skills / "README.md").write_text("# About these skills")

    assert set(machine.load()) == {"outer", "member", "direct"}
    assert machine.notes == []


def test_hidden_folders_and_node_modules_are_left_out(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    for name in (".hidden", "node_modules", "group/node_modules", "group/.git"):
        write_skill(skills / name / "x")
    (skills / ".loose.md").write_text("---\ndescription: d\n---\n")

    assert machine.load() == {}


def test_a_skill_that_the_model_may_not_choose_can_still_be_called(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    for value in ("true", "'yes'", "On", "false", "no", "maybe"):
        write_skill(
            skills / f"v-{value.strip(chr(39)).lower()}",
            more=f"disable-model-invocation: {value}\n",
        )

    found = machine.load()

    assert {name for name, skill in found.items() if skill.hidden} == {
        "v-true", "v-yes", "v-on", "v-maybe"
    }  # fmt: skip
    assert machine.told == [("bad-field", "v-maybe/SKILL.md")]
    listed = list_for_prompt(list(found.values()))
    assert "v-false" in listed
    assert "v-true" not in listed
    assert "body of v-true" in expand_skill("/skill:v-true", found.values())


def test_a_bad_name_is_told_and_loaded(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    for folder, name in {
        "a": "Upper", "b": "two--hyphens", "c": "-x", "d": "x" * 65, "e": "under_score",
        "f": "other", "g": "[list]", "h": "12", "i": "'a\"<b>'",
    }.items():  # fmt: skip
        write_skill(skills / folder, name)

    found = machine.load()

    names = ["Upper", "two--hyphens", "-x", "x" * 65, "under_score", "other", "g", "12", 'a"<b>']
    assert list(found) == names
    assert {path.partition("/")[0] for _, path in machine.told} == set("abcdefghi")
    assert [code for code, path in machine.told if path.startswith("g/")] == ["bad-field"]


def test_a_missing_name_is_that_of_the_folder(machine: Machine) -> None:
    folder = machine.project / ".agents" / "skills" / "from-folder"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\ndescription: >\n  Some\n  lines\nlicense: MIT\nmetadata: {a: [1]}\nallowed-tools: Read\nmy: 1\n---\n"
    )

    found = machine.load()

    assert found["from-folder"].description == "Some lines"
    assert machine.notes == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"---\nname: bad\n---\nbody", "no-description"),
        (b"---\nname: bad\ndescription: '  '\n---\nbody", "no-description"),
        (b"---\nname: bad\ndescription: [a]\n---\nbody", "no-description"),
        (b"just text", "no-description"),
        (b"", "no-description"),
        (b"---\ndescription: use when: asked\n---\n", "bad-frontmatter"),
        (b"---\n- description\n---\n", "bad-frontmatter"),
        (b"---\ndescription: d\n", "bad-frontmatter"),
        (b"---\ndescription: d\ndescription: e\n---\n", "bad-frontmatter"),
        (b"---\ndescription: caf\xe9\n---\n", "not-text"),
        (b"\xff\xfe-\0-\0", "not-text"),
        (b"---\ndescription: d\n---\n" + b"x" * 1_048_576, "too-large"),
    ],
)
def test_what_is_no_skill_is_told_and_left_out(machine: Machine, content: bytes, code: str) -> None:
    skills = machine.project / ".agents" / "skills"
    write_skill(skills / "good")
    (skills / "bad").mkdir()
    (skills / "bad" / "SKILL.md").write_bytes(content)

    assert list(machine.load()) == ["good"]
    assert machine.told == [(code, "bad/SKILL.md")]


def test_a_byte_order_mark_and_windows_line_ends_are_read(machine: Machine) -> None:
    folder = machine.project / ".agents" / "skills" / "win"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(
        b"\xef\xbb\xbf---\r\nname: win\r\ndescription: d\r\n---\r\na\r\nb\r\n"
    )
    (folder.parent / "loose.md").write_bytes(b"\xef\xbb\xbf---\r\ndescription: d\r\n---\r\n")

    found = machine.load()

    assert found["win"].body == "a\nb"
    assert "loose" in found


def test_a_pipe_or_a_folder_in_place_of_the_file_does_not_hang(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    (skills / "pipe").mkdir(parents=True)
    os.mkfifo(skills / "pipe" / "SKILL.md")
    os.mkfifo(skills / "loose.md")
    (skills / "folder" / "SKILL.md").mkdir(parents=True)

    assert machine.load() == {}
    assert sorted(machine.told) == [
        ("unreadable", "folder/SKILL.md"),
        ("unreadable", "pipe/SKILL.md"),
        ("unreadable", "skills/loose.md"),
    ]


@pytest.mark.skipif(AS_ROOT, reason="root may read everything")
def test_a_folder_without_rights_is_told(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    write_skill(skills / "good")
    (skills / "locked").mkdir(mode=0)

    assert list(machine.load()) == ["good"]
    assert machine.told == [("unreadable", "skills/locked")]


def test_the_same_real_file_is_no_collision(machine: Machine) -> None:
    write_skill(machine.project / ".agents" / "skills" / "x")
    (machine.project / ".loopwright").mkdir()
    (machine.project / ".loopwright" / "skills").symlink_to("../.agents/skills")
    (machine.project / ".agents" / "skills" / "again").symlink_to("x")

    assert list(machine.load()) == ["x"]
    assert machine.told == [("bad-name", "again/SKILL.md")]


def test_links_in_a_circle_end(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    write_skill(skills / "x")
    (skills / "up").symlink_to("..")
    for number in range(5):  # five ways to go on at each level: without a memory, thousands
        (skills / f"self-{number}").symlink_to(".")
    (skills / "loop").symlink_to("loop")
    (skills / "a").mkdir()
    (skills / "a" / "SKILL.md").symlink_to("SKILL.md")

    assert list(machine.load()) == ["x"]
    assert "too-many-files" not in [code for code, _ in machine.told]


def test_a_link_in_a_project_may_not_lead_out_of_it(machine: Machine) -> None:
    outside = machine.home / "private"
    write_skill(outside / "secret")
    skills = machine.project / ".agents" / "skills"
    skills.mkdir(parents=True)
    (skills / "folder").symlink_to(outside / "secret")
    (skills / "file").mkdir()
    (skills / "file" / "SKILL.md").symlink_to(outside / "secret" / "SKILL.md")
    (skills / "loose.md").symlink_to(outside / "secret" / "SKILL.md")
    (skills / "up").symlink_to("../../..")
    (machine.cwd / ".agents").symlink_to(outside)
    (machine.cwd / ".loopwright").mkdir()
    (machine.cwd / ".loopwright" / "skills").symlink_to(outside)

    assert machine.load() == {}
    assert sorted(machine.told) == [
        ("outside-project", path)
        for path in (".loopwright/skills", "file/SKILL.md", "skills/folder", "skills/loose.md", "skills/up")
    ]  # fmt: skip


def test_a_link_may_lead_out_if_its_path_was_given_or_it_is_the_users(machine: Machine) -> None:
    outside = machine.home.parent / "elsewhere"
    write_skill(outside / "shared")
    skills = machine.project / ".agents" / "skills"
    skills.mkdir(parents=True)
    (skills / "shared").symlink_to(outside / "shared")
    (machine.config / "skills").mkdir(parents=True)
    (machine.config / "skills" / "shared").symlink_to(outside / "shared")

    assert machine.load(skills / "shared")["shared"].scope == "explicit"
    assert machine.load()["shared"].scope == "user"


def test_a_project_reached_by_a_link_is_still_a_project(machine: Machine, tmp_path: Path) -> None:
    write_skill(machine.project / ".agents" / "skills" / "x")
    (tmp_path / "way").symlink_to(machine.project)

    from loopwright.harness.resources import load_resources

    found = load_resources(tmp_path / "way", home=machine.home, config_dir=machine.config)

    assert [skill.name for skill in found.skills] == ["x"]
    assert found.diagnostics == []


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a file to another user")
def test_above_the_project_another_users_files_do_not_count(machine: Machine) -> None:
    shared = machine.home.parent / "shared"
    cwd = shared / "mine"
    cwd.mkdir(parents=True)
    theirs = write_skill(shared / ".agents" / "skills" / "theirs")
    write_skill(shared / ".agents" / "skills" / "mine")
    in_project = write_skill(cwd / ".agents" / "skills" / "inside")
    (shared / ".git").mkdir()
    for path in (theirs, in_project, shared / ".git"):
        os.lchown(path, 12345, 12345)

    found = machine.load(cwd=cwd)

    assert set(found) == {"mine", "inside"}
    assert ("not-ours", "theirs/SKILL.md") in machine.told


def test_ignore_files_are_honoured_folder_by_folder(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    for name in ("a", "b", "c", "group/a", "group/keep-me", "group/drop-me", "deep/er/x", "d", "e"):
        write_skill(skills / name, name="s-" + name.replace("/", "-"))
    (skills / "loose.md").write_text("---\ndescription: d\n---\n")
    (skills / ".gitignore").write_text("# a comment\n/a\n*-me/\nx\nloose.md\n\nd/\ne\n!e\n")
    (skills / ".ignore").write_text("b\n!d\n")
    (skills / ".fdignore").write_text("c/SKILL.md\n")
    (skills / "group" / ".gitignore").write_text("!keep-me\n")

    found = machine.load()

    assert set(found) == {"s-group-a", "s-group-keep-me", "s-d", "s-e"}


def test_the_projects_own_gitignore_does_not_hide_skills(machine: Machine) -> None:
    """Many keep their folder of skills out of version control."""
    (machine.project / ".gitignore").write_text(".agents/\n")
    write_skill(machine.project / ".agents" / "skills" / "x")

    assert list(machine.load()) == ["x"]


def test_a_hostile_ignore_file_costs_next_to_nothing(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    write_skill(skills / ("a" * 200), name="long")
    (skills / ".gitignore").write_text("*a" * 20 + "b\n[z-a]\n!\n\\\n" + "x\n" * 300)
    (skills / ".ignore").write_bytes(b"\xff")
    os.mkfifo(skills / ".fdignore")
    started = time.process_time()

    assert list(machine.load()) == ["long"]

    assert time.process_time() - started < 2
    codes = [code for code, path in machine.told if path.endswith("ignore")]
    assert codes.count("bad-ignore-pattern") >= 4
    assert {"not-text", "unreadable"} <= set(codes)


def test_a_huge_or_deep_tree_is_searched_to_a_bound(machine: Machine) -> None:
    skills = machine.project / ".agents" / "skills"
    (skills / "many").mkdir(parents=True)
    for number in range(2_100):
        (skills / "many" / f"f{number}").touch()
    write_skill(skills / "/".join(["d"] * 30) / "x")
    write_skill(skills / "good")

    assert list(machine.load()) == ["good"]
    assert machine.told == [("too-many-files", ".agents/skills")]


def skill(
    name: str = "x", description: str = "d", body: str = "body", hidden: bool = False
) -> Skill:
    return Skill(name, description, Path("/skills") / "x" / "SKILL.md", body, "user", hidden)


def test_the_list_for_the_prompt() -> None:
    listed = list_for_prompt([skill("a", "one & <two>"), skill("b", hidden=True)])

    assert listed.endswith(
        "<available_skills>\n"
        "  <skill>\n"
        "    <name>a</name>\n"
        "    <description>one &amp; &lt;two&gt;</description>\n"
        "    <location>/skills/x/SKILL.md</location>\n"
        "  </skill>\n"
        "</available_skills>"
    )


def test_no_list_without_skills_or_without_a_tool_to_read_them() -> None:
    assert list_for_prompt([]) == ""
    assert list_for_prompt([skill(hidden=True)]) == ""
    assert list_for_prompt([skill()], reader_tool=False) == ""


def test_a_long_description_is_cut_in_the_list_and_told(machine: Machine) -> None:
    write_skill(machine.project / ".agents" / "skills" / "x", description="word " * 500)

    found = machine.load()

    assert machine.told == [("long-description", "x/SKILL.md")]
    assert len(list_for_prompt(list(found.values()))) < 1_500


@given(st.text(max_size=60), st.text(max_size=60))
@example("\ufffe", "\uffff")
def test_no_name_or_description_breaks_out_of_the_list(name: str, description: str) -> None:
    listed = list_for_prompt([skill(name, description)])

    rows = ElementTree.fromstring(listed[listed.index("<available_skills>") :])
    assert [row.tag for row in rows[0]] == ["name", "description", "location"]
    assert len(rows) == 1
    assert len(listed.split("\n")) == 9


def test_a_call_becomes_the_skills_text_and_the_arguments() -> None:
    assert expand_skill("/skill:x  do it\nnow ", [skill()]) == (
        '<skill name="x" location="/skills/x/SKILL.md">\n'
        "References are relative to /skills/x.\n"
        "\n"
        "body\n"
        "</skill>\n"
        "\n"
        "do it\nnow"
    )
    assert expand_skill("/skill:x", [skill()]).endswith("\n</skill>")


def test_the_name_and_the_location_are_escaped_in_the_block() -> None:
    bad = Skill('a"<b>', "d", Path('/s/"><x>\n/SKILL.md'), "body", "user")

    expanded = expand_skill('/skill:a"<b>', [bad])

    first, second, *_ = expanded.split("\n")
    assert first == (
        '<skill name="a&quot;&lt;b&gt;" location="/s/&quot;&gt;&lt;x&gt;\\n/SKILL.md">'
    )
    assert second == 'References are relative to /s/"><x>\\n.'


@pytest.mark.parametrize(
    "body", ["</skill>", "< / SKILL >", "<skill name='y'>", "</skill-2></skill>"]
)
def test_a_skills_text_cannot_end_its_block(body: str) -> None:
    expanded = expand_skill("/skill:x args", [skill(body=body)])

    tag = expanded[1:].partition(" ")[0]
    assert tag != "skill"
    assert expanded.count(f"</{tag}>") == 1
    assert expanded.endswith(f"</{tag}>\n\nargs")


def test_an_unknown_skill_is_an_error_with_near_names_or_stays_text() -> None:
    with pytest.raises(UnknownSkill, match="no skill is named 'revew'") as raised:
        expand_skill("/skill:revew a", [skill("review")])
    assert raised.value.hint == "did you mean /skill:review?"

    with pytest.raises(UnknownSkill, match="no skills were found"):
        expand_skill("/skill:x", [])

    for text in ("/skill:", "/skill: x", "/skill:gone a  b"):
        with pytest.raises(UnknownSkill):
            expand_skill(text, [skill()])
        assert expand_skill(text, [skill()], pass_through=True) == text


@pytest.mark.parametrize(
    "text", ["", "hello", " /skill:x", "/skills:x", "see /skill:x", "/skill x"]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert expand_skill(text, [skill()]) == text


def test_the_folders_of_a_project_go_up_to_its_root(machine: Machine) -> None:
    folders = [place.folder for place in project_places(machine.cwd, machine.home)]

    assert folders == [machine.cwd, machine.cwd.parent, machine.project]


def test_a_worktree_marks_a_project_as_well(machine: Machine) -> None:
    (machine.cwd / ".git").write_text("gitdir: elsewhere")

    assert [place.folder for place in project_places(machine.cwd, machine.home)] == [machine.cwd]


@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "SKILL.MD", "SKILL.md.txt", "SKILLS.md"])
def test_case_155_a_file_that_is_almost_a_skill_is_named(machine: Machine, name: str) -> None:
    folder = machine.project / ".loopwright" / "skills" / "build"
    write_skill(folder).rename(folder / name)

    assert machine.load() == {}
    assert machine.told == [("misnamed", f"build/{name}")]
