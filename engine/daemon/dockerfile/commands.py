"""The dataclass of each kind of Dockerfile instruction, with its flags and arguments as typed fields.

Pure. `instructions` makes these values out of a Dockerfile's text. `configure` applies those that only change an
image's config. The package `build` carries out the others.
"""

from engine.daemon.dockerfile.statements import Heredoc
from engine.dataclass import dataclass


@dataclass(frozen=True)
class From:
    """FROM. image, platform: as written, or with variables expanded; name: the stage's name after AS, in lower case."""

    image: str
    platform: str = ""
    name: str = ""


@dataclass(frozen=True)
class Mount:
    """One --mount of a RUN; a field that the mount's type does not have stays at its default."""

    type: str = "bind"
    source: str = ""
    target: str = ""
    from_: str = ""
    readonly: bool = False
    id: str = ""
    sharing: str = ""
    required: bool = False
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    env: str | None = None


@dataclass(frozen=True)
class Run:
    """RUN.

    Exactly one of `argv` (exec form), `shell` (a text for the SHELL) and `script` (a heredoc that begins with #!).
    A heredoc that is the whole command, and one inside a longer command, are already part of `shell`. `script` is the
    text of a program, which the build puts in a file and runs: no shell reads it. devices: as written, each a line of
    names and values
    """

    argv: tuple[str, ...] | None = None
    shell: str | None = None
    script: Heredoc | None = None
    mounts: tuple[Mount, ...] = ()
    network: str = "default"
    security: str = "sandbox"
    devices: tuple[str, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()


@dataclass(frozen=True)
class Cmd:
    """CMD. `argv` (exec form) or `shell`, a text for the SHELL; with `shell` "" the shell alone is the command."""

    argv: tuple[str, ...] | None = None
    shell: str | None = None


@dataclass(frozen=True)
class Entrypoint:
    """ENTRYPOINT. `argv` (exec form) or `shell`, a text for the SHELL; `shell` "" means no entrypoint at all."""

    argv: tuple[str, ...] | None = None
    shell: str | None = None


@dataclass(frozen=True)
class _Files:
    """The fields that COPY and ADD share.

    heredocs: inline files, which are sources too; their `data` is the file's contents
    """

    sources: tuple[str, ...]
    destination: str
    chown: str = ""
    chmod: str = ""
    link: bool = False
    exclude: tuple[str, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()


@dataclass(frozen=True)
class Copy(_Files):
    """COPY. from_: a stage's name or number, or an image; empty for the context."""

    from_: str = ""
    parents: bool = False


@dataclass(frozen=True)
class Add(_Files):
    """ADD.

    keep_git_dir: means something for git repositories alone, which a build here refuses in words
    unpack: None stands for docker's rule, by which local archives are unpacked and downloads are not
    """

    checksum: str = ""
    keep_git_dir: bool | None = None
    unpack: bool | None = None


@dataclass(frozen=True)
class Env:
    """ENV: names and values, in order."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Label:
    """LABEL: names and values, in order."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Arg:
    """ARG: names and defaults; None for an argument without a default."""

    pairs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Workdir:
    """WORKDIR: an absolute path, or one from the previous working directory (see `configure.workdir`)."""

    path: str


@dataclass(frozen=True)
class User:
    """USER: a user's name or number, perhaps followed by a colon and the group's."""

    user: str


@dataclass(frozen=True)
class Expose:
    """EXPOSE: ports as written; `configure.ports` parses them."""

    ports: tuple[str, ...]


@dataclass(frozen=True)
class Volume:
    """VOLUME: paths in the container."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class Shell:
    """SHELL: the argv of the shell that reads the texts of the RUN, CMD and ENTRYPOINT that follow."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class Stopsignal:
    """STOPSIGNAL: a signal's name or number, as written."""

    signal: str


@dataclass(frozen=True)
class Healthcheck:
    """HEALTHCHECK.

    test: as in the config's Test (NONE, CMD, CMD-SHELL); times in nanoseconds, 0 for the engine's default.
    """

    test: tuple[str, ...]
    interval: int = 0
    timeout: int = 0
    start_period: int = 0
    start_interval: int = 0
    retries: int = 0


@dataclass(frozen=True)
class Onbuild:
    """ONBUILD: the trigger as one text, heredocs included; `parser.statement` parses it in the build that runs it."""

    text: str


@dataclass(frozen=True)
class Maintainer:
    """MAINTAINER: the image's author."""

    name: str


Command = (
    From | Run | Cmd | Entrypoint | Copy | Add | Env | Label | Arg | Workdir | User | Expose | Volume | Shell
    | Stopsignal | Healthcheck | Onbuild | Maintainer
)  # fmt: skip
