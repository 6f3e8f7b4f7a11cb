"""A function in a process of its own, which can be stopped whatever it does.

The child is a small supervisor that forks the worker (process_worker.py). Its standard input is a
lifeline: when it closes, because the call is over or because this process died, the supervisor
kills the worker and all the worker started. Termination is asked for first and enforced after a
grace time; the child is always reaped.

Not here: the child's side. Windows has no such processes: there the functions below refuse.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..errors import ToolError
from .signature import Injection, InvalidTool

if TYPE_CHECKING:
    from .tool_context import ToolContext

__all__ = [
    "ProcessFailed",
    "Request",
    "Target",
    "importable",
    "refuse_unimportable",
    "run_in_process",
]

GRACE_SECONDS = 1.0
"""How long a worker asked to stop may take before it is killed."""

_REAP_SECONDS = 5.0
"""A supervisor that does not follow its lifeline so long is killed itself."""

HEADER_BYTES = 8

inside_worker = False
"""This process is a worker. One that starts further workers is a script running itself again."""


class ProcessFailed(ToolError):
    """The worker process died, or something could not be sent to it or back."""


class Target(msgspec.Struct, frozen=True):
    """Where the worker finds the function."""

    module: str
    name: str
    file: str | None
    package: str | None = None
    """Of a script run with `python -m`, for its relative imports."""


class Request(msgspec.Struct, frozen=True):
    """What a worker is told. Only plain data, so that it can be read before anything is imported."""

    tool: str
    target: Target
    payload: bytes
    """Pickled positional arguments, keyword arguments and deps."""
    inject: tuple[tuple[str, str], ...]
    tool_call_id: str


async def run_in_process(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    timeout: float | None = None,
    inject: Sequence[tuple[str, Injection]] = (),
    context: ToolContext | None = None,
    name: str | None = None,
) -> Any:
    """Call *function*, sync or async, in a process of its own; return what it returns.

    *inject* names parameters that receive the context, its signal or its `update`; the signal
    fires in the child when the call is to stop, and updates come back while it runs. *name* is
    that of the tool, for messages.

    After *timeout* seconds, and when the caller is cancelled, the worker is asked to stop
    (SIGTERM: the signal fires, or `SystemExit` is raised in a function that takes none, an async
    one is cancelled), killed with all its children after a grace of one second, and reaped.

    Raises `TimeoutError` after *timeout*; what the function raised, with the traceback of the
    worker as a note; `ProcessFailed` if the process died or something cannot be pickled;
    `InvalidTool` for functions a worker cannot import.
    """
    name = name or str(getattr(function, "__name__", function))
    if inside_worker:
        raise ProcessFailed(
            f"{name} was called with isolation='process' inside a worker process",
            hint='a script that starts its agent at the top level needs `if __name__ == "__main__":`'
            " around that part",
        )
    request = Request(
        name,
        importable(function, name),
        _payload(tuple(args), kwargs or {}, inject, context, name),
        tuple(inject),
        context.tool_call_id if context is not None else "",
    )
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            return await _Child(request, context).run()
    except TimeoutError as error:
        if deadline.expired():
            raise TimeoutError(f"{name} took longer than {timeout:g} seconds") from error
        raise


def _payload(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inject: Sequence[tuple[str, Injection]],
    context: ToolContext | None,
    name: str,
) -> bytes:
    takes_context = any(role == "context" for _, role in inject)
    deps = context.deps if context is not None and takes_context else None
    try:
        pickle.dumps(deps)
    except Exception as error:  # pickling runs foreign code
        raise ProcessFailed(
            f"the deps ({type(deps).__name__}) cannot be sent to the worker process of "
            f"{name!r}: {error}",
            hint="deps must be picklable; open connections inside the function",
        ) from error
    try:
        return pickle.dumps((args, kwargs, deps))
    except Exception as error:
        raise ProcessFailed(
            f"the arguments cannot be sent to the worker process of {name!r}: {error}"
        ) from error


# -- which functions -------------------------------------------------------------------------


def refuse_unimportable(function: Callable[..., Any], tool: str) -> None:
    """Raise `InvalidTool` for what no other process could import, as far as can be told yet."""
    if os.name != "posix":
        raise InvalidTool(f'tool {tool!r}: isolation="process" needs a POSIX system')
    if not inspect.isfunction(function):
        kind = "a method" if inspect.ismethod(function) else f"a {type(function).__name__}"
    elif function.__name__ == "<lambda>":
        kind = "a lambda"
    elif "<locals>" in function.__qualname__:
        kind = "defined inside another function"
    elif "." in function.__qualname__:
        kind = "a method"
    else:
        return
    raise InvalidTool(
        f'tool {tool!r}: isolation="process" needs a function that another process can import, '
        f"but this one is {kind}",
        hint="define it with `def` at the top level of a module",
    )


def importable(function: Callable[..., Any], tool: str) -> Target:
    """Where a worker finds *function*. Raises `InvalidTool` if it cannot.

    Of a script (`__main__`) the worker runs only what the function needs, not the whole.
    """
    refuse_unimportable(function, tool)
    module = sys.modules.get(function.__module__)
    found = getattr(module, function.__name__, None)
    if found is not function and getattr(found, "function", None) is not function:
        raise InvalidTool(
            f"tool {tool!r}: a worker process cannot import it, since "
            f"{function.__module__}.{function.__name__} is not this function",
            hint="keep it under the name it was defined with, at the top level of its module",
        )
    file = getattr(module, "__file__", None)
    if function.__module__ == "__main__" and file is None:
        raise InvalidTool(
            f"tool {tool!r}: a worker process cannot import a function from an interactive session",
            hint="write it to a module and import it",
        )
    return Target(
        function.__module__,
        function.__name__,
        os.path.abspath(file) if file else None,
        getattr(module, "__package__", None),
    )


# -- the child -------------------------------------------------------------------------------

_BOOT = "import sys; sys.path[:] = {path!r}; from loopwright.loop.process_worker import main; main({fd})"


class _Child:
    """One supervisor with its worker, from start to reaping."""

    def __init__(self, request: Request, context: ToolContext | None) -> None:
        self._request = request
        self._context = context

    async def run(self) -> Any:
        read_end, write_end = os.pipe()
        results = os.fdopen(read_end, "rb", buffering=0)
        path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # nothing is imported from the working folder, which may be anybody's
                "-c",
                _BOOT.format(path=path, fd=write_end),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(write_end,),
                start_new_session=True,  # Ctrl-C in a terminal is for the program, which aborts
            )
        except BaseException:
            results.close()
            raise
        finally:
            os.close(write_end)
        reader = asyncio.StreamReader()
        pipe: asyncio.ReadTransport | None = None
        finished = False
        try:
            pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), results
            )
            value = await self._converse(process, reader)
            finished = True
            return value
        except Exception:
            finished = True
            raise
        finally:
            try:
                await _end(process, politely=not finished)
            finally:
                # The pipe first, or the loop may yet read from what has its number next.
                if pipe is not None:
                    pipe.close()
                results.close()

    async def _converse(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader
    ) -> Any:
        lifeline = cast("asyncio.StreamWriter", process.stdin)
        body = msgspec.msgpack.encode(self._request)
        try:
            lifeline.write(len(body).to_bytes(HEADER_BYTES, "big") + body)
            await lifeline.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # it died at once; the other pipe tells
        while True:
            try:
                size = int.from_bytes(await reader.readexactly(HEADER_BYTES), "big")
                frame = await reader.readexactly(size)
            except asyncio.IncompleteReadError:
                raise self._died(await process.wait()) from None
            kind, content = frame[:1], frame[1:]
            match kind:
                case b"u":
                    if self._context is not None:
                        self._context.update(pickle.loads(content))
                case b"r":
                    return self._unpickled(content)
                case _:
                    raise self._raised(content)

    def _unpickled(self, content: bytes) -> Any:
        try:
            return pickle.loads(content)
        except Exception as error:
            raise ProcessFailed(
                f"what {self._request.tool!r} returned cannot be read back: {error}"
            ) from error

    def _raised(self, content: bytes) -> BaseException:
        """The exception of the worker, or one that speaks for it."""
        pickled, text, trace = msgspec.msgpack.decode(content, type=tuple[bytes | None, str, str])
        error: BaseException = ProcessFailed(text)
        if pickled is not None:
            try:
                error = pickle.loads(pickled)
            except Exception:  # noqa: BLE001 - its class exists only over there
                error = ProcessFailed(text)
        error.add_note(f"In the worker process:\n{trace}")
        return error

    def _died(self, code: int) -> ProcessFailed:
        tool = self._request.tool
        if code < 0:
            try:
                how = f"was killed by {signal.Signals(-code).name}"
            except ValueError:
                how = f"was killed by signal {-code}"
        else:
            how = f"ended with exit code {code}"
        return ProcessFailed(f"the worker process of {tool!r} {how} before it returned a result")


async def _end(process: asyncio.subprocess.Process, *, politely: bool) -> None:
    """Stop the child, at once or after asking. When this returns or raises, it is reaped."""
    try:
        if politely and process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(GRACE_SECONDS):
                    await process.wait()
            except TimeoutError:
                pass
    finally:
        cast("asyncio.StreamWriter", process.stdin).close()
        await _reap(process)


async def _reap(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a child whose lifeline is cut: milliseconds, whatever is cancelled."""
    cancelled: asyncio.CancelledError | None = None
    last_resort = asyncio.get_running_loop().call_later(_REAP_SECONDS, _kill, process)
    while process.returncode is None:
        try:
            await process.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    last_resort.cancel()
    if cancelled is not None:
        raise cancelled


def _kill(process: asyncio.subprocess.Process) -> None:
    try:
        process.kill()
    except ProcessLookupError:
        return
