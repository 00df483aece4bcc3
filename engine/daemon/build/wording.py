"""The `created_by` text that each instruction leaves in an image's history, as the classic builder writes it.

Pure. The texts use Go's formats of lists and structs, because other programs have come to parse them.
"""

import json
from collections.abc import Sequence

from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.commands import Command
from engine.daemon.jsontext import Object

SHELL = ("/bin/sh", "-c")
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))
_SECOND = 1_000_000_000
_TIMES = ("Interval", "Timeout", "StartPeriod", "StartInterval")


def nothing_run(config: Object, *text: str) -> list[str]:
    """The words that stand for the command of a step that runs none; with spaces between them, its line of history."""
    return [*(config.get("Shell") or SHELL), *text]


def of(command: Command, config: Object) -> str:
    """The text of an instruction that changes only the config. config: as it is after the change"""
    match command:
        case commands.Env():
            return _pairs("ENV", command.pairs)
        case commands.Label():
            return _pairs("LABEL", command.pairs)
        case commands.Arg():
            return _pairs("ARG", command.pairs)
        case commands.Maintainer():
            return f"MAINTAINER {command.name}"
        case commands.Onbuild():
            return f"ONBUILD {command.text}"
        case commands.Cmd():
            return f"CMD {quoted(config.get('Cmd'))}"
        case commands.Entrypoint():
            return f"ENTRYPOINT {quoted(config.get('Entrypoint'))}"
        case commands.Healthcheck():
            return f"HEALTHCHECK &{health(config)}"
        case commands.Expose():
            return " ".join(("EXPOSE", *sorted(command.ports)))
        case commands.User():
            return f"USER {command.user}"
        case commands.Volume():
            return f"VOLUME {plain(command.paths)}"
        case commands.Stopsignal():
            return f"STOPSIGNAL {command.signal}"
        case commands.Shell():
            return f"SHELL {plain(command.argv)}"
        case commands.Workdir():
            return f"WORKDIR {config.get('WorkingDir')}"
        case _:
            raise TypeError(f"{type(command).__name__} changes more than a config")


def quoted(texts: Sequence[str] | None) -> str:
    """A list of strings as Go's %q prints it."""
    return "[" + " ".join(json.dumps(text, ensure_ascii=False) for text in texts or ()) + "]"


def plain(texts: Sequence[str]) -> str:
    """A list of strings as Go's %v prints it."""
    return "[" + " ".join(texts) + "]"


def _pairs(keyword: str, pairs: Sequence[tuple[str, str | None]]) -> str:
    return " ".join([keyword, *(name if value is None else f"{name}={value}" for name, value in pairs)])


def health(config: Object) -> str:
    """A config's health check as Go's %+v prints it."""
    check = config.get("Healthcheck") or {}
    times = (
        f"{key}:{duration(check.get(key) or 0)}" for key in ("Interval", "Timeout", "StartPeriod", "StartInterval")
    )
    return f"{{Test:{plain(check.get('Test') or ())} {' '.join(times)} Retries:{check.get('Retries') or 0}}}"


def duration(nanoseconds: int) -> str:
    """A duration as Go's time.Duration prints it."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    if rest and not seconds:
        unit, name = (1_000_000, "ms") if rest >= 1_000_000 else (1_000, "µs") if rest >= 1_000 else (1, "ns")
        return f"{rest / unit:g}{name}"
    parts, begun = [], False
    for size, name in _UNITS:
        count, seconds = divmod(seconds, size)
        begun = begun or bool(count) or name == "s"
        if begun:
            fraction = f"{rest / _SECOND:.9f}".rstrip("0")[1:] if name == "s" and rest else ""
            parts.append(f"{count}{fraction}{name}")
    return "".join(parts)
