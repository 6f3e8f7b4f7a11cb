"""From a prompt to a finished run: the kernel, the agent, tools, hooks and queues.

Reading order: `transcript` decides, `kernel` acts, `reply` and `dispatch` are its two long arms,
`agent` is the handle a program holds. Behind `dispatch` stand `preflight`, whether a call may run,
and `body`, what becomes of one that does.
"""
