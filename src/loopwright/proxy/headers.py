"""Which of a caller's headers may travel on to a vendor.                                     (pure)

A short list, and no other: a header could hold a credential, name an account, or change what the
request does, and the vendor is asked with the server's own key. Both sides of a proxy look: the client, so that
nothing secret leaves it, and the server, since anyone may be the client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..models.failures import redact

__all__ = ["forwardable"]

_FORWARDED = re.compile(
    r"(anthropic|openai)-beta|http-referer|x-title|traceparent|tracestate|baggage"
    r"|x-trace(-id)?|x-request-id|x-client-request-id|x-correlation-id",
    re.I,
)
"""Features in testing, the name of an app, and traces. What another header would do at a vendor is
not known: `X-HTTP-Method-Override` makes another request of this one."""
_VALUE_OF_A_CREDENTIAL = re.compile(r"\s*(?:Bearer|Basic|Digest|Negotiate)\s", re.I)


def forwardable(headers: Mapping[str, Any]) -> dict[str, str]:
    """Those of *headers* that are known to be harmless, with values that hold no credential."""
    return {
        name: value
        for name, value in headers.items()
        if isinstance(value, str)
        and _FORWARDED.fullmatch(name)
        and not _VALUE_OF_A_CREDENTIAL.match(value)
        and value.isascii()
        and value.isprintable()  # a line break would start a header of its own
        and redact(value) == value
    }
