"""`/name arguments` is expanded in one pass, whatever the arguments hold."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopwright.harness.templates import (
    Template,
    expand_template,
    fill_in,
    load_templates,
    split_arguments,
)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def template(name: str, content: str) -> Template:
    return Template(name, "", content, Path(f"{name}.md"), "user")


ABC = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "arguments", "expected"),
    [
        ("$1-$2-$3", ABC, "a-b-c"),
        ("$4|$9|", ABC, "||"),
        ("$@ / $ARGUMENTS", ABC, "a b c / a b c"),
        ("${@:2}", ABC, "b c"),
        ("${@:0}|${@:1}", ABC, "a b c|a b c"),
        ("${@:4}|${@:99}", ABC, "|"),
        ("${@:2:1}|${@:1:2}|${@:2:9}|${@:2:0}", ABC, "b|a b|b c|"),
        ("$10 $1", [str(n) for n in range(1, 12)], "10 1"),
        ("$1a ${1} $0 $ $$ $x ${@} ${@:} ${@:x} $-1", ABC, "aa ${1} $0 $ $$ $x ${@} ${@:} ${@:x} $-1"),
        ("$$1", ABC, "$a"),
        ("$ARGUMENTS$1", ABC, "a b ca"),
        ("nothing", ABC, "nothing"),
        ("[$@]", [], "[]"),
        ("$1|$2", ["", "b"], "|b"),
        ("$@", ["", "b"], " b"),
        ("$" + "9" * 5000 + "|${@:" + "9" * 5000 + "}|${@:1:" + "9" * 5000 + "}", ABC, "||a b c"),
    ],
)  # fmt: skip
def test_placeholders(content: str, arguments: list[str], expected: str) -> None:
    assert fill_in(content, arguments) == expected


@pytest.mark.parametrize("argument", ["$@", "$ARGUMENTS", "$1", "$2", "${@:1}", r"\1 \g<0>"])
@pytest.mark.parametrize("content", ["$1", "$@", "$ARGUMENTS", "${@:1}", "${@:1:1}"])
def test_an_argument_is_never_expanded_itself(content: str, argument: str) -> None:
    assert fill_in(content, [argument]) == argument


PIECES = ["$", "$1", "$2", "$10", "$@", "$ARGUMENTS", "${@:2}", "${@:0:1}", "${@:1:2}", "{", "0", "x ", "@"]  # fmt: skip


def naive(content: str, arguments: list[str]) -> str:
    """Reads the text character by character, as one would explain it."""
    out = ""
    while content:
        for pattern, value in (
            (r"\$ARGUMENTS", lambda _: arguments),
            (r"\$@", lambda _: arguments),
            (r"\$\{@:(\d+):(\d+)\}", lambda m: arguments[max(0, int(m[1]) - 1) :][: int(m[2])]),
            (r"\$\{@:(\d+)\}", lambda m: arguments[max(0, int(m[1]) - 1) :]),
            (r"\$([1-9]\d*)", lambda m: arguments[int(m[1]) - 1 :][:1]),
        ):
            found = re.match(pattern, content)
            if found:
                out, content = out + " ".join(value(found)), content[found.end() :]
                break
        else:
            out, content = out + content[0], content[1:]
    return out


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.lists(st.sampled_from(PIECES), max_size=12))  # fmt: skip
@example("$1$@", ["$@", "$1"])
def test_expansion_is_that_of_a_naive_reader(content: str, arguments: list[str]) -> None:
    assert fill_in(content, arguments) == naive(content, arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \t\n ", []),
        ("a  b\tc\nd", ["a", "b", "c", "d"]),
        ("'a b' \"c d\"", ["a b", "c d"]),
        ("\"a 'b' c\" 'd \"e\" f'", ["a 'b' c", 'd "e" f']),
        ("\"\" x ''", ["", "x", ""]),
        ('""', [""]),
        ('a"b c"d', ["ab cd"]),
        ("--name='a b'", ["--name=a b"]),
        ('"two\nlines" x', ["two\nlines", "x"]),
        ("don't break it's fine", ["don't", "break", "it's", "fine"]),
        ("'tis one", ["'tis", "one"]),
        ('5" wide', ['5"', "wide"]),
        (r'"a \"b\""', ["a \\b\\"]),
        ("größe 漢字 😀", ["größe", "漢字", "😀"]),
    ],
)
def test_arguments_are_split_on_blanks_with_simple_quotes(text: str, expected: list[str]) -> None:
    assert split_arguments(text) == expected


@given(st.lists(st.text(st.sampled_from("ab '\n\t$@"), max_size=6), max_size=5))
def test_arguments_in_double_quotes_come_through_whole(arguments: list[str]) -> None:
    assert split_arguments(" ".join(f'"{argument}"' for argument in arguments)) == arguments


@given(st.text(st.sampled_from("ab '\"\n"), max_size=30))
def test_splitting_loses_no_letter(text: str) -> None:
    split = split_arguments(text)

    assert [c for c in "".join(split) if c in "ab"] == [c for c in text if c in "ab"]


def test_a_long_line_of_quotes_is_split_in_one_go() -> None:
    assert len(split_arguments("' \"" * 50_000)) > 0


def test_a_known_name_is_expanded_and_everything_else_stays() -> None:
    known = [template("fix", "Fix $1: $@"), template("fixed", "no")]

    assert expand_template('/fix "a b" c', known) == "Fix a b: a b c"
    assert expand_template("/fix\na b", known) == "Fix a: a b"
    assert expand_template("/fix", known) == "Fix : "
    for text in ("/unknown x", "/usr/bin/env", "fix it", " /fix", "/", "", "/ fix", "/Fix x"):
        assert expand_template(text, known) == text


def test_the_result_is_not_expanded_again() -> None:
    assert expand_template("/a /b", [template("a", "$1"), template("b", "no")]) == "/b"


def test_templates_are_the_markdown_files_directly_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / ".loopwright" / "templates"
    write(folder / "review.md", "---\ndescription: Look  closely\n---\n\nReview $1.\n\n")
    write(folder / "plain.md", f"\n  {'x' * 70} and on\nmore")
    write(folder / "deep" / "er.md", "not found")
    write(folder / ".hidden.md", "not found")
    write(folder / "notes.txt", "not found")
    (folder / "folder.md").mkdir()

    found, notes = load_templates(tmp_path, home=None, config_dir=None)

    assert [(t.name, t.description, t.content) for t in found] == [
        ("plain", "x" * 60 + "…", f"  {'x' * 70} and on\nmore"),
        ("review", "Look closely", "Review $1."),
    ]
    assert notes == []


@pytest.mark.parametrize("hint", ["[file] [focus]", "<pr: number>", "*", "[one]", '"[quoted]"'])
def test_an_argument_hint_may_be_what_is_no_yaml(tmp_path: Path, hint: str) -> None:
    file = write(tmp_path / "t.md", f"---\nargument-hint: {hint}\ndescription: d\n---\nbody")

    (found,), notes = load_templates(tmp_path, home=None, config_dir=None, explicit=[file])

    assert (found.argument_hint, found.description) == (hint.strip('"'), "d")
    assert notes == []


def test_explicit_comes_before_project_before_user_and_losers_are_told(tmp_path: Path) -> None:
    project, config = tmp_path / "project", tmp_path / "config"
    (project / "sub").mkdir(parents=True)
    (project / ".git").mkdir()
    for name, folder in {
        "explicit": tmp_path / "given",
        "near": project / "sub" / ".loopwright" / "templates",
        "far": project / ".loopwright" / "templates",
        "user": config / "templates",
    }.items():
        write(folder / "all.md", name)
        if name != "explicit":
            write(folder / "three.md", name)
        if name in ("far", "user"):
            write(folder / "two.md", name)
        if name == "user":
            write(folder / "one.md", name)

    found, notes = load_templates(
        project / "sub", home=tmp_path, config_dir=config, explicit=[Path("../../given")]
    )

    assert {t.name: (t.content, t.scope) for t in found} == {
        "all": ("explicit", "explicit"),
        "three": ("near", "project"),
        "two": ("far", "project"),
        "one": ("user", "user"),
    }
    assert [note.code for note in notes] == ["name-collision"] * 6
    assert notes[0].path == project / "sub" / ".loopwright" / "templates" / "all.md"
    assert "given" in notes[0].message


def test_what_cannot_be_loaded_is_told_and_the_rest_is_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    write(folder / "good.md", "good")
    write(folder / "list.md", "---\n- a\n---\nbody")
    write(folder / "open.md", "---\ndescription: x\n")
    write(folder / "two words.md", "x")
    (folder / "latin.md").write_bytes(b"caf\xe9")
    (folder / "large.md").write_bytes(b"x" * 1_048_577)
    (folder / "lost.md").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "pipe.md")

    found, notes = load_templates(tmp_path, home=None, config_dir=tmp_path)

    assert [t.name for t in found] == ["good"]
    assert {note.path.name: note.code for note in notes} == {
        "list.md": "bad-frontmatter",
        "open.md": "bad-frontmatter",
        "two words.md": "bad-name",
        "latin.md": "not-text",
        "large.md": "too-large",
        "lost.md": "unreadable",
        "pipe.md": "unreadable",
    }


def test_a_path_that_was_given_and_leads_nowhere_is_told_and_others_are_not(tmp_path: Path) -> None:
    found, notes = load_templates(
        tmp_path, home=tmp_path, config_dir=tmp_path / "no", explicit=[Path("gone.md")]
    )

    assert found == []
    assert [(note.code, note.path) for note in notes] == [("not-found", tmp_path / "gone.md")]


def test_a_link_in_a_project_does_not_show_what_lies_outside(tmp_path: Path) -> None:
    secret = write(tmp_path / "home" / "secret", "key")
    folder = tmp_path / "project" / ".loopwright" / "templates"
    write(folder / "a.md", "a")
    (folder / "b.md").symlink_to(secret)
    (folder / "c.md").symlink_to("a.md")

    found, notes = load_templates(tmp_path / "project", home=None, config_dir=None)

    assert [t.name for t in found] == ["a"]
    assert [(note.code, note.path.name) for note in notes] == [("outside-project", "b.md")]
