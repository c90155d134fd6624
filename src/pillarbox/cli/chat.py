"""`pillarbox chat`: the terminal as a chat with a session."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from pillarbox.cli.options import Command, Options

if TYPE_CHECKING:
    from pillarbox.cli.conversation import Conversation


@click.command(cls=Command)
@click.argument("session_id", metavar="SESSION")
@click.option("--name", "actor_name", help="Who is speaking; unset: the agent is given the bare text.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="When lines come from a pipe: how long to wait for the agent after the last one.",
)
@click.pass_obj
def chat(options: Options, session_id: str, actor_name: str | None, wait: float) -> None:
    """Talk to a session: see what is said in it, and say something.

    On a terminal, Enter sends, Alt-Enter begins a new line, and Ctrl-D, or Ctrl-C on an empty line, leaves. What was said is
    marked: ✓ was delivered, … waits, ✗ was given up. `/queue` shows what waits, `/cancel` cancels it, `/help` tells more. When
    stdin is a pipe, each line of it is a message, and the agent's words are printed.
    """
    at_a_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not options.json
    asyncio.run(_chat(options, session_id, actor_name, None if at_a_terminal else wait))


async def _chat(options: Options, session_id: str, actor_name: str | None, wait: float | None) -> None:
    from pillarbox.cli.conversation import Conversation

    async with options.open(make=False) as box:
        conversation = Conversation(box, session_id)
        if wait is not None:
            await _lines(conversation, actor_name, wait, json=options.json)
        else:
            from pillarbox.cli.chat_screen import converse

            await conversation.begin()
            await converse(conversation, session_id, actor_name)


async def _lines(conversation: Conversation, actor_name: str | None, wait: float, *, json: bool) -> None:
    from pillarbox.cli.chat_lines import exchange

    await conversation.begin(shown=0)
    await exchange(conversation, actor_name, wait=wait, json=json)
