"""The file of keys: its owner's alone, whole at every moment, and changed by one at a time."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopwright.errors import ConfigurationError, MissingKey
from loopwright.messages import UserMessage
from loopwright.models import Context, Model, Models, Provider
from loopwright.models.auth import KeyStatus, key_status, resolve_key
from loopwright.models.credentials import CredentialFile, credential_file, credentials_path
from loopwright.models.tokens import Token

from .fault_server import answer, serving, text_reply

SECRET = "very-secret-value-0123456789"
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")


@pytest.fixture
def file(tmp_path: Path) -> CredentialFile:
    return CredentialFile(tmp_path / "home" / "credentials.json")


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CredentialFile:
    """The user's file, somewhere else for once."""
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path / "own"))
    return credential_file()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- keeping -----------------------------------------------------------------------------------


def test_what_was_set_is_there_for_everybody_who_reads_it(file: CredentialFile) -> None:
    file.set_key("acme", SECRET)
    file.set_token("acme", Token("t", 5.0, "r"))
    file.set_key("other", "k")

    read = CredentialFile(file.path)

    assert (read.key("acme"), read.token("acme")) == (SECRET, Token("t", 5.0, "r"))
    assert read.names() == ["acme", "other"]
    assert read.remove("acme")
    assert not read.remove("acme")
    assert file.key("acme") is None
    assert file.key("other") == "k"


def test_without_a_file_there_is_nothing(file: CredentialFile) -> None:
    assert file.key("acme") is None
    assert file.names() == []
    assert not file.path.exists()


def test_a_change_by_another_process_is_seen(file: CredentialFile) -> None:
    file.set_key("acme", "first")
    assert file.key("acme") == "first"

    CredentialFile(file.path).set_key("acme", "other")

    assert file.key("acme") == "other"


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("LOOPWRIGHT_HOME", raising=False)
    assert credentials_path() == tmp_path / "xdg" / "loopwright" / "credentials.json"

    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert credentials_path() == Path.home() / ".config" / "loopwright" / "credentials.json"

    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path))
    assert credentials_path() == tmp_path / "credentials.json"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a b", "a\n"])
def test_a_name_stays_a_name(file: CredentialFile, name: str) -> None:
    with pytest.raises(ConfigurationError, match="no provider can be named"):
        file.set_key(name, "k")


# -- who may read it ---------------------------------------------------------------------------


@posix
def test_only_its_owner_can_read_it_whatever_the_umask(file: CredentialFile) -> None:
    before = os.umask(0)
    try:
        file.set_key("acme", SECRET)
        file.set_key("acme", SECRET + "2")
    finally:
        os.umask(before)

    assert mode_of(file.path) == 0o600
    assert mode_of(file.path.parent) == 0o700
    for other in file.path.parent.iterdir():
        assert mode_of(other) == 0o600, other


@posix
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(
    file: CredentialFile, mode: int
) -> None:
    file.set_key("acme", SECRET)
    file.path.chmod(mode)

    for use in (lambda: CredentialFile(file.path).key("acme"), lambda: file.set_key("b", "k")):
        with pytest.raises(ConfigurationError) as caught:
            use()
        assert caught.value.hint == f"chmod 600 {file.path}"
        assert SECRET not in str(caught.value)


@posix
def test_a_folder_that_others_can_write_to_is_refused(file: CredentialFile) -> None:
    file.path.parent.mkdir()
    file.path.parent.chmod(0o777)

    with pytest.raises(ConfigurationError, match="others may put files"):
        file.set_key("acme", SECRET)


@posix
def test_a_symbolic_link_is_not_followed_neither_to_read_nor_to_write(
    file: CredentialFile, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"version":1,"vendors":{"acme":{"key":"planted"}}}')
    elsewhere.chmod(0o600)
    file.path.parent.mkdir(mode=0o700)
    file.path.symlink_to(elsewhere)

    with pytest.raises(ConfigurationError, match="symbolic link"):
        file.key("acme")
    with pytest.raises(ConfigurationError, match="symbolic link"):
        file.set_key("acme", SECRET)

    assert SECRET not in elsewhere.read_text()


@posix
def test_a_link_in_place_of_the_lock_is_not_followed(file: CredentialFile, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    file.path.parent.mkdir(mode=0o700)
    file.path.with_name("credentials.json.lock").symlink_to(victim)

    with pytest.raises(ConfigurationError, match="lock"):
        file.set_key("acme", SECRET)

    assert not victim.exists()


@posix
def test_what_is_no_file_is_refused(file: CredentialFile) -> None:
    file.path.mkdir(parents=True)

    with pytest.raises((ConfigurationError, OSError)):
        file.key("acme")


@posix
def test_a_pipe_in_its_place_does_not_hang(file: CredentialFile) -> None:
    file.path.parent.mkdir(mode=0o700)
    os.mkfifo(file.path, 0o600)

    script = (
        "import sys, pathlib; from loopwright.models.credentials import CredentialFile;"
        f"CredentialFile(pathlib.Path({str(file.path)!r})).key('acme')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )

    assert "no ordinary file" in done.stderr


@pytest.mark.parametrize("text", [f'{{"key": "{SECRET}"', f"{SECRET}", f'["{SECRET}"]', "\xff"])
def test_a_damaged_file_is_an_error_that_does_not_quote_it(file: CredentialFile, text: str) -> None:
    file.path.parent.mkdir(mode=0o700)
    file.path.write_bytes(text.encode("latin-1"))
    file.path.chmod(0o600)

    with pytest.raises(ConfigurationError) as caught:
        file.set_key("other", "k")

    assert "not a file of keys" in str(caught.value)
    assert SECRET not in str(caught.value) + repr(caught.value.__cause__)
    assert file.path.read_bytes() == text.encode("latin-1")  # nothing is lost


def test_a_file_of_a_newer_program_is_left_alone(file: CredentialFile) -> None:
    file.path.parent.mkdir(mode=0o700)
    file.path.write_text('{"version": 2, "vendors": {}}')
    file.path.chmod(0o600)

    with pytest.raises(ConfigurationError, match="format 2"):
        file.set_key("acme", "k")


def test_no_text_shows_a_key(file: CredentialFile) -> None:
    file.set_key("acme", SECRET)
    file.set_token("acme", Token(SECRET, 1.0, SECRET))

    shown = [repr(file), str(file), repr(file.token("acme")), str(file.token("acme"))]
    shown.append(repr(vars(file)))

    assert SECRET not in "".join(shown)


# -- several at once ---------------------------------------------------------------------------

WRITER = """
import pathlib, sys
from loopwright.models.credentials import CredentialFile
file = CredentialFile(pathlib.Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    file.set_key(f"{sys.argv[2]}-{number}", "k")
"""


def test_processes_that_write_at_once_lose_nothing(file: CredentialFile) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file.path), f"p{n}", "8"])
        for n in range(4)
    ]
    torn = 0
    while any(writer.poll() is None for writer in writers):
        try:
            text = file.path.read_bytes()
        except FileNotFoundError:
            continue
        try:
            json.loads(text)
        except ValueError:
            torn += 1
        time.sleep(0.001)  # leaves the cores to the writers

    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    assert torn == 0
    assert len(file.names()) == 32
    assert not [p for p in file.path.parent.iterdir() if p.name.startswith(".credentials")]


@posix
def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new_one(file: CredentialFile) -> None:
    file.set_key("kept", "k")
    for delay in (0.0, 0.001, 0.003):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(file.path), "w", "2000"])
        end = time.monotonic() + 30
        while "w-0" not in file.names() and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(delay)
        writer.kill()
        writer.wait()

        assert file.key("kept") == "k"
        file.set_key("after", "k")  # its lock went with it
        file.remove("w-0")


async def test_turns_are_taken_one_after_the_other_between_processes(
    file: CredentialFile,
) -> None:
    script = (
        "import asyncio, pathlib, sys; from loopwright.models.credentials import CredentialFile\n"
        "async def main():\n"
        "    async with CredentialFile(pathlib.Path(sys.argv[1])).turn('acme'):\n"
        "        print('in', flush=True); sys.stdin.readline()\n"
        "asyncio.run(main())\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(file.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == "in\n"

    async def enter() -> None:
        async with file.turn("acme"):
            pass

    waiting = asyncio.create_task(enter())
    done, _ = await asyncio.wait([waiting], timeout=0.15)
    assert not done
    async with file.turn("somebody-else"):
        pass

    other.stdin.write("\n")
    other.stdin.close()
    await asyncio.wait_for(waiting, 30)
    other.wait()
    other.stdout.close()


# -- in the order of keys ----------------------------------------------------------------------

ACME = Provider(id="acme", env=("ACME_KEY",), api="openai-chat")
CONTEXT = Context("", [UserMessage("Hi", 1)])


async def test_the_file_comes_after_arguments_and_environment(
    users: CredentialFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingKey, match="keys set acme"):
        await resolve_key(ACME, {})
    assert key_status(ACME) == KeyStatus(False, "ACME_KEY")

    users.set_key("acme", "from-file")
    assert await resolve_key(ACME, {}) == "from-file"
    assert key_status(ACME) == KeyStatus(True, "credentials file")

    monkeypatch.setenv("ACME_KEY", "from-environment")
    assert await resolve_key(ACME, {}) == "from-environment"
    assert key_status(ACME) == KeyStatus(True, "ACME_KEY")
    assert await resolve_key(ACME, {"env": {"ACME_KEY": "from-request"}}) == "from-request"
    assert await resolve_key(ACME, {"api_key": "given"}) == "given"


async def test_a_key_from_the_file_reaches_the_vendor_and_no_error(users: CredentialFile) -> None:
    users.set_key("acme", SECRET)
    refusal = answer(401, {"error": {"message": f"Incorrect API key provided: {SECRET}"}})
    async with serving(text_reply("Hello"), refusal) as server:
        models = Models([Provider(id="acme", base_url=server.base_url)])
        model = Model("acme", "m", "openai-chat")

        first = await models.complete(model, CONTEXT)
        second = await models.complete(model, CONTEXT)
        await models.aclose()

    assert first.text == "Hello"
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert second.stop_reason == "error"
    assert SECRET not in (second.error_message or "")
    assert re.search(r"\[key\]", second.error_message or "")


@posix
async def test_a_file_that_cannot_be_used_ends_the_request_with_words(
    users: CredentialFile,
) -> None:
    users.set_key("acme", SECRET)
    users.path.chmod(0o644)

    message = await Models([ACME]).complete(
        Model("acme", "m", "openai-chat", base_url="http://127.0.0.1:1"), CONTEXT, max_retries=0
    )

    assert "chmod 600" in (message.error_message or "")
