"""Choosing the HTTP proxy for a request from the daemon's HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in Go's way.

Pure. Requests to a loopback address never use a proxy, whatever the variables say.
"""

import base64
import ipaddress
import urllib.parse
from collections.abc import Mapping

from engine.dataclass import dataclass
from engine.errors import Invalid


@dataclass(frozen=True, slots=True)
class Proxy:
    """The host and port of a proxy, and the header Proxy-Authorization to send it; empty for none."""

    host: str
    port: int
    authorization: str = ""


def variable(environment: Mapping[str, str], name: str) -> str:
    """The value of an environment variable in capitals, such as HTTP_PROXY, or else in lower case; empty for none."""
    return environment.get(name) or environment.get(name.lower()) or ""


def proxy_for(scheme: str, host: str, port: int, environment: Mapping[str, str]) -> Proxy | None:
    """The proxy for requests to that origin, None for none. Raises Invalid for a proxy that cannot be used."""
    text = variable(environment, f"{scheme.upper()}_PROXY")
    if not text or _is_direct(host.lower().rstrip("."), port, variable(environment, "NO_PROXY")):
        return None
    parts = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
    try:
        found = parts.hostname, parts.port or 80
    except ValueError:
        found = None, 0
    if parts.scheme != "http" or not found[0]:
        # The message leaves the proxy's credentials out, because it may be logged.
        raise Invalid(f"unsupported proxy {parts.scheme}://{found[0] or ''}: this engine knows http:// proxies only")
    authorization = ""
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(found[0], found[1], authorization)


def _is_direct(host: str, port: int, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_fits(one.strip().lower(), host, port, address) for one in exceptions.split(",") if one.strip())


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _fits(one: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """Whether an entry of NO_PROXY matches: `*`, a network, an address or a domain with subdomains; maybe a port."""
    if one == "*":
        return True
    if "/" in one:
        try:
            return address is not None and address in ipaddress.ip_network(one, strict=False)
        except ValueError:
            return False
    name, wanted = one, ""
    if one.startswith("[") or one.count(":") == 1:
        name, _, wanted = one.rpartition(":") if not one.endswith("]") else (one, "", "")
        name = name.strip("[]")
    if wanted and wanted != str(port):
        return False
    if address is not None:
        return _address(name) == address
    # `.example.com` and `*.example.com` match the subdomains only.
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")
