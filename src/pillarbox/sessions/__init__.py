"""Who is talking: sessions, where their messages end, and which outside channels belong to them."""

from pillarbox.sessions.model import LIFECYCLES, Channel, Session, SessionChange
from pillarbox.sessions.registry import Follower, Sessions

__all__ = ["LIFECYCLES", "Channel", "Follower", "Session", "SessionChange", "Sessions"]
