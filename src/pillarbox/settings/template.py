"""A settings file to begin with: every setting there is, each with its default, none of them set."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from pillarbox.settings.describe import Description, describe_settings

_OPENING = """\
# The settings of Pillarbox: every one there is, with its default. Take the # away from those you change.
# A variable stands over this file, as PILLARBOX_HTTP__PORT stands over port in [http].
# Which database is used is said by --database or PILLARBOX_DATABASE, not here.
"""


def settings_template() -> str:
    """The text of a `pillarbox.toml` that changes nothing."""
    return "".join([_OPENING, *map(_section, *zip(*_sections(), strict=True))])


def _sections() -> Iterator[tuple[str, list[Description]]]:
    for section, items in groupby(describe_settings(), key=lambda item: item.section):
        yield section, list(items)


def _section(section: str, items: list[Description]) -> str:
    # A table of the user's own name would be one more of them, so it is no more than shown.
    heading = f"#[{section.replace('*', 'NAME')}]" if "*" in section else f"[{section}]"
    return f"\n{heading}\n" + "".join(map(_setting, items))


def _setting(item: Description) -> str:
    value = "" if item.default == "unset" else f" {item.default}"
    kind = item.type.replace("`", '"')
    return f"# {item.doc} ({kind})\n#{item.name} ={value}\n"
