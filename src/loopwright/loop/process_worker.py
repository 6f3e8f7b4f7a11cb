"""The child's side of processes.py: a supervisor, and the worker it forks.

The supervisor is one thread that waits for two things: its lifeline (standard input) to close, and
the worker to end. Being a process of its own it can kill a worker that hangs in C code, and it
ends the way the worker did, so that whoever waits for it sees exit code or signal.

Not here: anything that runs in the process of the agent.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import itertools
import os
import pickle
import select
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable
from typing import Any, NoReturn, cast

import msgspec

from ..messages import AgentToolResult
from ..signals import AbortController
from . import processes
from .processes import HEADER_BYTES, ProcessFailed, Request, Target
from .script_slice import run_slice
from .tool_context import ToolContext

__all__ = ["main"]


def main(results_fd: int) -> NoReturn:
    """Read one request, run it, end. The only way out is the end of the process."""
    os.set_inheritable(results_fd, False)
    processes.inside_worker = True
    lifeline = os.dup(0)
    with open(os.devnull, "rb") as nothing:  # the function may read its input, not ours
        os.dup2(nothing.fileno(), 0)
    body = _read(lifeline, int.from_bytes(_read(lifeline, HEADER_BYTES), "big"))
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _note)
    signal.signal(signal.SIGTERM, _note)
    supervisor = os.getpid()
    _linux_process_option(_PR_SET_CHILD_SUBREAPER, 1)  # orphans come to us, not to an init
    pid = os.fork()
    if pid == 0:
        for fd in (lifeline, awake):
            os.close(fd)
        signal.set_wakeup_fd(-1)
        os.close(wake)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        _die_with(supervisor)
        _Worker(msgspec.msgpack.decode(body, type=Request), results_fd).run()
    os.close(results_fd)
    _supervise(pid, lifeline, awake)


def _read(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(fd, min(size - len(data), 1 << 20))
        if not part:
            os._exit(0)  # called off before it began
        data += part
    return bytes(data)


# -- the supervisor --------------------------------------------------------------------------


def _note(number: int, frame: types.FrameType | None) -> None:
    """A handler must be there for the wake-up pipe to be written."""


def _supervise(pid: int, lifeline: int, awake: int) -> NoReturn:
    try:
        os.setpgid(pid, pid)  # the worker does so, too: whoever comes first
    except (PermissionError, ProcessLookupError):
        pass
    while not _ended(pid):
        ready, _, _ = select.select([lifeline, awake], [], [])
        if lifeline in ready and not os.read(lifeline, 4096):
            _signal_group(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            _bury_the_rest()
            os._exit(0)
        if awake in ready and signal.SIGTERM in os.read(awake, 4096):
            _signal_group(pid, signal.SIGTERM)
    _signal_group(pid, signal.SIGKILL)  # what the function started and left behind
    _, status = os.waitpid(pid, 0)
    _bury_the_rest()
    _end_like(os.waitstatus_to_exitcode(status))


def _ended(pid: int) -> bool:
    """Whether the worker has ended. It is left unreaped, so that its group cannot change hands."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return _ended_without_waitid(pid)
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ended_without_waitid(pid: int) -> bool:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        _signal_group(pid, signal.SIGKILL)
        _end_like(os.waitstatus_to_exitcode(status))
    return False


def _bury_the_rest() -> None:
    """Kill and reap what the worker left, even if it had moved to a session of its own (Linux)."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid:
                continue
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listing:
                left = [int(number) for number in listing.read().split()]
            for child in left:
                os.kill(child, signal.SIGKILL)
            if left:
                os.waitpid(-1, 0)
        except (ChildProcessError, ProcessLookupError, FileNotFoundError):
            return  # nobody is left, or this system does not say who


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (PermissionError, ProcessLookupError):  # nobody is left; macOS says so in its own way
        return


def _end_like(code: int) -> NoReturn:
    if code < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
        number = -code
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(code if code >= 0 else 1)


# -- the worker ------------------------------------------------------------------------------

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _linux_process_option(option: int, value: int) -> None:
    """prctl(2); elsewhere nothing happens."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with(supervisor: int) -> None:
    """On Linux the kernel kills the worker if someone kills the supervisor."""
    _linux_process_option(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != supervisor:  # it died before we asked
        os._exit(1)


class _Worker:
    """Runs the function and sends back updates and the outcome."""

    def __init__(self, request: Request, results_fd: int) -> None:
        self._request = request
        self._results_fd = results_fd
        self._lock = threading.Lock()
        self._abort = AbortController()

    def run(self) -> NoReturn:
        try:
            value = self._call()
            frame = b"r" + self._pickled(value)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the agent must hear of it
            frame = b"e" + _encode_error(error, self._request.tool)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
        self._send(frame)
        os._exit(0)  # threads the function started do not hold anything up

    def _call(self) -> Any:
        function = _find(self._request.target)
        args, kwargs, deps = pickle.loads(self._request.payload)
        if inspect.iscoroutinefunction(function):
            return asyncio.run(self._call_async(function, args, kwargs, deps))
        signal.signal(signal.SIGTERM, self._stop)
        return function(*args, **kwargs, **self._injected(deps))

    async def _call_async(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], deps: Any
    ) -> Any:
        task = cast("asyncio.Task[Any]", asyncio.current_task())

        def stop() -> None:
            self._abort.abort()
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        return await function(*args, **kwargs, **self._injected(deps))

    def _injected(self, deps: Any) -> dict[str, Any]:
        if not self._request.inject:
            return {}
        context = ToolContext(
            self._request.tool_call_id, self._abort.signal, deps, self._send_update
        )
        values = {"context": context, "signal": context.signal, "update": context.update}
        return {name: values[role] for name, role in self._request.inject}

    def _stop(self, number: int, frame: types.FrameType | None) -> None:
        """SIGTERM: tell a function that listens, unwind one that does not."""
        self._abort.abort()
        if not any(role in ("context", "signal") for _, role in self._request.inject):
            raise SystemExit(128 + number)

    def _pickled(self, value: Any) -> bytes:
        try:
            return pickle.dumps(value)
        except Exception as error:  # noqa: BLE001 - pickling runs foreign code
            raise ProcessFailed(
                f"{self._request.tool!r} returned a {type(value).__name__}, which cannot be sent "
                f"back from its worker process: {error}",
                hint="return text, JSON-able data or content blocks",
            ) from None

    def _send_update(self, partial: AgentToolResult) -> None:
        self._send(b"u" + self._pickled(partial))

    def _send(self, frame: bytes) -> None:
        data = memoryview(len(frame).to_bytes(HEADER_BYTES, "big") + frame)
        with self._lock:  # updates come from any thread
            while data:
                data = data[os.write(self._results_fd, data) :]


def _encode_error(error: BaseException, tool: str) -> bytes:
    """The exception itself if it survives pickling both ways, its text, its traceback."""
    trace = "".join(traceback.format_exception(error))
    if not isinstance(error, Exception):
        text = f"{tool!r} ended its worker process with {error!r}"
        return msgspec.msgpack.encode((None, text, trace))
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001 - foreign classes fail in any way they like
        pickled = None
    return msgspec.msgpack.encode((pickled, f"{type(error).__name__}: {error}", trace))


def _find(target: Target) -> Callable[..., Any]:
    """Import the function. A tool stands for the function it was made of."""
    if target.module == "__main__":
        module = run_slice(cast("str", target.file), target.name, target.package)
    else:
        module = _import(target)
    found = getattr(module, target.name)
    return cast("Callable[..., Any]", getattr(found, "function", found))


def _import(target: Target) -> types.ModuleType:
    """By name, or from its file if the name means nothing or something else here."""
    try:
        module = importlib.import_module(target.module)
    except ModuleNotFoundError:
        module = None
    file = getattr(module, "__file__", None)
    if module is not None and (
        target.file is None or (file and os.path.abspath(file) == target.file)
    ):
        return module
    spec = importlib.util.spec_from_file_location(target.module, target.file or "")
    if spec is None or spec.loader is None:
        raise ImportError(f"no module named {target.module!r}")
    for parent in itertools.accumulate(target.module.split(".")[:-1], "{}.{}".format):
        if parent not in sys.modules:  # unpickling a class imports the packages above it, too
            package = types.ModuleType(parent)
            package.__path__ = []
            sys.modules[parent] = package
    module = importlib.util.module_from_spec(spec)
    sys.modules[target.module] = module
    spec.loader.exec_module(module)
    return module
