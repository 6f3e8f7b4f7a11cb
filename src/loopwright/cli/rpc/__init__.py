"""`--mode rpc`: a session driven by another program, one JSON object a line in each direction.

commands.py has what can be asked, output.py what is said back, dialogue.py the loop between them.
docs/rpc.md is the same for people, docs/schemas for programs.
"""
