"""The databases of the tests of sessions, for those of the harness."""

from __future__ import annotations

from tests.session.conftest import postgres_server as postgres_server
from tests.session.conftest import postgres_url as postgres_url
