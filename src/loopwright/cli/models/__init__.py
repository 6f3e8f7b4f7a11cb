"""Which models there are for the command line, which one is asked, and the keys for them."""
