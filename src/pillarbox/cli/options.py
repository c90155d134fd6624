"""The options that every command takes, before or after its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pillarbox.cli.program import runnable

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.settings import Settings


_OWN, _DEV = "pillarbox.db", "pillarbox-dev.db"


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

    def open(
        self, settings: Settings | None = None, *, node: str | None = None, migrate: bool = True
    ) -> AbstractAsyncContextManager[Pillarbox]:
        """The box on the database that was named."""
        from pillarbox.box import Pillarbox, sqlite_path
        from pillarbox.errors import InvalidInput

        if self.url is not None and sqlite_path(self.url) == ":memory:":
            raise InvalidInput("database", "a database in memory is gone when the command ends; name a file.")
        if self.url is None and _is_likely_elsewhere():
            said = f"Using {_OWN}, which is new; what `pillarbox dev` keeps is in --database sqlite:///{_DEV}."
            click.echo(runnable(said), err=True)
        return Pillarbox.open(self.url, settings=settings or self.settings(), node=node, migrate=migrate)


def _is_likely_elsewhere() -> bool:
    """Whether somebody who tries things out forgot to name the database that they mean."""
    return not Path(_OWN).exists() and Path(_DEV).exists()


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
