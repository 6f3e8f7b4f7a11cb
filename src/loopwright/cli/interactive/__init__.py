"""The interactive mode: what a person at a terminal meets. Not imported by the other modes."""
