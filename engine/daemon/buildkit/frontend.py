"""The frontend `dockerfile.v0`: fetches the Dockerfile and the context from the client's session, and builds.

Runs on the thread of the call that asks for it.
"""

import functools
import json
from collections.abc import Mapping, Sequence

from engine.daemon.builder import directories, finishing, mirrors, scantargets, stages
from engine.daemon.builder.converting import Built, Conversion, names_of
from engine.daemon.builder.dialect import BUILDKIT
from engine.daemon.builder.graph.node import Node, reachable
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.solver import Solver
from engine.daemon.builder.localtree import Loading, Local
from engine.daemon.builder.options import Options
from engine.daemon.builder.run import Running, StepFailed
from engine.daemon.builder.scantargets import ScanTargets
from engine.daemon.builder.sourcechecks import SourceChecks
from engine.daemon.buildkit import (
    attestwishes,
    authority,
    describing,
    maincontext,
    policyevaluator,
    sessions,
    syntaxes,
    told,
    wishes,
)
from engine.daemon.buildkit.basefinding import Bases
from engine.daemon.buildkit.checking import Checked
from engine.daemon.buildkit.clientfiles import ClientFiles
from engine.daemon.buildkit.contextfinding import ContextFinding, Inputs
from engine.daemon.buildkit.failures import Failing
from engine.daemon.buildkit.inputdirectories import InputDirectories
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import solving
from engine.daemon.buildkit.offers import SessionGiver
from engine.daemon.buildkit.outcome import Outcome, Tree
from engine.daemon.buildkit.provenance.captured import Captured
from engine.daemon.buildkit.sessions import Session
from engine.daemon.buildkit.subrequests.source import Source
from engine.daemon.dockerfile import words
from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.dataclass import dataclass, replace
from engine.errors import EngineError

# BuildKit's names of metadata.
_CONFIG, _BASE, _PLATFORMS = "containerimage.config", "containerimage.base.config", "refs.platforms"


def solve(engine: DaemonParts, job: Job, options: Mapping[str, str], inputs: Inputs | None = None) -> Outcome:
    """Build what the options ask for. What is built is kept from removal until the build of the client ends.

    inputs: trees of the graph that the options name. Raises OtherFrontend for a file that is not this frontend's, and
    EngineErrors; one that belongs to a line of the Dockerfile tells which.
    """
    asked = wishes.read(options)
    job.captured.requested(wishes.NAME, options)
    checks = policyevaluator.checks(engine, job, lambda *source: solving.of(engine, job).source(*source))
    session = sessions.find(job.asked["Session"])
    scans = attestwishes.read(options).generator is not None
    solver = job.workroom(engine).solver(told.Vertices(job.progress), SessionGiver(session, job.check))
    trees = maincontext.judged(checks, asked, inputs or {}, session.id)
    directories = InputDirectories(trees, job.progress, engine.images.layer_root, solver.snapshot, asked.subdir)
    with ClientFiles(engine.settings.data_root, job, session, asked) as files, directories:
        given = _given(asked, files, directories)
        return _built(engine, job, session, asked, files, given, inputs or {}, scans, checks)


@dataclass(frozen=True, slots=True)
class _Given:
    """text: of the Dockerfile; ignored: of the .dockerignore, empty where none counts

    root: descriptor of the context's root, None for a directory of the client that is fetched when a step needs it
    """

    text: bytes
    ignored: str = ""
    root: int | None = None


def _given(asked: wishes.Asked, files: ClientFiles, directories: InputDirectories) -> _Given:
    """What the build is of. Raises EngineErrors."""
    if asked.context:
        context = files.remote()
        # What such a context leaves out is decided where it lies.
        if not asked.own_dockerfile:
            return _Given(context.dockerfile, "", context.root)
        text = directories.dockerfile(asked.filename)
        return _Given(files.dockerfile()[0] if text is None else text, "", context.root)
    root, own = directories.context(), None
    text = directories.dockerfile(asked.filename)
    if text is None:
        text, own = files.dockerfile()
    if root is not None:
        return _Given(text, "", root)
    return _Given(text, files.ignored() if own is None else own)


def _built(
    engine: DaemonParts,
    job: Job,
    session: Session,
    asked: wishes.Asked,
    files: ClientFiles,
    given: _Given,
    inputs: Inputs,
    scans: bool,
    checks: SourceChecks,
) -> Outcome:
    """The same. scans: a bill of materials is asked for"""
    text, ignored = given.text, given.ignored
    chosen = Options(
        dockerfile=asked.filename,
        no_cache=asked.no_cache,
        no_cache_stages=asked.no_cache_stages,
        contexts=tuple(asked.contexts),
        hostname=asked.hostname,
        cache_namespace=asked.cache_namespace,
        checks=checks,
        pull=asked.pull,
        args=asked.args,
        labels=asked.labels,
        target=asked.target,
        platform=asked.platform,
        host=asked.host,
        force_remove=True,
        credentials=lambda domain: authority.credentials(session, domain, job.check),
    )
    job.captured.dockerfile(asked.filename, text)
    checked = Checked(engine.images, job, asked, Source(asked.filename, text), ignored, chosen)
    output = told.Vertices(job.progress)
    if not asked.command_line and (other := syntaxes.other(text, asked.syntax)):
        raise syntaxes.OtherFrontend(other)
    with Failing(asked.filename, text, output):
        if asked.request:
            return Outcome((), checked.answer())
        checked.warn()
        local = describing.context(job.ref, asked, given.root, given.ignored)
        if given.root is None:

            def fetch() -> int:
                root = files.context(text, ignored).root
                local.remembered = mirrors.remembered(root)
                return root

            local.loading = Node(Loading(local, fetch)).output()
        room = job.workroom(engine)
        solver = room.solver(output, SessionGiver(session, job.check))
        with Bases(engine, room.keeper, chosen, job.progress, job.caller, job.captured) as bases:
            wanted = [replace(chosen, platform=each) for each in _platforms(asked)]
            named = ContextFinding(asked, files, session, job.check, inputs, bases.find, checks)
            conversions = [_converted(text, each, len(wanted) > 1, local, bases, named, output) for each in wanted]
        targets = [conversion.target() for conversion in conversions]
        beside = [scantargets.find(conversion) if scans else ScanTargets() for conversion in conversions]
        trees = [target.tree for target in targets] + [tree for each in beside for tree in each.trees.values()]
        nodes = [tree.node for tree in trees if tree is not None]
        _capture(job.captured, nodes)
        _empty_caches(engine, nodes)
        try:
            solver.solve(nodes)
        except StepFailed as error:
            configs = [finishing.planned(*each) for each in zip(targets, map(_platform, wanted), strict=True)]
            error.metadata = _metadata(targets, wanted, configs, asked.indexed)
            raise
        finally:
            if local.remembered is not None:
                local.remembered.save()
        found = _outcome(targets, wanted, solver, asked.indexed)
        whole = []
        for tree, target, conversion, each in zip(found.trees, targets, conversions, beside, strict=True):
            described = describing.described(job.captured, asked, text, target, conversion)
            whole.append(replace(_scanned(solver, tree, each), described=described))
        return replace(found, trees=tuple(whole))


def _platforms(asked: wishes.Asked) -> list[str]:
    """The platforms that are built, as the client has written them; one empty text for the host's."""
    return list(dict.fromkeys(asked.platform.split(",")))


def _converted(
    text: bytes,
    options: Options,
    several: bool,
    local: Local,
    bases: Bases,
    named: ContextFinding,
    output: told.Vertices,
) -> Conversion:
    """The Dockerfile for one platform, converted to its last stage. several: it is one of several"""
    dockerfile, plan, arguments = stages.prepare(text, options.dockerfile, options, BUILDKIT)
    wanted = platforms.wanted(options.platform)
    prefix = str(wanted) if several else ""
    conversion = Conversion(dockerfile, plan, arguments, options, local, named.find, wanted, prefix)
    outer = arguments.of_from()
    names = names_of(plan, lambda text: words.expand(text, outer, dockerfile.escape) or options.platform)
    bases.begin({name: each for name, each in names.items() if named.is_image(name, each)})
    try:
        conversion.target()
    except EngineError:
        output.at = conversion.at
        raise
    output.of = {**output.of, **conversion.of}
    return conversion


def _empty_caches(engine: DaemonParts, nodes: Sequence[Node]) -> None:
    """Empty the caches that commands mount which are made without the cache. Source: buildkit, llbsolver/vertex.go"""
    fresh = (node.operation for node in reachable(nodes) if node.fresh)
    mounts = (mount for each in fresh if isinstance(each, Running) for mount in each.mounts if mount.type == "cache")
    for name in {mount.id or mount.target for mount in mounts}:
        directories.empty(engine, name)


def _capture(captured: Captured, nodes: Sequence[Node]) -> None:
    """Note what the commands among the nodes are given by the client."""
    for node in reachable(nodes):
        if isinstance(node.operation, Running):
            for mount in node.operation.mounts:
                if mount.type == "secret":
                    captured.secret(mount.id)
                elif mount.type == "ssh":
                    captured.agent(mount.id)


def _outcome(targets: Sequence[Built], wanted: Sequence[Options], solver: Solver, indexed: bool) -> Outcome:
    """The trees, each for the platform that the client has named, and the metadata that says so as BuildKit does.

    indexed: as of the outcome
    """
    trees = []
    for target, options in zip(targets, wanted, strict=True):
        config, parts = finishing.document(target, solver, _platform(options))
        platform = _platform(options) or platforms.host()
        steps = functools.partial(solver.steps, target.tree) if target.tree is not None else tuple
        trees.append(Tree(platform, parts, config, steps=steps, id=platform.whole))
    metadata = _metadata(targets, wanted, [tree.config for tree in trees], indexed)
    return Outcome(tuple(trees), metadata, indexed)


def _platform(options: Options) -> Platform | None:
    """The platform that the client has named."""
    return platforms.parse(options.platform) if options.platform else None


def _metadata(
    targets: Sequence[Built], wanted: Sequence[Options], configs: Sequence[Object], indexed: bool
) -> dict[str, bytes]:
    """What BuildKit's frontend says of its results: their platforms, configs, and those of their bases."""
    each = [_platform(options) or platforms.host() for options in wanted]
    metadata = {_PLATFORMS: json.dumps({"Platforms": [_named(platform) for platform in each]}).encode()}
    for platform, config, target in zip(each, configs, targets, strict=True):
        suffix = f"/{platform.whole}" if indexed or len(each) > 1 else ""
        metadata[f"{_CONFIG}{suffix}"] = documents.dump(config)
        if target.base:
            metadata[f"{_BASE}{suffix}"] = documents.dump(target.base)
    return metadata


def _scanned(solver: Solver, tree: Tree, targets: ScanTargets) -> Tree:
    """The tree with those that a bill of materials is about as well."""
    beside = {name: solver.snapshot(each) if each is not None else Snapshot() for name, each in targets.trees.items()}
    return replace(tree, beside=beside, fresh=targets.fresh)


def _named(platform: Platform) -> Object:
    own = {"architecture": platform.architecture, "os": platform.os}
    more = {"variant": platform.variant, "os.version": platform.version, "os.features": list(platform.features)}
    return {"ID": platform.whole, "Platform": own | {name: value for name, value in more.items() if value}}


def end_with(session: Session, job: Job) -> None:
    """Have the build end when the client's session does."""

    def lost() -> None:
        job.give_up("the session was lost")

    session.watch(lost)
    job.held.callback(session.unwatch, lost)
