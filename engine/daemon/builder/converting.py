"""The evaluator of Dockerfiles: turns each stage into a chain of nodes of the graph, and the config of its image.

Both builders are this one, with the rules that `dialect` has for them. BuildKit's door makes the whole graph before
anything of it is solved, as what is in an instruction's words depends on configs alone, which are known once the base
images are found. The classic door (`building`) solves each step when it is added, and makes an image of it: it
overrides what is told (`begins`, `triggered`, `stands`, `ended`, `titled`), what a copy is (`copied`) and how a step is
`added`.
"""

import posixpath
from collections.abc import Callable, Mapping, Sequence

from engine.daemon.builder import foreign, historytext, stepnodes, steptitles
from engine.daemon.builder.arguments import Arguments
from engine.daemon.builder.graph.node import Input, Node
from engine.daemon.builder.localtree import Local
from engine.daemon.builder.options import Options
from engine.daemon.builder.pulled import Nothing
from engine.daemon.builder.run import Shell
from engine.daemon.builder.sourcechecks import Added
from engine.daemon.builder.stages import SCRATCH, Earlier, Given, Plan, Stage
from engine.daemon.builder.state import State
from engine.daemon.builder.stepnodes import Surroundings
from engine.daemon.builder.workdir import MakingDirectory
from engine.daemon.dockerfile import commands, parser, words
from engine.daemon.dockerfile.parser import Dockerfile, Instruction
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field, replace
from engine.errors import EngineError, Invalid, SystemFailure
from engine.kernel import reasons
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
    """What a stage stands on, or is copied from. tree: None for nothing; document: the image's, with its config

    image: of the store, where the images of steps are to stand on it
    """

    tree: Input | None
    document: Object
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One step in an image's history. node: made its files, None where it makes none

    exact: `created_by` alone says what its layer is made of; idle: the words of a command that stands for it where it
    runs none
    """

    created_by: str
    node: Node | None
    exact: bool = True
    idle: Sequence[str] = ()


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

    @property
    def files(self) -> Input:
        """Its tree, also where that is nothing."""
        return self.tree or Node(Nothing()).output()

    def above(self) -> "Built":
        """What a stage begins with that stands on this one."""
        self.state.arguments.growth.take(len(self.entries))
        return Built(self.state.above(), self.tree, self.base, list(self.entries))


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
        for stage in self.plan.every if self.arguments.dialect.stages_named_first else ():  # also one that nobody needs
            self.at = stage.start
            self._named(stage)
        for instruction in self.plan.arguments:
            self.begins(instruction)
        for stage in self.plan.stages:
            self._stage(stage)
        return self.built[self.plan.every[-1].index]

    @property
    def _earlier(self) -> Earlier:
        if self._names is None:
            self._names = Earlier(self.plan.every, self.arguments.dialect)
        return self._names

    # What the classic builder does beside the graph

    def begins(self, instruction: Instruction) -> None:
        """A step begins."""

    def triggered(self, count: int) -> None:
        """So many triggers of the stage's base are about to be run."""

    def stands(self, built: Built) -> None:
        """A step of the stage has ended, its FROM among them."""

    def ended(self, built: Built) -> None:
        """The stage has ended."""

    # Stages

    def _stage(self, stage: Stage) -> Built:
        known = self.built.get(stage.index)
        if known is not None:
            return known
        before = self._current, self._count, self._total, self.at
        self._current, self._count, self._total, self.at = stage, 0, self._shown(stage), stage.start
        self.begins(stage.start)
        built = self._opened(stage)
        self.stands(built)
        for instruction in stage.steps:
            self.at = instruction
            self.begins(instruction)
            self._take(built, instruction, built.state.escape)
            self.stands(built)
        self.ended(built)
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
        dialect = self.arguments.dialect
        if dialect.stage_names_once and stage.name and self._earlier.named(stage.name, stage.index):
            raise Invalid(f"{stage.name} stage name already used")
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
        if dialect.stages_named_first and not self._stands_inside(stage):
            try:
                Reference.parse(base)
            except Invalid as error:
                raise Invalid(f"failed to parse stage name {quoted(base)}: {error}") from error
        return base, platform

    def _opened(self, stage: Stage) -> Built:
        base, platform = self._named(stage)
        wanted = platforms.parse(platform) if platform else self.platform
        built = self._begun(stage, base, platform or self.options.platform, wanted)
        triggers = built.state.triggers()
        built.state.set_path()
        if triggers:
            self.triggered(len(triggers))
        for trigger in triggers:
            read = parser.statement(trigger)
            if read.keyword in _NO_TRIGGERS:
                raise Invalid(f"{read.keyword} isn't allowed as an ONBUILD trigger")
            self._take(built, read, _ESCAPE)
        return built

    def _begun(self, stage: Stage, base: str, platform: str, wanted: Platform) -> Built:
        below = self._earlier.below(base, stage.index)
        if below is not None:
            return self._needed(below).above()
        state = State(self.arguments.of_stage(), wanted, self.dockerfile.escape)
        if base == SCRATCH:
            state.begin_with_nothing()
            return Built(state, None, {})
        found = self.find(base, platform)
        state.begin(found.document, found.image)
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
        """Add one step to a stage. Raises EngineErrors, for errors of the host's kernel too."""
        try:
            command = built.state.read(instruction, escape)
            title = self.titled(built, instruction, command, escape) if instruction.keyword in SHOWN else ""
            match command:
                case commands.Workdir():
                    entry = self._workdir(built, command, title)
                case commands.Copy() | commands.Add():
                    *before, last = self.parts(command)
                    for part in before:
                        self.added(built, instruction, self._copied(built, instruction, part, title))
                    entry = self._copied(built, instruction, last, title)
                case commands.Run():
                    entry = self._run(built, command, title)
                case _:
                    built.state.configure(command)
                    entry = _idle(built.state, command)
            unseen = isinstance(command, commands.Onbuild) or isinstance(instruction, Given)
            if not (unseen and self.arguments.dialect.steps_silent):
                self.added(built, instruction, entry)
        except OSError as error:
            raise SystemFailure(f"{instruction.keyword} failed: {reasons.of(error)}") from error

    def _workdir(self, built: Built, command: commands.Workdir, title: str) -> Entry:
        state = built.state
        state.configure(command)
        path = posixpath.normpath(state.config["WorkingDir"])  # it is cleaned before any link is followed
        if path == "/":
            return _idle(state, command)
        user, seconds = "", None
        if self.arguments.dialect.directories_owned:
            user = state.config.get("User") or ""
            seconds = natural(self.options.args.get(_EPOCH) or "", _LATEST)
        operation = MakingDirectory(path, title, user, seconds)
        return _idle(state, command, Node(operation, (built.files,), title, self._around().fresh))

    def parts(self, command: commands.Copy | commands.Add) -> list[Added]:
        """A COPY or an ADD in the steps that it takes: its client may have other sources used."""
        return self.options.checks.added(command) if isinstance(command, commands.Add) else [Added(command)]

    def _copied(self, built: Built, instruction: Instruction, part: Added, title: str) -> Entry:
        if part.tree is not None:
            self.of.setdefault(part.tree.node.key, instruction)
        return self.copied(built, part, title)

    def copied(self, built: Built, part: Added, title: str) -> Entry:
        """A step of a COPY or an ADD."""
        around = self._around()
        asked = stepnodes.asked_copy(around, built.state, part.command)
        if part.tree is not None:
            asked = replace(asked, request=replace(asked.request, keep_owners=True), source=part.tree)
        return Entry(historytext.copy(part.command), asked.node(built.files, around, title, instead=part.instead))

    def _run(self, built: Built, command: commands.Run, title: str) -> Entry:
        state, dialect = built.state, self.arguments.dialect
        if dialect.emulators_needed:
            foreign.check(state.platform)
        around = self._around()
        asked = stepnodes.asked_run(around, state, command)
        node = asked.node(built.files, around, self._shell(state), title)
        return Entry(historytext.run(asked.shown, dialect), node, asked.exact)

    def _shell(self, state: State) -> Shell:
        options, dialect = self.options, self.arguments.dialect
        return Shell(
            host=options.host,
            image=state.identity,
            repeats=dialect.commands_repeat,
            remove=options.remove,
            remove_failed=options.force_remove,
            hostname=dialect.hostname,
        )

    def added(self, built: Built, instruction: Instruction, entry: Entry) -> None:
        """Put a step on top of the stage."""
        if entry.node is not None:
            self.of.setdefault(entry.node.key, instruction)
            built.tree = entry.node.output()
        built.entries.append(entry)

    def _around(self) -> Surroundings:
        stage = self._current
        assert stage is not None  # a step belongs to a stage
        named = self.options.hostname, self.options.cache_namespace
        return Surroundings(self.context, self._source, self.options.host, self._is_fresh(stage), *named)

    def _is_fresh(self, stage: Stage) -> bool:
        """Whether nothing of it is taken from the cache. Who names images to take it from wants no other results."""
        return self.options.no_cache or bool(self.options.cache_from) or stage.name in self.options.no_cache_stages

    def titled(self, built: Built, instruction: Instruction, command: commands.Command, escape: str) -> str:
        """The name of a step's node."""
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


def _idle(state: State, command: commands.Command, node: Node | None = None) -> Entry:
    """The step of an instruction that runs nothing. node: makes its files"""
    dialect = state.arguments.dialect
    text = historytext.of(command, state.config, dialect)
    if not dialect.nops_shown:
        return Entry(text, node)
    comment = (f"#(nop) {text}",) if isinstance(command, commands.Workdir) else ("#(nop) ", text)
    idle = historytext.nothing_run(state.config, *comment)
    return Entry(" ".join(idle), node, idle=idle)


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
