"""The slash commands that are ours, for whoever must not use their names. What they do is in
interactive/commands.py, which would take longer to import."""

from __future__ import annotations

__all__ = ["COMMAND_NAMES"]

COMMAND_NAMES = (
    "model",
    "thinking",
    "permissions",
    "compact",
    "tree",
    "fork",
    "resume",
    "new",
    "name",
    "session",
    "export",
    "templates",
    "skills",
    "theme",
    "thinking-display",
    "help",
    "quit",
    "exit",
)
