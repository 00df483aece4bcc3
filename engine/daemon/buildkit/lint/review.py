"""What is found in a Dockerfile that is read as a build would read it, up to its first fault: what rules judge.

Plain values. `walk` finds them.
"""

from collections.abc import Callable, Mapping

from engine.daemon.builder.namedcontexts import NamedContext
from engine.daemon.builder.stages import Stage
from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.commands import Command
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.dockerfile.statements import Dockerfile, Instruction, Misplaced
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field

SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Around:
    """What a Dockerfile is read with.

    args: the client's build arguments; platform: of the build; target: a stage's name, empty for the last one
    every: all stages are read, and not only those that the target needs
    image: returns the document (config) of an image for a platform; raises EngineErrors
    ignore: what the .dockerignore leaves out, None without one; contexts: names that stand for something else
    """

    image: Callable[[str, str], Object]
    args: Mapping[str, str | None] = field(default_factory=dict)
    platform: str = ""
    target: str = ""
    every: bool = False
    ignore: Ignore | None = None
    contexts: tuple[NamedContext, ...] = ()


@dataclass(frozen=True, slots=True)
class Undefined:
    """A variable that is used and not set, and some of those that are."""

    name: str
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """An argument that an ARG declares, and its value, if it has one.

    uses: the variables in its default; inherited: its value is that of an argument before the first FROM
    """

    name: str
    value: str | None
    instruction: Instruction
    uses: frozenset[str] = frozenset()
    inherited: bool = False


@dataclass(slots=True)
class Seen:
    """An instruction as its stage finds it. stage: number of the stage; declared: the arguments of an ARG

    command: with its variables expanded; undefined: those of them that are not set
    shell: a SHELL, of the stage or of its base, reads texts; anchored: a WORKDIR came before
    earlier: the instruction of the stage that this one replaces
    """

    stage: int
    instruction: Instruction
    command: Command
    undefined: list[Undefined] = field(default_factory=list)
    declared: list[Declared] = field(default_factory=list)
    shell: bool = False
    anchored: bool = False
    earlier: Instruction | None = None


@dataclass(slots=True)
class Opened:
    """A FROM as it is read with the build's arguments. index: number of its stage

    opening: as written; platform: expanded; used: the arguments that the platform uses; undefined: unknown arguments
    taken: the arguments that the image or the platform uses
    expected, actual: the platform that its image should have, and has; both empty where nobody looked
    """

    index: int
    instruction: Instruction
    opening: commands.From
    platform: str = ""
    used: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    undefined: list[Undefined] = field(default_factory=list)
    expected: str = ""
    actual: str = ""


@dataclass(slots=True)
class Review:
    """What was found, up to the first fault.

    read: the instructions whose form is right; whole: these are all of them
    arguments: those before the first FROM; stages: all stages, their bases' names expanded
    by_default: the base images' names where the client gives no arguments; None where these cannot be read
    fault: why the rest was not read
    """

    around: Around
    dockerfile: Dockerfile | None = None
    read: list[Instruction] = field(default_factory=list)
    whole: bool = False
    arguments: dict[str, Declared] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    by_default: list[tuple[Instruction, commands.From, str]] | None = None
    opened: list[Opened] = field(default_factory=list)
    steps: list[Seen] = field(default_factory=list)
    fault: Misplaced | None = None
