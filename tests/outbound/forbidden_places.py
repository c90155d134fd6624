"""Every form in which somebody may try to reach what is not theirs."""

_V4 = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0",  # noqa: S104 - nobody binds to it
    "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1",
    "169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.255", "100.100.100.200", "192.0.0.1", "192.88.99.1",
    "198.18.0.1", "198.19.255.255", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
]  # fmt: skip
_V6 = [
    "::", "::1", "fe80::1", "febf::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "3fff::1", "100::1", "5f00::1",
]  # fmt: skip
_STANDS_FOR_V4 = [
    "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "::7f00:1",
    "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
]  # fmt: skip
FORBIDDEN_ADDRESSES = _V4 + _V6 + _STANDS_FOR_V4
LINK_LOCAL = [
    "169.254.169.254", "169.254.0.1", "fe80::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    "fd00:ec2::254", "100.100.100.200",
]  # fmt: skip

_HOSTS = [address if "." in address and ":" not in address else f"[{address}]" for address in FORBIDDEN_ADDRESSES]
_SPELLINGS = [
    "2130706433", "0x7f000001", "0X7F000001", "017700000001", "0177.0.0.1", "0x7f.0.0.1", "127.1", "127.0.1", "0",
    "127.0.0.1.", "①②⑦.0.0.1", "127。0。0。1", "%31%32%37.0.0.1", "[fe80::1%25lo]", "[::1%lo]", "[127.0.0.1]",
    "exa\tmple.com", "exa\nmple.com", "exam ple.com", "exa\u00admple.com",
]  # fmt: skip
_OTHER = [
    "https://good@127.0.0.1:PORT/", "https://user:password@example.com/", "https://@example.com/",
    "https://example.com\\@127.0.0.1:PORT/", "https://example.com#@127.0.0.1:PORT/", "https:\\\\127.0.0.1:PORT/",
    "https://example.com:22/", "https://example.com:25/", "https://example.com:0/", "https://example.com:65536/",
    "http://example.com/", "http://127.0.0.1:PORT/", "file:///etc/passwd", "ftp://example.com/", "gopher://127.0.0.1:PORT/",
    "smtp://127.0.0.1:PORT/", "javascript:alert(1)", "data:text/plain,x", "//127.0.0.1:PORT/", "127.0.0.1:PORT", "",
    "https://", "https:///hook", " https://example.com/", "https://example.com/\r\nX: y", "https://example.com/\u0000",
]  # fmt: skip
FORBIDDEN_URLS = (
    [f"https://{host}:PORT/hook" for host in _HOSTS + _SPELLINGS]
    + [f"http://{host}:PORT/hook" for host in ("127.0.0.1", "[::1]", "2130706433")]
    + _OTHER
)
