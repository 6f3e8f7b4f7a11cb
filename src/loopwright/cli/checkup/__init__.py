"""`loopwright doctor`: one kind of check a module."""
