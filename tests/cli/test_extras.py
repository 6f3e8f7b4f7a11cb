"""How optional parts are installed: as loopwright itself was."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from loopwright.cli.extras import install_command


class Installed:
    def __init__(self, origin: Any) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "my checkout"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder


def installed(monkeypatch: pytest.MonkeyPatch, origin: Any) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _name: Installed(origin))


@pytest.mark.parametrize(
    "origin",
    [
        None,
        [],
        {"url": "https://example.org/loopwright.whl", "archive_info": {}},
        {"url": "file:///nowhere/at/all", "dir_info": {"editable": True}},
    ],
)
def test_what_came_from_an_index_or_is_gone_comes_from_the_index(
    monkeypatch: pytest.MonkeyPatch, origin: Any
) -> None:
    installed(monkeypatch, origin)

    assert install_command("local", "images") == "pip install 'loopwright[local,images]'"


@pytest.mark.parametrize(("editable", "option"), [(True, "-e "), (False, "")])
def test_a_checkout_is_named_as_it_is_reached(
    monkeypatch: pytest.MonkeyPatch, checkout: Path, editable: bool, option: str
) -> None:
    installed(monkeypatch, {"url": checkout.as_uri(), "dir_info": {"editable": editable}})

    elsewhere = install_command("local")
    monkeypatch.chdir(checkout)
    inside = install_command("local")

    assert elsewhere == f"pip install {option}'{checkout}[local]'"
    assert inside == f"pip install {option}'.[local]'"


def test_without_metadata_the_index_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", gone)

    assert install_command("local") == "pip install 'loopwright[local]'"
