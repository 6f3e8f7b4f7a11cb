"""`import loopwright` gives the names the design promises, and costs next to nothing."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

import loopwright

# The names that users and checks outside this repository import: a name leaves this list only with
# a breaking line in CHANGELOG.md. Those of sessions join it with the layer `session`.
FIXED_NAMES = {
    "loopwright": """
        Agent RunResult
        agent_loop agent_loop_continue run_agent_loop run_agent_loop_continue
        AgentContext AgentLoopConfig
        tool AgentTool AgentToolResult ToolContext
        BeforeToolCall BeforeToolCallResult AfterToolCall AfterToolCallResult
        TurnContext TurnUpdate FinishTurn
        AbortController AbortSignal
        CustomMessage default_convert_to_llm set_default_stream_fn
    """,
    "loopwright.messages": """
        UserMessage AssistantMessage ToolResultMessage Message AgentMessage
        TextContent ThinkingContent ImageContent ToolCall Usage Cost StopReason
    """,
    "loopwright.events": """
        AgentEvent AgentStart AgentEnd TurnStart TurnEnd MessageStart MessageUpdate MessageEnd
        ToolExecutionStart ToolExecutionUpdate ToolExecutionEnd Retry
    """,
    "loopwright.stream": """
        AssistantStream AssistantMessageEvent Start TextStart TextDelta TextEnd
        ThinkingStart ThinkingDelta ThinkingEnd ToolCallStart ToolCallDelta ToolCallEnd
        Done Error StreamWriter
    """,
    "loopwright.models": "Models Model Provider Context ToolSpec default_models",
    "loopwright.testing": "ScriptedModel Reply Call decode",
    "loopwright.tools": """
        coding_tools Workspace LocalWorkspace MemoryWorkspace
        read_tool bash_tool edit_tool write_tool grep_tool find_tool ls_tool
    """,
    "loopwright.permissions": """
        Policy Decision Mode MODES Rule parse_rule parse_rules permission_gate Question
        AllowOnce AllowAlways Deny TrustFile what_needs_trust
    """,
    "loopwright.extensions": "Extension Hooks Command CommandContext load_extensions combine",
}

LOADED_ONLY_WHEN_NEEDED = [
    "anthropic",
    "cyclopts",
    "docstring_parser",
    "httpx2",
    "importlib.metadata",
    "jsonschema",
    "openai",
    "pathspec",
    "prompt_toolkit",
    "pydantic",
    "pydantic_core",
    "pygments",
    "rich",
    "tomlkit",
    "typer",
    "sqlite3",
    "xllamacpp",
    "yaml",
    "loopwright.cli",
    "loopwright.extensions",
    "loopwright.harness",
    "loopwright.session",
    "loopwright.testing",
]


@pytest.mark.parametrize("module_name", FIXED_NAMES)
def test_every_promised_name_can_be_imported(module_name: str) -> None:
    module = importlib.import_module(module_name)

    missing = [name for name in FIXED_NAMES[module_name].split() if not hasattr(module, name)]

    assert missing == []


@pytest.mark.parametrize("module_name", FIXED_NAMES)
def test_all_says_exactly_what_a_public_module_holds(module_name: str) -> None:
    module = importlib.import_module(module_name)
    promised = set(FIXED_NAMES[module_name].split())

    listed: list[str] = module.__all__

    assert len(listed) == len(set(listed)), "a name is listed twice"
    assert promised <= set(listed)
    assert [name for name in listed if not hasattr(module, name)] == []


def test_the_front_door_holds_nothing_that_it_does_not_list() -> None:
    """Submodules appear as attributes once imported, so modules are not counted."""
    held = {
        name
        for name, value in vars(loopwright).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    unlisted = held - set(loopwright.__all__) - {"annotations"}

    assert unlisted == set()


def test_importing_the_front_door_loads_no_sdk_and_nothing_slow() -> None:
    script = "import json, sys, loopwright; print(json.dumps(sorted(sys.modules)))"

    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    loaded = set(json.loads(finished.stdout))
    assert [name for name in LOADED_ONLY_WHEN_NEEDED if name in loaded] == []


def test_importing_every_module_but_the_command_line_prints_nothing() -> None:
    """Nobody's program is spoken to, warned or logged at because it imported us."""
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import loopwright, loopwright.testing"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert (finished.stdout, finished.stderr) == ("", "")


def test_the_package_says_that_it_is_typed() -> None:
    assert Path(loopwright.__file__).with_name("py.typed").is_file()


def test_the_command_line_tells_the_version() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "loopwright", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert loopwright.__version__ in finished.stdout


def test_modes_for_programs_load_nothing_of_the_terminal() -> None:
    """What is imported for `-p`, `--mode json` and `--mode rpc`, before a model is asked."""
    program = (
        "import sys, loopwright.cli.run_command, loopwright.cli.live.opening, loopwright.cli.one_turn, "
        "loopwright.cli.rpc.server\n"
        "print(*[name for name in sys.modules if 'interactive' in name or 'prompt_toolkit' in name])"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (finished.stdout.strip(), finished.stderr) == ("", "")
