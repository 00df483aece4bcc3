"""Judges the sources of one build: by the policies that its client and its frontends have sent, and by what the client
says to each source when it is asked (PolicyVerifier).

Runs on the threads of the build. Nothing of a source is fetched before it is judged, but for what the client wants to
know of it. What the client answers is bounded: its rounds, its time and its size. A client that goes ends the build.
Source: buildkit, solver/llbsolver/policy.go.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from engine.daemon.builder import sourcechecks, sourcepolicies
from engine.daemon.builder.graph.node import Input
from engine.daemon.builder.sourcechecks import SourceChecks
from engine.daemon.builder.sourcepolicies import Source, SourcePolicies
from engine.daemon.buildkit import methods, policyreading, sessions
from engine.daemon.buildkit.calling import unary
from engine.daemon.buildkit.faultwords import causes
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import repositories
from engine.daemon.buildkit.messages import gateway, ops, policy, policysession
from engine.daemon.dockerfile.gotext import quoted
from engine.daemon.images import platform as platforms
from engine.daemon.parts import DaemonParts
from engine.daemon.runtime import worker
from engine.errors import EngineError, Forbidden, Invalid, Unavailable
from engine.late import TYPE_CHECKING, late
from engine.protocols import grpc

if TYPE_CHECKING:  # loaded by the first policy that wants to know more of a source
    from engine.daemon.buildkit.llb import sourcemeta
else:
    sourcemeta = late("engine.daemon.buildkit.llb.sourcemeta")

_MOST_ROUNDS = 10
_SECONDS = 600.0  # for one answer: the client may have to verify signatures for it
_AT_ONCE = 8
_MOST_ATTRIBUTES, _LONGEST_ATTRIBUTE = 100, 64 * 1024
_MOST_MESSAGES, _LONGEST_MESSAGE = 100, 4096
_WITH_PLATFORM = (sourcechecks.IMAGE, sourcechecks.LAYOUT)
_ASKED = ("git.checksum", "git.keepgitdir", "git.skipsubmodules", "git.mtime", "git.fetchbycommit")
"""What the query of a repository's name may ask for, which the name in BuildKit's form does not have."""
_ACTIONS = {policy.ALLOW: "ALLOW", policy.DENY: "DENY", policy.CONVERT: "CONVERT"}


class Denied(Forbidden):
    """The client has denied a source. messages: why, in its own words"""

    def __init__(self, words: str, messages: Sequence[str] = ()) -> None:
        super().__init__(words)
        self.messages = tuple(messages)


class PolicyEvaluator:
    """What judges the sources of one build, or of one call of a frontend; any thread may use it."""

    def __init__(self, engine: DaemonParts, job: Job, policies: SourcePolicies) -> None:
        self._engine, self._job, self._policies = engine, job, policies
        self._session = job.asked["SourcePolicySession"]
        self._lock = threading.Lock()  # of the policies: an expression is used by one thread at a time

    @property
    def active(self) -> bool:
        """Whether there is anything to judge by."""
        return bool(self._policies.policies or self._session)

    def judged(self, source: Source, platform: ops.Platform | None = None) -> Source:
        """The source that is to be used. Raises Forbidden for one that is denied, Invalid, Unavailable, Lost."""
        left, kind = _MOST_ROUNDS, source.kind
        found: Source | None = source
        while found is not None:
            source = self._static(found)
            found, left = self._asked(source, platform, left) if self._session else (None, left)
        return source if source.kind == kind else source.without_others()

    def every(self, asked: Sequence[tuple[Source, ops.Platform | None]]) -> list[Source]:
        """The sources that are to be used for these; a client is asked about some at once. Raises as `judged`."""
        if len(asked) < 2 or not self._session:
            return [self.judged(*each) for each in asked]
        places, found = iter(range(len(asked))), dict[int, Source]()
        failures: list[BaseException] = []
        over, changed = threading.Semaphore(0), threading.Lock()

        def work() -> None:
            try:
                while not failures:
                    with changed:
                        place = next(places, None)
                    if place is None:
                        break
                    found[place] = self.judged(*asked[place])
            except BaseException as error:  # raised again for whoever waits
                failures.append(error)
            finally:
                over.release()

        threads = min(len(asked), _AT_ONCE)
        for _ in range(threads):
            worker.begin("policy", work)
        for _ in range(threads):
            over.acquire()
        if failures:
            raise failures[0]
        return [found[place] for place in range(len(asked))]

    def _static(self, source: Source) -> Source:
        if not self._policies.policies:
            return _normal(source)
        with self._lock:
            return self._policies.judged(_normal(source))

    def _asked(self, source: Source, platform: ops.Platform | None, left: int) -> tuple[Source | None, int]:
        """What the client converts a source to, None where it allows it, and how many rounds are left."""
        op: ops.SourceOp = {"identifier": source.identifier, "attrs": dict(source.attributes)}
        told: gateway.ResolveSourceMetaResponse = {"Source": op}
        while left > 0:
            left -= 1
            answer = self._call({"Platform": platform, "Source": told})
            more, decision = answer["request"], answer["decision"]
            if more is not None:
                told = self._resolved(op, more)
                continue
            if decision is None:
                raise Invalid("no decision in policy response")
            if decision["action"] == policy.CONVERT:
                return _updated(decision["update"]), left
            if decision["action"] != policy.ALLOW:
                action = _ACTIONS.get(decision["action"], str(decision["action"]))
                messages = [each["message"][:_LONGEST_MESSAGE] for each in decision["denyMessages"][:_MOST_MESSAGES]]
                raise Denied(f"source {quoted(source.identifier)} not allowed by policy: action {action}", messages)
            return None, left
        raise Invalid("too many policy requests")

    def _call(self, asked: policysession.CheckPolicyRequest) -> policysession.CheckPolicyResponse:
        end = time.monotonic() + _SECONDS

        def check() -> None:
            self._job.check()
            if time.monotonic() > end:
                raise Unavailable(f"the client has not said within {_SECONDS:.0f} seconds whether a source may be used")

        link = sessions.find(self._session).link
        try:
            return unary(link, methods.POLICY, *_TABLES, asked, check=check)
        except grpc.Failed as error:  # a client that cannot decide allows nothing
            raise Forbidden(error.status.words) from error

    def _resolved(self, op: ops.SourceOp, asked: gateway.ResolveSourceMetaRequest) -> gateway.ResolveSourceMetaResponse:
        """What the client wants to know of the source that it is asked about. Raises EngineErrors."""
        wanted = asked["Source"]
        if wanted is None or wanted["identifier"] != op["identifier"]:
            other = wanted["identifier"][: sourcepolicies.LONGEST] if wanted is not None else ""
            words = f"policy requested different source identifier: {quoted(other)} != {quoted(op['identifier'])}"
            raise Invalid(words)
        if dict(wanted["attrs"]) != dict(op["attrs"]):
            raise Invalid("policy requested different source attrs")
        with prefixed("error resolving source metadata from policy request"):
            return sourcemeta.source(self._engine, self._job, op, asked)


_TABLES = policysession.CheckPolicyRequest, policysession.CheckPolicyResponse


def _updated(update: ops.SourceOp | None) -> Source:
    """The source that a client wants instead. Raises Invalid."""
    if update is None:
        raise Invalid("convert action requires updated source")
    values = (*update["attrs"], *update["attrs"].values())
    if len(update["identifier"]) > sourcepolicies.LONGEST or len(values) > 2 * _MOST_ATTRIBUTES:
        raise Invalid("the source that the policy wants instead has too long a name, or too many attributes")
    if max(map(len, values), default=0) > _LONGEST_ATTRIBUTE:
        raise Invalid("an attribute of the source that the policy wants instead is too long")
    return Source(update["identifier"], dict(update["attrs"]))


def _normal(source: Source) -> Source:
    """A source with its name in BuildKit's own form: of a repository, no path leads up, and nobody's name is in it."""
    if source.kind != sourcechecks.GIT:
        return source
    try:
        whole, _, fragment = source.name.partition("#")
        address = repositories.address_of(f"https://{whole}", fragment)
    except Invalid:  # which who takes it finds again
        return source
    found = sourcechecks.of_git(address)
    asked = {key: value for key, value in found.attributes.items() if key in _ASKED} if "?" in whole else {}
    return Source(found.identifier, asked | dict(source.attributes))


@contextlib.contextmanager
def prefixed(words: str) -> Iterator[None]:
    """What is refused within says before what it is about."""
    try:
        yield
    except (Forbidden, Invalid) as error:
        raise type(error)(f"{words}: {error}") from error


def of(
    engine: DaemonParts,
    job: Job,
    before: Sequence[policy.Policy] = (),
    after: Sequence[policy.Policy] = (),
) -> PolicyEvaluator:
    """The evaluator of a build. before, after: policies of a frontend, which go before the client's or come after it

    Raises Invalid, NotBuilt.
    """
    return PolicyEvaluator(engine, job, policyreading.read([*before, job.asked["SourcePolicy"], *after]))


def checks(engine: DaemonParts, job: Job, tree: Callable[[Source, ops.Platform], Input] | None = None) -> SourceChecks:
    """The checks of a build, for what names platforms as a Dockerfile does. tree: as of `SourceChecks`

    Raises Invalid, NotBuilt.
    """
    evaluator = of(engine, job)
    if not evaluator.active:
        return SourceChecks()

    known: dict[tuple[object, ...], Source | EngineError] = {}  # a check of the file asks for what its build does too

    def judge(source: Source, platform: str) -> Source:
        key = source.identifier, *sorted(source.attributes.items()), platform
        if key not in known:
            try:
                known[key] = _told(evaluator, source, platform)
            except (Forbidden, Invalid) as error:
                known[key] = error
        found = known[key]
        if isinstance(found, EngineError):
            raise found
        return found

    if tree is None:
        return SourceChecks(judge)
    return SourceChecks(judge, lambda source, platform: tree(source, message_of(platform)))


def _told(evaluator: PolicyEvaluator, source: Source, platform: str) -> Source:
    if source.kind not in _WITH_PLATFORM:
        with prefixed("error evaluating the source policy"):
            return evaluator.judged(source)
    with prefixed("could not resolve image due to policy"):
        return evaluator.judged(source, message_of(platform))


def message_of(platform: str) -> ops.Platform:
    """A platform as a Dockerfile has it, or the host's where it is empty, as graphs have it. Raises Invalid."""
    found = platforms.parse(platform) if platform else platforms.host()
    return {"Architecture": found.architecture, "OS": found.os, "Variant": found.variant}


def reasons(error: BaseException | None) -> list[str]:
    """Why a client has denied a source, in its own words; none for another failure."""
    denials = (each for each in causes(error) if isinstance(each, Denied) and each.messages)
    denial = next(denials, None)
    return [] if denial is None else list(denial.messages)


def graph_sources(evaluator: PolicyEvaluator, asked: Sequence[ops.Op]) -> list[Source]:
    """The sources that are to be used for those of a graph. Raises as `judged`."""
    found = []
    for op in asked:
        source = op["source"]
        assert source is not None  # as the caller has chosen
        found.append((Source(source["identifier"], dict(source["attrs"])), op["platform"]))
    with prefixed("error evaluating the source policy"):
        return evaluator.every(found)
