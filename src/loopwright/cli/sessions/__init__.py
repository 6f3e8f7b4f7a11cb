"""`loopwright sessions`, and which session is meant: one command or question a module."""
