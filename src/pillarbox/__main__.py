"""Where every `pillarbox` process begins: a hook on its short way, all other commands on theirs."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from typing import NoReturn

_FOR_PEOPLE = ("install", "uninstall", "--help", "-h")
_ABOUT_US = ("--help", "-h", "--version")
_WITH_VALUE = ("--database", "--config")
_UNTIL_READ = 4.5
_UNTIL_KEPT = 10.0


def main() -> None:
    """Run the command that the arguments name."""
    arguments = hook_arguments(sys.argv[1:])
    if arguments is not None:
        receive(arguments)
    else:
        from pillarbox.cli.main import main as command

        command()


def hook_arguments(words: list[str]) -> list[str] | None:
    """What the receiver of hooks is given, options before its name too; None if these words are for another command."""
    place = _behind_options(words)
    if words[place : place + 1] != ["hook"] or any(word in _ABOUT_US for word in words[:place]):
        return None
    rest = words[place + 1 :]
    return None if is_for_people(rest) else [*words[:place], *rest]


def is_for_people(rest: list[str]) -> bool:
    """Whether what follows `hook` is for a person who wires agents, and not an agent's event."""
    place = _behind_options(rest, known_only=True)
    return rest[place : place + 1] != [] and rest[place] in _FOR_PEOPLE


def _behind_options(words: list[str], *, known_only: bool = False) -> int:
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, equals, _ = words[place].partition("=")
        if known_only and name not in (*_WITH_VALUE, "--json"):
            break
        place += 2 if name in _WITH_VALUE and not equals else 1
    return place


def receive(arguments: list[str]) -> "NoReturn":
    """Take an agent's event and end the process, with success and in silence whatever happens."""
    import _thread
    import os

    unread = _thread.allocate_lock()
    unread.acquire()
    try:
        _stay_out_of_the_way()
        _thread.start_new_thread(_end_in_time, (unread,))
        from pillarbox.hooks.receiver import receive as take

        take(arguments, unread.release)
    finally:
        os._exit(0)


def _stay_out_of_the_way() -> None:
    """Give nothing to read, and do not end halfway because the agent or its terminal does."""
    # What `signal` is made of, at a fraction of its cost.
    import _signal  # type: ignore[import-not-found]
    import os

    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM"):
        _signal.signal(getattr(_signal, name), _signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    if __name__ == "__main__" and not sys.flags.safe_path:
        # With `-m` the agent's folder comes first, and a `json.py` in it would be taken for the real one.
        del sys.path[0]


def _end_in_time(unread: "LockType") -> None:
    """However long a disk takes; an event that was read is given the time to be kept somewhere."""
    import os
    import time

    if unread.acquire(timeout=_UNTIL_READ):
        time.sleep(_UNTIL_KEPT)
    os._exit(0)


if __name__ == "__main__":
    main()
