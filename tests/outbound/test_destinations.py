from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pillarbox.errors import InvalidInput
from pillarbox.outbound.addresses import forbidden
from pillarbox.outbound.destinations import check_host, check_origin, check_url, origin_of

NOBODY: frozenset[str] = frozenset()

NOT_PUBLIC_V4 = [
    "127.0.0.1", "127.255.255.254", "0.0.0.1", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255",
    "192.168.0.1", "192.168.255.255", "169.254.0.1", "169.254.169.254", "100.64.0.1", "100.127.255.255",
    "100.100.100.200", "192.0.0.1", "192.0.0.192", "192.88.99.1", "198.18.0.1", "198.19.255.255", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.1", "168.63.129.16",
]  # fmt: skip
NOT_PUBLIC_V6 = [
    "::", "::1", "fe80::1", "febf::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "fec0::1", "feff::1",
    "ff02::1", "ffff::1", "2001:db8::1", "3fff::1", "3fff:fff::1", "100::1", "5f00::1", "2001:10::1", "4000::1",
]  # fmt: skip
STANDS_FOR_V4 = [
    "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "::8.8.8.8",
    "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::8.8.8.8", "64:ff9b:1::7f00:1", "64:ff9b:1:ffff::1",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8", "1.1.1.1", "9.255.255.255", "11.0.0.0", "126.255.255.255", "128.0.0.0", "172.15.255.255", "172.32.0.0",
    "100.63.255.255", "100.128.0.0", "169.253.255.255", "169.255.0.0", "192.167.255.255", "192.169.0.0", "192.0.1.0",
    "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888",
    "2003::1", "3ffe::1", "::ffff:8.8.8.8",
]  # fmt: skip
LINK_LOCAL = [
    "169.254.169.254", "169.254.0.1", "fe80::1", "::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1",
    "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",
]  # fmt: skip


def in_url(address: str) -> str:
    return f"https://[{address}]/hook" if ":" in address else f"https://{address}/hook"


def refused(url: str, trusted: frozenset[str] = NOBODY) -> str:
    with pytest.raises(InvalidInput) as refusal:
        check_url("to", url, trusted=trusted)
    assert refusal.value.field == "to"
    return refusal.value.detail


@pytest.mark.parametrize("address", NOT_PUBLIC_V4 + NOT_PUBLIC_V6 + STANDS_FOR_V4)
def test_an_address_that_is_not_public_is_refused_at_enqueue_and_when_a_name_leads_to_it(address: str) -> None:
    reason = forbidden(address)
    assert reason is not None
    assert address not in reason
    assert refused(in_url(address)) == f"must not lead to {reason}."


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_taken(address: str) -> None:
    assert forbidden(address) is None
    check_url("to", in_url(address), trusted=NOBODY)


@pytest.mark.parametrize("address", LINK_LOCAL)
def test_trust_never_opens_link_local_or_metadata(address: str) -> None:
    assert forbidden(address, trusted=True) is not None
    url = in_url(address)
    assert refused(url, frozenset({origin_of(url)})).startswith("must not lead to ")
    with pytest.raises(InvalidInput):
        check_origin("trusted", url.removesuffix("/hook"))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::1", "fd12::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
def test_trust_opens_every_other_address(address: str) -> None:
    assert forbidden(address, trusted=True) is None
    url = in_url(address)
    check_url("to", url, trusted=frozenset({origin_of(url)}))


@pytest.mark.parametrize("address", ["fe80::1%eth0", "fe80::1%2", "nonsense", "", "127.1", "2130706433"])
def test_what_a_resolver_should_not_say_is_forbidden(address: str) -> None:
    assert forbidden(address) is not None


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0x7f000001", "0X7F000001", "017700000001", "0177.0.0.1", "0x7f.0.0.1", "127.1", "127.0.1", "0",
        "0x", "127.0.0.1.", "127.0.0.0x1", "00000127.0.0.1", "127.0.0.01", "256.256.256.256", "1.2.3.4.5", "134744072",
        "8.8.2056", "evil.example.0x1", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[::1", "::1", "[::1]x", "[]", "[v1.x]",
        "[127.0.0.1]", "①②⑦.0.0.1", "127。0。0。1", "ex%61mple.com", "%31%32%37.0.0.1", "exa mple.com", "exa\tmple.com",
        "exa\nmple.com", "exa\x00mple.com", "example.com.", ".example.com", "a..b", "-a.example", "a-.example", "",
        "a" * 64 + ".example", ".".join(["a" * 60] * 5), "bücher.example", "ex*mple.com", "a,b.example", "a;b", "a'b",
    ],
)  # fmt: skip
def test_a_host_in_a_strange_spelling_is_refused(host: str) -> None:
    refused(f"https://{host}/hook")
    refused(f"https://{host}:8443/hook")
    refused(f"http://{host}/hook", trusted=frozenset({f"http://{host}"}))


@pytest.mark.parametrize(
    "url",
    [
        "https://good@127.0.0.1/", "https://user:secret@example.com/", "https://@example.com/", "https://:@example.com/",
        "https://example.com#@evil.example/", "https://example.com/#part", "https://example.com\\@evil.example/",
        "https://example.com/a\\b", "https:\\\\example.com/", "https:///hook", "https://", "https:example.com",
        "https:/example.com", "//example.com/", "example.com", "", " https://example.com/", "https://example.com/ ",
        "https://example.com/a b", "https://example.com/\r\nX: y", "https://example.com/é", "https://example.com/\x7f",
        "https://example.com/" + "a" * 1981,
    ],
)  # fmt: skip
def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    refused(url)


@pytest.mark.parametrize(
    "url",
    ["http://example.com/", "file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "smtp://example.com/",
     "javascript:alert(1)", "data:text/plain,x", "wss://example.com/", "HTTP://example.com/"],
)  # fmt: skip
def test_only_https_is_taken(url: str) -> None:
    refused(url)


@pytest.mark.parametrize(
    "port", ["0", "1", "22", "25", "110", "444", "1023", "65536", "99999999", "", "x", "-1", "0443", "+443"]
)
def test_a_port_of_another_service_is_refused(port: str) -> None:
    refused(f"https://example.com:{port}/")


@pytest.mark.parametrize("port", ["80", "443", "1024", "8443", "65535"])
def test_ports_of_the_web_and_free_ones_are_taken(port: str) -> None:
    check_url("to", f"https://example.com:{port}/", trusted=NOBODY)


@pytest.mark.parametrize(
    "url",
    ["https://example.com", "HTTPS://Example.COM/Hook", "https://example.com?a=b", "https://example.com/a%2Fb/../c?x=%zz|y",
     "https://xn--bcher-kva.example/", "https://localhost/", "https://a_b.example/", "https://3com.example/",
     "https://example.com/@user", "https://example.com/a?b=c@d:e/f", "https://example.com/" + "a" * 1980],
)  # fmt: skip
def test_an_ordinary_url_is_taken(url: str) -> None:
    check_url("to", url, trusted=NOBODY)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/a?b"),
        ("http://intranet", "http://intranet:80/"),
        ("http://intranet:80", "http://Intranet/"),
        ("HTTP://Intranet:80", "http://intranet/"),
        ("https://10.0.0.1", "https://10.0.0.1:443/x"),
        ("https://[::1]:8443", "https://[0:0::1]:8443/x"),
    ],
)
def test_a_trusted_origin_is_taken_in_any_spelling(entry: str, url: str) -> None:
    refused(url)
    check_origin("trusted", entry)
    check_url("to", url, trusted=frozenset({"https://other.example", entry}))


@pytest.mark.parametrize(
    "url",
    ["http://intranet:8081/", "http://intranet.evil.example:8080/", "http://xintranet:8080/", "http://127.0.0.1:8080/"],
)
def test_trust_is_for_one_origin_alone(url: str) -> None:
    refused(url, frozenset({"http://intranet:8080", "https://intranet", "https://127.0.0.1:8080", "nonsense"}))


@pytest.mark.parametrize(
    "entry",
    ["intranet", "http://intranet/", "http://intranet?x", "http://u@intranet", "ftp://intranet", "http://*", "*", "http://",
     "http://127.1", "smtp://mail.example/x", "http://intranet:0"],
)  # fmt: skip
def test_only_an_origin_can_be_trusted(entry: str) -> None:
    with pytest.raises(InvalidInput):
        check_origin("trusted", entry)


@pytest.mark.parametrize("entry", ["http://intranet:81", "https://intranet:25", "smtp://mail:80", "smtp://mail:1023"])
def test_an_origin_on_a_port_that_is_never_called_cannot_be_trusted(entry: str) -> None:
    with pytest.raises(InvalidInput, match="must have one of the ports") as refused:
        check_origin("trusted", entry)
    assert refused.value.field == "trusted"


@pytest.mark.parametrize(
    "entry", ["http://intranet", "https://intranet:80", "http://intranet:1024", "smtp://mail:465", "smtp://mail:587"]
)
def test_an_origin_on_a_port_that_is_called_can_be_trusted(entry: str) -> None:
    check_origin("trusted", entry)


@pytest.mark.parametrize(
    ("host", "port"), [("mail.example", 25), ("mail.example", 465), ("8.8.8.8", 587), ("mail", 2525)]
)
def test_a_public_mail_server_is_taken(host: str, port: int) -> None:
    check_host("host", host, port, trusted=NOBODY)


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1", 25), ("::1", 587), ("127.1", 25), ("mail.example", 22), ("mail.example", 0), ("mail.example", 65536),
     ("a b", 25), ("", 25), ("mail.example\r\n", 25), ("[::1]", 25), ("169.254.169.254", 25), ("x@mail.example", 25)],
)  # fmt: skip
def test_a_mail_server_that_nothing_is_sent_to_is_refused(host: str, port: int) -> None:
    with pytest.raises(InvalidInput) as refusal:
        check_host("host", host, port, trusted=NOBODY)
    assert refusal.value.field == "host"


def test_a_mail_server_is_trusted_by_an_smtp_origin_alone() -> None:
    check_host("host", "127.0.0.1", 2525, trusted=frozenset({"smtp://127.0.0.1:2525"}))
    check_host("host", "::1", 25, trusted=frozenset({"smtp://[::1]"}))
    with pytest.raises(InvalidInput):
        check_host("host", "127.0.0.1", 2525, trusted=frozenset({"http://127.0.0.1:2525", "smtp://127.0.0.1"}))
    with pytest.raises(InvalidInput):
        check_host("host", "169.254.1.1", 2525, trusted=frozenset({"smtp://169.254.1.1:2525"}))


def test_origins_are_told_in_one_spelling() -> None:
    assert origin_of("HTTPS://Example.com:443/a?b") == "https://example.com"
    assert origin_of("http://[0:0::1]:80") == "http://[::1]"
    assert origin_of("https://example.com:8443") == "https://example.com:8443"


@given(
    st.one_of(
        st.text(max_size=60),
        st.text(max_size=40).map(lambda rest: f"https://{rest}"),
        st.from_regex(r"https?://[0-9a-fx.:\[\]%@]{1,30}/?"),
    )
)
@example("https://[::1]]")
@example("https://[")
def test_any_text_is_taken_or_refused_for_its_origin(url: str) -> None:
    for trusted in (NOBODY, frozenset({url})):
        try:
            check_url("to", url, trusted=trusted)
        except InvalidInput:
            continue
        assert url.lower().startswith(origin_of(url).split("://")[0] + "://")


@given(st.ip_addresses())
def test_no_address_is_taken_that_is_not_global(address: IPv4Address | IPv6Address) -> None:
    if forbidden(address) is None and not (address.version == 6 and address.ipv4_mapped):
        assert address.is_global
        assert not address.is_multicast
