"""A file of named blocks of SQL is read whole, or not at all."""

import pytest

from pillarbox.storage.queries import parse_queries


def test_a_block_with_a_word_that_means_nothing_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="-- name: second onec"):
        list(parse_queries("-- name: first once\nSELECT 1\n\n-- name: second onec\nSELECT 2\n"))


def test_what_is_said_of_a_block_is_known_of_its_query() -> None:
    (query,) = parse_queries("-- name: one sqlite once bears_damage\nSELECT 1\n")
    assert (query.name, query.sqlite, query.once, query.bears_damage) == ("one", "SELECT 1", True, True)
