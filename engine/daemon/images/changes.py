"""The `changes` of import and commit: single Dockerfile instructions that alter an image's config.

Pure. Only the instructions that dockerd takes there; the whole Dockerfile grammar belongs to the build room.
"""

import copy
import re
import shlex
from collections.abc import Callable, Iterable

from engine.daemon import jsontext
from engine.errors import Invalid

_PORT = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?(?:/(tcp|udp|sctp))?")
_SHELL = ["/bin/sh", "-c"]


def apply(config: dict, changes: Iterable[str]) -> dict:
    """A copy of the container config (OCI image config's `config`) with each instruction applied, in order.

    Raises Invalid in dockerd's words.
    """
    changed = copy.deepcopy(config)
    for number, line in enumerate((text.strip() for change in changes for text in change.split("\n")), start=1):
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        instruction = INSTRUCTIONS.get(word.upper())
        if instruction is None:
            raise Invalid(f"{word.lower()} is not a valid change command")
        if not rest.strip() and word.upper() != "CMD":
            raise Invalid(f"dockerfile parse error on line {number}: {word.upper()} requires at least one argument")
        instruction(changed, rest.strip())
    return changed


def _words(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise Invalid(f"Syntax error - can't parse {rest!r}: {error}") from error


def _json_list(rest: str) -> list[str] | None:
    """The texts of an exec form; None when it is no such form."""
    try:
        values = jsontext.parse(rest, "exec form") if rest.startswith("[") else None
    except Invalid:
        return None
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else None


def _command(rest: str) -> list[str]:
    exec_form = _json_list(rest)
    return [*_SHELL, rest] if exec_form is None else exec_form


def _pairs(rest: str, instruction: str) -> list[tuple[str, str]]:
    """`k=v k2="v 2"`, or the old form `k the whole rest`."""
    first, blank, whole = rest.partition(" ")
    if "=" not in first:
        if not blank:
            raise Invalid(f"{instruction} must have two arguments")
        return [(first, whole.strip())]
    pairs = [word.partition("=") for word in _words(rest)]
    if not all(equals for _, equals, _ in pairs):
        raise Invalid(f"Syntax error - can't find = in {rest!r}. Must be of the form: name=value")
    if not all(key for key, _, _ in pairs):
        raise Invalid(f"{instruction} names can not be blank")
    return [(key, value) for key, _, value in pairs]


def _env(config: dict, rest: str) -> None:
    variables = dict(entry.partition("=")[::2] for entry in config.get("Env") or [])
    variables.update(_pairs(rest, "ENV"))
    config["Env"] = [f"{key}={value}" for key, value in variables.items()]


def _label(config: dict, rest: str) -> None:
    config["Labels"] = {**(config.get("Labels") or {}), **dict(_pairs(rest, "LABEL"))}


def _expose(config: dict, rest: str) -> None:
    ports = config.get("ExposedPorts") or {}
    for word in rest.split():
        match = _PORT.fullmatch(word.lower())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= first <= last <= 65535:
            raise Invalid(f"invalid containerPort: {word}")
        ports.update({f"{port}/{match[3] or 'tcp'}": {} for port in range(first, last + 1)})
    config["ExposedPorts"] = ports


def _volume(config: dict, rest: str) -> None:
    paths = _json_list(rest)
    config["Volumes"] = {**(config.get("Volumes") or {}), **{path: {} for path in paths or _words(rest)}}


def _workdir(config: dict, rest: str) -> None:
    path = "".join(_words(rest))
    before = config.get("WorkingDir") or "/"
    config["WorkingDir"] = path if path.startswith("/") else f"{before.rstrip('/')}/{path}"


def _onbuild(config: dict, rest: str) -> None:
    config["OnBuild"] = [*(config.get("OnBuild") or []), rest]


def _healthcheck(config: dict, rest: str) -> None:
    options, test = _health_options(rest)
    kind, _, command = test.partition(" ")
    if kind.upper() == "NONE":
        config["Healthcheck"] = {"Test": ["NONE"]}
        return
    if kind.upper() != "CMD" or not command.strip():
        raise Invalid(f'Unknown type "{kind.upper()}" in HEALTHCHECK (try CMD)')
    exec_form = _json_list(command.strip())
    words = ["CMD-SHELL", command.strip()] if exec_form is None else ["CMD", *exec_form]
    config["Healthcheck"] = {"Test": words, **options}


_HEALTH_OPTIONS = {
    "--interval": "Interval",
    "--timeout": "Timeout",
    "--start-period": "StartPeriod",
    "--start-interval": "StartInterval",
    "--retries": "Retries",
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_NANOSECONDS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6}


def _health_options(rest: str) -> tuple[dict[str, int], str]:
    options: dict[str, int] = {}
    while rest.startswith("--"):
        word, _, rest = rest.partition(" ")
        flag, _, value = word.partition("=")
        name = _HEALTH_OPTIONS.get(flag)
        if name is None:
            raise Invalid(f"unknown flag: {flag}")
        options[name] = _count(value) if name == "Retries" else _nanoseconds(value)
        rest = rest.strip()
    return options, rest


def _count(value: str) -> int:
    if not value.isdigit():
        raise Invalid(f"--retries must be a number, not {value!r}")
    return int(value)


def _nanoseconds(value: str) -> int:
    if not value or _DURATION.sub("", value):
        raise Invalid(f'time: invalid duration "{value}"')
    return int(sum(float(number) * _NANOSECONDS[unit] for number, unit in _DURATION.findall(value)))


def _setting(name: str, make: Callable[[str], object]) -> Callable[[dict, str], None]:
    def instruction(config: dict, rest: str) -> None:
        config[name] = make(rest)

    return instruction


INSTRUCTIONS: dict[str, Callable[[dict, str], None]] = {
    "CMD": _setting("Cmd", _command),
    "ENTRYPOINT": _setting("Entrypoint", _command),
    "ENV": _env,
    "EXPOSE": _expose,
    "HEALTHCHECK": _healthcheck,
    "LABEL": _label,
    "ONBUILD": _onbuild,
    "STOPSIGNAL": _setting("StopSignal", str),
    "USER": _setting("User", str),
    "VOLUME": _volume,
    "WORKDIR": _workdir,
}
