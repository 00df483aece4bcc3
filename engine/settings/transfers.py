"""Declares the daemon's options about registries and proxies: which to trust, how to reach them, how many at once.

Pure. Names, keys and rules are dockerd's.
"""

from collections.abc import Callable

from engine.commandline import Option
from engine.errors import Invalid
from engine.literals import integer


def _mirror(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    place = rest.partition("/")[0]
    if not separator or not place:
        raise Invalid(f'invalid mirror: "{text}" is not a valid URI')
    if scheme not in ("http", "https"):
        raise Invalid(f'invalid mirror: unsupported scheme "{scheme}" in "{text}"')
    if "@" in place:
        raise Invalid("invalid mirror: username/password not allowed in URI")
    if "?" in rest or "#" in rest:
        raise Invalid(f'invalid mirror: query or fragment at end of the URI "{text}"')
    return text.rstrip("/") + "/"


def _insecure_registry(text: str) -> str:
    for scheme in ("http://", "https://"):
        text = text.removeprefix(scheme)
    if not text or "://" in text or text[0] == "-" or text[-1] == "-":
        raise Invalid(f"insecure registry {text} is not valid: give host, host:port or a CIDR")
    return text


def _count(what: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if integer(text, reader="strconv.ParseInt") < 0:
            raise Invalid(f"invalid {what}: {text}")
        return text

    return check


def _number(name: str, help_: str, default: int) -> Option:
    return Option(
        name, help_, kind="number", check=_count(name.replace("-", " ")), default=default, value="number", key=name
    )


def _proxy(name: str, help_: str, value: str) -> Option:
    return Option(name, help_, value=value, key=f"proxies.{name}")


OPTIONS = (
    Option(
        "registry-mirror",
        "URL of a mirror of docker.io to ask first; repeatable",
        kind="list",
        check=_mirror,
        default=(),
        value="url",
        key="registry-mirrors",
    ),
    Option(
        "insecure-registry",
        "Registry (host, host:port, CIDR) to trust without TLS or with any certificate; repeatable",
        kind="list",
        check=_insecure_registry,
        default=(),
        value="registry",
        key="insecure-registries",
    ),
    _number("max-concurrent-downloads", "Layers that are downloaded at once, of all pulls", 3),
    _number("max-concurrent-uploads", "Layers that are uploaded at once, of all pushes", 5),
    _number("max-download-attempts", "How often the download of a layer is tried that breaks off", 5),
    _proxy("http-proxy", "Proxy for http:// requests, before HTTP_PROXY of the environment", "url"),
    _proxy("https-proxy", "Proxy for https:// requests, before HTTPS_PROXY of the environment", "url"),
    _proxy("no-proxy", "Hosts that are asked without a proxy, before NO_PROXY of the environment", "hosts"),
)
