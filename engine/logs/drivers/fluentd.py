"""The log driver `fluentd`: its options, and what each record says of its container.

Pure; used by the daemon's request threads. `engine.logs.drivers.fluentsender` sends the records. The checks and their
words are dockerd's.
"""

from engine.asking import addressing
from engine.errors import Invalid
from engine.literals import boolean, duration, integer, quoted, size
from engine.logs import attributes
from engine.logs.drivers import cached, gojson
from engine.logs.target import Config, LogTarget, Place

_PREFIX = "fluentd-"
_OWN = (
    *("address", "async", "async-reconnect-interval", "buffer-limit", "max-retries", "request-ack", "retry-wait"),
    *("sub-second-precision", "write-timeout", "read-timeout"),
)
OPTIONS = attributes.OPTIONS | {_PREFIX + name for name in _OWN}
UNKNOWN = "unknown log opt '%s' for fluentd log driver"
DEFAULT_TAG = "{{.ID}}"
_HOST, _PORT = "127.0.0.1", "24224"
_LIMIT = 1 << 20  # lines that may wait
_RETRIES = (1 << 31) - 1
_MOST_RETRIES = (1 << 32) - 1
_MILLISECOND, _SECOND = 10**6, 10**9
_SHORTEST, _LONGEST = 100 * _MILLISECOND, 10 * _SECOND  # of async-reconnect-interval


def check(config: Config) -> None:
    """Raise Invalid for a value that create refuses, in dockerd's words."""
    _settings(config)


def target(config: Config, described: attributes.Described, place: Place) -> LogTarget:
    """The server, and the log kept beside. Raises Invalid in dockerd's words."""
    return cached.target("fluentd", forward(config, described), config, described, place)


form, file, details = cached.form, cached.file, cached.details


def forward(config: Config, described: attributes.Described) -> dict[str, str]:
    """What a `Sender` is made from. Raises Invalid for a tag or a pattern that makes no sense."""
    told = {"container_id": described.id, "container_name": f"/{described.name}"}
    return {
        **_settings(config),
        "tag": attributes.tag(config.get("tag") or DEFAULT_TAG, described),
        "record": gojson.packed(told | attributes.extra(config, described)).decode(),
    }


def _settings(config: Config) -> dict[str, str]:
    """The options by name without `fluentd-`, as texts that a `Sender` reads; times in ms. Raises Invalid."""

    def given(name: str) -> str:
        return config.get(_PREFIX + name, "")

    try:
        kind, place = _address(given("address"))
    except Invalid as error:
        raise Invalid(f"invalid fluentd-address ({given('address')}): {error}") from error
    limit = size(given("buffer-limit"), 1024) if given("buffer-limit") else _LIMIT
    wait = duration(given("retry-wait")) // _MILLISECOND if given("retry-wait") else 1000
    retries = _RETRIES
    if given("max-retries"):
        retries = integer(given("max-retries"), 0, _MOST_RETRIES, reader="strconv.ParseUint")
        if retries > _RETRIES:
            raise Invalid("invalid fluentd-max-retries: value out of range")
    return {
        "kind": kind,
        "place": place,
        "limit": str(limit),
        "wait": str(max(wait, 0)),
        "retries": str(retries),
        "async": _flag(given("async")),
        "renew": str(_interval(given("async-reconnect-interval"))),
        "precise": _flag(given("sub-second-precision")),
        "acknowledged": _flag(given("request-ack")),
        "write": str(_timeout("write-timeout", given("write-timeout"))),
        "read": str(_timeout("read-timeout", given("read-timeout"))),
    }


def _flag(text: str) -> str:
    return "true" if text and boolean(text) else ""


def _interval(text: str) -> int:
    if not text:
        return 0
    name = f"{_PREFIX}async-reconnect-interval"
    try:
        value = duration(text)
    except Invalid as error:
        raise Invalid(f"invalid value for {name}: {error}") from error
    if value and not _SHORTEST <= value <= _LONGEST:
        raise Invalid(f"invalid value for {name}: value ({quoted(text)}) must be between 100ms and 10s")
    return value // _MILLISECOND


def _timeout(name: str, text: str) -> int:
    if not text:
        return 0
    refused = f"invalid value for {_PREFIX}{name}: value must be a duration"
    try:
        value = duration(text)
    except Invalid as error:
        raise Invalid(f"{refused}: {error}") from error
    if value < 0:
        raise Invalid(f"{refused} that is non-negative")
    return -(-value // _MILLISECOND)


def _address(text: str) -> tuple[str, str]:
    """(tcp, tls or unix; HOST:PORT or the path of a socket). Raises Invalid."""
    if not text:
        return "tcp", addressing.joined(_HOST, _PORT)
    url = addressing.parsed(text if "://" in text else f"tcp://{text}")
    if url.scheme == "unix":
        path = (f"{url.host}{url.rest}" if url.host else url.rest).partition("?")[0].partition("#")[0]
        if not path.lstrip("/"):
            raise Invalid("path is empty")
        return "unix", path
    if url.scheme not in ("tcp", "tls"):
        raise Invalid(f"unsupported scheme: '{url.scheme}'")
    if url.rest.partition("?")[0].partition("#")[0]:
        raise Invalid("should not contain a path element")
    try:
        port = addressing.port_of(url.port) if url.port else int(_PORT)
    except Invalid as error:
        raise Invalid(f"invalid port: {error}") from error
    return url.scheme, addressing.joined(addressing.ascii_host(url.host) or _HOST, port)
