"""A session that is gone on with: opening it, holding it, and what can be done in it."""
