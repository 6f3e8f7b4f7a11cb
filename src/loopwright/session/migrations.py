"""From the tables of an earlier version to today's.

Each step is plain SQL that both databases take. They run in one transaction that also writes the
new version, so a database has one version or the other, never something in between; of two
processes that open it at once, the second finds it done. A released step is never changed again.

Not here: when a store migrates, and the copy it makes before (sqlite_file, postgres).
"""

from __future__ import annotations

from .tables import FORMAT_VERSION

__all__ = ["MIGRATIONS", "steps_from"]

MIGRATIONS: dict[int, tuple[str, ...]] = {
    # The version each one leads to.
    2: (
        "ALTER TABLE session ADD COLUMN preview TEXT",
        """CREATE TABLE approval (
            ord COUNTER, session_id TEXT NOT NULL, id TEXT NOT NULL, status TEXT NOT NULL,
            digest TEXT NOT NULL, body TEXT NOT NULL,
            UNIQUE (session_id, id))""",
        "CREATE INDEX approval_standing ON approval (session_id, ord) WHERE status <> 'consumed'",
    ),
}


def steps_from(version: int) -> list[str]:
    """The statements that lead from *version* to today's, in a dialect's words yet to be put in."""
    return [
        statement
        for step in range(version + 1, FORMAT_VERSION + 1)
        for statement in MIGRATIONS[step]
    ]
