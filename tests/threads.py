"""The threads that are there, whoever's: a test before may have left one behind that is about to end."""

import threading


def called(name: str) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == name}
