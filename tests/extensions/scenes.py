"""Extensions as packages, files and modules on disk, and what hooks are shown."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from loopwright import AfterToolCall, AgentContext, AgentToolResult, BeforeToolCall
from loopwright.messages import AssistantMessage, TextContent, ToolCall
from loopwright.signals import AbortController

EXAMPLE = Path(__file__).parents[2] / "examples" / "extension_todo"

SIGNAL = AbortController().signal
CALL = ToolCall("call-1", "write", {"path": "a.txt"})
REPLY = AssistantMessage([CALL], stop_reason="toolUse")


def write(file: Path, code: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(code))
    return file


def an_extension(name: str, fields: str = "") -> str:
    """The code of a module that has one."""
    return (
        "from loopwright.extensions import Command, Extension, Hooks\n"
        f"extension = Extension({name!r}, {fields})\n"
    )


def install(
    site: Path, package: str, entry_points: dict[str, str], code: str | None = None
) -> None:
    """What pip leaves of *package*, as far as we look at it: the metadata and the module."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entry_points.items()]
    (info / "entry_points.txt").write_text(
        "[console_scripts]\nsome = thing:main\n\n[loopwright.extensions]\n"
        + "\n".join(lines)
        + "\n"
    )
    if code is not None:
        write(site / f"{package}.py", code)


def before(**args: Any) -> BeforeToolCall:
    return BeforeToolCall(REPLY, CALL, args, AgentContext())


def after(text: str = "fine", *, is_error: bool = False) -> AfterToolCall:
    result = AgentToolResult([TextContent(text)], None, is_error)
    return AfterToolCall(REPLY, CALL, {}, result, is_error, AgentContext())
