"""Runs the receiver once for each input on stdin, each in a process of its own that is forked and so starts quickly.

Each line of stdin is the JSON of an input; each line of stdout is what became of it: exit code and all that was said.
"""

import base64
import json
import os
import select
import signal
import sys
import tempfile

from pillarbox.__main__ import main
from pillarbox.hooks import receiver, store

SECONDS = 30
# A busy machine's database is waited for: what went to the spool would not be seen here.
receiver.RESCUE_SECONDS = store.DATABASE_SECONDS = SECONDS / 2


def run(given: dict[str, object], database: str) -> tuple[int, str]:
    """Fork, become the receiver, and wait for it; one that takes too long is killed."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as said:
        stdin.write(base64.b64decode(str(given["stdin"])))
        stdin.seek(0)
        alive, held = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(stdin.fileno(), 0)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            os.environ["PILLARBOX_SESSION"] = str(given["session"])
            arguments = given["arguments"]
            assert isinstance(arguments, list)
            sys.argv[1:] = ["hook", "--database", database, *arguments]
            main()
        os.close(held)
        # The pipe ends with the last process that holds it.
        if not select.select([alive], [], [], SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        os.close(alive)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return code, said.read().decode(errors="replace")


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), sys.argv[1])), flush=True)
