"""`--agent module:variable` finds the agent, or says what is wrong in a line."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopwright import Agent
from loopwright.cli.bench.own_agent import load_agent
from loopwright.errors import ConfigurationError

MAKE = """
from loopwright import Agent
from loopwright.testing import Reply, ScriptedModel

def make(prompt="made"):
    model = ScriptedModel([Reply("Hello.")])
    return Agent(model.model, stream_fn=model.stream_fn, system_prompt=prompt)
"""


@pytest.fixture(autouse=True)
def path_and_modules() -> Iterator[None]:
    """What loading an agent changes for good."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if not name.startswith("loopwright"):
            del sys.modules[name]


def write(file: Path, code: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(MAKE + textwrap.dedent(code))


@pytest.mark.parametrize(
    ("reference", "prompt"),
    [
        ("mine", "the default"),
        ("mine:agent", "the default"),
        ("mine.py", "the default"),
        ("./mine.py:other", "another"),
        ("mine:holder.inner", "inner"),
        ("mine:make", "made"),
        ("mine:make_later", "later"),
        ("package.deep:agent", "deep"),
        ("package/deep.py:agent", "deep"),
    ],
)
async def test_an_agent_is_found_by_its_name(tmp_path: Path, reference: str, prompt: str) -> None:
    write(
        tmp_path / "mine.py",
        """
        agent = make("the default")
        other = make("another")
        class holder:
            inner = make("inner")
        async def make_later():
            return make("later")
        """,
    )
    write(tmp_path / "package" / "deep.py", "agent = make('deep')")

    agent = await load_agent(reference, tmp_path)

    assert isinstance(agent, Agent)
    assert agent.state.system_prompt == prompt
    assert (await agent.prompt("Hi")).text == "Hello."


async def test_an_absolute_path_and_what_lies_beside_the_file_are_found(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write(elsewhere / "beside.py", "PROMPT = 'from beside'")
    write(elsewhere / "mine.py", "from beside import PROMPT\nagent = make(PROMPT)")

    agent = await load_agent(f"{elsewhere}/mine.py:agent", tmp_path)

    assert agent.state.system_prompt == "from beside"


async def test_the_working_folder_comes_before_installed_modules(tmp_path: Path) -> None:
    write(tmp_path / "this.py", "agent = make('ours')")  # the standard library has one, too

    assert (await load_agent("this:agent", tmp_path)).state.system_prompt == "ours"


@pytest.mark.parametrize(
    ("reference", "code", "message", "hint"),
    [
        ("mine:agnet", "agent = make()", "there is no 'agnet' in mine", "mine:agent"),
        ("mine:agnet", "agent = 1", "there is no 'agnet' in mine", "did you mean 'agent'"),
        ("mine", "bot = make()", "there is no 'agent' in mine", "mine:bot"),
        ("mine:x.y", "x = 1", "there is no 'y' in mine.x", None),
        ("mine:x", "x = 'text'\nbot = make()", "mine:x is a str, not an Agent", "mine:bot"),
        ("mine:x", "x = 'text'", "mine:x is a str, not an Agent", "a function that returns one"),
        ("mine:x", "def x(): return 1", "mine:x() is a int, not an Agent", None),
        ("mine:x", "async def x(): 1 / 0", "mine:x() raised ZeroDivisionError", None),
        ("mine:x", "def x(a): pass", "mine:x() raised TypeError", None),
        ("mine:x", "def x(): raise SystemExit(2)", "mine:x() called sys.exit(2)", None),
        ("mine:Agent", "", "mine:Agent() raised TypeError", None),
        ("mine", "1 / 0", "importing mine raised ZeroDivisionError: division by zero", None),
        ("mine", "exit()", "importing mine called sys.exit()", "__main__"),
        ("mine", "import no_such", "ModuleNotFoundError: No module named 'no_such'", None),
        ("mine.py", "import no_such", "ModuleNotFoundError: No module named 'no_such'", None),
        ("mine", "def x(:", "SyntaxError", None),
        ("mine", "Agent('acme/large')", "ModelNotFound", None),
        ("main", "", "there is no module 'main'", "did you mean 'mine'"),
        ("mine.deep", "", "there is no module 'mine.deep'", None),
        ("zzz.deep", "", "there is no module 'zzz'", "modules are looked for in"),
        ("zzz.py", "", "does not exist", None),
        ("./", "", "is a folder", "path/to/file.py"),
        ("not a module", "", "names neither a module nor a file", "module:variable"),
        ("", "", "names neither a module nor a file", None),
    ],
)
async def test_what_is_wrong_is_said_before_anything_runs(
    tmp_path: Path, reference: str, code: str, message: str, hint: str | None
) -> None:
    write(tmp_path / "mine.py", code)

    with pytest.raises(ConfigurationError) as caught:
        await load_agent(reference, tmp_path)

    assert caught.value.message.startswith(f"--agent {reference}: ")
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


async def test_the_line_that_raised_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def fail():\n    raise ValueError('no')\n\nfail()\n")

    with pytest.raises(ConfigurationError, match="mine.py:2"):
        await load_agent("mine.py", tmp_path)


async def test_a_script_that_starts_itself_is_told_how_not_to(tmp_path: Path) -> None:
    write(
        tmp_path / "script.py",
        """
        import asyncio

        agent = make()
        talk = agent.prompt("Hi")
        try:
            asyncio.run(talk)
        finally:
            talk.close()  # else Python warns that nobody awaited it
        """,
    )

    with pytest.raises(ConfigurationError) as caught:
        await load_agent("script.py", tmp_path)

    assert "__main__" in (caught.value.hint or "")


async def test_what_a_module_prints_stays_out_of_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "mine.py", "print('hello')\nagent = make()")

    await load_agent("mine", tmp_path)

    assert capsys.readouterr().out == ""
