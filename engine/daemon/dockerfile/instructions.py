"""Reads a parsed instruction as a typed command: a table with the form, the flags and the reader of each instruction.

Pure. Raises Invalid in dockerd's words for what an instruction does not allow.
"""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypedDict

from engine.daemon.dockerfile import commands, flags, forms, heredocs, mounts, words
from engine.daemon.dockerfile.commands import Command
from engine.daemon.dockerfile.gotext import SPACE, meant, quoted
from engine.daemon.dockerfile.statements import Heredoc, Instruction
from engine.dataclass import dataclass, replace
from engine.errors import Invalid
from engine.literals import duration, integer

_STAGE_NAME = re.compile(r"[a-z][a-z0-9\-_.]*")
_ONBUILD = re.compile(rf"ONBUILD[{SPACE}]*", re.IGNORECASE)
_NETWORKS = ("default", "none", "host")
_SECURITY = ("sandbox", "insecure")
_NO_TRIGGERS = ("FROM", "MAINTAINER")
_SMALLEST_INTERVAL = 10**6
_MOST_RETRIES = 2**31 - 1


class UnknownInstruction(Invalid):
    """There is no instruction of that name."""


def read(
    instruction: Instruction,
    seen: Mapping[str, str] | None = None,
    escape: str = "\\",
    listed: Mapping[str, str] | None = None,
) -> Command:
    """The instruction as a command, with its variables expanded where docker does; without `seen`: as written.

    seen: the variables of this moment; listed: those that are looked up for ports, if they are others
    """
    row = TABLE.get(instruction.keyword)
    if row is None:
        word = instruction.written
        raise UnknownInstruction(f"unknown instruction: {word}{meant(word, TABLE, cased=False)}")
    reading = _Reading(instruction, row.flags, seen, escape, listed or seen)
    command = row.reader(reading)
    # This also checks the flags of an instruction whose reader looks at none, after its arguments: that decides which
    # error is reported first.
    _ = reading.flags
    return command


def form(keyword: str) -> forms.Form:
    """How an instruction's text is split into arguments; the text of an unknown instruction stays whole."""
    return TABLE[keyword].form if keyword in TABLE else forms.whole


@dataclass(frozen=True)
class _Reading:
    """What a reader function is given: the instruction, its known flags, and the variables that it sees."""

    instruction: Instruction
    known_flags: dict[str, str] | None
    seen: Mapping[str, str] | None
    escape: str
    listed: Mapping[str, str] | None

    @cached_property
    def flags(self) -> flags.Values:
        """The value of each flag.

        They are checked at the first access, so a reader decides which of several errors is reported.
        """
        return flags.Values({}) if self.known_flags is None else flags.read(self.instruction.flags, self.known_flags)

    @property
    def keyword(self) -> str:
        return self.instruction.keyword

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.instruction.arguments

    def words(self) -> tuple[str, ...]:
        """All arguments; Invalid where there is none."""
        if not self.arguments:
            raise Invalid(f"{self.keyword} requires at least one argument")
        return self.arguments

    def word(self) -> str:
        """The only argument; Invalid for any other number of arguments."""
        if len(self.arguments) != 1:
            raise Invalid(f"{self.keyword} requires exactly one argument")
        return self.arguments[0]

    def meant(self, text: str) -> str:
        """The text with its variables expanded."""
        return text if self.seen is None else words.expand(text, self.seen, self.escape)

    def all_meant(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Each text with its variables expanded."""
        return tuple(self.meant(text) for text in texts)


def _from(reading: _Reading) -> commands.From:
    words = reading.arguments
    name = ""
    if len(words) == 3 and words[1].lower() == "as":
        name = words[2].lower()
        if not _STAGE_NAME.fullmatch(name):
            raise Invalid(
                f"invalid name for build stage: {quoted(words[2])}, name can't start with a number or contain symbols"
            )
    elif len(words) != 1:
        raise Invalid("FROM requires either one or three arguments")
    return commands.From(reading.meant(words[0]), reading.meant(reading.flags.texts["platform"]), name)


def _run(reading: _Reading) -> commands.Run:
    given = reading.flags
    network, security = given.texts["network"] or "default", given.texts["security"] or "sandbox"
    if network not in _NETWORKS:
        raise Invalid(f"invalid network mode {quoted(network)}")
    if security not in _SECURITY:
        raise Invalid(f"security {quoted(security)} is not valid")
    exec_form = reading.instruction.exec_form
    shell, script = (None, None) if exec_form else _shell_text(reading)
    return commands.Run(
        argv=reading.arguments if exec_form else None,
        shell=shell,
        script=script,
        mounts=tuple(
            mounts.read(line, None if reading.seen is None else reading.meant) for line in given.lists["mount"]
        ),
        network=network,
        security=security,
        devices=reading.all_meant(given.lists["device"]),
        heredocs=reading.instruction.heredocs,
    )


def _shell_text(reading: _Reading) -> tuple[str | None, Heredoc | None]:
    """The text for the shell, heredocs included, or else the heredoc that is a program (`#!`).

    A heredoc inside a longer command is left in the text, where the shell reads it. Of a heredoc that is the whole
    command only the data is the text, as not every shell has heredocs.
    """
    text = " ".join(reading.arguments)
    inline = reading.instruction.heredocs
    if not inline:
        return text, None
    if heredocs.read(text) is None:
        return text + "".join(f"\n{one.data}{one.name}" for one in inline), None
    only = inline[0].chomped()
    return (None, only) if inline[0].data.startswith("#!") else (only.data, None)


def _cmd(reading: _Reading) -> commands.Cmd:
    return commands.Cmd(*_command(reading))


def _entrypoint(reading: _Reading) -> commands.Entrypoint:
    return commands.Entrypoint(*_command(reading))


def _command(reading: _Reading) -> tuple[tuple[str, ...] | None, str | None]:
    """The argv of the exec form, or else the text for a shell."""
    return (reading.arguments, None) if reading.instruction.exec_form else (None, " ".join(reading.arguments))


def _copy(reading: _Reading) -> commands.Copy:
    files, from_ = _files(reading), reading.flags.texts["from"]
    if "$" in from_[:-1]:
        raise Invalid("'from' doesn't support variable expansion, define alias stage instead")
    return commands.Copy(**files, from_=from_, parents=reading.flags.booleans["parents"])


def _add(reading: _Reading) -> commands.Add:
    given = {name for name, _ in reading.instruction.flags}
    return commands.Add(
        **_files(reading),
        checksum=reading.meant(reading.flags.texts["checksum"]),
        keep_git_dir=reading.flags.booleans["keep-git-dir"] if "keep-git-dir" in given else None,
        unpack=reading.flags.booleans["unpack"] if "unpack" in given else None,
    )


class _Files(TypedDict):
    """The fields that COPY and ADD have in common."""

    sources: tuple[str, ...]
    destination: str
    chown: str
    chmod: str
    link: bool
    exclude: tuple[str, ...]
    heredocs: tuple[Heredoc, ...]


def _files(reading: _Reading) -> _Files:
    *sources, destination = reading.arguments or ("",)
    if not sources:
        raise Invalid(
            f"{reading.keyword} requires at least two arguments, but only one was provided."
            " Destination could not be determined"
        )
    _ = reading.flags
    if heredocs.read(destination) is not None:
        raise Invalid(f"{reading.keyword} cannot accept a heredoc as a destination")
    named = {one.name: one for one in reading.instruction.heredocs}
    paths: list[str] = []
    inline: list[Heredoc] = []
    for source in sources:
        announced = None if reading.instruction.exec_form else heredocs.read(source)
        if announced is None or announced.name not in named:
            paths.append(reading.meant(source))
            continue
        one = named[announced.name].chomped()
        if one.expand and reading.seen is not None:
            one = replace(one, data=words.expand_raw(one.data, reading.seen, reading.escape))
        inline.append(one)
    return {
        "sources": tuple(paths),
        "destination": reading.meant(destination),
        "chown": reading.meant(reading.flags.texts["chown"]),
        "chmod": reading.meant(reading.flags.texts["chmod"]),
        "link": reading.flags.booleans["link"],
        "exclude": reading.all_meant(reading.flags.lists["exclude"]),
        "heredocs": tuple(inline),
    }


def _env(reading: _Reading) -> commands.Env:
    return commands.Env(_pairs(reading))


def _label(reading: _Reading) -> commands.Label:
    return commands.Label(_pairs(reading))


def _pairs(reading: _Reading) -> tuple[tuple[str, str], ...]:
    _ = reading.flags
    words = reading.words()
    if not all(words[::2]):
        raise Invalid(f"{reading.keyword} names can not be blank")
    return tuple(zip(reading.all_meant(words[::2]), reading.all_meant(words[1::2]), strict=True))


def _arg(reading: _Reading) -> commands.Arg:
    pairs = []
    for word in reading.words():
        name, equals, default = word.partition("=")
        if not name:
            raise Invalid("ARG names can not be blank")
        pairs.append((reading.meant(name), reading.meant(default) if equals else None))
    return commands.Arg(tuple(pairs))


def _expose(reading: _Reading) -> commands.Expose:
    ports = sorted(reading.words())
    if reading.listed is not None:
        ports = [port for word in ports for port in words.expand_list(word, reading.listed, reading.escape)]
    return commands.Expose(tuple(ports))


def _volume(reading: _Reading) -> commands.Volume:
    paths = tuple(path.strip(SPACE) for path in reading.words())
    if not all(paths):
        raise Invalid("VOLUME specified can not be an empty string")
    return commands.Volume(reading.all_meant(paths))


def _workdir(reading: _Reading) -> commands.Workdir:
    return commands.Workdir(reading.meant(reading.word()))


def _user(reading: _Reading) -> commands.User:
    return commands.User(reading.meant(reading.word()))


def _stopsignal(reading: _Reading) -> commands.Stopsignal:
    return commands.Stopsignal(reading.meant(reading.word()))


def _maintainer(reading: _Reading) -> commands.Maintainer:
    return commands.Maintainer(reading.word())


def _shell(reading: _Reading) -> commands.Shell:
    _ = reading.flags
    if not reading.arguments:
        raise Invalid("SHELL requires at least one argument")
    if not reading.instruction.exec_form:
        raise Invalid("SHELL requires the arguments to be in JSON form")
    return commands.Shell(reading.arguments)


def _onbuild(reading: _Reading) -> commands.Onbuild:
    trigger = reading.words()[0].upper()
    if trigger == "ONBUILD":
        raise Invalid("Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed")
    if trigger in _NO_TRIGGERS:
        raise Invalid(f"{trigger} isn't allowed as an ONBUILD trigger")
    text = _ONBUILD.sub("", reading.instruction.original, count=1)
    return commands.Onbuild(text + "".join(f"\n{one.data}{one.name}" for one in reading.instruction.heredocs))


def _healthcheck(reading: _Reading) -> commands.Healthcheck:
    kind, *command = reading.words()
    if kind.upper() == "NONE":
        if command:
            raise Invalid("HEALTHCHECK NONE takes no arguments")
        return commands.Healthcheck(("NONE",))
    given = flags.read(reading.instruction.flags, _HEALTH_FLAGS).texts
    if kind.upper() != "CMD":
        raise Invalid(f"Unknown type {quoted(kind.upper())} in HEALTHCHECK (try CMD)")
    if not command:
        raise Invalid("Missing command after HEALTHCHECK CMD")
    test = ("CMD", *command) if reading.instruction.exec_form else ("CMD-SHELL", " ".join(command))
    times = {name.replace("-", "_"): _interval(name, given[name]) for name in _HEALTH_TIMES}
    return commands.Healthcheck(test, **times, retries=_retries(given["retries"]))


_HEALTH_TIMES = ("interval", "timeout", "start-period", "start-interval")
_HEALTH_FLAGS = dict.fromkeys((*_HEALTH_TIMES, "retries"), flags.TEXT)


def _interval(name: str, text: str) -> int:
    if not text:
        return 0
    value = duration(text)
    if value and value < _SMALLEST_INTERVAL:
        raise Invalid(f"Interval {quoted(name)} cannot be less than 1ms")
    return value


def _retries(text: str) -> int:
    if not text:
        return 0
    value = integer(text, -_MOST_RETRIES - 1, _MOST_RETRIES, reader="strconv.ParseInt")
    if value < 0:
        raise Invalid(f"--retries cannot be negative ({value})")
    return value


@dataclass(frozen=True)
class Row:
    """How an instruction is read: the form of its text, its flags (None: not checked here), and its reader function."""

    form: forms.Form
    flags: dict[str, str] | None
    reader: Callable[[_Reading], Command]


_FILES = {
    "chown": flags.TEXT,
    "chmod": flags.TEXT,
    "link": flags.BOOLEAN,
    "exclude": flags.TEXTS,
}
_ADDED = {"keep-git-dir": flags.BOOLEAN, "checksum": flags.TEXT, "unpack": flags.BOOLEAN}
_RUN = {"device": flags.TEXTS, "mount": flags.TEXTS, "network": flags.TEXT, "security": flags.TEXT}

TABLE: dict[str, Row] = {
    "ADD": Row(forms.exec_or_space, {**_FILES, **_ADDED}, _add),
    "ARG": Row(forms.names, None, _arg),
    "CMD": Row(forms.exec_or_whole, {}, _cmd),
    "COPY": Row(forms.exec_or_space, {**_FILES, "from": flags.TEXT, "parents": flags.BOOLEAN}, _copy),
    "ENTRYPOINT": Row(forms.exec_or_whole, {}, _entrypoint),
    "ENV": Row(forms.env_pairs, {}, _env),
    "EXPOSE": Row(forms.by_space, {}, _expose),
    "FROM": Row(forms.by_space, {"platform": flags.TEXT}, _from),
    "HEALTHCHECK": Row(forms.health, None, _healthcheck),
    "LABEL": Row(forms.label_pairs, {}, _label),
    "MAINTAINER": Row(forms.whole, {}, _maintainer),
    "ONBUILD": Row(forms.whole, {}, _onbuild),
    "RUN": Row(forms.exec_or_whole, _RUN, _run),
    "SHELL": Row(forms.exec_or_whole, {}, _shell),
    "STOPSIGNAL": Row(forms.whole, None, _stopsignal),
    "USER": Row(forms.whole, {}, _user),
    "VOLUME": Row(forms.exec_or_space, {}, _volume),
    "WORKDIR": Row(forms.whole, {}, _workdir),
}
