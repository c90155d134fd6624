"""The HTTP API, its description, and the page an operator looks at first."""

from pillarbox.api.app import create_app
from pillarbox.api.login import login_token
from pillarbox.api.server import serve

__all__ = ["create_app", "login_token", "serve"]
