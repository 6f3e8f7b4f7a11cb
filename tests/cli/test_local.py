"""The real small model answers at the command line."""

from __future__ import annotations

import json
import os

import pytest

from .conftest import Program

pytestmark = [pytest.mark.local_model, pytest.mark.slow]


def test_the_local_model_answers_without_any_set_up(program: Program) -> None:
    cache = {
        name: os.environ[name]
        for name in ("HOME", "XDG_CACHE_HOME", "LOOPWRIGHT_HOME", "LOOPWRIGHT_LOCAL_MODEL")
        if name in os.environ
    }

    finished = program.run(
        "--model", "local", "--mode", "json", "-p", "What is the capital of France?", env=cache
    )

    assert finished.returncode == 0, finished.stderr
    last = json.loads(finished.stdout.splitlines()[-1])["messages"][-1]
    assert (last["provider"], last["stopReason"]) == ("local", "stop")
    assert last["content"][0]["text"]
