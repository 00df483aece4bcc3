"""The log driver `splunk`: its options, and what each event says of its container.

Pure; used by the daemon's request threads. `engine.logs.drivers.splunksender` sends the events. The checks and their
words are dockerd's, as are the variables of the daemon's environment that bound what waits.
"""

import os

from engine.asking import addressing
from engine.errors import Invalid
from engine.literals import boolean, duration, integer
from engine.logs import attributes
from engine.logs.drivers import cached, gojson
from engine.logs.target import Config, LogTarget, Place

_PREFIX = "splunk-"
_OWN = (
    *("url", "token", "source", "sourcetype", "index", "capath", "caname", "insecureskipverify", "format"),
    *("verify-connection", "gzip", "gzip-level", "index-acknowledgment"),
)
OPTIONS = attributes.OPTIONS | {_PREFIX + name for name in _OWN}
UNKNOWN = "unknown log opt '%s' for splunk log driver"
DEFAULT_TAG = "{{.ID}}"
_FORMATS = ("inline", "json", "raw")
_LOWEST, _HIGHEST = -1, 9  # levels of compression
_PATH = "/services/collector/event/1.0"
_PORTS = {"http": "80", "https": "443"}
_VARIABLE = "SPLUNK_LOGGING_DRIVER_"
_SECOND = 10**9
# Variable of the environment → its default: seconds between two posts, events of a post, events that may wait for
# another attempt, events that may wait at all.
_EVERY, _BATCH, _MOST, _QUEUE = ("POST_MESSAGES_FREQUENCY", "POST_MESSAGES_BATCH_SIZE", "BUFFER_MAX", "CHANNEL_SIZE")
_DEFAULTS = {_EVERY: 5 * _SECOND, _BATCH: 1000, _MOST: 10_000, _QUEUE: 4000}
_LARGEST = 1_000_000  # events


def check(_config: Config) -> None:
    """Create looks at none of its values, as in dockerd."""


def target(config: Config, described: attributes.Described, place: Place) -> LogTarget:
    """The server, and the log kept beside. Raises Invalid in dockerd's words."""
    return cached.target("splunk", forward(config, described), config, described, place)


form, file, details = cached.form, cached.file, cached.details


def forward(config: Config, described: attributes.Described) -> dict[str, str]:
    """What a `Sender` is made from. Raises Invalid for a value that a start refuses."""

    def given(name: str) -> str:
        return config.get(_PREFIX + name, "")

    url = _url(config)
    if f"{_PREFIX}token" not in config:
        raise Invalid("splunk: splunk-token is expected")
    level = -1
    if f"{_PREFIX}gzip-level" in config:
        level = integer(given("gzip-level"), -(2**31), 2**31 - 1, reader="strconv.ParseInt")
        if not _LOWEST <= level <= _HIGHEST:
            raise Invalid(
                f"not supported level '{given('gzip-level')}' for splunk-gzip-level"
                f" (supported values between {_LOWEST} and {_HIGHEST})"
            )
    form = config.get(f"{_PREFIX}format", "inline")
    if form not in _FORMATS:
        raise Invalid(f"unknown format specified {form}, supported formats are inline, json and raw")
    # An option that is empty takes the tag away.
    tag = "" if config.get("tag") == "" else attributes.tag(config.get("tag") or DEFAULT_TAG, described)
    return {
        "scheme": url.scheme,
        "place": addressing.joined(addressing.ascii_host(url.host), url.port or _PORTS[url.scheme]),
        "host": url.place if url.port else url.host,
        "path": _PATH,
        "token": given("token"),
        "told": gojson.packed(
            {name: given(name) for name in ("source", "sourcetype", "index") if given(name)}
        ).decode(),
        "authority": given("capath"),
        "name": given("caname"),
        "unchecked": _flag(config, "insecureskipverify"),
        "gzip": _flag(config, "gzip"),
        "level": str(level),
        "channel": _flag(config, "index-acknowledgment"),
        "verify": _flag(config, "verify-connection", "true"),
        "form": form,
        "tag": tag,
        "attributes": gojson.packed(attributes.extra(config, described)).decode(),
        "every": str(_wait()),
        "batch": str(_count(_BATCH)),
        "most": str(_count(_MOST)),
        "queue": str(_count(_QUEUE)),
    }


def _flag(config: Config, name: str, default: str = "") -> str:
    text = config.get(_PREFIX + name)
    return default if text is None else "true" if boolean(text) else ""


def _url(config: Config) -> addressing.Url:
    text = config.get(f"{_PREFIX}url")
    if text is None:
        raise Invalid("splunk: splunk-url is expected")
    try:
        url = addressing.parsed(text)
    except Invalid as error:
        raise Invalid(f"splunk: failed to parse {text} as url value in splunk-url") from error
    if url.scheme not in _PORTS or url.rest not in ("", "/"):
        raise Invalid("splunk: expected format scheme://dns_name_or_ip:port for splunk-url")
    return url


def _count(name: str) -> int:
    """A number of the environment; the default for one that makes no sense, as in dockerd."""
    try:
        return integer(os.environ.get(_VARIABLE + name, ""), 1, _LARGEST)
    except Invalid:
        return _DEFAULTS[name]


def _wait() -> int:
    """Nanoseconds between two posts."""
    try:
        return max(duration(os.environ.get(_VARIABLE + _EVERY, "")), _SECOND // 100)
    except Invalid:
        return _DEFAULTS[_EVERY]
