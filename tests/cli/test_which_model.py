"""Which model is asked; and what is said where none can be, before anything is sent."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loopwright.cli.models.file import add_user_models
from loopwright.errors import ConfigurationError
from loopwright.models import Models

from .conftest import Program, Vendor


def test_without_a_model_the_three_ways_to_one_are_named(program: Program) -> None:
    finished = program.run("-p", "hi")

    assert (finished.returncode, finished.stdout) == (3, "")
    assert finished.stderr.startswith("error: no model was chosen\nhint: ")
    for word in ("--model", "LOOPWRIGHT_MODEL", "loopwright keys set", "--model local"):
        assert word in finished.stderr
    assert finished.stderr.count("\nhint: ") == 3


def test_a_key_that_is_there_is_mentioned(program: Program) -> None:
    finished = program.run("-p", "hi", env={"OPENAI_API_KEY": "abc"})

    assert finished.returncode == 3
    assert "there is a key for OpenAI (`--model openai/...`)" in finished.stderr


def test_a_missing_key_is_named_with_its_variable(program: Program) -> None:
    finished = program.run("-p", "hi", "--model", "openai/gpt-5")

    assert finished.returncode == 3
    assert finished.stderr.startswith(
        "error: no API key for OpenAI: OPENAI_API_KEY is not set\nhint: set OPENAI_API_KEY; "
    )


@pytest.mark.parametrize(
    ("wrong", "near"), [("locl", "'local'"), ("local/smollm", "'local/smollm2-135m-instruct'")]
)
def test_an_unknown_model_lists_near_names(program: Program, wrong: str, near: str) -> None:
    finished = program.run("-p", "hi", "--model", wrong)

    assert finished.returncode == 3
    assert f"did you mean {near}" in finished.stderr


def test_a_wrong_name_in_the_environment_is_traced_to_it(program: Program) -> None:
    finished = program.run("-p", "hi", env={"LOOPWRIGHT_MODEL": "nowhere/x"})

    assert finished.returncode == 3
    assert "nowhere" in finished.stderr
    assert "LOOPWRIGHT_MODEL" in finished.stderr


def test_the_option_comes_before_the_environment_and_that_before_the_file(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Hello.")
    vendor.will_say("Hello.")
    vendor.will_say("Hello.")

    program.run("-p", "hi", "--model", "toy/a", env={"LOOPWRIGHT_MODEL": "toy/b"})
    program.run("-p", "hi", env={"LOOPWRIGHT_MODEL": "toy/b"})
    program.run("-p", "hi")

    assert [request["model"] for request in vendor.requests] == ["a", "b", "one"]


@pytest.mark.parametrize(
    ("package", "model", "extra"),
    [("xllamacpp", "local", "local"), ("openai", "toy/one", "openai")],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    program: Program, vendor: Vendor, package: str, model: str, extra: str
) -> None:
    script = (
        f"import sys; sys.modules[{package!r}] = None; from loopwright.cli import main; "
        f"sys.exit(main(['-p', 'hi', '--model', {model!r}]))"
    )

    finished = subprocess.run(
        [sys.executable, "-c", script],
        cwd=program.folder,
        env=program.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert finished.returncode == 3
    assert "hint: pip install " in finished.stderr
    assert f"[{extra}]'\n" in finished.stderr
    assert vendor.requests == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("default = 3", "`default` is a model's name, not 3"),
        ("x = ", "not valid TOML: Invalid value (at end of document)"),
        ("provider = 1", "did you mean `providers`?"),
        ("providers = 1", "`providers` is no table"),
        ("[providers]\na = 1", "in [providers.a]: expected a table"),
        ('[providers.a]\nbaseurl = "x"', "did you mean `base_url`?"),
        ("[providers.a]\n", "missing required field `base_url`"),
        ('[providers.a]\nbase_url = "localhost:80"', "starts with http:// or https://"),
        ("[providers.a]\nbase_url = 1", "Expected `str`, got `int` - at `$.base_url`"),
        ('[providers.a]\nbase_url = "http://x"\nmodels = [{ name = "x" }]', "field `id`"),
        ('[providers."a b"]\nbase_url = "http://x"', "letters, digits"),
    ],
)
def test_what_is_wrong_in_models_toml_is_told_with_its_place(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "models.toml"
    file.write_text(text)

    with pytest.raises(ConfigurationError) as raised:
        add_user_models(Models(), file)

    assert str(raised.value).startswith(f"{file}: ")
    assert told in str(raised.value)


def test_a_fault_in_models_toml_ends_the_program_with_3(program: Program) -> None:
    program.write_models_file("[providers.a]\n")

    finished = program.run("-p", "hi", "--model", "local")

    assert finished.returncode == 3
    assert "models.toml: in [providers.a]: " in finished.stderr


def test_a_file_may_say_all_there_is_to_say_of_a_server(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(
        'default = "team/big"\n[providers.team]\nbase_url = "https://llm.example/v1"\n'
        'name = "Team"\nenv = ["TEAM_KEY"]\nheaders = { X-Team = "a" }\n'
        'models = ["small", { id = "big", context_window = 32768, max_tokens = 4096 }]\n'
        "flags = { store = false }\n"
    )
    models = Models()

    default = add_user_models(models, file)

    assert default == "team/big"
    big = models.resolve("team/big")
    assert (big.context_window, big.max_tokens) == (32768, 4096)
    provider = models.get_provider("team")
    assert provider is not None
    assert (provider.display_name, provider.env) == ("Team", ("TEAM_KEY",))
    assert provider.headers == {"X-Team": "a"}
    assert provider.flags["store"] is False


def test_no_file_is_as_good_as_an_empty_one(tmp_path: Path) -> None:
    assert add_user_models(Models(), tmp_path / "models.toml") is None


def project_with(program: Program, text: str) -> Program:
    """The program in a project that is trusted and has that models.toml."""
    folder = program.folder / "project"
    (folder / ".loopwright").mkdir(parents=True)
    (folder / ".loopwright" / "models.toml").write_text(text)
    inside = replace(program, folder=folder)
    trusted = inside.run("trust")
    assert trusted.returncode == 0, trusted.stderr
    return inside


def test_a_project_adds_servers_of_its_own(program: Program, vendor: Vendor) -> None:
    inside = project_with(program, f'[providers.team]\nbase_url = "{vendor.base_url}"\n')
    vendor.will_say("Hello.")

    finished = inside.run("-p", "hi", "--model", "team/any:thing")

    assert (finished.stdout, finished.stderr) == ("Hello.\n", "")
    assert vendor.requests[0]["model"] == "any:thing"


def test_a_project_that_is_not_trusted_adds_nothing_and_that_is_told(
    program: Program, vendor: Vendor
) -> None:
    inside = project_with(program, f'[providers.team]\nbase_url = "{vendor.base_url}"\n')
    inside.run("trust", "--forget")

    finished = inside.run("-p", "hi", "--model", "team/any:thing")

    assert finished.returncode == 3
    assert "models.toml: passed over, since this folder is not trusted" in finished.stderr
    assert vendor.requests == []


def test_a_project_cannot_choose_the_model_or_replace_a_known_server(
    program: Program, vendor: Vendor
) -> None:
    """It may come from anybody: what is said in its folder still goes where the user wants."""
    inside = project_with(
        program,
        'default = "evil/x"\n[providers.toy]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[providers.openai]\nbase_url = "http://127.0.0.1:9/v1"\n',
    )
    vendor.will_say("Hello.")

    finished = inside.run("-p", "hi")

    assert (finished.returncode, finished.stdout) == (0, "Hello.\n")
    assert "`default` is left out" in finished.stderr
    assert "'toy' is left out" in finished.stderr
    assert "'openai' is left out" in finished.stderr


def test_a_project_cannot_have_a_key_sent_to_another_machine(program: Program) -> None:
    inside = project_with(
        program,
        '[providers.evil]\nbase_url = "https://evil.example/v1"\nenv = "OPENAI_API_KEY"\n',
    )

    finished = inside.run("-p", "hi", "--model", "evil/x", env={"OPENAI_API_KEY": "abc"})

    assert finished.returncode == 3
    assert "OPENAI_API_KEY" in finished.stderr
    assert "which a project may not ask for" in finished.stderr
