"""The pane of a tmux session: what is known of it, and the two things done to it, each in one sequence of tmux commands.

tmux runs a sequence without doing anything else in between, so what a sequence checks still holds when it acts. What was
done is written down in the pane itself, in the same sequence: `@pbx-interrupted` is the message for which the program was
interrupted, `@pbx-pasted` the one whose text awaits its Enter,
`@pbx-program` the program it was pasted into, and `@pbx-done-…` the last message of a Pillarbox session that got its Enter.
The session's `@pbx-pane` names the pane that was chosen at first, whichever one people look at later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pillarbox.inbound.targets.tmux_server import NoSuchTerminal, TmuxServer, TmuxTrouble
from pillarbox.text import printable

_PLACE = "#{pid}/#{pane_id}/#{pane_pid}/#{pane_dead}#{pane_input_off}#{pane_synchronized}"
_PROGRAM = "#{pane_pid} #{pane_current_command}"
_SAME_PROGRAM = f"#{{==:#{{@pbx-program}},{_PROGRAM}}}"
_OURS = re.compile(r"[0-9a-z.]*")
_CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane as it was a moment ago."""

    place: str
    target: str
    pane_id: str
    dead: bool
    input_off: bool
    synchronized: bool
    brackets: str
    active: bool
    chosen: str
    pasted: str
    same_program: bool
    done: str
    interrupted: str
    tty: str
    full_screen: bool
    cursor_row: int

    @property
    def program_id(self) -> int:
        return int(self.place.split("/")[2])

    def awaits_enter(self, mark: str) -> bool:
        """Whether this message's text stands in the program's input."""
        return self.pasted == mark and self.same_program

    def left_over(self, mark: str) -> str:
        """The mark of another message whose text stands there, if there is one."""
        return self.pasted if self.pasted != mark and self.same_program else ""

    def check(self) -> None:
        """Refuse a pane into which nothing can be typed, or not into it alone."""
        if self.dead:
            raise TmuxTrouble("The program in the tmux pane has ended.")
        if self.input_off:
            raise TmuxTrouble("Input to the tmux pane is turned off.")
        if self.synchronized:
            raise TmuxTrouble("The tmux window types into all its panes at once (synchronize-panes).")


@dataclass(frozen=True, slots=True)
class Terminal:
    """A session of a tmux server: for one delivery under the server's lock, or only to look at."""

    server: TmuxServer
    name: str
    key: str
    held: int | None
    seconds: float

    async def look(self) -> Pane:
        """The pane to type into: the one chosen before, else the active one of the session of exactly this name."""
        name = name_in_tmux(self.name)
        text = await self._call("list-panes", "-s", "-t", f"={name}:", "-F", self._fields())
        panes = [_pane(line, name) for line in text.splitlines()]
        chosen = panes[0].chosen if panes else ""
        found = [pane for pane in panes if (pane.pane_id == chosen if chosen else pane.active)]
        if not found:
            raise TmuxTrouble(
                f"The tmux pane {printable(chosen)} is gone; name another: tmux set-option -t NAME @pbx-pane %N"
            )
        return found[0]

    async def pinned(self) -> Pane:
        """The pane to type into, which from now on is the chosen one, whatever window people look at."""
        pane = await self.look()
        if pane.chosen:
            return pane
        # Only if nobody has chosen meanwhile; hence the second look.
        await self._call("set-option", "-oq", "-t", pane.target, "@pbx-pane", pane.pane_id)
        return await self.look()

    async def paste(self, pane: Pane, *, text: str, mark: str) -> bool:
        """Paste a text, unless the pane is no longer as it was seen."""
        buffer = f"pbx-{mark}"
        seen = f"{pane.place}/{pane.brackets}/{pane.pasted}/{pane.done}"
        now = f"{_PLACE}/#{{bracket_paste_flag}}/#{{@pbx-pasted}}/#{{@pbx-done-{self.key}}}"
        act = (
            f"copy-mode -q -t '{pane.target}'",
            f"paste-buffer -dpr -b {buffer} -t '{pane.target}'",
            f"set-option -p -t '{pane.target}' @pbx-pasted {mark}",
            f"set-option -pF -t '{pane.target}' @pbx-program '{_PROGRAM}'",
            f"set-option -t '{pane.target}' @pbx-pane '{pane.pane_id}'",
            "display-message -p pasted",
        )
        load = ("load-buffer", "-b", buffer, "-", ";")
        choice = _if_same(pane, now, seen, act, otherwise=(f"delete-buffer -b {buffer}",))
        return "pasted" in await self._call(*load, *choice, stdin=text.encode())

    async def interrupt(self, pane: Pane, mark: str) -> None:
        """Press Escape, by which agents leave what they are doing, once for a message; not where the pane has changed."""
        act = (
            f"copy-mode -q -t '{pane.target}'",
            f"send-keys -t '{pane.target}' Escape",
            f"set-option -p -t '{pane.target}' @pbx-interrupted {mark}",
        )
        await self._call(*_if_same(pane, _PLACE, pane.place, act))

    async def start(self, argv: tuple[str, ...], *, cwd: str | None, session_id: str) -> None:
        """Start a program in a new session of this name; it is told which of our sessions it belongs to."""
        folder = () if cwd is None else ("-c", _unexpanded(cwd))
        size = ("-x", "200", "-y", "50")
        told = ("-e", f"PILLARBOX_SESSION={session_id}")
        # Without the lock's descriptor: a server that this call starts would hold the lock for as long as it lives.
        command = ("new-session", "-d", "-s", _unexpanded(self.name), *size, *folder, *told, "--", *argv)
        await self.server.call(*command, seconds=self.seconds)

    async def enter(self, pane: Pane, mark: str) -> bool:
        """Press Enter once for a text that was pasted, unless the pane is no longer as it was seen."""
        now = f"{_PLACE}/#{{@pbx-pasted}}/{_SAME_PROGRAM}"
        act = (
            f"copy-mode -q -t '{pane.target}'",
            f"send-keys -t '{pane.target}' Enter",
            f"set-option -p -t '{pane.target}' @pbx-done-{mark.partition('.')[0]} {mark}",
            f"set-option -pu -t '{pane.target}' @pbx-pasted",
            "display-message -p entered",
        )
        return "entered" in await self._call(*_if_same(pane, now, f"{pane.place}/{mark}/1", act))

    async def _call(self, *arguments: str, stdin: bytes | None = None) -> str:
        return await self.server.call(*arguments, seconds=self.seconds, held=self.held, stdin=stdin)

    def _fields(self) -> str:
        """Free text last, so that nothing can be taken for another field."""
        return "|".join(
            (
                _PLACE,
                "#{session_id}:#{window_id}.#{pane_id}",
                "#{bracket_paste_flag}",
                "#{window_active}#{pane_active}",
                "#{@pbx-pane}",
                "#{@pbx-pasted}",
                _SAME_PROGRAM,
                f"#{{@pbx-done-{self.key}}}",
                "#{@pbx-interrupted}",
                "#{pane_tty}",
                "#{alternate_on}",
                "#{cursor_y}",
                "#{session_name}",
            )
        )


def name_in_tmux(name: str) -> str:
    """What tmux makes of a session's name."""
    return name.replace("\\", "\\\\").replace(":", "_").replace(".", "_")


def _unexpanded(text: str) -> str:
    """Text that tmux would look for formats in, among them commands to run, and then finds none."""
    return text.replace("#", "##")


def _if_same(
    pane: Pane, now: str, seen: str, act: tuple[str, ...], *, otherwise: tuple[str, ...] = ()
) -> tuple[str, ...]:
    declined = (*otherwise, f"display-message -p {_CHANGED}")
    return ("if-shell", "-F", "-t", pane.target, f"#{{==:{now},{seen}}}", " ; ".join(act), " ; ".join(declined))


def _pane(line: str, name: str) -> Pane:
    fields = line.split("|", 12)
    if len(fields) != 13 or fields[12] != name:
        raise NoSuchTerminal(f"can't find session {printable(name)}")
    place, target, brackets, active, chosen, pasted, same, done, interrupted, tty, alternate, cursor, _ = fields
    if not all(_OURS.fullmatch(mark) for mark in (pasted, done, interrupted)):
        raise TmuxTrouble("Somebody else has set the options @pbx-… of the tmux pane; unset them.")
    flags = place.rpartition("/")[2]
    return Pane(
        place=place,
        target=target,
        pane_id=target.rpartition(".")[2],
        dead=flags[0] == "1",
        input_off=flags[1] == "1",
        synchronized=flags[2] == "1",
        brackets=brackets,
        active=active == "11",
        chosen=chosen,
        pasted=pasted,
        same_program=same == "1",
        done=done,
        interrupted=interrupted,
        tty=tty,
        full_screen=alternate == "1",
        cursor_row=int(cursor),
    )
