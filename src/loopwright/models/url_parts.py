"""Values of a request that become part of a URL: model ids, deployments, projects, regions.      (pure)

A model id may come from a client that is not trusted, and the request carries the server's key. So
no value may move a request to another path or host: one that tries is refused, the rest is quoted.

Not here: base URLs, which whoever runs the program chooses (addresses.py).
"""

from __future__ import annotations

import re
from urllib.parse import quote

from ..errors import ConfigurationError

__all__ = ["check_id", "host_label", "path_part", "path_parts"]

_LEAVES_ITS_PLACE = re.compile(r"[?#\\%\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]|\.\.")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.:_-]*[A-Za-z0-9])?")


def check_id(value: str, what: str) -> str:
    """*value*, the id of *what*. Slashes and colons are allowed, since vendors use them.

    Raises `ConfigurationError` if it is empty or holds `..`, an empty part between slashes, a
    control character or one of `? # \\ %`.
    """
    parts = value.split("/")
    if _LEAVES_ITS_PLACE.search(value) or any(part.strip() in ("", ".") for part in parts):
        raise ConfigurationError(
            f"the {what} {value[:200]!r} cannot be part of a URL",
            hint="an id holds no '..', no empty part, no control character and none of ? # \\ %",
        )
    return value


def path_part(value: str, what: str) -> str:
    """*value* as one part of a path: a slash in it is quoted. Raises as `check_id` does."""
    return quote(check_id(value, what), safe=":@")


def path_parts(value: str, what: str) -> str:
    """*value* as several parts of a path. Raises as `check_id` does."""
    return quote(check_id(value, what), safe=":@/")


def host_label(value: str, what: str) -> str:
    """*value* as part of a host name, or of a path that a vendor names as strictly.

    Raises `ConfigurationError` for anything but letters, digits, '.', ':', '_' and '-'.
    """
    if not _LABEL.fullmatch(value) or ".." in value:
        raise ConfigurationError(
            f"the {what} {value[:200]!r} cannot be part of a URL",
            hint="it holds letters, digits, '.', ':', '_' and '-' only",
        )
    return value
