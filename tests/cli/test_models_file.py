"""models.toml changes what is known of vendors and models, and the project's file may do less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopwright.cli.models.file import add_project_models, add_user_models
from loopwright.messages import Cost
from loopwright.models import Models, Provider
from loopwright.models.builtin import builtin_providers
from loopwright.models.vendors import VendorTable, vendor_table


def models_with(text: str, tmp_path: Path) -> Models:
    file = tmp_path / "models.toml"
    file.write_text(text)
    models = Models(builtin_providers()).add_source(vendor_table())
    add_user_models(models, file)
    return models


def vendor(models: Models, id: str) -> Provider:
    provider = models.get_provider(id)
    assert provider is not None
    return provider


def test_a_gateway_in_front_of_a_vendor_keeps_its_models_and_quirks(tmp_path: Path) -> None:
    models = models_with(
        '[providers.openai]\nbase_url = "https://gate.example/v1"\nheaders = { X-Team = "a" }\n',
        tmp_path,
    )

    changed, known = vendor(models, "openai"), VendorTable().get("openai")
    assert known is not None
    assert changed.base_url == "https://gate.example/v1"
    assert changed.dialect("openai-chat").base_url == "https://gate.example/v1"
    assert changed.flags == known.flags
    assert changed.env == ("OPENAI_API_KEY",)
    assert changed.headers == {"X-Team": "a"}
    assert models.resolve("openai/gpt-5.4").context_window == 1_050_000


def test_a_variable_does_not_overrule_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")

    models = models_with('[providers.openai]\nbase_url = "https://gate.example/v1"\n', tmp_path)

    provider = vendor(models, "openai")
    assert provider.address.base_url(provider.base_url, "x") == "https://gate.example/v1"


def test_a_newer_model_than_our_list_is_added_and_a_known_one_is_changed(tmp_path: Path) -> None:
    models = models_with(
        "[providers.anthropic]\n"
        'models = ["claude-next", { id = "claude-sonnet-4-6", max_tokens = 1000, '
        "cost = { input = 1, output = 2 }, flags = { temperature = false } }]\n",
        tmp_path,
    )

    assert models.resolve("anthropic/claude-next").context_window is None
    changed = models.resolve("anthropic/claude-sonnet-4-6")
    assert (changed.max_tokens, changed.context_window) == (1000, 1_000_000)
    assert changed.cost == Cost(1.0, 2.0)
    assert changed.flags == {"adaptive_thinking": True, "temperature": False}
    assert models.get_model("anthropic", "claude-opus-5-5") is not None
    assert models.get_model("anthropic", "claude-nowhere") is None


def test_quirks_of_the_file_come_before_a_models_own(tmp_path: Path) -> None:
    models = models_with("[providers.anthropic]\nflags = { temperature = true }\n", tmp_path)

    provider = vendor(models, "anthropic")
    model = provider.get_model("claude-sonnet-5-5")
    assert model is not None
    assert provider.flags_for(model)["temperature"] is True


def test_another_wire_of_a_vendor_is_chosen(tmp_path: Path) -> None:
    models = models_with(
        '[providers.openai]\napi = "openai-chat"\nmodels = ["gpt-next"]\n', tmp_path
    )

    assert vendor(models, "openai").apis == ["openai-chat", "openai-responses"]
    assert models.resolve("openai/gpt-next").api == "openai-chat"


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ('["low", "high"]', {"low": "low", "high": "high"}),
        ('{ off = false, high = "thorough", max = true }',
         {"off": None, "high": "thorough", "max": "max"}),
    ],
)  # fmt: skip
def test_levels_are_a_list_or_a_map(given: str, levels: dict[str, Any], tmp_path: Path) -> None:
    models = models_with(
        f'[providers.team]\nbase_url = "http://127.0.0.1:1"\n'
        f'models = [{{ id = "m", thinking_levels = {given} }}]\n',
        tmp_path,
    )

    assert models.resolve("team/m").thinking_levels == levels


def test_a_server_of_ones_own_may_speak_any_wire(tmp_path: Path) -> None:
    models = models_with(
        '[providers.team]\nbase_url = "http://127.0.0.1:1"\napi = "anthropic-messages"\n'
        "any_model = false\n"
        'models = ["m"]\n',
        tmp_path,
    )

    assert models.resolve("team/m").api == "anthropic-messages"
    assert models.get_model("team", "other") is None


def project(models: Models, text: str, tmp_path: Path) -> list[str]:
    file = tmp_path / "project.toml"
    file.write_text(text)
    notes: list[str] = []
    add_project_models(models, file, notes.append)
    return notes


def test_a_project_may_say_where_a_server_on_this_machine_is(tmp_path: Path) -> None:
    models = models_with("", tmp_path)

    notes = project(models, '[providers.ollama]\nbase_url = "http://127.0.0.1:999/v1"', tmp_path)

    assert notes == []
    assert vendor(models, "ollama").base_url == "http://127.0.0.1:999/v1"


@pytest.mark.parametrize(
    ("users", "projects"),
    [
        ("", '[providers.ollama]\nbase_url = "http://elsewhere.example/v1"'),
        ("", '[providers.openai]\nbase_url = "http://127.0.0.1:9/v1"'),
        ("", "[providers.openai]\nflags = { store = true }"),
        (
            '[providers.ollama]\nbase_url = "http://127.0.0.1:1/v1"',
            '[providers.ollama]\nbase_url = "http://127.0.0.1:2/v1"',
        ),
    ],
)
def test_a_project_changes_nothing_else_of_what_is_known(
    users: str, projects: str, tmp_path: Path
) -> None:
    models = models_with(users, tmp_path)
    name = "ollama" if "ollama" in projects else "openai"
    before = vendor(models, name)

    (note,) = project(models, projects, tmp_path)

    assert "is left out" in note
    assert vendor(models, name) is before
