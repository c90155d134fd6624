"""`pillarbox restore`"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pillarbox.cli.confirming import confirm
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json, show_table, when
from pillarbox.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from pillarbox.box import Plan, Restored

_IN_FLIGHT = ("processing", "sending")
_KEYLESS = "{0}.key is not beside the backup, and no command opens what is restored without it; put it there first."


@click.command(cls=Command, short_help="Put a backup in the database's place.")
@click.argument("file", type=click.Path(dir_okay=False), required=False)
@click.option("--preview", is_flag=True, help="Say what would be resent and change nothing.")
@click.option(
    "--old",
    metavar="URL",
    envvar="PILLARBOX_OLD_DATABASE",
    help="The PostgreSQL database that a restored one takes the place of; also PILLARBOX_OLD_DATABASE.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def restore(options: Options, file: str | None, preview: bool, old: str | None, yes: bool) -> None:
    """Put the backup FILE in the place of the SQLite database, which nobody may use; says before what would be resent.

    Of the database before it the opt-outs, what was forgotten and what was revoked are taken over. On PostgreSQL restore with
    `pg_restore` into a new database, and run this on that one, without a file: it says what will be resent, and takes these over
    from the --old one.
    """
    from pillarbox.box import DEFAULT_DATABASE, sqlite_path

    url = options.url or DEFAULT_DATABASE
    database = sqlite_path(url)
    if database is None:
        return _restore_on_server(options, url, file, old, preview=preview, yes=yes)
    if old is not None:
        raise InvalidInput("old", "is for PostgreSQL; the SQLite database is found by --database.")
    if file is None:
        raise InvalidInput("file", "is missing; name a backup.")
    _restore_file(options, file, database, preview=preview, yes=yes)


def _restore_file(options: Options, file: str, database: str, *, preview: bool, yes: bool) -> None:
    from pillarbox.box import plan_restore
    from pillarbox.box import restore as put_in_place

    plan = plan_restore(file, database)
    if not options.json:
        _show(plan)
    keyless = plan.lacks_key and options.settings().secrets.key is None
    if keyless and not preview:
        raise Refused(_KEYLESS.format(file))
    if preview:
        if keyless:
            click.echo(_KEYLESS.format(file), err=True)
        return _show_plan_as_json(options, plan)
    if not yes:
        confirm(f"Put {file} in the place of {database}?")
    done = put_in_place(plan)
    if options.json:
        return show_json(asdict(plan) | asdict(done))
    click.echo(f"restored {database}" + ("" if done.kept is None else f"; the old one is {done.kept}"))
    if done.kept_key is not None:
        click.echo(f"the backup has another key than there was; that one is {done.kept_key}")
    _show_taken_over(plan, done)


def _restore_on_server(
    options: Options, url: str, file: str | None, old: str | None, *, preview: bool, yes: bool
) -> None:
    from pillarbox.box import look_at_restored, take_over_from

    if file is not None:
        raise Refused(
            f"PostgreSQL brings its own tools: run `createdb` for a new database and `pg_restore --dbname=NEW {file}`, "
            "then `pillarbox restore --database NEW --old OLD`, which says what will be resent."
        )
    plan = look_at_restored(url, old)
    if not options.json:
        _show(plan)
    if preview or old is None:
        return _show_plan_as_json(options, plan)
    if not yes:
        confirm(f"Take opt-outs, what was forgotten and what was revoked over into {plan.database}?")
    done = take_over_from(old, url)
    if options.json:
        return show_json(asdict(plan) | asdict(done))
    _show_taken_over(plan, done)


def _show_plan_as_json(options: Options, plan: Plan) -> None:
    if options.json:
        show_json(asdict(plan))


def _show(plan: Plan) -> None:
    rows = [(each.pipe, each.state, each.count, when(each.oldest), when(each.newest)) for each in plan.waiting]
    show_table(["pipe", "state", "waiting", "oldest", "newest"], rows, empty="Nothing waits in it.")
    in_flight = sum(each.count for each in plan.waiting if each.state in _IN_FLIGHT)
    if in_flight:
        on_their_way = _so_many(in_flight, "was on its way", "were on their way")
        click.echo(f"{on_their_way} when the backup was made and may be delivered a second time.", err=True)
    if plan.unreadable:
        click.echo(
            "The database there cannot be read whole, so that nobody can say what ended or came in since; opt-outs and "
            "what was revoked are taken over from it as far as they can be read.",
            err=True,
        )
    for sentence in _sentences(plan):
        click.echo(sentence, err=True)


def _sentences(plan: Plan) -> Iterator[str]:
    """What the backup does not know, in one sentence each."""
    if (since := plan.since) is None:
        return
    if since.ended:
        yield f"{_so_many(since.ended, 'has', 'have')} ended since and will be delivered a second time."
    if since.missing:
        stays = "stays" if since.missing == 1 else "stay"
        yield f"{since.missing} came in after the backup and {stays} only in the old database."
    opt_outs = _so_many(since.opt_outs, "opt-out", "opt-outs")
    if since.opt_outs and since.other_key:
        yield (
            f"{opt_outs} came in after the backup under another key, cannot be taken over and "
            f"{'stays' if since.opt_outs == 1 else 'stay'} only in the old database: whoever said so will be written to."
        )
    elif since.opt_outs:
        yield f"{opt_outs} came in after the backup and {'is' if since.opt_outs == 1 else 'are'} taken over."
    if since.forgotten:
        yield f"{_so_many(since.forgotten, 'message was', 'messages were')} forgotten since, as will be done again."
    if since.revoked_keys:
        yield f"{_so_many(since.revoked_keys, 'API key was', 'API keys were')} revoked since, as will be done again."
    if since.revoked_links:
        yield f"{_so_many(since.revoked_links, 'tenant', 'tenants')} had embed links revoked since, as will be done again."
    if since.inbox_keys:
        yield (
            f"{_so_many(since.inbox_keys, 'inbox key was', 'inbox keys were')} processed since and will be unknown: what "
            "comes again under such a key takes effect a second time."
        )
    if since.idempotency_keys:
        yield (
            f"{_so_many(since.idempotency_keys, 'idempotency key', 'idempotency keys')} came in since and will be "
            "unknown: who repeats a request with such a key sends a second message."
        )


def _so_many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _show_taken_over(plan: Plan, done: Restored) -> None:
    if (taken := done.taken_over) is None:
        return
    counts = {
        "opt-outs": taken.opt_outs,
        "forgotten messages": taken.forgotten,
        "revoked keys": taken.revoked_keys,
        "tenants' revoked links": taken.revoked_links,
    }
    if found := ", ".join(f"{count} {name}" for name, count in counts.items() if count):
        click.echo(f"taken over from the old one: {found}")
    if taken.other_key and (plan.since is None or plan.since.opt_outs):
        click.echo(
            "Opt-outs since the backup are not taken over, for the old database's key is another one or cannot be read: "
            "these contacts will be written to.",
            err=True,
        )
    if not taken.complete:
        click.echo(
            "The old database could not be read to its end: opt-outs, forgotten people and what was revoked may be missing.",
            err=True,
        )
