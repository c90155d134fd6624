"""Tenants, without awaiting."""

from __future__ import annotations

from typing import Any

from pillarbox.outbound.model import Tenant
from pillarbox.outbound.tenants import Tenants as AsyncTenants
from pillarbox.sync.thread import BoxThread


class Tenants:
    """Who sends messages, and by which providers."""

    def __init__(self, thread: BoxThread, tenants: AsyncTenants) -> None:
        self._thread = thread
        self._tenants = tenants

    def set(
        self,
        tenant_id: str,
        *,
        name: str | None = None,
        providers: dict[str, dict[str, Any]] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> Tenant:
        """Make a tenant or replace what is known of it, from plain values."""
        return self._thread.call(self._tenants.set, tenant_id, name=name, providers=providers, settings=settings)

    def get(self, tenant_id: str) -> Tenant:
        """The one of that id; raises `NotFound` where there is none."""
        return self._thread.call(self._tenants.get, tenant_id)

    def list(self, *, limit: int = 100, after: str = "") -> list[Tenant]:
        """In the order of their names, from the one after `after`."""
        return self._thread.call(self._tenants.list, limit=limit, after=after)

    def delete(self, tenant_id: str) -> None:
        """Remove a tenant that has nothing waiting, with all that it has."""
        self._thread.call_patiently(self._tenants.delete, tenant_id)
