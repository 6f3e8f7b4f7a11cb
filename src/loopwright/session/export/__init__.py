"""Sessions as files for people and for other programs."""
