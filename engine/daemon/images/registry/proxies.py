"""Which proxy a request goes by, if any: the daemon's HTTP_PROXY, HTTPS_PROXY and NO_PROXY, read as Go reads them.

Pure. A registry on a loopback address is never asked by way of a proxy, whatever the variables say.
"""

import base64
import ipaddress
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import Invalid


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where a proxy listens, and the Proxy-Authorization that it is sent; empty for none."""

    host: str
    port: int
    authorization: str = ""


def variable(environment: Mapping[str, str], name: str) -> str:
    """HTTP_PROXY or http_proxy, the capitals first."""
    return environment.get(name) or environment.get(name.lower()) or ""


def proxy_for(scheme: str, host: str, port: int, environment: Mapping[str, str]) -> Proxy | None:
    """The proxy for requests to that origin. Raises Invalid for one that cannot be used."""
    text = variable(environment, f"{scheme.upper()}_PROXY")
    if not text or _is_direct(host.lower().rstrip("."), port, variable(environment, "NO_PROXY")):
        return None
    parts = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
    try:
        found = parts.hostname, parts.port or 80
    except ValueError:
        found = None, 0
    if parts.scheme != "http" or not found[0]:
        # Its credentials are not for a log.
        raise Invalid(f"unsupported proxy {parts.scheme}://{found[0] or ''}: this engine knows http:// proxies only")
    authorization = ""
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(found[0], found[1], authorization)


def shown(text: str) -> str:
    """A proxy's URL as `docker info` shows it: without its credentials."""
    before, mark, after = text.rpartition("@")
    scheme = before.partition("://")[0] + "://" if "://" in before else ""
    return f"{scheme}xxxxx:xxxxx@{after}" if mark else text


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
    """One entry of NO_PROXY: `*`, a network, an address, or a domain with its subdomains; either with a port or not."""
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
    # `.example.com` and `*.example.com` are the subdomains alone.
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")
