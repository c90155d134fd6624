"""A program for a terminal that turns bracketed paste on and tells every byte it reads, by a socket, to whoever looks on.

Whatever is typed outside a paste it runs as a shell would, so that a paste that ends early shows.
"""

import os
import re
import select
import socket
import subprocess
import sys
import tty

BEGIN, END = b"\x1b[200~", b"\x1b[201~"


def main(address: str, mode: str) -> None:
    teller = socket.socket(socket.AF_UNIX)
    teller.connect(address)
    if mode != "cooked":
        tty.setraw(0)
    if mode == "bracketed":
        os.write(1, b"\x1b[?2004h")
    if mode != "cooked":
        # The answer to this question tells that the terminal has seen everything before it.
        os.write(1, b"\x1b[6n")
        seen = b""
        while not re.search(rb"\x1b\[\d+;\d+R", seen):
            seen += os.read(0, 1024)
    teller.sendall(b"ready\n")
    typed, pasting = b"", False
    while data := read(teller):
        teller.sendall(data)
        if mode == "bracketed":
            typed, pasting = run_what_was_typed(typed + data, pasting)


def read(teller: socket.socket) -> bytes:
    """What comes from the terminal; nothing once it is gone, or nobody looks on any more."""
    ready, _, _ = select.select([0, teller.fileno()], [], [])
    try:
        return b"" if teller.fileno() in ready else os.read(0, 1 << 16)
    except OSError:
        return b""


def run_what_was_typed(data: bytes, pasting: bool) -> tuple[bytes, bool]:
    while True:
        sign = END if pasting else BEGIN
        before, found, after = data.partition(sign)
        if not pasting and b"\r" in before:
            line, _, rest = data.partition(b"\r")
            if line.strip():
                subprocess.run(["sh", "-c", line], check=False)
            data = rest
        elif found:
            pasting, data = not pasting, after if pasting else before + after
        else:
            return data[-len(END) :] if pasting else data, pasting


if __name__ == "__main__":
    main(*sys.argv[1:])
