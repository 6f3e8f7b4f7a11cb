"""What every session store must do, as tests to inherit.

    class TestMyStore(StoreConformance):
        async def make_store(self) -> SessionStore:
            return await MyStore.open(...)  # empty, each time

pytest collects it; the tests are coroutines, so it takes pytest-asyncio with `asyncio_mode = auto`
(or anyio's plugin). What a store may rightly do otherwise is a class attribute. The name of a test
is the sentence that a store which fails it does not keep; pytest shows the values as well after
`pytest.register_assert_rewrite("loopwright.testing.store_checks")` in your conftest.py.

Not here: what only one kind of store promises, such as a file that survives kill -9.
"""

from __future__ import annotations

from .store_checks.approvals import ApprovalChecks
from .store_checks.commits import CommitChecks
from .store_checks.handles import HandleChecks
from .store_checks.inbox import InboxChecks
from .store_checks.leases import LeaseChecks
from .store_checks.reading import ReadingChecks
from .store_checks.sessions import SessionChecks
from .store_checks.texts import TextChecks

__all__ = ["StoreConformance"]


class StoreConformance(
    SessionChecks,
    LeaseChecks,
    CommitChecks,
    TextChecks,
    ReadingChecks,
    InboxChecks,
    ApprovalChecks,
    HandleChecks,
):
    """Inherit, say how to make a store, and run. The attributes stand in `StoreUnderTest`."""
