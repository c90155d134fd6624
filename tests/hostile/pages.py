"""That a page holds nothing that others wrote but as text."""

from html.parser import HTMLParser

from tests.api.client import Reply
from tests.hostile.corpus.markup import ATTRIBUTE, ELEMENT

# A link to give to others is a whole address.
_OURS = "http://127.0.0.1:8025/embed/"
_LEADING = ("href", "src", "action", "formaction", "data", "srcdoc", "xlink:href")


class _Page(HTMLParser):
    """Collects what a page must not have."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_script = tag == "script"
        if tag == "script" and not given.get("src", "").startswith("/static/"):
            self.faults.append("a script of its own")
        if tag == ELEMENT or ATTRIBUTE in given or ELEMENT in given:
            self.faults.append(f"<{tag}> is what somebody else wrote")
        if "http-equiv" in given or tag in ("base", "object", "embed"):
            self.faults.append(f"<{tag}> leads away")
        self.faults += [f"<{tag} {name}>" for name in given if name.startswith("on")]
        for name in _LEADING:
            if not _stays(given.get(name, "")):
                self.faults.append(f"<{tag} {name}> leads away")

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.faults.append("a script in the page")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def _stays(address: str) -> bool:
    """Whether an address is one of ours: a path, a place on the page, or none."""
    return (
        not address
        or address[0] in "#?"
        or address.startswith(_OURS)
        or (address[0] == "/" and address[1:2] not in ("/", "\\"))
    )


def check_page(reply: Reply, shown: str) -> None:
    """A page is text/html that browsers must not guess at, and nothing in it was put there by a caller."""
    policy = reply.headers.get("content-security-policy", "")
    assert reply.headers["content-type"] == "text/html; charset=utf-8", shown
    assert "default-src 'none'" in policy, (policy, shown)
    assert "\n" not in "".join(reply.headers.values()), shown
    if policy.startswith("sandbox;"):
        # The HTML of a message, shown as it is, where nothing of it can do anything.
        return
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", ""), (policy, shown)
    page = _Page()
    page.feed(reply.body.decode())
    page.close()
    assert page.faults == [], (page.faults, shown)
