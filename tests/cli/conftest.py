"""The real program in a process of its own, and a vendor on this machine for it to talk to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_SECONDS = 60
"""Far beyond what anything here takes; a hang becomes a failure."""


@dataclass
class Program:
    """`python -m loopwright` for a user who has set up nothing: no keys, no files, no styles."""

    folder: Path
    env: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-W", "error", "-m", "loopwright", *arguments]

    def run(
        self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end. Without *stdin* there is nothing to read."""
        finished = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env={**self.env, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )
        return subprocess.CompletedProcess(
            finished.args, finished.returncode, finished.stdout.decode(), finished.stderr.decode()
        )

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start it, with all streams but *stdin* as pipes."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A test run in the background of a script was started with SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def write_models_file(self, text: str) -> None:
        file = self.folder / "config" / "loopwright" / "models.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LOOPWRIGHT_", "XDG_"))
        and name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONIOENCODING")
        and not name.lower().endswith("_proxy")
    }
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return Program(
        tmp_path,
        {
            **env,
            "HOME": str(tmp_path / "home"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "TMPDIR": str(temporary),
            "TERM": "xterm-256color",
        },
    )


Hold = threading.Event
Delta = dict[str, Any] | str | Hold


@dataclass
class Vendor:
    """Answers Chat Completions as the test says. An `Event` among the pieces is waited for."""

    base_url: str
    answers: list[tuple[int, list[Delta], str]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    def will_say(self, *pieces: str | Hold, finish: str = "stop") -> None:
        self.answers.append((200, list(pieces), finish))
        self.holds += [piece for piece in pieces if isinstance(piece, Hold)]

    def will_refuse(self, status: int, message: str) -> None:
        self.answers.append((status, [message], ""))

    def messages(self) -> list[tuple[str, str]]:
        """Of the last request: role and text of each message but the system prompt."""
        return [
            (m["role"], _text(m["content"]))
            for m in self.requests[-1]["messages"]
            if m["role"] not in ("system", "developer")
        ]

    def system_prompt(self) -> str:
        """Of the last request."""
        first = self.requests[-1]["messages"][0]
        return _text(first["content"]) if first["role"] in ("system", "developer") else ""


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.fixture
def vendor(program: Program) -> Iterator[Vendor]:
    """A vendor that the program knows by the name `toy`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    vendor = Vendor(f"http://127.0.0.1:{server.server_port}/v1")
    server.vendor = vendor  # pyright: ignore[reportAttributeAccessIssue]
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    program.write_models_file(
        f'default = "toy/one"\n[providers.toy]\nbase_url = "{vendor.base_url}"\n'
        'models = ["one", "two"]\n'
    )
    yield vendor
    for hold in vendor.holds:
        hold.set()
    server.shutdown()
    serving.join()
    server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        vendor: Vendor = self.server.vendor  # pyright: ignore[reportAttributeAccessIssue]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        vendor.requests.append(json.loads(body))
        vendor.headers.append({name.lower(): value for name, value in self.headers.items()})
        status, pieces, finish = vendor.answers.pop(0)
        self.send_response(status)
        if status != 200:
            refusal = json.dumps({"error": {"message": pieces[0]}}).encode()
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(refusal)))
            self.end_headers()
            self.wfile.write(refusal)
            return
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for piece in pieces:
                if isinstance(piece, Hold):
                    piece.wait(TIMEOUT_SECONDS)
                else:
                    self._send([{"index": 0, "delta": {"content": piece}}])
            self._send([{"index": 0, "delta": {}, "finish_reason": finish}])
            usage = {"prompt_tokens": 1200, "completion_tokens": 5, "total_tokens": 1205}
            self._send([], usage=usage)
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:  # the program has gone
            pass
        self.close_connection = True

    def _send(self, choices: list[Any], **more: Any) -> None:
        self.wfile.write(b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class Terminal:
    """A program with a terminal on all its streams."""

    def __init__(self, program: Program, *arguments: str, columns: int = 80, **env: str) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._main, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

        def own_the_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = subprocess.Popen(
            program.command(*arguments),
            cwd=program.folder,
            env={**program.env, **env},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            preexec_fn=own_the_terminal,
        )
        os.close(inner)
        self.screen = ""

    def read_until(self, text: str, times: int = 1) -> str:
        """Read what appears until *text* has, so many times; gives everything so far."""
        while self.screen.count(text) < times:
            piece = self._read()
            assert piece, f"the program ended before it showed {text!r}:\n{self.screen}"
            self.screen += piece
        return self.screen

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def end(self) -> int:
        """Read the rest; gives the exit code."""
        while piece := self._read():
            self.screen += piece
        code = self.process.wait(TIMEOUT_SECONDS)
        os.close(self._main)
        return code

    def _read(self) -> str:
        import select

        ready, _, _ = select.select([self._main], [], [], TIMEOUT_SECONDS)
        if not ready:
            self.process.kill()
            raise AssertionError(f"nothing more appeared after:\n{self.screen}")
        try:
            return os.read(self._main, 65536).decode("utf-8", "replace")
        except OSError:  # Linux: the other side is closed
            return ""


@pytest.fixture
def terminal(program: Program) -> Iterator[Callable[..., Terminal]]:
    """Starts the program on a terminal: `terminal("demo", NO_COLOR="1")`."""
    opened: list[Terminal] = []

    def start(*arguments: str, **more: Any) -> Terminal:
        opened.append(Terminal(program, *arguments, **more))
        return opened[-1]

    yield start
    for one in opened:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
