"""What each kind of instruction says, as a value.

Pure. `instructions` reads them out of a Dockerfile's text, `configure` applies those that only change a config, and
the build room does the rest.
"""

from dataclasses import dataclass

from engine.daemon.dockerfile.statements import Heredoc


@dataclass(frozen=True)
class From:
    """`image` and `platform` as written or, after expansion, as meant; `name`: of AS, in lower case."""

    image: str
    platform: str = ""
    name: str = ""


@dataclass(frozen=True)
class Mount:
    """One --mount of a RUN; what its type does not know stays at the default."""

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
    """Exactly one of `argv` (exec form), `shell` (a text for the SHELL) and `script` (a heredoc that begins with #!).

    A heredoc that is the whole command, and one inside a longer command, are already part of `shell`. `script` is a
    program's text, to be put in a file and run: no shell reads it.
    """

    argv: tuple[str, ...] | None = None
    shell: str | None = None
    script: Heredoc | None = None
    mounts: tuple[Mount, ...] = ()
    network: str = "default"
    security: str = "sandbox"
    heredocs: tuple[Heredoc, ...] = ()


@dataclass(frozen=True)
class Cmd:
    """`argv` (exec form) or `shell`, a text for the SHELL; "" is the shell alone."""

    argv: tuple[str, ...] | None = None
    shell: str | None = None


@dataclass(frozen=True)
class Entrypoint:
    """`argv` (exec form) or `shell`, a text for the SHELL; "" is no entrypoint at all."""

    argv: tuple[str, ...] | None = None
    shell: str | None = None


@dataclass(frozen=True)
class _Files:
    """What COPY and ADD share; `heredocs`: inline files, also sources, their `data` as the file is to be."""

    sources: tuple[str, ...]
    destination: str
    chown: str = ""
    chmod: str = ""
    link: bool = False
    exclude: tuple[str, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()


@dataclass(frozen=True)
class Copy(_Files):
    """`from_`: a stage's name or number, or an image; "" is the context."""

    from_: str = ""
    parents: bool = False


@dataclass(frozen=True)
class Add(_Files):
    """`unpack`: None is docker's rule (local archives are unpacked, downloads are not)."""

    checksum: str = ""
    keep_git_dir: bool | None = None
    unpack: bool | None = None


@dataclass(frozen=True)
class Env:
    """Names and values, in order."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Label:
    """Names and values, in order."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Arg:
    """Names and defaults; None is an argument without one."""

    pairs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Workdir:
    """From the root, or from the one before: `configure.workdir`."""

    path: str


@dataclass(frozen=True)
class User:
    """Name or number, perhaps with a group's after a colon."""

    user: str


@dataclass(frozen=True)
class Expose:
    """Ports as written; `configure.ports` reads them."""

    ports: tuple[str, ...]


@dataclass(frozen=True)
class Volume:
    """Paths in the container."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class Shell:
    """What reads the texts of RUN, CMD and ENTRYPOINT from here on."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class Stopsignal:
    """Name or number, as written."""

    signal: str


@dataclass(frozen=True)
class Healthcheck:
    """`test`: as in the config's Test (NONE, CMD, CMD-SHELL); nanoseconds, 0 is the engine's default."""

    test: tuple[str, ...]
    interval: int = 0
    timeout: int = 0
    start_period: int = 0
    start_interval: int = 0
    retries: int = 0


@dataclass(frozen=True)
class Onbuild:
    """An instruction in one text, its heredocs included: `parser.parse` reads it when its time has come."""

    text: str


@dataclass(frozen=True)
class Maintainer:
    """The image's author."""

    name: str


Command = (
    From | Run | Cmd | Entrypoint | Copy | Add | Env | Label | Arg | Workdir | User | Expose | Volume | Shell
    | Stopsignal | Healthcheck | Onbuild | Maintainer
)  # fmt: skip
