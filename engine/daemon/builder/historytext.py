"""The `created_by` text that each instruction leaves in an image's history, as the two builders write it.

Pure. The texts use Go's formats of lists and structs, because other programs have come to parse them.
"""

import json
from collections.abc import Sequence

from engine.daemon.builder.dialect import CLASSIC, Dialect
from engine.daemon.dockerfile import commands, configure
from engine.daemon.dockerfile.commands import Command
from engine.daemon.jsontext import Object
from engine.redact import redacted

COMMENT = "buildkit.dockerfile.v0"
"""The comment of each of BuildKit's entries."""
_MADE = " # buildkit"
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))
_SECOND = 1_000_000_000
_TIMES = ("Interval", "Timeout", "StartPeriod", "StartInterval")


def nothing_run(config: Object, *text: str) -> list[str]:
    """The words that stand for the command of a step that runs none; with spaces between them, its line of history."""
    return [*(config.get("Shell") or configure.SHELL), *text]


def run(shown: str, dialect: Dialect) -> str:
    """The text of a RUN. shown: its command with the build's arguments"""
    return shown if dialect.nops_shown else f"RUN {shown}{_MADE}"


def copy(command: commands.Copy | commands.Add) -> str:
    """The text of a COPY or an ADD by BuildKit; the classic builder's has a digest of what is copied."""
    flags = (
        ("--parents", isinstance(command, commands.Copy) and command.parents),
        (f"--chown={command.chown}", command.chown),
        (f"--chmod={command.chmod}", command.chmod),
    )
    documents = [f"<<{each.name}" for each in command.heredocs]
    words = [type(command).__name__.upper(), *(text for text, given in flags if given), *command.sources, *documents]
    return redacted(f"{' '.join(words)} {command.destination}{_MADE}")


def of(command: Command, config: Object, dialect: Dialect = CLASSIC) -> str:
    """The text of an instruction that makes no files, or only a directory. config: as it is after the change"""
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
            return f"CMD {_quoted(config.get('Cmd'))}"
        case commands.Entrypoint():
            return f"ENTRYPOINT {_quoted(config.get('Entrypoint'))}"
        case commands.Healthcheck():
            return f"HEALTHCHECK {'&' if dialect.nops_shown else ''}{_health(config)}"
        case commands.Expose():
            ports = " ".join(sorted(command.ports)) if dialect.nops_shown else plain([*configure.ports(command.ports)])
            return f"EXPOSE {ports}"
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


def _quoted(texts: Sequence[str] | None) -> str:
    """A list of strings as Go's %q prints it."""
    return "[" + " ".join(json.dumps(text, ensure_ascii=False) for text in texts or ()) + "]"


def plain(texts: Sequence[str]) -> str:
    """A list of strings as Go's %v prints it."""
    return "[" + " ".join(texts) + "]"


def _pairs(keyword: str, pairs: Sequence[tuple[str, str | None]]) -> str:
    return " ".join([keyword, *(name if value is None else f"{name}={value}" for name, value in pairs)])


def _health(config: Object) -> str:
    """A config's health check as Go's %+v prints it."""
    check = config.get("Healthcheck") or {}
    times = (f"{key}:{_duration(check.get(key) or 0)}" for key in _TIMES)
    return f"{{Test:{plain(check.get('Test') or ())} {' '.join(times)} Retries:{check.get('Retries') or 0}}}"


def _duration(nanoseconds: int) -> str:
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
