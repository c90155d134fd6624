"""A chat at a terminal: an input line at the bottom, what is said above it, and a bar that tells what the agent does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from pillarbox.cli.conversation import ORIGIN, visible
from pillarbox.cli.failures import REFUSED, Failure
from pillarbox.errors import InvalidInput, PillarboxError, SessionClosed
from pillarbox.text import printable

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from pillarbox.cli.conversation import Conversation, Heard

_LOOK_SECONDS = 0.25
_PROMPT = "> "
_FRAMES = ("   ", ".  ", ".. ", "...")
_COMMANDS = {"/queue": "what waits for the agent", "/cancel": "cancel what waits", "/help": "what can be said"}
_MARKS = {"pending": "…", "processing": "…", "failed": "…", "delivered": "✓", "expired": "✗"}
_STYLE = Style.from_dict(
    {"who": "bold", "agent": "ansicyan bold", "faint": "ansigray", "trouble": "ansired", "bottom-toolbar": "noreverse"}
)


async def converse(conversation: Conversation, session_id: str, actor_name: str | None) -> None:
    """Show what is said and send what is written, until the writer leaves."""
    screen = Screen(conversation, session_id)
    prompt: PromptSession[str] = PromptSession(
        input=_keyboard(),
        history=await _history(conversation),
        completer=_CommandCompleter(),
        complete_while_typing=True,
        key_bindings=_keys(),
        bottom_toolbar=screen.bar,
        refresh_interval=0.5,
        reserve_space_for_menu=len(_COMMANDS),
        style=_STYLE,
    )
    with patch_stdout():
        async with screen.following(prompt), screen.sending(prompt, actor_name) as said:
            # One prompt for the whole chat: between two, the terminal would swallow keys.
            prompt.default_buffer.accept_handler = partial(_accept, said)
            with suppress(EOFError):
                await prompt.prompt_async(_PROMPT)


def _accept(said: asyncio.Queue[str], written: Buffer) -> bool:
    """Take what was written, and leave an empty line to write the next on."""
    if written.text.strip():
        _show([("", f"{_PROMPT}{visible(written.text)}")])
        said.put_nowait(written.text)
    return False


class Screen:
    """What stands above the input line and in the bar below it."""

    def __init__(self, conversation: Conversation, session_id: str) -> None:
        self._conversation = conversation
        self._session_id = session_id
        self._status = "…"
        self._frame = 0
        self._own: set[int] = set()

    def bar(self) -> FormattedText:
        """The session and what it is doing; dots that move mean that somebody is at work."""
        self._frame = (self._frame + 1) % len(_FRAMES)
        dots = _FRAMES[self._frame] if self._conversation.working else "   "
        return FormattedText([("", f" {printable(self._session_id)} · {self._status}{dots}")])

    @asynccontextmanager
    async def sending(self, prompt: PromptSession[Any], actor_name: str | None) -> AsyncIterator[asyncio.Queue[str]]:
        """Hand in what is put into the queue, in order, while more is being written; at the end, what is left of it."""
        said: asyncio.Queue[str] = asyncio.Queue()
        task = asyncio.create_task(self._send(said, prompt, actor_name))
        try:
            yield said
            sent = asyncio.ensure_future(said.join())
            await asyncio.wait([sent, task], return_when=asyncio.FIRST_COMPLETED)
            sent.cancel()
            if task.done():
                task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _send(self, said: asyncio.Queue[str], prompt: PromptSession[Any], actor_name: str | None) -> None:
        while True:
            text = await said.get()
            try:
                await self.take(text, actor_name)
            except Failure:
                if prompt.app.future is not None and not prompt.app.future.done():
                    prompt.app.exit(exception=EOFError())
                raise
            said.task_done()

    async def take(self, text: str, actor_name: str | None) -> None:
        """Obey a command, or hand in a message."""
        try:
            if (answer := await self._conversation.obey(text)) is not None:
                _show([("class:faint", visible(answer))])
            else:
                self._own.add(await self._conversation.say(text, actor_name=actor_name))
        except SessionClosed as error:
            raise Failure(str(error), REFUSED) from error
        except InvalidInput as error:
            _show([("class:trouble", visible(str(error)))])
        except PillarboxError as error:
            _show([("class:trouble", f"It was not stored: {visible(str(error))} Send it again.")])

    @asynccontextmanager
    async def following(self, prompt: PromptSession[Any]) -> AsyncIterator[None]:
        """Keep the screen up to date meanwhile."""
        task = asyncio.create_task(self._follow(prompt))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, prompt: PromptSession[Any]) -> None:
        while True:
            try:
                for heard in await self._conversation.news():
                    self._tell(heard)
                self._status = await self._conversation.status()
            except PillarboxError as error:
                self._status = visible(str(error))
            except Exception as error:
                # Whatever it was, the next look may go well; a screen that stands still would be worse.
                self._status = f"cannot look now ({type(error).__name__})"
            prompt.app.invalidate()
            await asyncio.sleep(_LOOK_SECONDS)

    def _tell(self, heard: Heard) -> None:
        match heard.kind:
            case "reply":
                _show([("class:agent", "agent  "), ("", visible(heard.text))])
            case "state":
                style = "class:faint" if heard.status == "delivered" else "class:trouble"
                _show([(style, f"  {_MARKS.get(heard.status or '', ' ')} {heard.text}")])
            case "message" if heard.id not in self._own:
                mark = _MARKS.get(heard.status or "", "")
                _show([("class:who", f"{_who(heard)}  "), ("", visible(heard.text)), ("class:faint", f"  {mark}")])
            case _:
                self._own.discard(heard.id or 0)


def _who(heard: Heard) -> str:
    name = printable(heard.actor_name, 40) if heard.actor_name else ""
    if heard.origin == ORIGIN:
        return name or "you"
    return f"{name or 'somebody'} ({printable(heard.origin or '')})"


def _show(pieces: list[tuple[str, str]]) -> None:
    print_formatted_text(FormattedText(pieces), style=_STYLE)


async def _history(conversation: Conversation) -> InMemoryHistory:
    history = InMemoryHistory()
    for text in await conversation.earlier():
        history.append_string(text)
    return history


def _keyboard() -> Input:
    """Keys stay keys while something is being printed: in the terminal's own line mode a Ctrl-D would be lost."""
    keyboard = create_input()
    keyboard.cooked_mode = nullcontext  # type: ignore[method-assign]
    return keyboard


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def begin_a_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def give_up_the_line(event: KeyPressEvent) -> None:
        """An empty line is left, and the chat with it; any other is kept in the history."""
        if not event.current_buffer.text:
            event.app.exit(exception=EOFError())
            return
        event.current_buffer.append_to_history()
        event.current_buffer.reset()

    return keys


class _CommandCompleter(Completer):
    """Offers the commands once a text begins with a slash."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Any:
        text = document.text_before_cursor
        if text.startswith("/"):
            for command, meaning in _COMMANDS.items():
                if command.startswith(text):
                    yield Completion(command, start_position=-len(text), display_meta=meaning)
