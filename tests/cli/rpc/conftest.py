"""The real program in the rpc mode, and a vendor for it that calls tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.rpc.client import Client
from tests.cli.rpc.vendor import Serving, ToolVendor

if TYPE_CHECKING:
    from tests.cli.conftest import Program

Start = Callable[..., Client]


@pytest.fixture
def tool_vendor(program: Program) -> Iterator[ToolVendor]:
    """A vendor that the program knows by the name `toy`."""
    with Serving() as vendor:
        program.write_models_file(
            f'default = "toy/one"\n[providers.toy]\nbase_url = "{vendor.base_url}"\n'
            'models = ["one", "two"]\n'
        )
        yield vendor


@pytest.fixture
def start(program: Program, tool_vendor: ToolVendor) -> Iterator[Start]:
    """Starts a client: `start("--permission-mode", "yolo")`."""
    started: list[Client] = []

    def start(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> Client:
        command = program.command("--mode", "rpc", *arguments)
        started.append(Client(command, program.folder, {**program.env, **(env or {})}, **options))
        return started[-1]

    yield start
    for client in started:
        client.close()


@pytest.fixture
def gate(tmp_path: Path) -> Callable[[], None]:
    """A fifo `gate`: `cat gate` waits until the test opens it by calling this."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)

    def open_it() -> None:
        fifo.write_text("opened\n")

    return open_it
