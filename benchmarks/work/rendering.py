"""A quick reply on the terminal: what the interactive mode takes of a processor, and how far behind
it is when the reply ends.

The whole program runs, on a terminal of 80x24, against a server that sends 2,000 deltas a second in
one event each. The processor time is that of the program alone, the server's and the terminal's
left out.

Not here: what of it the transcript takes (drawing.py).
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ..measure import WrongCount
from ..report import Row
from ..sizes import Sizes
from ..subject import Peer
from ..terminal import Terminal

__all__ = ["measure"]

DELTAS_A_SECOND = 2_000
_STEP = 4
"""Deltas sent in one go."""

_TEXT = """\
The function `total` adds up **all** prices, and takes the discount off at the end. There are two
things to look at:

- the discount is a *percentage*, but it is subtracted as if it were an amount of money;
- the result is rounded, which hides small differences until a list is long enough.

```python
def total(prices: list[float], discount_percent: float = 0) -> float:
    full = sum(prices)  # all of it
    return round(full * (1 - discount_percent / 100), 2)
```

| price | discount | paid |
|---|---|---|
| 20.00 | 10 | 18.00 |

"""
_LAST = "thatwasall"


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    shares: list[float] = []
    lags: list[float] = []
    for _ in range(max(1, sizes.rounds // 4)):
        share, lag = _one_reply(sizes.shown_deltas)
        shares.append(share)
        lags.append(lag)
    what = f"{DELTAS_A_SECOND:,} deltas a second shown on a terminal"
    return [
        Row(what, "of a core", {"loopwright": min(shares)}, at_most=0.5),
        Row(
            f"{what}, behind at the end",
            "ms",
            {"loopwright": min(lags) * 1000},
            at_most=250,
            digits=0,
        ),
    ]


def _one_reply(deltas: int) -> tuple[float, float]:
    """The share of a core while the reply came, and the seconds from its end to the paint of it."""
    with TemporaryDirectory() as name, _Server(deltas) as server:
        folder = Path(name)
        config = folder / "config" / "loopwright"
        config.mkdir(parents=True)
        (config / "models.toml").write_text(
            f'default = "toy/one"\n[providers.toy]\nbase_url = "{server.url}"\nmodels = ["one"]\n'
        )
        env = {
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
            "LOOPWRIGHT_MODEL": "",
        }
        terminal = Terminal(folder=folder, env=env)
        try:
            terminal.read_until(lambda seen: b"\x1b[?2004h" in seen)
            terminal.type("Go on.\r")
            terminal.read_until(lambda _: server.began > 0)
            before = terminal.processor_seconds()
            terminal.read_until(lambda seen: _LAST.encode() in seen)
            painted = time.perf_counter()
            used = terminal.processor_seconds() - before
        finally:
            terminal.close()
    if server.sent != deltas:
        raise WrongCount(f"the server sent {server.sent} deltas instead of {deltas}")
    return used / (server.ended - server.began), painted - server.ended


class _Server:
    """Answers one request, at an even pace."""

    def __init__(self, deltas: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.sent = 0
        self.began = 0.0
        self.ended = 0.0
        size = 6
        text = _TEXT * (deltas * size // len(_TEXT) + 1)
        pieces = [text[at : at + size] for at in range(0, (deltas - 1) * size, size)]
        # Its own words stand on one line whatever the text before ended in.
        self._pieces = [*pieces, f"\n```\n\n{_LAST}\n"]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> _Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # nobody came before the end
            return
        with connection:
            connection.recv(1 << 20)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            )
            self.began = time.perf_counter()
            for at in range(0, len(self._pieces), _STEP):
                some = self._pieces[at : at + _STEP]
                connection.sendall(b"".join(_event({"content": piece}) for piece in some))
                self.sent += len(some)
                due = self.began + self.sent / DELTAS_A_SECOND
                time.sleep(max(0.0, due - time.perf_counter()))
            self.ended = time.perf_counter()
            connection.sendall(_event({}, finish_reason="stop") + b"data: [DONE]\n\n")


def _event(delta: dict[str, str], **more: str) -> bytes:
    choice = {"index": 0, "delta": delta, **more}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
