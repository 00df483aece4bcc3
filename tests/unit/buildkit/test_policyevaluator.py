"""What a client is asked about sources: for how long, how often, and what of its answer counts."""

import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.daemon.builder.sourcepolicies import Source
from engine.daemon.buildkit import jobs, methods, policyevaluator
from engine.daemon.buildkit.faultwords import causes
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.messages import policy, policysession
from engine.daemon.buildkit.policyevaluator import Denied
from engine.daemon.buildkit.serving import Call, Cancelled, Method
from engine.daemon.buildkit.sessions import Session
from engine.errors import EngineError, Forbidden, Invalid, Unavailable
from tests.harness.links import LONG, running
from tests.harness.policing import ALLOW, DENY, converted, policy_of, rule

IMAGE = Source("docker-image://docker.io/library/busybox:latest")
Decide = Callable[[policysession.CheckPolicyRequest], Any]


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Job, list[Decide]]]:
    """A build whose client decides by the last one of the list."""
    decide: list[Decide] = [lambda _asked: ALLOW]

    def run(call: Call[policysession.CheckPolicyRequest, policysession.CheckPolicyResponse]) -> None:
        call.send(decide[-1](call.one()))

    near, far = socket.socketpair()
    link = Link(near, True)
    thread = threading.Thread(target=link.run)
    thread.start()
    made = jobs.begin({"Ref": uuid.uuid4().hex, "SourcePolicy": None, "SourcePolicySession": "it"})
    with running(far, False, {methods.POLICY: Method(*methods.TABLES[methods.POLICY], run)}):
        monkeypatch.setattr(policyevaluator.sessions, "find", lambda _id: Session("it", "", frozenset(), link))
        yield made, decide
        jobs.end(made)
    thread.join(LONG)


def evaluator(job: Job, **policies: Any) -> policyevaluator.PolicyEvaluator:
    """What judges the sources of that build."""
    return policyevaluator.of(None, job, **policies)  # type: ignore[arg-type]


def test_a_client_has_some_time_for_an_answer(job: tuple[Job, list[Decide]], monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    job[1].append(lambda _asked: over.wait(LONG) and ALLOW)
    monkeypatch.setattr(policyevaluator, "_SECONDS", 0.1)
    with pytest.raises(Unavailable, match="has not said within"):
        evaluator(job[0]).judged(IMAGE)
    over.set()


def test_a_build_that_is_given_up_waits_for_no_answer(job: tuple[Job, list[Decide]]) -> None:
    over = threading.Event()

    def decide(_asked: policysession.CheckPolicyRequest) -> Any:
        job[0].give_up("nobody waits")
        return over.wait(LONG) and ALLOW

    job[1].append(decide)
    with pytest.raises(Cancelled):
        evaluator(job[0]).judged(IMAGE)
    over.set()


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({str(number): "x" for number in range(200)}, "too many attributes"),
        ({"a": "x" * 100_000}, "attribute of the source that the policy wants instead is too long"),
        ({"a" * 100_000: "x"}, "attribute of the source that the policy wants instead is too long"),
    ],
)
def test_what_a_client_wants_instead_is_bounded(
    job: tuple[Job, list[Decide]], attrs: dict[str, str], words: str
) -> None:
    job[1].append(
        lambda _asked: {"decision": {"action": policy.CONVERT, "update": {"identifier": "x", "attrs": attrs}}}
    )
    with pytest.raises(Invalid, match=words):
        evaluator(job[0]).judged(IMAGE)


def test_the_reasons_of_a_client_are_bounded_and_outlive_other_words(job: tuple[Job, list[Decide]]) -> None:
    said = [{"message": "x" * 10_000}] * 200
    job[1].append(lambda _asked: {"decision": {"action": policy.DENY, "denyMessages": said}})
    with pytest.raises(Forbidden) as caught, policyevaluator.prefixed("about it"):
        evaluator(job[0]).judged(IMAGE)
    assert str(caught.value).startswith("about it: source ")
    assert policyevaluator.reasons(caught.value) == ["x" * 4096] * 100
    assert policyevaluator.reasons(Invalid("another failure")) == []


def test_attributes_of_another_kind_are_left_behind(job: tuple[Job, list[Decide]]) -> None:
    job[1].append(
        lambda asked: ALLOW if "https" in str(asked) else converted("https://x", http_filename="y", git_x="z")
    )
    assert evaluator(job[0]).judged(IMAGE) == Source("https://x", {"http.filename": "y"})


def test_the_policies_go_before_the_client(job: tuple[Job, list[Decide]]) -> None:
    """It is asked about what they make of a source, and not about what they deny."""
    asked: list[str] = []
    job[1].append(lambda each: asked.append(each["Source"]["Source"]["identifier"]) or ALLOW)  # type: ignore[func-returns-value]
    moved, denied = policy_of(rule(policy.CONVERT, "*busybox*", "docker-image://y")), policy_of(rule(policy.DENY, "*"))
    assert evaluator(job[0], before=[moved]).judged(IMAGE) == Source("docker-image://y")
    with pytest.raises(Forbidden, match="denied by policy"):
        evaluator(job[0], after=[denied]).judged(IMAGE)
    assert asked == ["docker-image://y"]


def test_many_are_asked_about_some_at_once(job: tuple[Job, list[Decide]]) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def decide(asked: policysession.CheckPolicyRequest) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1
        return DENY if "bad" in str(asked) else ALLOW

    job[1].append(decide)
    sources = [Source(f"https://x/{number}") for number in range(50)]
    assert evaluator(job[0]).every([(each, None) for each in sources]) == sources
    assert most <= 8
    with pytest.raises(EngineError, match="not allowed by policy: action DENY"):
        evaluator(job[0]).every([(each, None) for each in (*sources, Source("https://x/bad"))])


@pytest.mark.parametrize(
    ("name", "expected", "attributes"),
    [
        ("git://h.example/r.git#main:a/../b", "git://h.example/r.git#main:b", {}),
        ("git://h.example/./r.git?checksum=abc&ref=v1", "git://h.example/r.git#v1", {"git.checksum": "abc"}),
        ("git://h.example/r.git?nothing=1", "git://h.example/r.git?nothing=1", {}),
        ("docker-image://busybox", "docker-image://busybox", {}),
    ],
)
def test_a_repository_is_judged_by_its_name_in_one_form(
    job: tuple[Job, list[Decide]], name: str, expected: str, attributes: dict[str, str]
) -> None:
    """What its query has asked for is not lost."""
    assert evaluator(job[0]).judged(Source(name)) == Source(expected, attributes)


def test_a_failure_that_is_its_own_cause_has_an_end() -> None:
    """Threads that wait for one failure raise it again, one of them while it handles it."""
    one, other = Invalid("one"), Denied("other", ("no",))
    one.__cause__ = one
    assert policyevaluator.reasons(one) == []
    one.__cause__, other.__cause__ = other, one
    assert policyevaluator.reasons(one) == ["no"]
    assert list(causes(other)) == [other, one]
