"""The log driver `gelf`: its options, and what each message says of its container (Graylog Extended Log Format 1.1).

Pure; used by the daemon's request threads. `engine.logs.drivers.gelfsender` sends the messages. The checks and their
words are dockerd's.
"""

from engine.asking import addressing
from engine.errors import Invalid
from engine.literals import INT64, integer, quoted
from engine.logs import attributes
from engine.logs.drivers import cached, gojson
from engine.logs.jsonwriter import rfc3339_nano
from engine.logs.target import Config, LogTarget, Place

_COMPRESSIONS = ("gzip", "zlib", "none")
_LOWEST, _HIGHEST = -1, 9  # levels of compression
_ONLY_TCP = ("gelf-tcp-max-reconnect", "gelf-tcp-reconnect-delay")
_MOST_ATTEMPTS = 1 << 31
OPTIONS = attributes.OPTIONS | {"gelf-address", "gelf-compression-type", "gelf-compression-level", *_ONLY_TCP}
UNKNOWN = 'unknown log opt "%s" for gelf log driver'
DEFAULT_TAG = "{{.ID}}"


def check(config: Config) -> None:
    """Raise Invalid for a value that create refuses, in dockerd's words."""
    address = _address(config.get("gelf-address", ""))
    for option in ("gelf-compression-level", "gelf-compression-type"):
        if option not in config:
            continue
        if address.scheme != "udp":
            raise Invalid("compression is only supported on UDP")
        given = config[option]
        if not (given in _COMPRESSIONS if option.endswith("type") else _is_level(given)):
            raise Invalid(f"unknown value {quoted(given)} for log opt {quoted(option)} for gelf log driver")
    for option in _ONLY_TCP:
        if option not in config:
            continue
        if address.scheme != "tcp":
            raise Invalid(f"{quoted(option)} is only valid for TCP")
        try:
            integer(config[option], 0)
        except Invalid as error:
            raise Invalid(f"{quoted(option)} must be a positive integer") from error


def target(config: Config, described: attributes.Described, place: Place) -> LogTarget:
    """The server, and the log kept beside. Raises Invalid in dockerd's words."""
    return cached.target("gelf", forward(config, described), config, described, place)


form, file, details = cached.form, cached.file, cached.details


def forward(config: Config, described: attributes.Described) -> dict[str, str]:
    """What a `Sender` is made from. Raises Invalid for a tag or a pattern that makes no sense."""
    address = _address(config.get("gelf-address", ""))
    told = {
        "_command": described.command,
        "_container_id": described.id,
        "_container_name": described.name,
        "_created": rfc3339_nano(described.created_ns).decode(),
        "_image_id": described.image_id,
        "_image_name": described.image,
        "_tag": attributes.tag(config.get("tag") or DEFAULT_TAG, described),
    }
    for name, value in attributes.extra(config, described).items():
        told[name if name.startswith("_") else "_" + name] = value
    return {
        "kind": address.scheme,
        "place": addressing.joined(addressing.ascii_host(address.host), address.port),
        "compression": config.get("gelf-compression-type", "gzip"),
        "level": str(integer(config.get("gelf-compression-level", "1"), *INT64)),
        "attempts": str(min(integer(config.get("gelf-tcp-max-reconnect", "3"), 0), _MOST_ATTEMPTS)),
        "delay": str(min(integer(config.get("gelf-tcp-reconnect-delay", "1"), 0), _MOST_ATTEMPTS)),
        "extra": gojson.packed(told)[1:-1].decode(),
    }


def _is_level(text: str) -> bool:
    try:
        integer(text, _LOWEST, _HIGHEST)
    except Invalid:
        return False
    return True


def _address(text: str) -> addressing.Url:
    if not text:
        raise Invalid("gelf-address is a required parameter")
    address = addressing.parsed(text)
    if address.scheme not in ("udp", "tcp"):
        raise Invalid("gelf: endpoint needs to be TCP or UDP")
    if not address.port:
        raise Invalid("gelf: please provide gelf-address as proto://host:port")
    return address
