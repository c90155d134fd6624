"""A page that is listened to: what it complains of, whom it calls, and what tries to run in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, build_opener

import pytest
from playwright.async_api import Browser, ConsoleMessage, Dialog, Page, Request

from tests.servers.daemon import Daemon

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
AXE = Path(__file__).with_name("axe.min.js")


class _Stay(HTTPRedirectHandler):
    """Shows a redirect instead of following it."""

    def redirect_request(self, *_: Any) -> None:
        return None


def sign_in(daemon: Daemon) -> str:
    """The cookie that the form of /login gives for the admin key."""
    form = urlencode({"key": daemon.admin_key}).encode()
    with pytest.raises(HTTPError) as led_on:
        build_opener(_Stay).open(f"{daemon.base_url}/login", form)
    with led_on.value as answer:
        return str(answer.headers["set-cookie"]).partition(";")[0].partition("=")[2]


@dataclass
class Watched:
    page: Page
    daemon: Daemon
    must_be_quiet: bool = True
    complaints: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    calls_outside: list[str] = field(default_factory=list)
    confirms: bool = True

    @classmethod
    async def open(cls, browser: Browser, daemon: Daemon, cookie: str, *, dark: bool, phone: bool) -> Watched:
        size = {"width": 390, "height": 844} if phone else {"width": 1360, "height": 900}
        context = await browser.new_context(
            base_url=daemon.base_url,
            color_scheme="dark" if dark else "light",
            viewport=size,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        context.set_default_timeout(60_000)
        await context.add_cookies([{"name": "pillarbox_login", "value": cookie, "url": daemon.base_url}])
        watched = cls(await context.new_page(), daemon)
        context.on("request", watched._called)
        context.on("requestfailed", watched._refused)
        watched.page.on("console", watched._complained)
        watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.page.on("dialog", watched._asked)
        return watched

    async def goto(self, path: str) -> Page:
        answer = await self.page.goto(path)
        assert answer is not None
        assert answer.status < 500, (path, answer.status)
        return self.page

    async def faults(self) -> list[str]:
        """What axe finds wrong with the page as it is."""
        await self.page.evaluate(AXE.read_text())
        found: dict[str, Any] = await self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})"
        )
        return [
            f"{each['id']}: {node['html'][:160]} {node['any'][0]['message'] if node['any'] else ''}"
            for each in found["violations"]
            for node in each["nodes"]
        ]

    async def close(self) -> None:
        await self.page.context.close()
        assert self.calls_outside == []
        if self.must_be_quiet:
            assert self.complaints == []

    async def _asked(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        await (dialog.accept() if self.confirms else dialog.dismiss())

    def _complained(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} at {message.location}")

    def _refused(self, request: Request) -> None:
        """The page's own rules kept it from being sent."""
        if request.failure in ("csp", "net::ERR_BLOCKED_BY_CSP") and request.url in self.calls_outside:
            self.calls_outside.remove(request.url)

    def _called(self, request: Request) -> None:
        if not request.url.startswith((self.daemon.base_url, "data:", "about:", "blob:")):
            self.calls_outside.append(request.url)
