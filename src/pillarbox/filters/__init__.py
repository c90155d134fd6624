"""The filter language: `status:failed channel:sms age:>5m`, the same for the API, the command line and the pages."""

from pillarbox.filters.conditions import Conditions, conditions_of
from pillarbox.filters.model import EVERYTHING, PIPES, Filter, Pipe, Term, Value
from pillarbox.filters.parse import parse_filter
from pillarbox.filters.words import WORDS, Word

__all__ = [
    "EVERYTHING",
    "PIPES",
    "WORDS",
    "Conditions",
    "Filter",
    "Pipe",
    "Term",
    "Value",
    "Word",
    "conditions_of",
    "parse_filter",
]
