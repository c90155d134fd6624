"""The options that every command takes, before or after its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pillarbox.cli.failures import NOT_FOUND, Failure
from pillarbox.cli.program import runnable, with_database

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.settings import Settings


_OWN, _DEV = "pillarbox.db", "pillarbox-dev.db"
_DEV_HINT = f"what `pillarbox dev` keeps is in --database sqlite:///{_DEV}"


@dataclass(slots=True)
class Options:
    """Which database, which settings, and whether a person or a program reads the answer."""

    database: str | None = None
    config: Path | None = None
    json: bool = False

    @property
    def url(self) -> str | None:
        """The database that was named, or None for the default one."""
        return self.database or os.environ.get("PILLARBOX_DATABASE") or None

    def settings(self) -> Settings:
        from pillarbox.settings import load_settings

        return load_settings(self.config)

    def is_there(self) -> bool:
        """Whether there is a database already; of one on a server only asking it would tell."""
        from pillarbox.opening import sqlite_path

        file = sqlite_path(self.url or f"sqlite:///{_OWN}")
        # Where not even the folder is there, opening it says so better.
        return file is None or Path(file).exists() or not Path(file).parent.is_dir()

    def open(
        self,
        settings: Settings | None = None,
        *,
        node: str | None = None,
        migrate: bool = True,
        make: bool = True,
    ) -> AbstractAsyncContextManager[Pillarbox]:
        """The box on the database that was named; with `make` off, nobody at a terminal makes a file by a slip of the pen."""
        from pillarbox.box import Pillarbox
        from pillarbox.errors import InvalidInput
        from pillarbox.opening import require_no_stranger, sqlite_path

        if self.url is not None and sqlite_path(self.url) == ":memory:":
            raise InvalidInput("database", "a database in memory is gone when the command ends; name a file.")
        chosen = settings or self.settings()
        likely_elsewhere = self.url is None and _is_likely_elsewhere()
        if not make and sys.stdout.isatty() and not self.is_there():
            raise _no_database(self.url, likely_elsewhere=likely_elsewhere)
        require_no_stranger(self.url or f"sqlite:///{_OWN}")
        if likely_elsewhere:
            click.echo(runnable(f"Using {_OWN}, which is new; {_DEV_HINT}."), err=True)
        return Pillarbox.open(self.url, settings=chosen, node=node, migrate=migrate)


def _is_likely_elsewhere() -> bool:
    """Whether somebody who tries things out forgot to name the database that they mean."""
    return not Path(_OWN).exists() and Path(_DEV).exists()


def _no_database(url: str | None, *, likely_elsewhere: bool) -> Failure:
    from pillarbox.opening import sqlite_path

    file = _OWN if url is None else sqlite_path(url)
    said = _DEV_HINT if likely_elsewhere else with_database("`pillarbox migrate` makes it", url)
    return Failure(f"There is no database {file}; {said}.", NOT_FOUND)


class Command(click.Command):
    """A command with the common options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += common_options()


class Group(click.Group):
    """A group of commands that takes the common options before the command's name."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += common_options()


class Whole(click.IntRange):
    """A whole number within bounds, called what people call it."""

    name = "integer"


def common_options() -> list[click.Parameter]:
    """Made anew for each command; whichever is given stands, the one nearest to the end first."""
    return [
        click.Option(
            ["--database"],
            metavar="URL",
            help="sqlite:///file.db, sqlite:////absolute/file.db or postgresql://...; or set PILLARBOX_DATABASE.",
            expose_value=False,
            callback=_keep("database"),
        ),
        click.Option(
            ["--config"],
            metavar="PATH",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The settings file, pillarbox.toml unless given.",
            expose_value=False,
            callback=_keep("config"),
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            default=None,
            help="Answer with one JSON value.",
            expose_value=False,
            callback=_keep("json"),
        ),
    ]


def _keep(name: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def keep(context: click.Context, _: click.Parameter, value: object) -> None:
        options = context.find_root().ensure_object(Options)
        if value is not None:
            setattr(options, name, value)

    return keep
