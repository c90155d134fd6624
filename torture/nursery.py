"""A process that has everything imported and forks a node at a word, so that a killed one is back in a moment.

`python -m torture.nursery LOG` reads the arguments of a node from each line of stdin, and tells on stdout which process it
became and, later, how that ended.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
from importlib import import_module

_WHAT_A_NODE_IMPORTS = (
    "aiohttp",
    "pillarbox.__main__",
    "pillarbox.api.app",
    "pillarbox.api.server",
    "pillarbox.box",
    "pillarbox.cli.main",
    "pillarbox.cli.running",
    "pillarbox.cli.serve",
    "pillarbox.inbound.targets.http",
    "pillarbox.storage.postgres",
    "pillarbox.storage.sqlite",
    "uvloop",
)


_FEW = 2


def become(arguments: list[str], log: str) -> None:
    """Be the node, as if it had been started from a shell."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    said = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, stream in enumerate((nothing, said, said)):
        os.dup2(stream, number)
    sys.argv[1:] = arguments
    from pillarbox.__main__ import main
    from pillarbox.engine import drain

    # Every second node settles and claims at the same time from few messages on; a round seldom has many at once.
    if "--node" in arguments and int(arguments[arguments.index("--node") + 1].lstrip("n")) % 2:
        drain._MANY = _FEW
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        code = 1
    else:
        code = 0
    sys.stdout.flush()
    os._exit(code)


def tell_of_the_ended() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        print(f"ended {pid} {os.waitstatus_to_exitcode(status)}", flush=True)


def serve(log: str) -> None:
    for name in _WHAT_A_NODE_IMPORTS:
        import_module(name)
    gc.collect()
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    print("ready", flush=True)
    asked = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            tell_of_the_ended()
        if 0 in ready:
            came = os.read(0, 65_536)
            if not came:
                return
            *lines, asked = (asked + came).split(b"\n")
            for line in lines:
                if (child := os.fork()) == 0:
                    become(json.loads(line), log)
                print(f"begun {child}", flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
