"""A program for a terminal that behaves as a coding agent does: it takes prompts by bracketed paste and Enter, answers each in
its transcript, and tells by its hook that it has started and when a turn is over.
"""

import json
import os
import re
import subprocess
import sys
import tty
from datetime import UTC, datetime
from pathlib import Path

BEGIN, END = b"\x1b[200~", b"\x1b[201~"


def main(transcript: str, database: str) -> None:
    tty.setraw(0)
    os.write(1, b"\x1b[?2004h\x1b[6n")
    seen = b""
    while not re.search(rb"\x1b\[\d+;\d+R", seen):
        seen += os.read(0, 1024)
    hook(database, transcript, "SessionStart")
    typed = b""
    while data := os.read(0, 1 << 16):
        typed += data
        while b"\r" in typed.rpartition(END)[2]:
            pasted, _, rest = typed.partition(END + b"\r")
            prompt = pasted.replace(BEGIN, b"").decode()
            typed = rest
            answer(transcript, prompt)
            hook(database, transcript, "Stop")


def answer(transcript: str, prompt: str) -> None:
    for role, text in (("user", prompt), ("assistant", f"you said: {prompt}")):
        content = [{"type": "text", "text": text}]
        entry = {
            "type": role,
            "timestamp": datetime.now(UTC).isoformat(),
            "message": {"role": role, "content": content},
        }
        with Path(transcript).open("a") as file:
            file.write(json.dumps(entry) + "\n")


def hook(database: str, transcript: str, name: str) -> None:
    event = {"hook_event_name": name, "session_id": "of-the-stub", "transcript_path": transcript}
    command = [sys.executable, "-m", "pillarbox", "hook", "--agent", "claude", "--database", database]
    subprocess.run(command, input=json.dumps(event).encode(), check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(*sys.argv[1:])
