"""The classic door to the evaluator of Dockerfiles: makes an image of each step as it is added, from the cache or anew.

Runs on the request's thread. What it tells of the steps is what docker's clients print.
"""

import contextlib
from contextlib import AbstractContextManager

from engine.daemon.builder import historytext, mounting, run, stepnodes
from engine.daemon.builder.cache import Cache, key_of
from engine.daemon.builder.context import Context
from engine.daemon.builder.converting import Built, Conversion, Entry
from engine.daemon.builder.copies import Packing
from engine.daemon.builder.copying import fetching, prepare
from engine.daemon.builder.graph.node import Node, Value
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.solver import Solver
from engine.daemon.builder.graph.work import Caller
from engine.daemon.builder.output import Lines
from engine.daemon.builder.pulled import Pulled
from engine.daemon.builder.sourcechecks import Added
from engine.daemon.builder.state import Maker, shown_config
from engine.daemon.builder.stepnodes import AskedCopy
from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.parser import Instruction
from engine.daemon.images.image import Image
from engine.daemon.images.layers import merged
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass, replace
from engine.errors import Invalid


class NothingMade(Invalid):
    """The Dockerfile makes no image."""


@dataclass(slots=True, kw_only=True)
class Build(Conversion):
    """A Dockerfile whose steps become images.

    caller: who waits; solver: solves the nodes of steps; number: of the step that was announced last
    """

    engine: ContainerParts
    files: Context
    output: Lines
    caller: Caller
    maker: Maker
    cache: Cache
    solver: Solver
    number: int = 0

    def run(self) -> Image:
        """The image of the last stage. Raises Invalid where it has made none."""
        image = self.target().state.image
        if image is None:
            raise NothingMade("No image was generated. Is your Dockerfile empty?")
        return image

    def begins(self, instruction: Instruction) -> None:
        """Tell that a step begins."""
        self.number += 1
        self.output.step(self.number, self.plan.total, instruction.original)

    def triggered(self, count: int) -> None:
        """Tell that triggers are run."""
        self.output.note(f"# Executing {count} build trigger")
        if count > 1:
            self.output.note("s")
        self.output.note("\n")

    def stands(self, built: Built) -> None:
        """Tell the image of a step."""
        self.output.stands_on(built.state.identity)

    def ended(self, built: Built) -> None:
        """Tell the image of a stage."""
        if built.state.image is not None:
            self.output.image(built.state.identity)

    # Steps

    def titled(self, built: Built, instruction: Instruction, command: commands.Command, escape: str) -> str:
        """The name of a step's node, which no client is told here."""
        return instruction.original

    def added(self, built: Built, instruction: Instruction, entry: Entry) -> None:
        """Have the stage stand on the image that this step makes: the one in the cache, or a new one."""
        state, maker = built.state, self.maker
        before = (_config(state.image).get("Healthcheck") or {}).get("Test") or ["NONE"]
        if instruction.keyword == "HEALTHCHECK" and before[0] != "NONE":
            self.output.note(f"Note: overriding previous HEALTHCHECK: {historytext.plain(before)}\n")
        shown = shown_config(state.config)
        what = {"kind": instruction.keyword, "text": entry.created_by, "decides": self._decides(entry.node)}
        key = key_of(state.identity, str(state.platform), {**shown, "author": state.author}, what)
        image = self.cache.find(key)
        if image is not None:
            self.output.cached()
            maker.hold(image)
        elif entry.exact and (trusted := self.cache.trusted(state.image, entry.created_by)) is not None:
            self.output.cached()
            image = maker.take(state, entry.created_by, *trusted)
        else:
            part = None
            if entry.node is not None:
                below, above = maker.tree(state.image), self.solver.snapshot(entry.node.output())
                part = above.parts[-1] if len(above.parts) > len(below.parts) else None
            with self._idle(built, shown, entry):
                image = maker.add(state, entry.created_by, part)
            self.cache.keep(key, image, entry.created_by)
        state.image, built.tree = image, Node(Pulled(image, image.id)).output()

    def _idle(self, built: Built, config: Object, entry: Entry) -> AbstractContextManager[None]:
        """The container of a step that runs nothing, where it has one."""
        if not entry.idle:
            return contextlib.nullcontext()
        shell = self._shell(built.state)
        return run.idle(self.engine, self.output, shell, config, entry.idle, built.state.layers)

    def _decides(self, node: Node | None) -> Value:
        """What decides the outcome of a step beside its image, its config and its text."""
        operation = None if node is None else node.operation
        if isinstance(operation, Packing):
            return operation.prepared.digest
        if node is None or not isinstance(operation, run.Running):
            return None
        inputs = [Snapshot(), *(self.solver.snapshot(each) for each in node.inputs[1:])]
        seen = mounting.seen(self.caller.check, inputs, operation.mounts)
        return [operation.command.decides(), [mount.decides() for mount in operation.mounts], seen]

    def copied(self, built: Built, part: Added, title: str) -> Entry:
        """A COPY or an ADD with its sources fetched and digested, as its text has the digest."""
        state, around, command = built.state, self._around(), part.command
        asked = stepnodes.asked_copy(around, state, command)
        request = asked.request
        fetched = {url: self._fetched(url, asked) for url in asked.urls}
        found = tuple(fetched.get(each, each) if isinstance(each, str) else each for each in request.sources)
        request = replace(request, sources=found, check=self.caller.check)
        layers = self.solver.snapshot(asked.source).layers if asked.source is not None else ()
        held = merged.held(self.engine.images.layer_root, layers)
        with held if request.keep_owners else contextlib.nullcontext(self.files.root) as root:
            prepared = prepare.prepare(root, request)
        chown = f"--chown={command.chown} " if command.chown else ""
        text = f"#(nop) {request.shown} {chown}{prepared.shown} in {command.destination} "
        node = replace(asked, request=request).node(built.files, around, title, prepared)
        return Entry(" ".join(historytext.nothing_run(state.config, text)), node)

    def _fetched(self, url: str, asked: AskedCopy) -> fetching.Fetched:
        told, keep = self.output.downloading("Downloading"), asked.request.keep_git_dir
        scratch, check = self.files.scratch, self.caller.check
        found = fetching.fetch(url, asked.checksum, scratch, told, check=check, keep_git_dir=keep)
        self.output.downloaded()
        return found


def _config(image: Image | None) -> Object:
    return image.config.get("config") or {} if image is not None else {}
