"""The frontend `gateway.v0`: the program of an image, which speaks LLBBridge over its standard streams.

Runs on the thread of the call that asks for it. The image is a stranger's: its container has the rights of an ordinary
one, it names trees of its own alone, and what it asks for is what any client may ask for.
"""

import json
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from engine.daemon.builder import bases
from engine.daemon.builder.conversing import Listener, Speaker, converse
from engine.daemon.builder.dialect import BUILDKIT
from engine.daemon.builder.options import Options
from engine.daemon.buildkit import authority, jobs, methods, policyevaluator, workers
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.llb import returned
from engine.daemon.buildkit.llb.asker import Asker
from engine.daemon.buildkit.llb.references import References
from engine.daemon.buildkit.llb.returned import Answer
from engine.daemon.buildkit.llb.rooms import Rooms
from engine.daemon.buildkit.messages import gateway, ops
from engine.daemon.buildkit.progress import STDERR, Vertex
from engine.daemon.buildkit.serving import Method, Server
from engine.daemon.images.image import Image
from engine.daemon.parts import DaemonParts
from engine.daemon.runtime import worker
from engine.errors import EngineError, Invalid, NotBuilt, Unavailable
from engine.literals import BOOLEANS

NAME = "gateway.v0"
"""What clients call the frontend."""
SOURCE = "source"
"""The option that names its image."""
DEEPEST = 4
"""How many frontends of images may lie in each other."""
Serve = Callable[[DaemonParts, Asker], dict[str, Callable[[Any], None]]]
"""Gives the methods of LLBBridge, by their paths, for one frontend."""
_CAPABILITIES, _NO_NETWORK = "moby.buildkit.frontend.caps", "moby.buildkit.frontend.network.none"
_INPUTS = "moby.buildkit.frontend.inputs"
_DEFAULT = ("/run",)  # the program of an image that names none
_LARGEST = 128 * 1024  # bytes of all options, as they are variables of the program


class _Ending:
    """Takes what the frontend ends with; the first word counts."""

    def __init__(self) -> None:
        self.result: gateway.Result | None = None
        self.failure: EngineError | None = None

    def answer(self, result: gateway.Result | None, failure: EngineError | None) -> None:
        """The frontend has returned."""
        if self.result is None and self.failure is None:
            self.result, self.failure = result, failure


def solve(
    engine: DaemonParts,
    job: Job,
    options: Mapping[str, str],
    inputs: Mapping[str, ops.Definition],
    serve: Serve,
    depth: int,
) -> Answer:
    """What the frontend of the image that the options name makes. depth: of frontends around it

    Raises EngineErrors: what it ends with, and what its container does.
    """
    name = options.get(SOURCE, "")
    if not name:
        raise Invalid("no source specified for gateway")
    if "gateway-devel" in options:
        raise NotBuilt("development gateway is no longer supported")
    if depth >= DEEPEST:
        raise Invalid(f"frontends lie in each other more than {DEEPEST} times")
    name = policyevaluator.checks(engine, job).image(name)
    job.captured.requested(NAME, options)
    vertex = job.progress.vertex(f"resolve image config for docker-image://{name}")
    vertex.begin()
    try:
        image = _image(engine, job, name)
        speaker = _speaker(engine, job, image, options, bool(inputs))
    except EngineError as error:
        vertex.end(str(error))
        raise
    ending = _Ending()
    asker = Asker(job, inputs, ending.answer, References(), Rooms(), depth + 1)
    try:
        with jobs.program(job):
            _run(engine, job, speaker, serve(engine, asker), vertex, ending)
        if ending.failure is not None:
            raise ending.failure
        answer = returned.read(ending.result, asker.references) if ending.result is not None else Answer()
    except EngineError as error:
        vertex.end(str(error))
        raise
    vertex.end()
    return answer


def _image(engine: DaemonParts, job: Job, name: str) -> Image:
    options = Options(credentials=authority.of_session(job.asked["Session"], job.check))
    image = bases.find(engine, name, "", options, lambda _line: None, {}, job.gone, BUILDKIT)
    job.workroom(engine).keeper.hold(image)
    return image


def _speaker(engine: DaemonParts, job: Job, image: Image, options: Mapping[str, str], has_inputs: bool) -> Speaker:
    """The program. Raises Invalid for too many options, NotBuilt for a capability that the frontend has not."""
    config = image.config.get("config") or {}
    labels = config.get("Labels") or {}
    has = set(_listed(labels.get(_CAPABILITIES, "")))
    wanted = {*_listed(options.get("frontend.caps", "")), *((_INPUTS,) if has_inputs else ())}
    for each in sorted(wanted - has):
        raise NotBuilt(f"unsupported frontend capability {each}")
    given = [
        f"BUILDKIT_FRONTEND_OPT_{place}={key}={value}" for place, (key, value) in enumerate(sorted(options.items()))
    ]
    if sum(map(len, given)) > _LARGEST or any("\0" in each for each in given):
        raise Invalid(f"the options of a frontend of an image have at most {_LARGEST} characters, and no NUL")
    record = workers.record(engine)
    shown = [{key.lower(): each[key] for key in ("Architecture", "OS")} for each in record["platforms"]]
    known = json.dumps([{"ID": record["ID"], "Labels": record["Labels"], "Platforms": shown}])
    return Speaker(
        image,
        tuple(config.get("Entrypoint") or _DEFAULT),
        (
            *given,
            f"BUILDKIT_SESSION_ID={job.asked['Session']}",
            f"BUILDKIT_WORKERS={known}",
            "BUILDKIT_EXPORTEDPRODUCT=",
        ),
        not BOOLEANS.get(labels.get(_NO_NETWORK, ""), False),
    )


def _listed(text: str) -> list[str]:
    """Names that are joined by commas; one that ends with `+forward` is for a frontend further on."""
    return [each for each in text.split(",") if each and not each.endswith("+forward")]


def _run(
    engine: DaemonParts,
    job: Job,
    speaker: Speaker,
    served: dict[str, Callable[[Any], None]],
    vertex: Vertex,
    ending: _Ending,
) -> None:
    """Run the program, and answer its calls until it ends. Raises Unavailable for one that ends without a result."""
    table = {path: Method(*methods.TABLES[path], method) for path, method in served.items()}
    near, far = socket.socketpair()
    link = Link(near, False, Server(table.get).accept)
    gone, bell = os.pipe2(os.O_CLOEXEC)

    def listen() -> None:
        try:
            link.run()
        finally:
            os.close(bell)

    worker.begin("frontend", listen)
    try:
        listener = Listener(far, gone, lambda data: vertex.log(data, STDERR))
        code = converse(engine, speaker, listener, job.caller)
    finally:
        link.close()
        os.close(gone)
    if ending.failure is not None:
        return
    if code is None:
        raise Unavailable("the frontend has broken the connection, and had to be ended")
    if code:
        raise Unavailable(f"the frontend has ended with the exit code {code}")
    if ending.result is None:
        raise Unavailable("the frontend has ended without a result")
