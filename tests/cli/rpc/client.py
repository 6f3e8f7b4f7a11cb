"""A client of the rpc mode that knows nothing but docs/rpc.md and the schemas.

It uses the standard library and jsonschema, and imports nothing of loopwright: what it can do, any
program can. Every line it sends or receives is held against the schemas.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
TIMEOUT_SECONDS = 60
"""Far beyond what anything here takes; a hang becomes a failure."""

Line = dict[str, Any]


def validator(name: str) -> Draft202012Validator:
    """What holds a line against a file of docs/schemas."""
    return Draft202012Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8")))


COMMAND = validator("rpc-command")
OUTPUT = validator("rpc-output")


class Client:
    """One process, its lines in order in `lines`."""

    def __init__(
        self, command: list[str], folder: Path, env: dict[str, str], *, reads: bool = True
    ) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A test run in the background of a script was started with SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: list[Line] = []
        self.errors = b""
        self._arrived: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._count = 0
        self._reading = threading.Thread(target=self._read)
        self._reading_errors = threading.Thread(target=self._read_errors)
        self._reading_errors.start()
        if reads:
            self._reading.start()

    def start_reading(self) -> None:
        """For a client that did not, so far."""
        self._reading.start()

    # -- saying something ----------------------------------------------------------------------

    def send(self, type: str, **fields: Any) -> str:
        """Send a command; gives its id."""
        self._count += 1
        line = {"id": f"c{self._count}", "type": type, **fields}
        COMMAND.validate(line)
        self.send_bytes(json.dumps(line).encode() + b"\n")
        return line["id"]

    def send_bytes(self, data: bytes) -> None:
        """Send what is no command, maybe."""
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, type: str, **fields: Any) -> Line:
        """Send a command and wait for its data; the command must succeed."""
        response = self.response_to(self.send(type, **fields))
        assert response["success"], response
        return response["data"]

    def refused(self, type: str, **fields: Any) -> Line:
        """Send a command and wait for its error; the command must fail."""
        response = self.response_to(self.send(type, **fields))
        assert not response["success"], response
        return response["error"]

    def run(self, text: str, **fields: Any) -> Line:
        """Prompt, and wait for the end of the run."""
        self.ask("prompt", text=text, **fields)
        return self.until("run_end")

    def end_input(self) -> None:
        """Nothing more will be said."""
        assert self.process.stdin
        self.process.stdin.close()

    # -- hearing something ---------------------------------------------------------------------

    def receive(self) -> Line | None:
        """The next line; None at the end."""
        try:
            raw = self._arrived.get(timeout=TIMEOUT_SECONDS)
        except queue.Empty:
            self.process.kill()
            said = "\n".join(json.dumps(line)[:300] for line in self.lines[-20:])
            raise AssertionError(f"nothing more came after:\n{said}\n{self.errors!r}") from None
        if raw is None:
            self._arrived.put(None)  # for whoever asks again
            return None
        line: Line = json.loads(raw)
        OUTPUT.validate(line)
        self.lines.append(line)
        return line

    def until(self, type: str, wanted: Callable[[Line], bool] = lambda _line: True) -> Line:
        """Read on to the next line of that type that is *wanted*."""
        while line := self.receive():
            if line["type"] == type and wanted(line):
                return line
        raise AssertionError(f"the program ended before {type}: {self.errors.decode()}")

    def response_to(self, command_id: str) -> Line:
        """Read on to the response to that command."""
        return self.until("response", lambda line: line["id"] == command_id)

    def event(self, type: str) -> Line:
        """Read on to the next change of that type to the reply that is being written."""

        def is_it(line: Line) -> bool:
            return line["assistantMessageEvent"]["type"] == type

        return self.until("message_update", is_it)["assistantMessageEvent"]

    def rest(self) -> list[Line]:
        """Read to the end."""
        before = len(self.lines)
        while self.receive() is not None:
            pass
        return self.lines[before:]

    def end(self) -> int:
        """End the input, read the rest; gives the exit code."""
        self.end_input()
        self.rest()
        return self.wait()

    def wait(self) -> int:
        """The exit code, when there is one."""
        code = self.process.wait(TIMEOUT_SECONDS)
        self._reading_errors.join()
        return code

    def close(self) -> None:
        """Whatever happened: nothing is left of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in (self._reading, self._reading_errors):
            if thread.ident is not None:
                thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            try:
                pipe.close()
            except OSError:
                pass

    # -- in threads ----------------------------------------------------------------------------

    def _read(self) -> None:
        assert self.process.stdout
        for raw in self.process.stdout:
            self._arrived.put(raw)
        self._arrived.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr
        for raw in self.process.stderr:
            self.errors += raw
