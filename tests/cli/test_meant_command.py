"""A mistyped command is refused, since it would be a prompt that costs money; a prompt never is."""

from __future__ import annotations

import pytest

from loopwright.cli.meant_command import meant_command

from .conftest import Program, Vendor


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sesions list", "sessions list"),
        ("sessoins lst", "sessions list"),
        ("sesion list", "sessions list"),
        ("session list", "sessions list"),
        ("session show 01a22b7550", "sessions show 01a22b7550"),
        ("sesions search key", "sessions search key"),
        ("sesions list --all", "sessions list --all"),
        ("kyes list", "keys list"),
        ("key set anthropic", None),
        ("confg get permissions.mode", "config get permissions.mode"),
        ("compeltion bash", "completion bash"),
        ("modles sonnet", "models sonnet"),
        ("turst .", "trust ."),
        ("docter", "doctor"),
        ("docter --ask", "doctor --ask"),
        ("sessions lst", None),
    ],
)
def test_what_was_meant_is_told(typed: str, meant: str | None) -> None:
    assert meant_command(typed.split()) == meant


@pytest.mark.parametrize(
    "said",
    [
        "",
        "model a train",
        "model trains",
        "modules missing",
        "session handling is broken",
        "session handling",
        "session list is empty",
        "session search broken",
        "lessons list",
        "key findings",
        "trust nobody",
        "rust or go",
        "demo day ideas",
        "doctors say no",
        "configure the linter",
        "config.toml is wrong",
        "sections list",
        "-p sesions list",
        "why",
    ],
)
def test_what_may_be_said_is_left_alone(said: str) -> None:
    assert meant_command(said.split()) is None
    assert meant_command([said]) is None


def test_a_mistyped_command_asks_no_model(program: Program, vendor: Vendor) -> None:
    finished = program.run("sesions", "list")

    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr == (
        "error: there is no command `sesions`; did you mean `loopwright sessions list`?\n"
        "hint: to say it to the model: loopwright -- sesions list\n"
    )
    assert vendor.requests == []


def test_behind_two_dashes_it_is_said(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Which sessions?")

    finished = program.run("--", "sesions", "list")

    assert (finished.returncode, finished.stdout) == (0, "Which sessions?\n")
