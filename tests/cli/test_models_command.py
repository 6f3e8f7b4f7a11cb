"""`loopwright models`: what can be asked, with limits, prices and keys, from files alone."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from loopwright.cli.models.command import key_text, price_text, tokens_text
from loopwright.cli.models.usable import key_of, models_with_key
from loopwright.cli.table import Column, table_lines
from loopwright.messages import Cost
from loopwright.models import default_models
from loopwright.models.auth import KeyStatus
from loopwright.models.vendors import vendor_table

from .conftest import Program


def test_all_models_are_listed_without_key_and_network(program: Program) -> None:
    finished = program.run("models")

    lines = finished.stdout.splitlines()
    assert (finished.returncode, finished.stderr) == (0, "")
    assert lines[0].split() == [
        "MODEL", "KEY", "CONTEXT", "$", "IN", "/", "OUT", "PER", "M", "CAN", "OUTPUT",
    ]  # fmt: skip
    assert len(lines) > 2000
    assert lines[1].startswith("local/smollm2-135m-instruct")
    row = next(line for line in lines if line.startswith("anthropic/claude-sonnet-4-6 "))
    assert re.split(r"\s{2,}", row)[1:] == [
        "no: ANTHROPIC_API_KEY", "1M", "$3 / $15", "thinking images", "128k",
    ]  # fmt: skip


def test_vendors_with_a_key_come_first_and_say_where_it_is_from(program: Program) -> None:
    finished = program.run("models", env={"GROQ_API_KEY": "gsk-secret-0123456789"})

    lines = finished.stdout.splitlines()
    assert lines[2].startswith("groq/")
    assert "yes: GROQ_API_KEY" in lines[2]
    assert "gsk-secret" not in finished.stdout + finished.stderr


@pytest.mark.parametrize(
    ("search", "found"),
    [
        (["sonnet", "4-6"], "anthropic/claude-sonnet-4-6"),
        (["claude sonnet 4.6"], "anthropic/claude-sonnet-4-6"),  # the name
        (["GROQ"], "groq/"),
        (["moonshot", "ai", "kimi"], "moonshotai/kimi"),
        (["xai/grok"], "xai/grok-4.3"),
    ],
)
def test_a_search_matches_vendor_id_and_name(
    program: Program, search: list[str], found: str
) -> None:
    finished = program.run("models", *search)

    assert finished.returncode == 0
    assert found in finished.stdout
    assert len(finished.stdout.splitlines()) < 200


def test_a_search_that_finds_nothing_suggests_something(program: Program) -> None:
    finished = program.run("models", "sonet")

    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith("error: no model has 'sonet' in its vendor, id or name\n")
    assert "hint: did you mean sonnet" in finished.stderr


def test_a_vendor_without_a_list_is_found_as_well(program: Program) -> None:
    finished = program.run("models", "chutes")

    assert "chutes/...  no: CHUTES_API_KEY" in finished.stdout


def test_a_vendor_that_ended_is_not_offered(program: Program) -> None:
    assert "github-models" not in program.run("models").stdout
    assert "GitHub Models (ended 2026-07-30)" in program.run("models", "--providers").stdout


def test_json_has_one_model_a_line(program: Program) -> None:
    finished = program.run("models", "--mode", "json", "gpt-5.4-mini", env={"OPENAI_API_KEY": "k"})

    models = [json.loads(line) for line in finished.stdout.splitlines()]
    (found,) = [model for model in models if model["provider"] == "openai"]
    assert models[0] is found or models[0] == found
    assert found == {
        "provider": "openai",
        "id": "gpt-5.4-mini",
        "name": "GPT-5.4 mini",
        "api": "openai-responses",
        "contextWindow": 400_000,
        "maxTokens": 128_000,
        "input": ["text", "image"],
        "thinkingLevels": ["off", "low", "medium", "high", "xhigh"],
        "cost": {"input": 0.75, "output": 4.5, "cacheRead": 0.075, "cacheWrite": None},
        "deprecatedOn": None,
        "successor": None,
        "key": {"present": True, "source": "OPENAI_API_KEY"},
    }


def test_a_price_not_known_is_null_in_json_and_a_question_mark_in_text(program: Program) -> None:
    model = json.loads(
        program.run(
            "models", "--mode", "json", "github-copilot/claude-haiku-4.5"
        ).stdout.splitlines()[0]
    )

    assert model["cost"] is None
    assert re.search(r"\?\s", program.run("models", "github-copilot/claude-haiku-4.5").stdout)


def test_vendors_are_listed_with_wires_and_addresses(program: Program) -> None:
    finished = program.run("models", "--providers")

    assert len(finished.stdout.splitlines()) == 104
    row = next(line for line in finished.stdout.splitlines() if line.startswith("deepseek "))
    assert re.split(r"\s{2,}", row) == [
        "deepseek", "no: DEEPSEEK_API_KEY", "2", "DeepSeek", "openai-chat openai-responses",
        "https://api.deepseek.com",
    ]  # fmt: skip
    lines = program.run("models", "--providers", "--mode", "json", "groq").stdout.splitlines()
    assert json.loads(lines[0])["baseUrl"] == "https://api.groq.com/openai/v1"


def test_models_of_the_users_file_are_listed(program: Program) -> None:
    program.write_models_file(
        '[providers.team]\nbase_url = "http://127.0.0.1:1/v1"\n'
        'models = [{ id = "big", context_window = 32768, cost = { input = 1, output = 2.5 } }]\n'
    )

    finished = program.run("models", "team/")

    assert re.search(r"^team/big +none needed +33k +\$1 / \$2.5 ", finished.stdout, re.M)


def test_a_key_in_the_file_of_keys_counts(program: Program) -> None:
    program.run("keys", "set", "groq", stdin=b"gsk-0123456789\n")

    finished = program.run("models", "groq/")

    assert "yes: credentials file" in finished.stdout


@pytest.mark.parametrize("width", [120, 80, 60, 40, 20])
def test_a_narrow_terminal_gets_fewer_columns_and_whole_names(program: Program, width: int) -> None:
    text = on_a_terminal(program, "models", "anthropic/", "haiku", COLUMNS=str(width), NO_COLOR="1")

    lines = [line for line in text.splitlines() if "anthropic/" in line]
    assert any(line.startswith("anthropic/claude-haiku-4-5") for line in lines)
    for line in lines:
        assert len(line) <= max(width, len(line.split()[0])), line
    assert "\x1b" not in text


def test_colours_go_with_no_color(program: Program) -> None:
    assert "\x1b[" in on_a_terminal(program, "models", "groq/")
    assert "\x1b[" not in on_a_terminal(program, "models", "groq/", NO_COLOR="1")


def on_a_terminal(program: Program, *arguments: str, **env: str) -> str:
    """What appears on a terminal of its own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        program.command(*arguments),
        cwd=program.folder,
        env={**program.env, **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not piece:
            break
        shown += piece
    process.wait()
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_a_broken_pipe_is_no_error(program: Program) -> None:
    command = " ".join(f"'{part}'" for part in program.command("models"))

    done = subprocess.run(
        f"{command} | head -1", shell=True, capture_output=True, text=True, env=program.env,
        cwd=program.folder,
    )  # fmt: skip

    assert done.stdout.startswith("MODEL")
    assert done.stderr == ""


def test_listing_imports_no_vendors_library(program: Program, tmp_path: Path) -> None:
    script = (
        "import sys; from loopwright.cli import main; main(['models', 'groq']);"
        "print(sorted({'openai', 'anthropic', 'httpx2', 'pydantic', 'genai_prices', 'botocore'}"
        " & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=program.env
    )

    assert done.stdout.splitlines()[-1] == "[]"


# -- pieces ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(None, "?"), (512, "512"), (8192, "8k"), (200_000, "200k"), (1_000_000, "1M"),
     (1_047_576, "1.05M"), (10_000_000, "10M")],
)  # fmt: skip
def test_tokens_are_shown_briefly(tokens: int | None, text: str) -> None:
    assert tokens_text(tokens) == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (None, "?"),
        (Cost(), "?"),
        (Cost(3.0, 15.0), "$3 / $15"),
        (Cost(0.075, None), "$0.075 / ?"),
        (Cost(0.0, 0.0), "free"),
    ],
)
def test_prices_are_shown_briefly(cost: Cost | None, text: str) -> None:
    assert price_text(cost) == text


def test_keys_are_never_shown_but_where_they_come_from() -> None:
    assert key_text(KeyStatus(True, "A_KEY")) == "yes: A_KEY"
    assert key_text(KeyStatus(True, None)) == "none needed"
    assert key_text(KeyStatus(False, "A_KEY")) == "no: A_KEY"
    assert key_text(KeyStatus(False, None)) == "no"


def test_a_table_shortens_before_it_leaves_out() -> None:
    rows = [("name-1", "long text", "9"), ("a-very-very-long-name", "text", "10")]
    columns = (
        Column[tuple[str, str, str]]("NAME", lambda row: row[0]),
        Column[tuple[str, str, str]]("TEXT", lambda row: row[1], instead=(lambda row: row[1][0],)),
        Column[tuple[str, str, str]]("N", lambda row: row[2], right=True),
    )

    assert table_lines(columns, rows)[1] == "name-1                 long text   9"
    assert table_lines(columns, rows, 24)[1] == "name-1        l      9"
    assert table_lines(columns, rows, 19)[1] == "name-1     l      9"
    assert table_lines(columns, rows, 12)[1] == "name-1  l"
    assert table_lines(columns, rows, 5)[1:] == ["name-1", "a-very-very-long-name"]


def offered(monkeypatch: pytest.MonkeyPatch, home: Path, **env: str) -> set[str]:
    """Vendors of the models that could be asked by somebody whose home is *home*."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "LOOPWRIGHT_HOME"):
        monkeypatch.setenv(name, str(home))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    vendors = {model.provider for model in models_with_key(default_models())}
    return vendors & set(vendor_table().ids())  # other tests add theirs


def has_botocore() -> bool:
    return find_spec("botocore") is not None


def test_without_any_key_no_vendor_is_offered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert offered(monkeypatch, tmp_path) == set()


def test_a_vendor_with_a_key_is_offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert offered(monkeypatch, tmp_path, OPENAI_API_KEY="k") == {"openai"}


@pytest.mark.skipif(not has_botocore(), reason="needs the extra bedrock")
@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("credentials", "[default]\naws_access_key_id = a\naws_secret_access_key = b\n", True),
        ("config", "[default]\nsso_session = work\nregion = x\n", True),
        ("config", "[default]\nregion = eu-west-1\n", False),
        ("credentials", "[other]\naws_access_key_id = a\n", False),
        ("credentials", "no sections", False),
    ],
)
def test_the_files_of_aws_count_as_a_key_for_bedrock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, text: str, found: bool
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / file).write_text(text)

    assert offered(monkeypatch, tmp_path) == ({"amazon-bedrock"} if found else set())
    key = key_of(default_models().get_provider("amazon-bedrock"))  # type: ignore[arg-type]
    assert key.present is found
    assert key.source == (f"~/.aws/{file}" if found else "AWS_BEARER_TOKEN_BEDROCK")


def test_a_vendor_whose_package_is_missing_is_not_offered_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("loopwright.cli.models.usable.find_spec", lambda name: None)

    assert offered(monkeypatch, tmp_path, AWS_PROFILE="work", OPENAI_API_KEY="k") == set()
    key = key_of(default_models().get_provider("amazon-bedrock"))  # type: ignore[arg-type]
    assert not key.present
    assert "[bedrock]" in (key.source or "")
