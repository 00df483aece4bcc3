"""Turns the stages of a Dockerfile into nodes of the graph: each stage is a chain of them, and the config of its image.

What is in an instruction's words depends on configs alone, which are known once the base images are found. So the whole
graph is made before anything of it is solved. ONBUILD triggers of a base come first in the stage that stands on it.
"""

import posixpath
from collections.abc import Callable, Mapping

from engine.daemon.build import foreign, historytext, stepnodes, steptitles
from engine.daemon.build.arguments import Arguments
from engine.daemon.build.graph.node import Input, Node
from engine.daemon.build.localtree import Local
from engine.daemon.build.options import Options
from engine.daemon.build.pulled import Nothing
from engine.daemon.build.run import SANDBOX, Shell
from engine.daemon.build.stages import SCRATCH, Earlier, Plan, Stage
from engine.daemon.build.state import Given, State
from engine.daemon.build.stepnodes import Surroundings
from engine.daemon.dockerfile import commands, parser, words
from engine.daemon.dockerfile.parser import Dockerfile, Instruction
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field
from engine.errors import EngineError, Invalid
from engine.literals import natural, quoted

# The instructions that are vertices of a build's progress, which their stage counts.
SHOWN = ("FROM", "RUN", "COPY", "ADD", "WORKDIR")
# The escape character of an ONBUILD trigger: a trigger is a text of its own, which the Dockerfile's escape directive
# does not reach.
_ESCAPE = "\\"
# What is made gets this time, where the client names one, and the largest that a file system has.
_EPOCH, _LATEST = "SOURCE_DATE_EPOCH", 1 << 33
_NO_TRIGGERS = ("FROM", "ONBUILD", "MAINTAINER")


@dataclass(frozen=True, slots=True)
class Base:
    """What a stage stands on, or is copied from. tree: None for nothing; document: the image's, with its config"""

    tree: Input | None
    document: Object


@dataclass(frozen=True, slots=True)
class Entry:
    """One step in an image's history. node: made its files, None where it makes none"""

    created_by: str
    node: Node | None


@dataclass(slots=True)
class Built:
    """A stage as far as it is converted.

    tree: its files; base: the document of the image at the very bottom; entries: the steps above that
    fresh: it is built without the cache
    """

    state: State
    tree: Input | None
    base: Object
    entries: list[Entry] = field(default_factory=list)
    fresh: bool = False

    def above(self) -> "Built":
        """What a stage begins with that stands on this one."""
        state = State(self.state.arguments, self.state.platform, self.state.escape, author=self.state.author)
        state.config = dict(self.state.config)
        state.arguments.growth.take(len(self.entries))
        return Built(state, self.tree, self.base, list(self.entries))


@dataclass(slots=True)
class Conversion:
    """One Dockerfile for one platform.

    find: what a name means that is no stage, for a platform as written or empty; raises EngineErrors
    platform: that the client wants; prefix: for the names of nodes, where several platforms are built at once
    at: the instruction that is converted; of: the instruction of each node, by the node's key
    built: the stages that are converted, by their numbers; needs: those that one stands on or copies from
    """

    dockerfile: Dockerfile
    plan: Plan
    arguments: Arguments
    options: Options
    context: Local
    find: Callable[[str, str], Base]
    platform: Platform
    prefix: str = ""
    at: Instruction | None = None
    of: dict[str, Instruction] = field(default_factory=dict)
    built: dict[int, Built] = field(default_factory=dict)
    needs: dict[int, set[int]] = field(default_factory=dict)
    _current: Stage | None = None
    _count: int = 0
    _total: int = 0
    _names: Earlier | None = None

    def target(self) -> Built:
        """The last stage of the plan. Raises EngineErrors; `at` is then the instruction with the fault."""
        for stage in self.plan.every:  # also one that nobody needs
            self.at = stage.start
            self._named(stage)
        for stage in self.plan.stages:
            self._stage(stage)
        return self.built[self.plan.every[-1].index]

    @property
    def _earlier(self) -> Earlier:
        if self._names is None:
            self._names = Earlier(self.plan.every, self.arguments.dialect)
        return self._names

    # Stages

    def _stage(self, stage: Stage) -> Built:
        known = self.built.get(stage.index)
        if known is not None:
            return known
        before = self._current, self._count, self._total, self.at
        self._current, self._count, self._total, self.at = stage, 0, self._shown(stage), stage.start
        built = self._opened(stage)
        for instruction in stage.steps:
            self.at = instruction
            self._take(built, instruction, built.state.escape)
        built.fresh = self._is_fresh(stage)
        self.built[stage.index] = built
        self._current, self._count, self._total, self.at = before
        return built

    def _needed(self, stage: Stage) -> Built:
        """An earlier stage, which the one that is converted needs."""
        assert self._current is not None  # a stage is converted
        self.needs.setdefault(self._current.index, set()).add(stage.index)
        return self._stage(stage)

    def _named(self, stage: Stage) -> tuple[str, str]:
        """What a stage stands on, and its platform as written or empty. Raises Invalid for what can be neither."""
        outer = self.arguments.of_from()
        base = words.expand(stage.opening.image, outer, self.dockerfile.escape)
        if not base:
            raise Invalid(f"base name ({stage.opening.image}) should not be blank")
        written = stage.opening.platform
        platform = words.expand(written, outer, self.dockerfile.escape)
        if written and not platform:
            raise Invalid(f"empty platform value from expression {written}")
        try:
            _ = platforms.parse(platform) if platform else None
        except Invalid as error:
            raise Invalid(f"failed to parse platform {written}: {error}") from error
        if not self._stands_inside(stage):
            try:
                Reference.parse(base)
            except Invalid as error:
                raise Invalid(f"failed to parse stage name {quoted(base)}: {error}") from error
        return base, platform

    def _opened(self, stage: Stage) -> Built:
        base, platform = self._named(stage)
        wanted = platforms.parse(platform) if platform else self.platform
        built = self._begun(stage, base, platform or self.options.platform, wanted)
        triggers = built.state.config.pop("OnBuild", None) or []
        built.state.set_path()
        for trigger in triggers:
            read = parser.statement(trigger)
            if read.keyword in _NO_TRIGGERS:
                raise Invalid(f"{read.keyword} isn't allowed as an ONBUILD trigger")
            self._take(built, read, _ESCAPE)
        return built

    def _begun(self, stage: Stage, base: str, platform: str, wanted: Platform) -> Built:
        below = self._earlier.below(base, stage.index)
        if below is not None:
            built = self._needed(below).above()
            built.state.arguments = built.state.arguments.above()
            return built
        state = State(self.arguments.of_stage(), wanted, self.dockerfile.escape)
        if base == SCRATCH:
            state.begin_with_nothing()
            state.config["WorkingDir"] = "/"
            return Built(state, None, {})
        found = self.find(base, platform)
        state.config = dict(found.document.get("config") or {}) if found.document else {"WorkingDir": "/"}
        if found.document:
            state.platform = platforms.of(found.document)
        place = self._place()
        if found.tree is not None and found.tree.node.key not in self.of:
            # Of several stages that stand on it the first one names it. A named context has a name of its own.
            node = found.tree.node
            node.name = f"{place} FROM {node.name}" if node.name == node.operation.title else node.name
            self.of[node.key] = stage.start
        return Built(state, found.tree, found.document)

    # Steps

    def _take(self, built: Built, instruction: Instruction, escape: str) -> None:
        """Add one step to a stage."""
        command = built.state.read(instruction, escape)
        match command:
            case commands.Workdir():
                self._workdir(built, instruction, command, escape)
            case commands.Copy() | commands.Add():
                self._copy(built, instruction, command, escape)
            case commands.Run():
                self._run(built, instruction, command, escape)
            case _:
                built.state.configure(command)
                if isinstance(command, commands.Cmd):
                    built.state.config["ArgsEscaped"] = True
                if not isinstance(command, commands.Onbuild) and not isinstance(instruction, Given):  # as with BuildKit
                    built.entries.append(Entry(historytext.of(command, built.state.config), None))

    def _workdir(self, built: Built, instruction: Instruction, command: commands.Workdir, escape: str) -> None:
        title = self._title(built, instruction, command, escape)
        built.state.configure(command)
        path = posixpath.normpath(built.state.config["WorkingDir"])
        text = historytext.of(command, built.state.config)
        if path == "/":
            built.entries.append(Entry(text, None))
            return
        user = built.state.config.get("User") or ""
        seconds = natural(self.options.args.get(_EPOCH) or "", _LATEST)
        node = stepnodes.directory_node(self._around(), _tree(built), path, title, user, seconds)
        self._add(built, instruction, text, node)

    def _copy(self, built: Built, instruction: Instruction, command: commands.Copy | commands.Add, escape: str) -> None:
        around = self._around()
        if isinstance(command, commands.Add):
            command = self.options.policy.added(command)
        request, urls, checksum = stepnodes.asked_copy(built.state, command)
        source = None
        if isinstance(command, commands.Copy) and command.from_:
            source = self._source(command.from_)
        title = self._title(built, instruction, command, escape)
        node = stepnodes.copy_node(around, _tree(built), request, title, source, urls, checksum)
        self._add(built, instruction, historytext.copy(command), node)

    def _run(self, built: Built, instruction: Instruction, command: commands.Run, escape: str) -> None:
        foreign.check(built.state.platform)
        around = self._around()
        asked = stepnodes.asked_run(around, built.state, command)
        title = self._title(built, instruction, command, escape)
        node = asked.node(_tree(built), around, Shell(host=self.options.host, hostname=SANDBOX), title)
        self._add(built, instruction, historytext.run(asked.shown), node)

    def _add(self, built: Built, instruction: Instruction, text: str, node: Node) -> None:
        self.of.setdefault(node.key, instruction)
        built.tree = node.output()
        built.entries.append(Entry(text, node))

    def _around(self) -> Surroundings:
        stage = self._current
        assert stage is not None  # a step belongs to a stage
        named = self.options.hostname, self.options.cache_namespace
        return Surroundings(self.context, self._source, self.options.host, self._is_fresh(stage), *named)

    def _is_fresh(self, stage: Stage) -> bool:
        """Whether nothing of it is taken from the cache."""
        return self.options.no_cache or stage.name in self.options.no_cache_stages

    def _title(self, built: Built, instruction: Instruction, command: commands.Command, escape: str) -> str:
        return f"{self._place()} {steptitles.title(instruction.original, command, built.state, escape)}"

    def _place(self) -> str:
        """The place of the next step that is shown, as `[stage 2/3]`."""
        stage = self._current
        assert stage is not None  # a step belongs to a stage
        self._count += 1
        several = len(self.plan.stages) > 1 or self.prefix
        parts = [self.prefix, stage.name or f"stage-{stage.index}" if several else "", f"{self._count}/{self._total}"]
        return f"[{' '.join(part for part in parts if part)}]"

    def _shown(self, stage: Stage) -> int:
        """How many of its steps are shown."""
        shown = stage.steps if self._stands_inside(stage) else (stage.start, *stage.steps)
        return sum(each.keyword in SHOWN for each in shown)

    def _stands_inside(self, stage: Stage) -> bool:
        """Whether it stands on nothing, or on an earlier stage, so that its FROM is no step to show."""
        base = stage.base
        return base == SCRATCH or (base is not None and self._earlier.below(base, stage.index) is not None)

    def _source(self, name: str) -> Input | None:
        """The tree that a `--from` names: that of a stage by name or number, or another. None for nothing."""
        stage = self._current
        assert stage is not None  # a step belongs to a stage
        earlier = self._earlier.find(name, stage.index)
        if earlier is not None:
            return self._needed(earlier).tree
        if name.isascii() and name.removeprefix("-").isdigit():
            same = natural(name, stage.index) == stage.index
            fault = "refers to current build stage" if same else "index out of bounds"
            raise Invalid(f"invalid from flag value {name}: {fault}")
        if name.lower() == SCRATCH:
            return None
        try:
            found = self.find(name, self.options.platform)
        except EngineError as error:
            raise type(error)(f"invalid from flag value {name}: {error}") from error
        if found.tree is not None and found.tree.node.key not in self.of:
            node = found.tree.node
            node.name = f"FROM {node.name}" if node.name == node.operation.title else node.name
        return found.tree


def _tree(built: Built) -> Input:
    return built.tree or Node(Nothing()).output()


def names_of(plan: Plan, expand: Callable[[str], str]) -> Mapping[str, str]:
    """The names of images that stages stand on, each with its platform as written, as far as both can be known now."""
    found: dict[str, str] = {}
    earlier = Earlier(plan.every)
    for stage in plan.stages:
        if stage.base and stage.base != SCRATCH and earlier.named(stage.base, stage.index) is None:
            try:
                found[stage.base] = expand(stage.opening.platform)
            except Invalid:  # which the conversion finds again, and where it stands
                continue
    return found
