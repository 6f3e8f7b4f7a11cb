"""Settings, what was granted and which folders are trusted; `loopwright config`, `trust`, `completion`."""
