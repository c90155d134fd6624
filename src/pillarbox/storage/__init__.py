"""Databases: transactions as generators of statements, run alike on SQLite, PostgreSQL and CockroachDB."""

from pillarbox.storage.checksum import DAMAGED, checksum, is_intact, is_legible
from pillarbox.storage.database import Database, News, Params, Row, Statement, Step, Work, ending, together
from pillarbox.storage.overlong import cut_overlong
from pillarbox.storage.queries import Query, load_queries
from pillarbox.storage.values import UNREADABLE, instant, instant_or_none, legible, legible_or_none

__all__ = [
    "DAMAGED",
    "UNREADABLE",
    "Database",
    "News",
    "Params",
    "Query",
    "Row",
    "Statement",
    "Step",
    "Work",
    "checksum",
    "cut_overlong",
    "ending",
    "instant",
    "instant_or_none",
    "is_intact",
    "is_legible",
    "legible",
    "legible_or_none",
    "load_queries",
    "together",
]
