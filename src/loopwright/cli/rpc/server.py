"""`--mode rpc`: from two streams and a session to an exit code.

Not here: what is said in between (dialogue.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, BinaryIO

from ...errors import LoopwrightError
from ..exit_codes import ExitCode
from .dialogue import PATIENCE_SECONDS, PROGRAM, Dialogue
from .faults import fault_of
from .line_reader import LineReader
from .line_writer import LineWriter
from .output import PROTOCOL_VERSION, StartFailed, to_line
from .private_streams import private_streams
from .requests import LINE_LIMIT

if TYPE_CHECKING:
    from ..live.session import LiveSession

__all__ = ["serve"]


async def serve(
    open_session: Callable[[], Awaitable[LiveSession]], stdin: BinaryIO | None, stdout: BinaryIO
) -> ExitCode:
    """Speak the protocol on *stdin* and *stdout* until the input ends, and give the exit code.

    Without *stdin* there is nothing to read. The session is closed at the end. What *open_session* raises is told to the client in the line
    `start_failed`, and raised. Meanwhile whatever else is printed goes to standard error.
    """
    with private_streams(stdin, stdout) as (input_fd, output_fd):
        writer = LineWriter(output_fd)
        try:
            live = await open_session()
        except (LoopwrightError, OSError) as error:
            writer.put(to_line(StartFailed(PROTOCOL_VERSION, PROGRAM, fault_of(error))))
            await writer.close(PATIENCE_SECONDS)
            raise
        dialogue = Dialogue(live, LineReader(input_fd, LINE_LIMIT), writer)
        try:
            try:
                code = await dialogue.run()
            finally:
                await live.aclose()
            dialogue.say_goodbye()
        finally:
            await writer.close(PATIENCE_SECONDS)
        return code
