"""What holds for every test: no vendor is ever reached, and a run can be repeated.

Not here: fixtures of one layer; they live beside its tests.
"""

from __future__ import annotations

import ipaddress
import os
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A shared machine makes single examples slow, which is no fault of ours. In CI the examples are
# derived from the test itself, so that the same commit gets the same answer; at a desk they are new
# each time, so that people find what CI cannot.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


def _refuse_the_outside(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: in this process, connections go to this machine or nowhere."""
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) and address else None
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    name = host.decode() if isinstance(host, bytes) else host
    if isinstance(name, str) and not _is_loopback(name):
        raise RuntimeError(
            f"a test tried to reach {name!r}; tests use ScriptedModel or a local server"
        )


def _is_loopback(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


sys.addaudithook(_refuse_the_outside)


@pytest.fixture(autouse=True)
def no_model_of_the_outside_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to anything but this machine fail with words, before a socket is opened."""
    monkeypatch.setenv("LOOPWRIGHT_FORBID_MODEL_REQUESTS", "remote")


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the developer's environment or file may not change what a test sees."""
    for name in os.environ:
        if name.endswith(("_API_KEY", "_AUTH_TOKEN")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", os.path.abspath(os.path.join(os.sep, "nonexistent")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the real small model share one worker, so that its server starts only once."""
    for item in items:
        if item.get_closest_marker("local_model"):
            item.add_marker(pytest.mark.xdist_group("local_model"))


@pytest.fixture(autouse=True)
def one_local_model_at_a_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Two models computing side by side slow each other down a hundredfold on a small machine, so
    the tests that run one take turns, on whichever worker they are."""
    if request.node.get_closest_marker("local_model") is None:
        yield
        return
    fcntl = pytest.importorskip("fcntl", reason="the lock between test processes is POSIX only")
    name = f"loopwright-local-model-{os.getuid()}.lock"
    with open(os.path.join(tempfile.gettempdir(), name), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
