"""A key goes to its vendor and nowhere else: not into sessions, exports, logs, outputs or telemetry.

The real program is run with a key from each place that may hold one, against a vendor on this
machine that answers, refuses and throws the key back. Then every byte is looked at that was
written or printed.

Not here: what a tool prints, such as a command that shows its environment, or a file with a key in
it that is read. That is kept out as far as the values are known (cli/bench/secrets.py, with its tests);
nor a key that the user types into a prompt, or that a model makes up.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from loopwright import Agent
from loopwright.harness import Harness
from loopwright.models import Models, Provider
from loopwright.models.model import Model
from loopwright.session import SqliteStore
from loopwright.telemetry import RecordingTracer

from .conftest import Program, Terminal, Vendor

KEY = "sk-toy-Zx81kQ9vSecret0123456789"
FORMS = [
    KEY.encode(),
    KEY.encode()[:-6],  # cut off at the end is as bad
    KEY.encode()[6:],
    base64.b64encode(KEY.encode()).rstrip(b"=")[:-1],
    KEY.encode().hex().encode(),
    KEY.encode("utf-16-le"),
]
ECHOES = [
    (401, f"Incorrect API key provided: {KEY}. You can find yours elsewhere."),
    (403, f"{{'headers': {{'Authorization': 'Bearer {KEY}'}}}}"),
    (400, f"invalid value for header: Bearer {KEY}"),
    (404, f"no model for {KEY}"),
    (500, f"Traceback: request(key={KEY!r})"),
    (429, f"rate limit reached for key {KEY}"),
]


def where_keys_belong(program: Program) -> set[Path]:
    folder = program.folder / "config" / "loopwright"
    return {folder / "credentials.json", folder / "models.toml"}


def leaks(data: bytes) -> list[bytes]:
    return [form for form in FORMS if form in data]


def search_files(program: Program) -> list[str]:
    """The files below the user's and the temporary folder in which the key stands. It must look at
    something: at least the database is there."""
    files = [file for file in program.folder.rglob("*") if file.is_file()]
    assert any(file.name == "sessions.db" for file in files)
    return [
        f"{file}: {found}"
        for file in files
        if file not in where_keys_belong(program) and (found := leaks(file.read_bytes()))
    ]


def give_key(program: Program, vendor: Vendor, place: str) -> None:
    """Let the program find the key in *place*."""
    said = {
        "environment": 'env = "TOY_KEY"',
        "store": 'env = "TOY_KEY"',
        "file": f'api_key = "{KEY}"',
        "header": f'headers = {{ X-Token = "{KEY}" }}',
    }[place]
    program.write_models_file(
        f'default = "toy/one"\n[providers.toy]\nbase_url = "{vendor.base_url}"\n{said}\n'
        'models = ["one"]\n'
    )
    (program.folder / "config" / "loopwright" / "models.toml").chmod(0o600)
    if place == "environment":
        program.env["TOY_KEY"] = KEY
    if place == "store":
        kept = program.run("keys", "set", "toy", stdin=f"{KEY}\n".encode())
        assert kept.returncode == 0, kept.stderr
        assert not leaks((kept.stdout + kept.stderr).encode())


def sent(vendor: Vendor) -> bool:
    """The vendor was given the key: else nothing here would prove anything."""
    return any(KEY in value for value in vendor.headers[-1].values())


def run(program: Program, *arguments: str) -> str:
    """What it prints, on both streams; the key must not be in it."""
    finished = program.run(*arguments)
    said = finished.stdout + finished.stderr
    assert not leaks(said.encode()), f"{arguments} said: {said}"
    return said


@pytest.mark.parametrize(
    ("place", "mode"),
    [
        ("environment", ()),
        ("environment", ("--mode", "json")),
        ("store", ()),
        ("file", ("--mode", "json")),
        ("header", ()),
    ],
)
def test_a_key_is_in_no_session_no_output_and_no_export(
    program: Program, vendor: Vendor, place: str, mode: tuple[str, ...]
) -> None:
    give_key(program, vendor, place)
    vendor.will_say("Hello.")
    run(program, "-p", "hi", "--name", "talk", *mode)
    assert sent(vendor)
    vendor.will_refuse(*ECHOES[0])
    refused = run(program, "-c", "-p", "again", *mode)
    vendor.will_refuse(*ECHOES[2])
    run(program, "-c", "-p", "once more", *mode)

    assert "Incorrect API key provided" in refused, "what is left of the refusal is told"
    for form in ("md", "html", "json", "pi"):
        run(program, "sessions", "export", "talk", "--format", form)
        run(program, "sessions", "export", "talk", "--format", form, "-o", f"talk.{form}")
    run(program, "sessions", "show", "talk", "--mode", "json")
    assert search_files(program) == []


@pytest.mark.parametrize(("status", "message"), ECHOES)
def test_a_vendor_that_throws_the_key_back_gets_it_nowhere(
    program: Program, vendor: Vendor, status: int, message: str
) -> None:
    give_key(program, vendor, "environment")
    for _ in range(8):  # some refusals are tried again
        vendor.will_refuse(status, message)

    said = run(program, "-p", "hi", "--mode", "json")

    assert vendor.requests
    assert sent(vendor)
    assert '"agent_end"' in said
    assert search_files(program) == []


@pytest.mark.parametrize("place", ["environment", "store", "file", "header"])
def test_no_command_that_looks_around_shows_a_key(
    program: Program, vendor: Vendor, place: str
) -> None:
    give_key(program, vendor, place)
    vendor.will_say("Hello.")
    run(program, "-p", "hi")
    vendor.will_refuse(*ECHOES[1])

    for command in (
        ("doctor",),
        ("doctor", "--mode", "json"),
        ("doctor", "--ask"),
        ("config",),
        ("config", "--mode", "json"),
        ("models", "toy"),
        ("models", "toy", "--mode", "json"),
        ("models", "--providers", "--mode", "json"),
        ("keys", "list"),
        ("sessions", "list", "--mode", "json"),
        ("sessions", "doctor", "--mode", "json"),
        ("sessions", "search", KEY[:8]),
        ("completion", "bash"),
        ("-h",),
    ):
        run(program, *command)
    assert len(vendor.requests) == 2, "the doctor has asked, and was refused"
    assert search_files(program) == []


def test_after_a_kill_the_key_is_not_in_the_files_beside_the_database_either(
    program: Program, vendor: Vendor
) -> None:
    give_key(program, vendor, "environment")
    vendor.will_say("Once upon a", threading.Event(), " time")
    process = program.start("-p", "Tell me a tale.")
    assert process.stdout
    os.read(process.stdout.fileno(), 100)
    process.kill()
    _, said = process.communicate(timeout=60)

    assert process.returncode == -signal.SIGKILL
    assert sent(vendor)
    assert not leaks(said)
    database = next(program.folder.rglob("sessions.db"))
    assert database.with_name("sessions.db-wal").stat().st_size > 0
    assert search_files(program) == []


def test_on_a_terminal_the_key_is_not_drawn(
    program: Program, vendor: Vendor, terminal: Callable[..., Terminal]
) -> None:
    give_key(program, vendor, "environment")
    vendor.will_refuse(*ECHOES[0])

    screen = terminal("-p", "hi", NO_COLOR="1")
    screen.end()

    assert sent(vendor)
    assert "Incorrect API key" in screen.screen
    assert not leaks("".join(screen.screen.split()).encode())
    assert search_files(program) == []


@pytest.mark.parametrize(
    "broken",
    [
        '[providers.toy]\napi_key = "KEY\n',
        '[providers.toy]\napi_key = ["KEY"]\n',
        '[providers.toy]\napi_kee = "KEY"\n',
        '[providers.toy]\nheaders = "KEY"\n',
        'default = "KEY"\n',
    ],
)
def test_a_file_of_models_with_a_mistake_is_told_without_what_stands_in_it(
    program: Program, broken: str
) -> None:
    program.write_models_file(broken.replace("KEY", KEY))
    is_a_name = broken.startswith("default")  # which is a model's, and no secret

    for command in (("-p", "hi"), ("models",), ("doctor",), ("config",)):
        finished = program.run(*command)
        said = finished.stdout + finished.stderr
        assert is_a_name or not leaks(said.encode()), f"{command} said: {said}"
        assert "Traceback" not in said


def test_a_file_of_keys_with_a_mistake_is_told_without_what_stands_in_it(
    program: Program, vendor: Vendor
) -> None:
    give_key(program, vendor, "store")
    kept = program.folder / "config" / "loopwright" / "credentials.json"
    for change in (
        lambda text: text.replace('"key":', '"key"'),
        lambda text: text.replace(f'"{KEY}"', f'["{KEY}"]'),
        lambda text: text.replace("{", '{"version": "x",', 1),
    ):
        before = kept.read_text()
        kept.write_text(change(before))
        assert kept.read_text() != before

        for command in (("-p", "hi"), ("doctor",), ("keys", "list"), ("models", "toy")):
            assert "Traceback" not in run(program, *command)
        kept.write_text(before)


async def test_telemetry_tells_of_requests_and_not_of_keys(
    tmp_path: Path, vendor: Vendor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    model = Model(provider="toy", id="one", api="openai-chat")
    provider = Provider(
        id="toy", base_url=vendor.base_url, api="openai-chat", models=(model,), api_key=KEY
    )
    vendor.will_say("Hello.")
    vendor.will_refuse(*ECHOES[0])
    tracer = RecordingTracer()

    async with (
        Models([provider]) as models,
        await SqliteStore.open(tmp_path / "sessions.db") as store,
    ):
        agent = Agent(model, stream_fn=models.stream_simple)
        async with Harness.open(store, "s", agent=agent, tracer=tracer) as harness:
            await harness.prompt("hi")
            result = await harness.prompt("again")

    assert sent(vendor)
    assert result.stop_reason == "error"
    spans = [span for root in tracer.roots for span in (root, *root.children)]
    assert len(spans) > 4
    told = [tracer.tree(), *(json.dumps(dict(span.attributes), default=str) for span in spans)]
    assert not leaks("\n".join(told).encode())
    assert not leaks(caplog.text.encode())
    assert not leaks(repr(result).encode())
    assert not [file for file in tmp_path.rglob("*.db*") if leaks(file.read_bytes())]
