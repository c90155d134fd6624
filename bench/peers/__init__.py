"""Other queues, each in a small file that uses it as its documentation says, driven from a process of its own.

Nothing here imports anything of ours, so that the peers can have an environment, and a Python, of their own.
"""
