"""Formats of session files: reading those of others, and the lines of our own."""
