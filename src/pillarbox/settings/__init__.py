"""One frozen tree of settings from `pillarbox.toml` and `PILLARBOX_*` variables."""

from pillarbox.settings.describe import Description, describe_settings
from pillarbox.settings.load import load_settings
from pillarbox.settings.template import settings_template
from pillarbox.settings.tree import Database, Http, Inbound, Inbox, Log, Metrics, Settings, Shutdown

__all__ = [
    "Database",
    "Description",
    "Http",
    "Inbound",
    "Inbox",
    "Log",
    "Metrics",
    "Settings",
    "Shutdown",
    "describe_settings",
    "load_settings",
    "settings_template",
]
