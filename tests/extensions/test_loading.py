"""Extensions are found where they may be, and nothing that is wrong with one stops the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.extensions.scenes import EXAMPLE, an_extension, install, write

from loopwright.extensions import load_extensions


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages at the front of the path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".loopwright" / "extensions").mkdir(parents=True)
    return folder


def in_project(project: Path, name: str, code: str) -> Path:
    return write(project / ".loopwright" / "extensions" / name, code)


# -- entry points ----------------------------------------------------------------------------


def test_an_installed_package_is_found_by_a_process_of_its_own(tmp_path: Path) -> None:
    site = tmp_path / "site"
    code = (EXAMPLE / "loopwright_todo.py").read_text("utf-8")
    install(site, "loopwright_todo", {"todo": "loopwright_todo:extension"}, code)
    script = (
        "import sys\n"
        "from loopwright.extensions import load_extensions\n"
        "loaded = load_extensions()\n"
        "[todo] = loaded.extensions\n"
        "print(todo.name, loaded.sources[todo.name], loaded.faults)\n"
        "print([tool.name for tool in todo.tools], [each.name for each in todo.commands])\n"
        "assert load_extensions(disabled=['todo']).extensions == []\n"
    )

    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )

    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "todo extension 'todo' of the package loopwright-todo []",
        "['todo'] ['todo']",
    ]


def test_the_entry_point_of_the_example_is_the_one_that_is_tested() -> None:
    import tomllib

    told = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))

    points = told["project"]["entry-points"]["loopwright.extensions"]
    assert points == {"todo": "loopwright_todo:extension"}
    assert told["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"] == [
        "loopwright_todo.py"
    ]


def test_without_extensions_importlib_metadata_is_not_even_imported(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from loopwright.extensions import load_extensions\n"
        "assert load_extensions().faults == []\n"
        "print('importlib.metadata' in sys.modules)\n"
    )

    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert finished.stdout.strip() == "False"


@pytest.mark.parametrize("off", ["off-one", "Off_One", "disabled_package"])
def test_what_is_disabled_is_not_imported(site: Path, off: str) -> None:
    install(site, "disabled_package", {"off_one": "disabled_package:extension"}, "1 / 0")

    loaded = load_extensions(disabled=[off])

    assert (loaded.extensions, loaded.faults) == ([], [])
    assert "disabled_package" not in sys.modules


def test_an_extension_is_left_out_by_its_own_name_too(site: Path) -> None:
    install(site, "own_name", {"point": "own_name:extension"}, an_extension("another"))

    assert load_extensions(disabled=["another"]).extensions == []


def test_an_entry_point_may_be_a_function_and_make_several(site: Path) -> None:
    code = """
        from loopwright.extensions import Extension

        def make():
            return [Extension("one"), Extension("two")]
    """
    install(site, "makes_several", {"several": "makes_several:make"}, code)

    loaded = load_extensions()

    assert [each.name for each in loaded.extensions] == ["one", "two"]
    assert loaded.faults == []


def test_of_two_installed_versions_the_first_on_the_path_counts(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "twice_there", {"new": "twice_there:extension"}, an_extension("new"))
    monkeypatch.syspath_prepend(tmp_path / "newer")
    install(tmp_path / "newer", "Twice.There", {})

    assert load_extensions().extensions == []


@pytest.mark.parametrize("value", ["", "not a name", "no_such_module:extension", "json:nothing"])
def test_an_entry_point_that_leads_nowhere_is_a_fault(site: Path, value: str) -> None:
    install(site, "leads_nowhere", {"lost": value})

    loaded = load_extensions()

    [fault] = loaded.faults
    assert "leads-nowhere" in fault


def test_the_working_folder_announces_nothing_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `python -m loopwright` it is on the path; a cloned project may hold what it likes."""
    hostile = "from pathlib import Path\nPath('ran').touch()\n" + an_extension("hostile")
    install(tmp_path, "hostile_project", {"hostile": "hostile_project:extension"}, hostile)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])

    assert load_extensions().extensions == []
    assert not (tmp_path / "ran").exists()
    assert [each.name for each in load_extensions(project=tmp_path).extensions] == ["hostile"]


# -- those that are named --------------------------------------------------------------------


@pytest.mark.parametrize("reference", ["mine.py", "mine.py:extension", "./mine.py:holder.it"])
def test_a_file_is_loaded_by_its_path(tmp_path: Path, reference: str) -> None:
    code = an_extension("mine") + "class holder:\n    it = extension\n"
    write(tmp_path / "mine.py", code)

    loaded = load_extensions(extra=[reference], folder=tmp_path)

    assert [each.name for each in loaded.extensions] == ["mine"]
    assert loaded.sources == {"mine": f"extension {reference!r}"}
    assert not (tmp_path / "__pycache__").exists()


def test_a_module_is_loaded_by_its_name(site: Path) -> None:
    write(site / "named_module.py", an_extension("named"))

    loaded = load_extensions(extra=["named_module", "named_module:extension"])

    assert [each.name for each in loaded.extensions] == ["named"]
    [fault] = loaded.faults
    assert "two extensions are named 'named'" in fault


def test_a_module_in_the_working_folder_is_not_loaded_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in_the_folder.py", "1 / 0")
    monkeypatch.chdir(tmp_path)

    [fault] = load_extensions(extra=["in_the_folder"], folder=tmp_path).faults

    assert "there is no module 'in_the_folder'" in fault


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise ValueError('out of milk')", "raised ValueError: out of milk"),
        ("import sys; sys.exit(3)", "called sys.exit(3)"),
        ("raise SystemExit", "called sys.exit()"),
        ("class Odd(BaseException): pass\nraise Odd", "raised Odd"),
        ("raise GeneratorExit", "raised GeneratorExit"),
        ("import asyncio\nraise asyncio.CancelledError", "raised CancelledError"),
        ("import no_such_package", "No module named 'no_such_package'"),
        ("def broken(:", "SyntaxError"),
        ("class E(Exception):\n    def __str__(self): return 1 / 0\nraise E", "raised E"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise ValueError('x' * 100_000)", "…"),
        ("nothing = 1", "there is no 'extension' in"),
        ("extensio = 1", "did you mean 'extensio'?"),
        ("extension = 'text'", "is a str, not an Extension"),
        ("extension = None", "is a NoneType, not an Extension"),
        ("extension = [1]", "there is a int in"),
        ("extension = lambda: 1 / 0", "extension() raised ZeroDivisionError"),
        ("def extension(needed): pass", "extension() raised TypeError"),
        ("async def extension(): pass", "is async"),
        ("import sys\ndef extension(): sys.exit()", "called sys.exit()"),
        (an_extension("Big Name"), "cannot be the name of an extension"),
        (an_extension("x", "tools=[1]"), "was given as a tool"),
        (an_extension("x", "tools=lambda: 1"), "tools is a function, not a list"),
        ("def f(): 'F.'\n" + an_extension("x", "tools=[f, f]"), "two tools are named 'f'"),
        (an_extension("x", "commands=['text']"), "there is a str among its commands"),
        (an_extension("x", "commands=[Command('/a', '', print)]"), "named with its slash"),
        (an_extension("x", "commands=[Command('a b', '', print)]"), "the name of a command"),
        (an_extension("x", "commands=[Command('a', '', 'print')]"), "run is a str"),
        (an_extension("x", "commands=2 * [Command('a', '', print)]"), "are named 'a'"),
        (an_extension("x", "hooks={}"), "hooks is a dict"),
        (an_extension("x", "hooks=Hooks(on_event=1)"), "on_event is a function or None"),
        (an_extension("x", "providers=['acme']"), "there is a str among its providers"),
        (an_extension("x", "skills='skills'"), "skills is a str, not a list"),
        (an_extension("x", "skills=['skills']"), "is not absolute"),
        (an_extension("x", "templates=[1]"), "there is a int among its templates"),
        (an_extension("x", "system_prompt=None"), "system_prompt is a NoneType"),
        ("from loopwright import Agent\nAgent('local/smollm')", "ModelNotFound"),  # a long hint
    ],
)  # fmt: skip
def test_whatever_is_wrong_with_one_is_told_and_the_others_are_loaded(
    tmp_path: Path, code: str, told: str
) -> None:
    write(tmp_path / "faulty.py", code)
    write(tmp_path / "sound.py", an_extension("sound"))

    loaded = load_extensions(extra=["faulty.py", "sound.py"], folder=tmp_path)

    assert [each.name for each in loaded.extensions] == ["sound"]
    [fault] = loaded.faults
    assert fault.startswith("extension 'faulty.py' was not loaded: ")
    assert told in fault
    assert "\n" not in fault
    assert len(fault) < 1_000


def test_what_is_sound_in_a_list_is_loaded_beside_what_is_not(tmp_path: Path) -> None:
    write(tmp_path / "mixed.py", an_extension("sound") + "extension = [extension, 1]\n")

    loaded = load_extensions(extra=["mixed.py"], folder=tmp_path)

    assert [each.name for each in loaded.extensions] == ["sound"]
    assert len(loaded.faults) == 1


def test_a_fault_says_in_which_line(tmp_path: Path) -> None:
    file = write(tmp_path / "faulty.py", "import json\n\njson.loads('{')\n")
    other = write(tmp_path / "other.py", an_extension("x", "hooks=1"))

    first, second = load_extensions(extra=["faulty.py", "other.py"], folder=tmp_path).faults

    assert f"{file}:3" in first
    assert f"{other}:2" in second


def test_the_user_may_still_interrupt(tmp_path: Path) -> None:
    write(tmp_path / "slow.py", "raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        load_extensions(extra=["slow.py"], folder=tmp_path)


@pytest.mark.parametrize(
    "reference", ["", ":", "no.py", "a b:c", "folder.py", "pipe.py", "~~/x.py"]
)
def test_a_reference_that_leads_nowhere_is_a_fault(tmp_path: Path, reference: str) -> None:
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")

    loaded = load_extensions(extra=[reference], folder=tmp_path)

    assert len(loaded.faults) == 1


def test_what_an_extension_prints_stays_out_of_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = an_extension("loud") + "print('hello')\n"
    write(tmp_path / "loud.py", code)

    load_extensions(extra=["loud.py"], folder=tmp_path)

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "hello\n")


# -- those of a project ----------------------------------------------------------------------


def test_the_files_of_a_project_are_loaded_only_if_it_is_given(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_project(project, "b.py", an_extension("b"))
    in_project(project, "a/__init__.py", "from .inner import extension")
    in_project(project, "a/inner.py", an_extension("a"))
    in_project(project, "_part.py", "1 / 0")
    in_project(project, ".hidden.py", "1 / 0")
    in_project(project, "notes.txt", "1 / 0")
    in_project(project, "empty/readme.md", "1 / 0")
    monkeypatch.chdir(project)

    assert load_extensions().extensions == []

    loaded = load_extensions(project=project)
    assert [each.name for each in loaded.extensions] == ["a", "b"]
    assert loaded.faults == []
    assert not (project / ".loopwright" / "extensions" / "__pycache__").exists()


def test_a_file_of_a_project_is_disabled_by_its_name(project: Path) -> None:
    in_project(project, "off_one.py", "1 / 0")
    in_project(project, "off_two/__init__.py", "1 / 0")

    loaded = load_extensions(project=project, disabled=["off-one", "off-two"])

    assert (loaded.extensions, loaded.faults) == ([], [])


def test_two_files_may_have_one_name_and_keep_apart(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        code = an_extension(folder) + f"WHERE = {folder!r}\ndef where(): return WHERE\n"
        write(tmp_path / folder / "same.py", code.replace("'one',", "'one', tools=[]"))

    loaded = load_extensions(extra=["one/same.py", "two/same.py"], folder=tmp_path)

    assert [each.name for each in loaded.extensions] == ["one", "two"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_not_run(project: Path) -> None:
    file = in_project(project, "theirs.py", "1 / 0")
    os.chown(file, 12345, -1)

    loaded = load_extensions(project=project)

    assert loaded.extensions == []
    [fault] = loaded.faults
    assert "another user's" in fault


def test_a_project_without_extensions_has_none(tmp_path: Path) -> None:
    write(tmp_path / "file" / ".loopwright", "a file, not a folder")

    assert load_extensions(project=tmp_path).faults == []
    assert load_extensions(project=tmp_path / "file").faults == []


# -- how they fit together -------------------------------------------------------------------


def test_what_the_user_names_comes_before_the_installed_and_the_project(
    site: Path, project: Path, tmp_path: Path
) -> None:
    install(site, "same_name", {"same": "same_name:extension"}, an_extension("same"))
    in_project(project, "same.py", an_extension("same"))
    write(tmp_path / "mine.py", an_extension("same", "version='mine'"))

    loaded = load_extensions(extra=["mine.py"], project=project, folder=tmp_path)

    assert [each.version for each in loaded.extensions] == ["mine"]
    assert len(loaded.faults) == 2
    for fault in loaded.faults:
        assert "two extensions are named 'same'" in fault
        assert "extension 'mine.py' is" in fault


def test_of_two_things_with_one_name_the_first_is_used(tmp_path: Path) -> None:
    code = """
        from loopwright.extensions import Command, Extension
        from loopwright.models import Provider

        def look(): "Look."
        def other(): "Other."

        def make(name):
            return Extension(
                name,
                tools=[look] if name == "a" else [look, other],
                commands=[Command("look", name, print), Command(name, name, print)],
                providers=[Provider(id="acme", name=name)],
            )

        extension = [make("a"), make("b")]
    """
    write(tmp_path / "both.py", code)

    loaded = load_extensions(extra=["both.py"], folder=tmp_path)

    a, b = loaded.extensions
    assert [[tool.name for tool in each.tools] for each in (a, b)] == [["look"], ["other"]]
    assert [[c.name for c in each.commands] for each in (a, b)] == [["look", "a"], ["b"]]
    assert [[p.name for p in each.providers] for each in (a, b)] == [["a"], []]
    assert len(loaded.faults) == 3
    for fault in loaded.faults:
        assert "extension 'a'" in fault
        assert "extension 'b'" in fault


def test_what_the_program_has_itself_an_extension_cannot_have(tmp_path: Path) -> None:
    fields = "tools=[print], commands=[Command('quit', '', print)]"
    write(tmp_path / "a.py", an_extension("a", fields).replace("print]", "read]"))
    text = (tmp_path / "a.py").read_text()
    write(tmp_path / "a.py", "def read(): 'Read.'\n" + text)

    loaded = load_extensions(
        extra=["a.py"], folder=tmp_path, reserved=["quit"], reserved_tools=["read"]
    )

    [extension] = loaded.extensions
    assert (extension.tools, extension.commands) == ((), ())
    assert loaded.faults == [
        "two tools are named 'read': that of extension 'a' is not used, that of the program is",
        "two commands are named 'quit': that of extension 'a' is not used, that of the program is",
    ]


def test_a_tool_that_no_model_could_call_is_left_out_alone(tmp_path: Path) -> None:
    code = """
        from loopwright.extensions import Extension

        def bad(what: object(), more: "NoSuchType") -> str: "Bad."
        def good(what: str) -> str: "Good."

        extension = Extension("half", tools=[bad, good])
    """
    write(tmp_path / "half.py", code)

    loaded = load_extensions(extra=["half.py"], folder=tmp_path)

    [extension] = loaded.extensions
    assert [tool.name for tool in extension.tools] == ["good"]
    [fault] = loaded.faults
    assert fault.startswith("the tool 'bad' of extension 'half' was not loaded: ")
