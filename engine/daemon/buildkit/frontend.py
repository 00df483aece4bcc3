"""The frontend `dockerfile.v0`: fetches the Dockerfile and the context from the client's session, and builds.

Runs on the thread of the call that asks for it.
"""

from collections.abc import Mapping

from engine.daemon.build import building
from engine.daemon.build.build import made
from engine.daemon.build.context import Context
from engine.daemon.build.graph.keeper import Keeper
from engine.daemon.build.options import Options
from engine.daemon.buildkit import authority, sessions, told, wishes
from engine.daemon.buildkit.checking import Checked
from engine.daemon.buildkit.clientfiles import ClientFiles, ignored_in
from engine.daemon.buildkit.failures import Failing
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.offers import SessionGiver
from engine.daemon.buildkit.outcome import Outcome, Tree
from engine.daemon.buildkit.sessions import Session
from engine.daemon.buildkit.subrequests.source import Source
from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.parts import DaemonParts


def solve(engine: DaemonParts, job: Job, options: Mapping[str, str]) -> Outcome:
    """Build what the options ask for. What is built is kept from removal until the build of the client ends.

    Raises EngineErrors; one that belongs to a line of the Dockerfile tells which.
    """
    asked = wishes.read(options)
    job.captured.requested(wishes.NAME, options)
    session = sessions.find(job.asked["Session"])
    end_with(session, job)
    with ClientFiles(engine.settings.data_root, job, session, asked) as files:
        return _built(engine, job, session, asked, files)


def _built(engine: DaemonParts, job: Job, session: Session, asked: wishes.Asked, files: ClientFiles) -> Outcome:
    context: Context | None = None
    if asked.context:
        context = files.remote()
        text = context.dockerfile
        ignored = ignored_in(context)
    else:
        text, own = files.dockerfile()
        ignored = files.ignored() if own is None else own
    output = told.Vertices(job.progress)
    chosen = Options(
        dockerfile=asked.filename,
        no_cache=asked.no_cache,
        pull=asked.pull,
        force_remove=True,
        args=asked.args,
        labels=asked.labels,
        target=asked.target,
        platform=asked.platform,
        host=asked.host,
        credentials=lambda domain: authority.credentials(session, domain),
    )
    job.captured.dockerfile(asked.filename, text)
    checked = Checked(engine.images, job, asked, Source(asked.filename, text), ignored, chosen.credentials)
    with Failing(asked.filename, text, output):
        if asked.request:
            return Outcome((), checked.answer())
        checked.warn()
        _, plan, _ = building.prepare(text, asked.filename, chosen)
        output.plan(plan.stages)
        if context is None:
            context = files.context(text, ignored)
        image = job.held.enter_context(made(engine, chosen, context, output, job.caller, SessionGiver(session))).image
        output.finish()
    return _outcome(engine, image)


def _outcome(engine: DaemonParts, image: Image) -> Outcome:
    with Keeper(engine.images) as keeper:
        parts = keeper.image(image).parts
    metadata = {"containerimage.config": documents.dump(image.config)}
    return Outcome((Tree(platforms.of(image.config), parts, image.config, image),), metadata)


def end_with(session: Session, job: Job) -> None:
    """Have the build end when the client's session does."""

    def lost() -> None:
        job.give_up("the session was lost")

    session.watch(lost)
    job.held.callback(session.unwatch, lost)
