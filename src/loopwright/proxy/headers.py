"""Which of a caller's headers may travel on to a vendor.                                     (pure)

None that could hold a credential or name an account: the vendor is asked with the server's own key
only. None that belongs to one connection either. Both sides of a proxy look: the client, so that
nothing secret leaves it, and the server, since anyone may be the client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..models.failures import redact

__all__ = ["forwardable"]

_CREDENTIAL = re.compile(
    r"auth|key|token|secret|cookie|credential|passw|signature|session|jwt|cert"
    r"|organi[sz]ation|project|account|tenant|billing|user",
    re.I,
)
_OF_THE_CONNECTION = re.compile(
    r"host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|date|via|forwarded"
    r"|accept(-.*)?|content-.*|proxy-.*|x-forwarded-.*|x-real-ip|cf-.*|x-stainless-.*",
    re.I,
)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, section 5.6.2
_VALUE_OF_A_CREDENTIAL = re.compile(r"\s*(?:Bearer|Basic|Digest|Negotiate)\s", re.I)


def forwardable(headers: Mapping[str, Any]) -> dict[str, str]:
    """Those of *headers* that hold no credential, name no account, and are for the vendor."""
    return {
        name: value
        for name, value in headers.items()
        if isinstance(value, str)
        and _NAME.fullmatch(name)
        and not _CREDENTIAL.search(name)
        and not _OF_THE_CONNECTION.fullmatch(name)
        and not _VALUE_OF_A_CREDENTIAL.match(value)
        and value.isascii()
        and value.isprintable()  # a line break would start a header of its own
        and redact(value) == value
    }
