"""Declares what the daemon tells of itself: its version, log, labels, resources, features and oldest API version.

Pure. Names, keys and words are dockerd's.
"""

import json
from collections.abc import Callable, Iterable

from engine.commandline import Option, Value
from engine.errors import Invalid
from engine.literals import LAST_PORT, boolean, natural
from engine.regex import regex

VERSION = "0.1.0"
"""The engine's own version."""
# The last release of dockerd whose newest API is the one that this engine speaks (29.3 to 29.5 speak 1.54, 29.6 speaks
# 1.55). Clients that ask for a version of docker compare this one with theirs, so it promises no newer API.
_DOCKERD = "29.5.3"
REPORTED_VERSION = f"{_DOCKERD}+engine{VERSION}"
"""What clients are told as the version of the daemon unless the settings say otherwise."""
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
LOG_FORMATS = ("text", "json", "logfmt")
_OTHER_LEVELS = {"trace": "debug", "panic": "fatal"}
_RESERVED = ("com.docker.", "io.docker.", "org.dockerproject.")
# What is so without a word, or by `buildkit` alone.
_KNOWN_FEATURES = frozenset({"buildkit=true", "buildkit=false", "containerd-snapshotter=true", "cdi=true", "cdi=false"})
_OLDEST_API, _NEWEST_API = (1, 24), (1, 54)
_VERSION = regex(r"[0-9][0-9A-Za-z.+~-]{0,63}")


def _log_level(text: str) -> str:
    level = _OTHER_LEVELS.get(text.lower(), text.lower())
    if level not in LOG_LEVELS:
        raise Invalid(f"invalid logging level: {text}: give one of {', '.join(LOG_LEVELS)}")
    return level


def _log_format(text: str) -> str:
    if text not in LOG_FORMATS:
        raise Invalid(f"invalid log format: {text}")
    return text


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise Invalid(f"invalid version: {text}: give one like {REPORTED_VERSION}")
    return text


def _label(text: str) -> str:
    if "=" not in text:
        raise Invalid(f"bad attribute format: {text}")
    if text.lower().startswith(_RESERVED):
        raise Invalid(
            f"label {text} is not allowed: the namespaces com.docker.*, io.docker.*, and org.dockerproject.* are"
            " reserved for internal use"
        )
    return text


def check_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels without repetitions. Raises Invalid for one name with two values."""
    found: dict[str, str] = {}
    for label in labels:
        name, _, value = label.partition("=")
        if found.get(name, value) != value:
            raise Invalid(f"conflict labels for {name}={value} and {name}={found[name]}")
        found[name] = value
    return tuple(f"{name}={value}" for name, value in found.items())


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if text and (not colon or natural(port, LAST_PORT) is None or (":" in host) != host.startswith("[")):
        raise Invalid(f"error parsing tcp address: {text}: give HOST:PORT")
    return text


def _resource(text: str) -> str:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise Invalid(f"invalid node-generic-resource format `{text}` expected `name=value`")
    return text


def _feature(text: str) -> str:
    name, equals, value = text.partition("=")
    if not name:
        raise Invalid(f"invalid option name: {text}")
    return f"{name}={'true' if not equals or boolean(value) else 'false'}"


def notes_on(features: Iterable[str]) -> tuple[str, ...]:
    """The lines that the daemon is to log about features that change nothing here."""
    return tuple(
        f"--feature {each} has no effect: this engine does not have that feature, or has it always"
        for each in features
        if each not in _KNOWN_FEATURES
    )


def has_feature(features: Iterable[str], name: str, default: bool) -> bool:
    """Whether a feature is switched on; the last one given counts."""
    given = [each.endswith("=true") for each in features if each.partition("=")[0] == name]
    return given[-1] if given else default


def _features_of_file(value: object) -> tuple[str, ...]:
    """Features from daemon.json, which has an object: {"buildkit": true}."""
    if not isinstance(value, dict) or not all(isinstance(each, bool) for each in value.values()):
        raise Invalid(f"expected an object of true and false, got {json.dumps(value)}")
    return tuple(f"{name}={'true' if each else 'false'}" for name, each in value.items())


def _oldest(text: str) -> str:
    major, _, minor = text.partition(".")
    numbers = natural(major, 99), natural(minor, 999)
    if text[:1].lower() == "v":
        raise Invalid('API version must be provided without "v" prefix')
    if None in numbers:
        raise Invalid(f"invalid API version: {text}")
    if numbers < _OLDEST_API:
        raise Invalid(f"minimum supported API version is {_shown(_OLDEST_API)}: {text}")
    if numbers > _NEWEST_API:
        raise Invalid(f"maximum supported API version is {_shown(_NEWEST_API)}: {text}")
    return text


def _shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


OPTIONS = (
    Option("debug", "Log everything, as --log-level debug does", short="D", kind="flag", default=False, key="debug"),
    Option(
        "log-level",
        f"Least level to log: {', '.join(LOG_LEVELS)}",
        short="l",
        check=_log_level,
        default="info",
        value="level",
        key="log-level",
    ),
    Option(
        "log-format",
        f"Form of the log's lines: {', '.join(LOG_FORMATS)}; logfmt is dockerd's text, and what text is under its name",
        check=_log_format,
        default="text",
        value="format",
        key="log-format",
    ),
    Option(
        "report-version",
        "Version of docker that clients are told; the engine's own stays the first of the components",
        check=_version,
        default=REPORTED_VERSION,
        value="version",
        key="report-version",
    ),
    Option(
        "label",
        "Label NAME=VALUE of the daemon, shown by info; repeatable",
        kind="list",
        check=_label,
        default=(),
        value="label",
        key="labels",
    ),
    Option(
        "node-generic-resource",
        "Resource NAME=VALUE of the host, shown by info; repeatable",
        kind="list",
        check=_resource,
        default=(),
        value="resource",
        key="node-generic-resources",
    ),
    Option(
        "metrics-addr",
        "HOST:PORT at which GET /metrics tells in Prometheus's form what the daemon does, to everybody who asks",
        check=_address,
        value="address",
        key="metrics-addr",
    ),
    Option(
        "experimental",
        "Tell clients that the daemon has experimental features; it has the same ones without",
        kind="flag",
        default=False,
        key="experimental",
    ),
    Option(
        "feature",
        "NAME[=false]: buildkit=false has old clients build by the classic builder, cdi=false gives no CDI devices;"
        " repeatable",
        kind="list",
        check=_feature,
        default=(),
        value="feature",
        key="features",
    ),
)
FILE_ONLY = (
    Option(
        "min-api-version",
        "Oldest version of the API that a client may speak; DOCKER_MIN_API_VERSION in the environment counts more",
        check=_oldest,
        default=_shown(_OLDEST_API),
        value="version",
        key="min-api-version",
    ),
)
"""What only the configuration file may say, as with dockerd."""
FILE_READERS: dict[str, Callable[[object], Value]] = {"features": _features_of_file}


def oldest_by_variable(text: str) -> str:
    """The API version that DOCKER_MIN_API_VERSION names. Raises Invalid."""
    try:
        return _oldest(text)
    except Invalid as error:
        raise Invalid(f"invalid DOCKER_MIN_API_VERSION: {error}") from error
