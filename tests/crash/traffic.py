"""Opening sessions and posting to them over HTTP."""

from tests.servers.daemon import Daemon


def open_session(daemon: Daemon, session: str, url: str) -> None:
    body = {"session_id": session, "target": {"kind": "http", "url": url}}
    assert daemon.call("POST", "/v1/sessions", body)[0] == 201


def post(daemon: Daemon, session: str, content: str) -> int:
    status, answer = daemon.call("POST", "/v1/inbound", {"session_id": session, "origin": "t", "content": content})
    assert status == 202
    number: int = answer["id"]
    return number
