"""The state of a build stage (its image and config so far), and `Maker`, which makes and stores the image of each step.

Runs on the thread that builds. Each step makes an image whose parent is the image of the step before. `docker history`
shows them so, and the cache needs them. The images are visible at once, and durable at the build's end: one flush
serves all of them.
"""

import time
from collections.abc import Callable

from engine.daemon.builder.arguments import Arguments
from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.builder.stages import Given
from engine.daemon.clock import rfc3339
from engine.daemon.containers.contents.commit import IMAGE_KEYS
from engine.daemon.dockerfile import commands, configure, instructions, words
from engine.daemon.dockerfile.commands import Command
from engine.daemon.dockerfile.parser import Instruction
from engine.daemon.images import image as documents
from engine.daemon.images import making
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass, field, replace
from engine.errors import Invalid
from engine.kernel.syscalls import boot_id

# As many characters does an entry count for, of a list or a table that an instruction makes anew.
_LISTED, _TABLED = 4, 16
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TABLES = frozenset(("ExposedPorts", "Volumes", "Labels"))


@dataclass(slots=True)
class State:
    """The state of one stage between two steps.

    image: the image that was made last, None on top of nothing; config: the container's config as the next step finds
    it; what is in it is shared by stages and images, and never changed in place
    author: what MAINTAINER says in this very stage; command_set: the stage has had a CMD
    escape: the Dockerfile's escape character
    """

    arguments: Arguments
    platform: platforms.Platform
    escape: str = "\\"
    image: Image | None = None
    config: Object = field(default_factory=dict)
    author: str = ""
    command_set: bool = False

    def begin(self, document: Object, image: Image | None = None) -> None:
        """Stand on a base with this document. image: that it is, where the steps' images stand on it"""
        self.image = image
        self.config = dict(document.get("config") or {}) if document else {"WorkingDir": "/"}

    def begin_with_nothing(self) -> None:
        """Stand on no image. Raises Invalid for a system whose images the builder does not make."""
        if self.platform.os != "linux" and not self.arguments.dialect.other_systems:
            raise Invalid("operating system is not supported")
        self.config = {"WorkingDir": "/"} if self.arguments.dialect.root_named else {}
        self.set_path()

    def above(self) -> "State":
        """What a stage begins with that stands on this one."""
        arguments = self.arguments.above()
        author = self.author if arguments.dialect.stages_inherit else ""
        return State(arguments, self.platform, self.escape, self.image, dict(self.config), author)

    def triggers(self) -> list[str]:
        """Take out the ONBUILD triggers of what the stage stands on, which are to be run first."""
        return self.config.pop("OnBuild", None) or []

    def read(self, instruction: Instruction, escape: str) -> Command:
        """The instruction's command, with the variables in its words that it sees here. Raises Invalid."""
        if isinstance(instruction, Given):
            return instruction.command
        found = self.environment()
        self.arguments.growth.take(len(found))
        seen = words.Counted(found, self.arguments.growth)
        if instruction.keyword == "ARG" and self.arguments.dialect.arguments_in_turn:
            return self._arguments(instruction, found, lambda text: words.expand(text, seen, escape))
        return instructions.read(instruction, seen, escape)

    def _arguments(self, instruction: Instruction, seen: dict[str, str], expand: Callable[[str], str]) -> commands.Arg:
        """An ARG with the values that its names get; each sees those before it. seen: what `expand` looks into"""
        command = instructions.read(instruction)
        assert isinstance(command, commands.Arg)  # as the keyword says
        pairs: list[tuple[str, str | None]] = []
        for name, default in command.pairs:
            value = self.arguments.value(name, default, expand)
            if value is not None:
                seen[name] = value
            pairs.append((name, value))
        return commands.Arg(tuple(pairs))

    def configure(self, command: Command) -> None:
        """Take up a command that changes only the config (WORKDIR among them: its path). Raises Invalid."""
        if isinstance(command, commands.Arg):
            for name, default in command.pairs:
                self.arguments.declare(name, default)
            return
        if isinstance(command, commands.Maintainer):
            self.author = command.name
            return
        if isinstance(command, commands.Env) and self.arguments.dialect.arguments_in_turn:
            self.arguments.hide(name for name, _ in command.pairs)
        config = dict(self.config)
        shell = configure.WINDOWS_SHELL if self.platform.os == "windows" else configure.SHELL
        if isinstance(command, (commands.Cmd, commands.Entrypoint)) and command.argv is None and not command.shell:
            argv = (*(config.get("Shell") or shell), "") if self.arguments.dialect.empty_text else None
            command = replace(command, argv=argv)
        configure.apply(config, command, cmd_set=self.command_set, shell=shell)
        for key, value in config.items():
            if isinstance(value, (dict, list)) and value is not self.config.get(key):
                self.arguments.growth.take(len(value) * (_LISTED if isinstance(value, list) else _TABLED))
        if isinstance(command, commands.Cmd):
            self.command_set = True
            if self.arguments.dialect.args_escaped:
                config["ArgsEscaped"] = True
        self.config = config

    def set_path(self) -> None:
        """Add a default PATH where the image has none, so that commands find their programs."""
        env = self.config.get("Env") or []
        if self.platform.os != "windows" and not any(each.partition("=")[0] == "PATH" for each in env):
            self.config["Env"] = [*env, f"PATH={_DEFAULT_PATH}"]

    def environment(self) -> dict[str, str]:
        """The variables that a step's words see."""
        return {**self._own(), **self.visible()}

    def visible(self) -> dict[str, str]:
        """The arguments that no variable of ENV hides."""
        found = self.arguments.visible()
        if self.arguments.dialect.arguments_in_turn:
            return found
        own = self._own()
        return {name: value for name, value in found.items() if name not in own}

    def _own(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in self.config.get("Env") or ():
            name, equals, value = entry.partition("=")
            if equals:
                found.setdefault(name, value)
        return found

    @property
    def identity(self) -> str:
        """The id of the stage's image, empty on top of nothing."""
        return self.image.id if self.image else ""

    @property
    def layers(self) -> tuple[str, ...]:
        """The directories of the image's layers, lowest first."""
        return self.image.layers if self.image else ()


class Maker:
    """Makes the images of the steps of one build; a context manager that makes them durable at its end.

    keeper: keeps the layers and images of the build from removal until its end
    """

    def __init__(self, engine: ContainerParts, keeper: Keeper):
        self._store = engine.images
        self._keeper = keeper
        self._boot = boot_id()
        self._made: list[str] = []

    def __enter__(self) -> "Maker":
        return self

    def __exit__(self, *_: object) -> None:
        self.settle()

    def settle(self) -> None:
        """Make durable the images that were made since the last call."""
        if self._made:
            self._store.settle(self._made)
            self._made = []

    def hold(self, image: Image) -> None:
        """Keep the image from every pruning until the build ends."""
        self._keeper.hold(image)

    def add(self, state: State, created_by: str, part: Part | None, history: Object | None = None) -> Image:
        """Make the image of a step, with the stage's config, and make it the stage's image.

        history: the step's entry in another image's history, where the step was taken from that image
        """
        below = self.tree(state.image)
        if part is not None and len(below.parts) >= documents.MOST_LAYERS:
            raise Invalid(f"max depth exceeded: {documents.MOST_LAYERS} layers are allowed")
        tree = below.above(part)
        document = _document(state, created_by, part, history)
        descriptors = [each.descriptor for each in tree.parts]
        layers = [each.layer for each in tree.parts]
        # Both are done at once: a pruning between making and holding would find an image without a name that no build
        # holds.
        with self._store.changing:
            image = making.add_made(
                self._store, self._keeper.session, document, descriptors, layers, [], state.identity, self._boot
            )
            self.hold(image)
        self._keeper.know(image, tree)
        self._made.append(image.id)
        self._store.announce("create", image.id, image.id, image)
        state.image = image
        return image

    def take(self, state: State, created_by: str, source: Image, place: int) -> Image:
        """Make the image of a step from the layer that another image has at that place of its history.

        Raises Invalid.
        """
        history = source.config["history"]
        part = None
        if not history[place].get("empty_layer"):
            filled = sum(1 for step in history[:place] if not step.get("empty_layer"))
            layers = self.tree(source).parts
            if filled >= len(layers):
                raise Invalid(f"the history of {source.id} has more steps with a layer than it has layers")
            part = layers[filled]
        return self.add(state, created_by, part, history[place])

    def tree(self, image: Image | None) -> Snapshot:
        """The files of an image, kept from removal; an empty tree for None."""
        return Snapshot() if image is None else self._keeper.image(image)


def shown_config(config: Object) -> Object:
    """The config in the form of an image's document: only keys with a value, in the order of the specification.

    A table is in the order of its keys, as Go writes it.
    """
    shown = {key: config[key] for key in IMAGE_KEYS if config.get(key)}
    return {**shown, **{key: dict(sorted(shown[key].items())) for key in _TABLES & shown.keys()}}


def _document(state: State, created_by: str, part: Part | None, history: Object | None) -> Object:
    parent = state.image.config if state.image else {}
    step = history or {
        "created": rfc3339(time.time_ns()),
        "created_by": created_by,
        **({"author": state.author} if state.author else {}),
        **({} if part is not None else {"empty_layer": True}),
    }
    created = step.get("created")
    before = parent.get("history")
    steps = before if isinstance(before, list) else []
    diff_ids = documents.diff_ids_of(parent)
    variant = parent.get("variant") if state.image else state.platform.variant
    return {
        # An entry of another image's history is not trusted: its time may be of any type.
        "created": created if created and isinstance(created, str) else rfc3339(time.time_ns()),
        **({"author": state.author} if state.author else {}),
        "architecture": parent.get("architecture") or state.platform.architecture,
        **({"variant": variant} if variant else {}),
        "os": parent.get("os") or state.platform.os,
        "config": shown_config(state.config),
        "rootfs": {"type": "layers", "diff_ids": [*diff_ids, part.layer.diff_id] if part else diff_ids},
        "history": [*steps, step],
    }
