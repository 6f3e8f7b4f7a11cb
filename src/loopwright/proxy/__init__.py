"""Models behind a server that holds the keys: a stream function, and the endpoint that serves it.

A client asks with `stream_proxy`; it holds a bearer token of the server's and no vendor's key. The
server is an ASGI app made by `proxy_app`, which adds the key. Between them goes the protocol of
pi's proxy, so that either side may also be pi's: `POST /api/stream`, and events without partials,
which the client rebuilds.

    agent = Agent(
        model,
        stream_fn=partial(stream_proxy, proxy_url="https://llm.example.com", auth_token=token),
    )

    app = proxy_app(Models(...), tokens=[token], allow_models=["anthropic/*"])
    run_proxy(app)  # on this machine only, unless told otherwise

The two sides share the modules `request`, `event_writer` and `event_reader`, which are pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import stream_proxy
    from .server import proxy_app, run_proxy

__all__ = ["proxy_app", "run_proxy", "stream_proxy"]


def __getattr__(name: str) -> Any:
    if name == "stream_proxy":
        from .client import stream_proxy

        return stream_proxy
    if name in ("proxy_app", "run_proxy"):
        from . import server

        return getattr(server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
