"""What each instruction leaves in an image's history, as the classic builder writes it.

Pure. Go's formats of lists and structs are part of what others have come to read there.
"""

import json
from collections.abc import Sequence

from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.commands import Command

SHELL = ("/bin/sh", "-c")
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))
_SECOND = 1_000_000_000


def nothing_run(config: dict, text: str, gap: str = " ") -> str:
    """The line of history of a step that runs nothing."""
    return " ".join(config.get("Shell") or SHELL) + f" #(nop) {gap}{text}"


def of(command: Command, config: dict) -> str:
    """The text of an instruction that only changes the config; config: as it is after the change."""
    return _TEXTS[type(command)](command, config)


def quoted(texts: Sequence[str] | None) -> str:
    """A list as Go's %q."""
    return "[" + " ".join(json.dumps(text, ensure_ascii=False) for text in texts or ()) + "]"


def plain(texts: Sequence[str]) -> str:
    """A list as Go's %v."""
    return "[" + " ".join(texts) + "]"


def _pairs(keyword: str, pairs: Sequence[tuple[str, str | None]]) -> str:
    return " ".join([keyword, *(name if value is None else f"{name}={value}" for name, value in pairs)])


def _health(_command: commands.Healthcheck, config: dict) -> str:
    health = config.get("Healthcheck") or {}
    times = " ".join(
        f'"{_duration(health.get(key) or 0)}"' for key in ("Interval", "Timeout", "StartPeriod", "StartInterval")
    )
    retries = health.get("Retries") or 0
    return f"HEALTHCHECK &{{{quoted(health.get('Test'))} {times} '{_rune(retries)}'}}"


def _rune(number: int) -> str:
    """A number as Go's %q has it: the character of that number."""
    if 0x20 <= number < 0x7F:
        return f"\\{chr(number)}" if chr(number) in "'\\" else chr(number)
    escapes = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}
    if number in escapes:
        return escapes[number]
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number & 0xFFFF:04x}"


def _duration(nanoseconds: int) -> str:
    """Go's time.Duration of whole seconds; below that with its fraction."""
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


_TEXTS = {
    commands.Env: lambda command, _: _pairs("ENV", command.pairs),
    commands.Label: lambda command, _: _pairs("LABEL", command.pairs),
    commands.Arg: lambda command, _: _pairs("ARG", command.pairs),
    commands.Maintainer: lambda command, _: f"MAINTAINER {command.name}",
    commands.Onbuild: lambda command, _: f"ONBUILD {command.text}",
    commands.Cmd: lambda _, config: f"CMD {quoted(config.get('Cmd'))}",
    commands.Entrypoint: lambda _, config: f"ENTRYPOINT {quoted(config.get('Entrypoint'))}",
    commands.Healthcheck: _health,
    commands.Expose: lambda command, _: " ".join(("EXPOSE", *sorted(command.ports))),
    commands.User: lambda command, _: f"USER {command.user}",
    commands.Volume: lambda command, _: f"VOLUME {plain(command.paths)}",
    commands.Stopsignal: lambda command, _: f"STOPSIGNAL {command.signal}",
    commands.Shell: lambda command, _: f"SHELL {plain(command.argv)}",
    commands.Workdir: lambda _, config: f"WORKDIR {config.get('WorkingDir')}",
}
CONFIG_ONLY = frozenset(_TEXTS) - {commands.Workdir}
"""The kinds of instruction that a config's change is all of."""
