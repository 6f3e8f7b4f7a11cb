"""An agent whose work survives, and what stands around it: compaction, approvals, resources.

Everything is imported when it is first asked for.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from .approvals import approve, deny, pending_approvals
    from .compaction import CompactionSettings
    from .compactor import BeforeCompaction, CompactionRequest, CompactionVerdict
    from .harness import Harness
    from .resources import Resources, load_resources
    from .summary import SummaryFailed

__all__ = [
    "BeforeCompaction",
    "CompactionRequest",
    "CompactionSettings",
    "CompactionVerdict",
    "Harness",
    "Resources",
    "SummaryFailed",
    "approve",
    "deny",
    "load_resources",
    "pending_approvals",
]

_HOMES = {
    "BeforeCompaction": "compactor",
    "CompactionRequest": "compactor",
    "CompactionSettings": "compaction",
    "CompactionVerdict": "compactor",
    "Harness": "harness",
    "Resources": "resources",
    "SummaryFailed": "summary",
    "approve": "approvals",
    "deny": "approvals",
    "load_resources": "resources",
    "pending_approvals": "approvals",
}


def __getattr__(name: str) -> _typing.Any:
    """See `_HOMES`."""
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{module}", __name__), name)
