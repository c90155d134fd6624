from typing import Any

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.inbound.targets.placement import Placement, place, public_target, read_target

URL = "https://agent.example/in"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


def http(**fields: Any) -> dict[str, Any]:
    return {"kind": "http", "url": URL, **fields}


def command(*argv: Any, **fields: Any) -> dict[str, Any]:
    return {"kind": "command", "argv": list(argv), **fields}


GOOD = [
    http(),
    *(
        http(url=url)
        for url in [
            "http://127.0.0.1:8080",
            "http://localhost?x=1",
            "HTTP://LOCALHOST/",
            "http://[::1]:8080/in",
            "http://[2001:db8::1]",
            "http://my_agent.internal./in",
            "https://xn--bcher-kva.example/%C3%BC?q=%20&r=@x:y",
            "https://h.example/" + "x" * 1982,
        ]
    ),
    *(http(secret=secret) for secret in [SECRET, "whsec_YQ", "whsec_YQ==", "env:_NAME1", "file:/run/secrets/a b"]),
    *(
        http(headers=headers)
        for headers in [
            {"X-Foo": "a b\tc", "X-Empty": ""},
            {"Authorization": "Bearer t", "Content-Type": "application/vnd.agent+json"},
            {"X-Foo": "***"},
            {f"X-{number}": "x" * 8192 for number in range(64)},
        ]
    ),
    command("agent"),
    command("/usr/bin/agent", "", "ü", cwd="/srv", stdin="content"),
    command(*["x"] * 256),
    {"kind": "python", "name": "my agent"},
]

BAD = [
    ("target.kind", {}),
    ("target.kind", {"kind": ["http"]}),
    ("target.kind", {"kind": "smoke"}),
    ("target.url", {"kind": "http"}),
    ("target.url", http(url=5)),
    ("target.colour", http(colour="red")),
    *(
        ("target.url", http(url=url))
        for url in [
            "",
            "agent.example/in",
            "/in",
            "//agent.example/in",
            "ftp://agent.example/in",
            "file:///etc/passwd",
            "http:///in",
            "http://",
            "http:agent.example",
            "http://?x",
            "http://user@agent.example/",
            "http://user:password@agent.example/",
            "http://@agent.example/",
            "http://agent.example:0/",
            "http://agent.example:/",
            "http://agent.example:65536/",
            "http://agent.example:-1/",
            "http://agent.example:http/",
            "http://agent.example/#part",
            "http://agent.example/#",
            "http://agent.example/a b",
            " http://agent.example/",
            "http://agent.example/\n",
            "http://exa\tmple.com/",
            "http://agent.example/\x00",
            "http://agent.example/\x7f",
            "http://agent.example/\u2028",
            "http://agent.example\\@evil.example/",
            "http://bücher.example/",
            "http://agent..example/",
            "http://.agent.example/",
            "http://agent%2eexample/",
            "http://agent!.example/",
            "http://[::1",
            "http://::1/",
            "http://[::g]/",
            "http://[fe80::1%25eth0]/",
            "http://[127.0.0.1]/",
            "http://[v1.x]/",
            "http://[::1]x/",
            "https://h.example/" + "x" * 1983,
            f"http://{'a' * 64}.example/",
            "http://" + ".".join(["a" * 60] * 5) + "/",
        ]
    ),
    *(
        ("target.secret", http(secret=secret))
        for secret in [
            5,
            "",
            "hunter2",
            "whsec_",
            "whsec_====",
            "whsec_a",
            "whsec_!!!!",
            "whsec_YQ\n",
            "WHSEC_YQ==",
            "env:",
            "env:1A",
            "env:A-B",
            "file:",
            "file:/a\nb",
            "vault:secret/a#b",
            "***",
        ]
    ),
    ("target.headers", http(headers=[])),
    ("target.headers", http(headers={"X-Foo": 5})),
    ("target.headers", http(headers={f"X-{number}": "" for number in range(65)})),
    *(
        (f"target.headers.{name}", http(headers={name: "x"}))
        for name in [
            "",
            "X Foo",
            "X:Foo",
            "Xü",
            "host",
            "Content-Length",
            "Content-Encoding",
            "Transfer-Encoding",
            "Connection",
            "Keep-Alive",
            "Proxy-Authorization",
            "TE",
            "Trailer",
            "Upgrade",
            "Expect",
            "webhook-id",
            "Webhook-Signature",
            "Pillarbox-Token",
            "pillarbox-anything",
        ]
    ),
    (r"target.headers.X\u000aFoo", http(headers={"X\nFoo": "x"})),
    *(
        ("target.headers.X-Foo", http(headers={"X-Foo": value}))
        for value in ["a\r\nX-Bar: 1", "a\x00", "\x7f", "ü", " a", "a ", "\t", "x" * 8193]
    ),
    ("target.headers.x-foo", http(headers={"X-Foo": "1", "x-foo": "2"})),
    ("target.headers.Authorization", http(headers={"Authorization": "***"})),
    ("target.argv", {"kind": "command"}),
    ("target.argv", command()),
    ("target.argv", {"kind": "command", "argv": "ls"}),
    ("target.argv", command(*["x"] * 257)),
    ("target.argv", command("agent", "ü" * 20_000, "ü" * 20_000)),
    ("target.argv.0", command("")),
    ("target.argv.0", command(5)),
    ("target.argv.0", command("a\nb")),
    ("target.argv.0", command("x" * 501)),
    ("target.argv.1", command("agent", "a\x00b")),
    ("target.argv.1", command("agent", "\ud800")),
    ("target.argv.1", command("agent", None)),
    ("target.stdin", command("agent", stdin="yaml")),
    ("target.cwd", command("agent", cwd="relative")),
    ("target.cwd", command("agent", cwd="")),
    ("target.cwd", command("agent", cwd="/a\x00")),
    ("target.name", {"kind": "python"}),
    ("target.name", {"kind": "python", "name": ""}),
    ("target.name", {"kind": "python", "name": "a\x1b"}),
    ("target.name", {"kind": "python", "name": "x" * 101}),
]


@pytest.mark.parametrize("target", GOOD, ids=repr)
def test_a_good_target_is_taken(target: dict[str, Any]) -> None:
    read_target(target)


@pytest.mark.parametrize(("field", "target"), BAD, ids=lambda value: repr(value)[:60])
def test_a_bad_target_is_refused_by_the_name_of_its_field(field: str, target: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_target(target)
    assert refusal.value.field == field
    assert refusal.value.detail.endswith(".")


@pytest.mark.parametrize(
    "target",
    [
        http(secret="hunter2"),
        http(headers={"Authorization": "hunter2\n"}),
        http(url="http://user:hunter2@agent.example/"),
        http(url="http://agent.example/?token=hunter2#"),
    ],
    ids=repr,
)
def test_a_refusal_quotes_no_secret(target: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_target(target)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("target", "node", "placement"),
    [
        (http(url="https://Agent.Example:443/in?x=1"), None, Placement("https://agent.example", "any")),
        (http(url="http://agent.example:443/in"), "n1", Placement("http://agent.example:443", "node:n1")),
        (http(url="http://[::1]:80"), None, Placement("http://[::1]", "any")),
        (command("/bin/agent", "-x"), "n1", Placement("command:/bin/agent", "node:n1")),
        ({"kind": "python", "name": "bot"}, "n1", Placement("python:bot", "python:bot")),
    ],
    ids=repr,
)
def test_a_target_is_placed_by_its_origin(target: dict[str, Any], node: str | None, placement: Placement) -> None:
    assert place(target, node) == placement


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (http(secret=SECRET), http(secret="***")),
        (http(secret="env:NAME"), http(secret="env:NAME")),
        (http(secret="file:/run/secrets/a"), http(secret="file:/run/secrets/a")),
        (http(secret=None), http(secret=None)),
        (
            http(headers={"Authorization": "Bearer t", "x-api-key": "k", "Cookie": "c", "X-Team": "blue"}),
            http(headers={"Authorization": "***", "x-api-key": "***", "Cookie": "***", "X-Team": "blue"}),
        ),
        (command("agent", "-x"), command("agent", "-x")),
        ({"kind": "tmux", "name": "main"}, {"kind": "tmux", "name": "main"}),
    ],
    ids=repr,
)
def test_what_is_shown_of_a_target_holds_no_secret(stored: dict[str, Any], shown: dict[str, Any]) -> None:
    before = repr(stored)
    assert public_target(stored) == shown
    assert repr(stored) == before
