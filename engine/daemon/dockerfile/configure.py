"""Applies the instructions that only change an image's config (CMD, ENV, EXPOSE, ...) to that config.

Pure, except that it changes the given dict, the `config` of an OCI image config, in place.
"""

import posixpath
import re
from collections.abc import Iterator

from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.commands import Command
from engine.daemon.jsontext import Object
from engine.daemon.signals import check_stop_signal
from engine.errors import Invalid

SHELL = ("/bin/sh", "-c")
WINDOWS_SHELL = ("cmd", "/S", "/C")
"""What reads a text where no SHELL says otherwise."""

_PORT = re.compile(r"(?a:(?:.*:)?(\d{1,5})(?:-(\d{1,5}))?(?:/([a-z]+))?)", re.IGNORECASE)
_PROTOCOLS = ("tcp", "udp", "sctp")
_LAST_PORT = 65535
_LONGEST_PATH = 4096  # PATH_MAX of Linux
_HEALTH_TIMES = (
    ("Interval", "interval"),
    ("Timeout", "timeout"),
    ("StartPeriod", "start_period"),
    ("StartInterval", "start_interval"),
    ("Retries", "retries"),
)


def apply(config: Object, command: Command, *, cmd_set: bool = False, shell: tuple[str, ...] = SHELL) -> None:
    """Change the config as the command says. Raises Invalid in dockerd's words.

    shell: what reads texts where no SHELL says otherwise
    cmd_set: a CMD came earlier in the same stage; without one, ENTRYPOINT removes the base image's CMD.
    """
    if isinstance(command, commands.Entrypoint) and not cmd_set:
        config.pop("Cmd", None)
    match command:
        case commands.Cmd():
            config["Cmd"] = _command_line(config, command, shell)
        case commands.Entrypoint():
            config["Entrypoint"] = _command_line(config, command, shell) if command.argv or command.shell else None
        case commands.Env():
            _env(config, command)
        case commands.Expose():
            _expose(config, command)
        case commands.Healthcheck():
            _healthcheck(config, command)
        case commands.Label():
            config["Labels"] = {**(config.get("Labels") or {}), **dict(command.pairs)}
        case commands.Maintainer():
            pass  # the author is a key of the image's document, beside `config`
        case commands.Onbuild():
            config["OnBuild"] = [*(config.get("OnBuild") or []), command.text]
        case commands.Shell():
            config["Shell"] = list(command.argv)
        case commands.Stopsignal():
            _stopsignal(config, command)
        case commands.User():
            config["User"] = command.user
        case commands.Volume():
            _volume(config, command)
        case commands.Workdir():
            config["WorkingDir"] = workdir(config, command.path)
        case _:
            raise TypeError(f"{type(command).__name__} changes more than a config")


def workdir(config: Object, path: str) -> str:
    """The working directory after a WORKDIR: a relative path starts at the previous one. Raises Invalid."""
    if not path:
        raise Invalid("cannot normalize nothing")
    if path.startswith("/"):
        return _short(path)
    joined = posixpath.normpath(posixpath.join("/", config.get("WorkingDir") or "", path))
    return _short("/" + joined.lstrip("/"))


def _short(path: str) -> str:
    """The path itself. Each relative one is longer than the one before. Raises Invalid for one that is too long."""
    if len(path) >= _LONGEST_PATH:
        raise Invalid(f"the working directory has more than {_LONGEST_PATH - 1} characters")
    return path


def ports(words: tuple[str, ...]) -> Iterator[str]:
    """The ports of EXPOSE one by one, each as "80/tcp". Raises Invalid.

    A host's part before the port is dropped, as an image cannot decide where its ports are published.
    """
    for word in words:
        match = _PORT.fullmatch(word)
        if match is None or not int(match[1]) <= int(match[2] or match[1]) <= _LAST_PORT:
            raise Invalid(f"invalid containerPort: {word}")
        first, last = int(match[1]), int(match[2] or match[1])
        protocol = (match[3] or "tcp").lower()
        if protocol not in _PROTOCOLS:
            raise Invalid(f"invalid proto: {match[3]}")
        yield from (f"{port}/{protocol}" for port in range(first, last + 1))


def _command_line(config: Object, command: commands.Cmd | commands.Entrypoint, shell: tuple[str, ...]) -> list[str]:
    if command.argv is not None:
        return list(command.argv)
    return [*(config.get("Shell") or shell), *((command.shell,) if command.shell else ())]


def _env(config: Object, command: commands.Env) -> None:
    variables = dict(entry.partition("=")[::2] for entry in config.get("Env") or [])
    for name, value in command.pairs:
        if not name:
            raise Invalid(f"invalid environment variable: ={value}")
        variables[name] = value
    config["Env"] = [f"{name}={value}" for name, value in variables.items()]


def _expose(config: Object, command: commands.Expose) -> None:
    config["ExposedPorts"] = {**(config.get("ExposedPorts") or {}), **{port: {} for port in ports(command.ports)}}


def _volume(config: Object, command: commands.Volume) -> None:
    if not all(command.paths):
        raise Invalid("VOLUME specified can not be an empty string")
    config["Volumes"] = {**(config.get("Volumes") or {}), **{path: {} for path in command.paths}}


def _stopsignal(config: Object, command: commands.Stopsignal) -> None:
    check_stop_signal(command.signal)
    config["StopSignal"] = command.signal


def _healthcheck(config: Object, command: commands.Healthcheck) -> None:
    given = {name: getattr(command, attribute) for name, attribute in _HEALTH_TIMES}
    config["Healthcheck"] = {"Test": list(command.test), **{name: value for name, value in given.items() if value}}
