"""The terminal behind a pane: whether its program reads keys itself, or lines that the terminal collects for it."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from pathlib import Path

LONGEST_LINE = 4095 if sys.platform == "linux" else 1023
_LOCAL_FLAGS = 3
_START_SECONDS = 3.0
_GLANCE_SECONDS = 0.05


def would_be_cut(tty: str, text: str) -> bool:
    """Whether a terminal that collects lines would silently drop the end of one."""
    return max(len(line.encode()) for line in text.split("\n")) > LONGEST_LINE and _collects_lines(tty)


async def program_began(tty: str, pid: int, *, seconds: float = _START_SECONDS) -> None:
    """Give a program that has just been started a little time to take over its terminal: what is typed before that is lost."""
    while await asyncio.to_thread(_is_starting, tty, pid, seconds):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(_GLANCE_SECONDS)


def _is_starting(tty: str, pid: int, seconds: float) -> bool:
    return _collects_lines(tty) and _age(pid) < seconds


def _collects_lines(tty: str) -> bool:
    try:
        terminal = os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return bool(termios.tcgetattr(terminal)[_LOCAL_FLAGS] & termios.ICANON)
    except termios.error:
        return False
    finally:
        os.close(terminal)


def _age(pid: int) -> float:
    """How many seconds ago a process started; endless where nobody can tell."""
    try:
        started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return float("inf")
    return uptime - started / os.sysconf("SC_CLK_TCK")
