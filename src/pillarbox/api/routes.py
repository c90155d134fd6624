"""Every path there is, as data."""

from __future__ import annotations

from pillarbox.api import health, openapi
from pillarbox.api.call import Endpoint
from pillarbox.api.routes_adapters import ADAPTERS
from pillarbox.api.routes_outbound import LINKS
from pillarbox.api.routes_v1 import V1
from pillarbox.dashboard.routes import PAGES

HTML, TEXT = "text/html", "text/plain"

OPERATIONS = (
    Endpoint("GET", "/healthz", health.healthz, "Whether the process is alive", {200: health.Health}, needs_key=False),
    Endpoint(
        "GET",
        "/readyz",
        health.readyz,
        "Whether the database takes writes",
        {200: health.Health, 503: health.NotReady},
        needs_key=False,
    ),
    Endpoint(
        "GET",
        "/metrics",
        health.metrics,
        "Prometheus metrics; an admin key is needed unless `metrics.public` is set",
        {200: str},
        media_type=TEXT,
    ),
    Endpoint("GET", "/openapi.json", openapi.document, "This document", {200: dict}, needs_key=False),
    Endpoint("GET", "/docs", openapi.page, "This document, for people", {200: str}, media_type=HTML, needs_key=False),
)

ENDPOINTS = V1 + ADAPTERS + LINKS + OPERATIONS + PAGES
