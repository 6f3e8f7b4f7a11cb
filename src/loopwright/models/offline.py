"""A switch that keeps a test run from asking real models, whatever the code under test does.

Set LOOPWRIGHT_FORBID_MODEL_REQUESTS=1 for a whole process, or use `forbid_model_requests()` around
a part of it. Scripted models always work. A server on this machine may stand for a vendor or may
pass requests on to one, so it is forbidden too unless allowed: by `allow_loopback=True`, or by
giving the variable the value `remote`.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

from ..errors import Misuse

__all__ = ["check_request_allowed", "forbid_model_requests"]

VARIABLE = "LOOPWRIGHT_FORBID_MODEL_REQUESTS"

_switches: list[bool] = []  # of each switch in force, whether it lets loopback through


@contextmanager
def forbid_model_requests(*, allow_loopback: bool = False) -> Generator[None]:
    """Until the block ends, every real request of this process fails and says so."""
    _switches.append(allow_loopback)
    try:
        yield
    finally:
        _switches.remove(allow_loopback)


def check_request_allowed(model: str, base_url: str | None) -> None:
    """Raise `Misuse` if the request may not leave this process. *base_url* None: not yet known."""
    loopback_allowed = _loopback_allowed()
    if loopback_allowed is None:
        return
    if loopback_allowed and (base_url is None or _is_loopback(base_url)):
        return
    raise Misuse(
        f"{model}: real model requests are forbidden here",
        hint="give the code a ScriptedModel, or lift forbid_model_requests() "
        f"(or {VARIABLE}) for this test",
    )


def _loopback_allowed() -> bool | None:
    """None if nothing is forbidden."""
    set_to = os.environ.get(VARIABLE, "").strip().lower()
    switches = list(_switches)
    if set_to not in ("", "0", "false", "no"):
        switches.append(set_to == "remote")
    return all(switches) if switches else None


def _is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
