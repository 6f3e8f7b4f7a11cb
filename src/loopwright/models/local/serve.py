"""The program of the child process: llama.cpp's HTTP server, until its parent is gone.

A process of its own, because loading holds the interpreter lock for seconds and llama.cpp writes
to stderr from threads of its own. It is run by path, not by name, and imports only the standard
library and xllamacpp: its first line of stdin carries the parent's module path and all settings,
the key among them, which is therefore in nobody's process list. Its one line of stdout is the
address. `server.py` starts and ends it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from typing import Any

PARENT_POLL_SECONDS = 1.0


def main() -> None:
    """Serve as the first line of stdin says; return never."""
    parent = os.getppid()
    settings: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = settings["sys_path"]
    # Whatever llama.cpp prints goes to the log: stdout belongs to the one line below.
    report = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    try:
        server = start(settings)
    except Exception as error:  # noqa: BLE001 (foreign code; llama.cpp has logged the details)
        sys.exit(str(error))

    report.write(json.dumps({"address": server.listening_address}).encode() + b"\n")
    report.close()
    wait_for_the_end_of(parent)
    # Not sys.exit: llama.cpp's own shutdown first waits for the requests being answered.
    os._exit(0)


def start(settings: dict[str, Any]) -> Any:
    """Load the model and listen; returns when requests are answered. Raises what xllamacpp does."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no type information
    params = xllamacpp.CommonParams()
    params.model.path = settings["model_path"]
    params.model_alias = {settings["model_id"]}  # else every chunk of every reply has the path
    params.chat_template = settings["chat_template"]  # "" is the file's own
    params.n_ctx = settings["context_window"]
    # One request at a time: replies at temperature 0 are then the same every time, and the window
    # is not divided. Agents that take turns get their prefix back from the prompt cache.
    params.n_parallel = 1
    params.cache_ram_mib = 256
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # the system picks a free one, without a race
    params.api_keys = [settings["api_key"]]
    params.ui = False
    params.verbosity = 2  # warnings and errors
    return xllamacpp.Server(params)


def wait_for_the_end_of(parent: int) -> None:
    """Return when stdin ends or the parent process is another one.

    The end of stdin is seen at once, but does not come while a process forked from the parent
    holds the other end; hence the second look. Linux's "signal on the parent's death" is no
    third: it fires when the parent's starting *thread* ends.
    """
    ended = threading.Event()

    def watch_stdin() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=watch_stdin, daemon=True).start()
    while os.getppid() == parent and not ended.wait(PARENT_POLL_SECONDS):
        pass


if __name__ == "__main__":
    main()
