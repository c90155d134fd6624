"""Bugs that are planted in a copy of our own code, each of which the tests named beside it must find: `python -m mutants`."""
