"""Which addresses tenants' messages may be sent to: the public ones."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_LINK_LOCAL = "a link-local address"
_METADATA = "the address of a cloud's metadata service"
_PRIVATE = "a private address"
_RESERVED = "a reserved address"
_TRANSLATED = "an address that stands for another one"

_Networks = list[tuple[IPv4Network | IPv6Network, str]]


def _networks(table: dict[str, str]) -> _Networks:
    return [(ip_network(written), reason) for written, reason in table.items()]


# Not even the operator's trust opens these: who reaches them may speak as the machine itself.
_NEVER = _networks(
    {
        "169.254.0.0/16": _LINK_LOCAL,
        "fe80::/10": _LINK_LOCAL,
        "100.100.100.200/32": _METADATA,
        "168.63.129.16/32": _METADATA,
        "192.0.0.192/32": _METADATA,
        "fd00:ec2::254/128": _METADATA,
        "fd20:ce::254/128": _METADATA,
    }
)
_NOT_PUBLIC = _NEVER + _networks(
    {
        "0.0.0.0/8": "an unspecified address",
        "10.0.0.0/8": _PRIVATE,
        "100.64.0.0/10": _PRIVATE,
        "127.0.0.0/8": "a loopback address",
        "172.16.0.0/12": _PRIVATE,
        "192.0.0.0/24": _RESERVED,
        "192.0.2.0/24": _RESERVED,
        "192.88.99.0/24": _TRANSLATED,
        "192.168.0.0/16": _PRIVATE,
        "198.18.0.0/15": _PRIVATE,
        "198.51.100.0/24": _RESERVED,
        "203.0.113.0/24": _RESERVED,
        "224.0.0.0/4": "a multicast address",
        "240.0.0.0/4": _RESERVED,
        "::/128": "an unspecified address",
        "::1/128": "a loopback address",
        "::/96": _TRANSLATED,
        "64:ff9b::/96": _TRANSLATED,
        "64:ff9b:1::/48": _TRANSLATED,
        "2001::/32": _TRANSLATED,
        "2001::/23": _RESERVED,
        "2001:db8::/32": _RESERVED,
        "2002::/16": _TRANSLATED,
        "3fff::/20": _RESERVED,
        "fc00::/7": _PRIVATE,
        "fec0::/10": _PRIVATE,
        "ff00::/8": "a multicast address",
    }
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_ENDS_IN_V4 = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"), _LOCAL_NAT64)


def forbidden(address: str | IPv4Address | IPv6Address, *, trusted: bool = False) -> str | None:
    """Why nothing is sent to this address, or None; the operator's trust opens all but link-local and metadata."""
    try:
        found = ip_address(address.partition("%")[0]) if isinstance(address, str) else address
    except ValueError:
        return "no address"
    networks = _NEVER if trusted else _NOT_PUBLIC
    if isinstance(found, IPv4Address):
        return _reason(found, networks)
    if found.ipv4_mapped is not None:
        return _reason(found.ipv4_mapped, networks)
    reason = _reason(found, networks)
    if reason is None and trusted and any(_reason(inner, _NEVER) for inner in _embedded(found)):
        return _TRANSLATED
    return _RESERVED if reason is None and not trusted and found not in _PUBLIC_V6 else reason


def _reason(address: IPv4Address | IPv6Address, networks: _Networks) -> str | None:
    return next((reason for network, reason in networks if address in network), None)


def _embedded(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that a translator on the way could make of this one."""
    found = [IPv4Address(int(address) & 0xFFFFFFFF)] if any(address in network for network in _ENDS_IN_V4) else []
    if address in _LOCAL_NAT64:
        # RFC 6052 leaves out bits 64 to 71 when the prefix has 48.
        found.append(IPv4Address((int(address) >> 64 & 0xFFFF) << 16 | int(address) >> 40 & 0xFFFF))
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    return found
