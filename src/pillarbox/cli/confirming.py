"""Asking a person before something is done; a program that cannot answer is told how to say so beforehand."""

from __future__ import annotations

import sys

import click

from pillarbox.cli.failures import REFUSED, WRONG_USAGE, Failure


def confirm(question: str) -> None:
    """Go on only with a yes: a no is a refusal, and nobody there to answer is wrong usage."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise Failure(
            "Nobody is there to answer; nothing was changed. Add --yes to go on unasked.", WRONG_USAGE
        ) from None
    if not agreed:
        raise Failure("Nothing was changed.", REFUSED)
