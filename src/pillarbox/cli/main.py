"""`pillarbox`: every command, and what becomes of their errors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from pillarbox import __version__
from pillarbox.cli.backup import backup
from pillarbox.cli.bench import bench
from pillarbox.cli.chat import chat
from pillarbox.cli.completion import completion
from pillarbox.cli.dev import dev
from pillarbox.cli.doctor import doctor
from pillarbox.cli.failures import FAILED, INTERRUPTED, WRONG_USAGE, Failure, code_of
from pillarbox.cli.hook import hook
from pillarbox.cli.hooks import hooks
from pillarbox.cli.inbound import inbound
from pillarbox.cli.inbox import inbox
from pillarbox.cli.init import init
from pillarbox.cli.keys import keys
from pillarbox.cli.log import act, log
from pillarbox.cli.messages import messages
from pillarbox.cli.opt_outs import forget, opt_outs
from pillarbox.cli.options import Group
from pillarbox.cli.oversight import attention, audit, nodes
from pillarbox.cli.program import runnable
from pillarbox.cli.restore import restore
from pillarbox.cli.send import send
from pillarbox.cli.serve import serve, worker
from pillarbox.cli.sessions import sessions
from pillarbox.cli.tail import tail
from pillarbox.cli.tenants import tenants
from pillarbox.cli.top import top
from pillarbox.cli.upkeep import migrate, prune, status
from pillarbox.errors import PillarboxError
from pillarbox.text import printable

_LONGEST = 2000
_NOT_UTF8 = re.compile("[\ud800-\udfff]")


class Root(Group):
    """Turns whatever goes wrong into one sentence on stderr and an exit code."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            if reconfigure := getattr(stream, "reconfigure", None):
                reconfigure(errors="backslashreplace")
        sys.exit(self._run(*args, **extra))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        room = formatter.width - 6 - max(map(len, self.commands))
        for title, section in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(each.name or "", each.get_short_help_str(room)) for each in section])

    def _run(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> int:
        try:
            given = sys.argv[1:] if args is None else list(args)
            if any(_NOT_UTF8.search(arg) for arg in given):
                raise Failure("The arguments are not UTF-8 text; write them in UTF-8.", WRONG_USAGE)
            code = super().main(given, "pillarbox", **extra | {"standalone_mode": False})
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except Failure as failure:
            return _say(str(failure), failure.code)
        except PillarboxError as error:
            return _say(str(error), code_of(error))
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return WRONG_USAGE
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "pillarbox"
            said = error.format_message()
            return _say(f"{said}{'' if said.endswith(('.', '?')) else '.'} See `{where} --help`.", WRONG_USAGE)
        except click.ClickException as error:
            return _say(error.format_message(), WRONG_USAGE)
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except BrokenPipeError:
            # Whoever read our output has gone; the interpreter must not complain when it flushes at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            return _say_bug(error)


def _say(sentence: str, code: int) -> int:
    click.echo(printable(runnable(sentence), _LONGEST), err=True)
    return code


def _say_bug(error: Exception) -> int:
    if os.environ.get("PILLARBOX_LOG__LEVEL") == "debug":
        import traceback

        traceback.print_exception(error)
    from pillarbox.telemetry import brief

    return _say(
        f"This is a bug in Pillarbox ({brief(error)}); report it with what PILLARBOX_LOG__LEVEL=debug shows.", FAILED
    )


@click.group(cls=Root, name="pillarbox", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pillarbox", message="%(prog)s %(version)s")
def cli() -> None:
    """Durable two-way messaging: what comes in reaches its session, what goes out its recipient."""


_SECTIONS = {
    "Run": (dev, serve, worker, chat),
    "Look": (status, top, tail, log, attention, nodes, audit),
    "Send": (send, messages, act, tenants, opt_outs, forget),
    "Receive": (sessions, inbound, hook, hooks, inbox),
    "Keep": (init, doctor, migrate, prune, backup, restore, keys, bench, completion),
}
"""Every command, as the help sorts them."""
for section in _SECTIONS.values():
    for command in section:
        cli.add_command(command)


def main() -> NoReturn:
    """Run the command that the arguments name, and exit."""
    cli.main()
