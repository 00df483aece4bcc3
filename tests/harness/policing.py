"""Policies on the sources of builds: their messages, and a client, as a test plays it, that decides by call."""

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.messages import ops, policy, policysession
from engine.daemon.buildkit.serving import Call, Method
from tests.harness.daemon import Daemon
from tests.harness.frontends import UPGRADE, Frontend, dial
from tests.harness.graphs import MKFILE, Writer
from tests.harness.links import running

ALLOW: policysession.CheckPolicyResponse = {"decision": {"action": policy.ALLOW}}
DENY: policysession.CheckPolicyResponse = {"decision": {"action": policy.DENY}}
Decide = Callable[[policysession.CheckPolicyRequest], policysession.CheckPolicyResponse]


def converted(identifier: str, **attrs: str) -> policysession.CheckPolicyResponse:
    """The decision for another source."""
    update = {"identifier": identifier, "attrs": {key.replace("_", "."): value for key, value in attrs.items()}}
    return {"decision": {"action": policy.CONVERT, "update": update}}  # type: ignore[typeddict-item]


@dataclass
class Policing:
    """The session. decide: what it says; asked: what it was asked; id: its own"""

    decide: Decide
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    asked: list[policysession.CheckPolicyRequest] = field(default_factory=list)

    @property
    def fields(self) -> dict[str, Any]:
        """Those of a Solve that it decides about."""
        return {"Session": self.id, "SourcePolicySession": self.id}

    @property
    def sources(self) -> list[str]:
        """The names of the sources that it was asked about."""
        return [
            each["Source"]["Source"]["identifier"] for each in self.asked if each["Source"] and each["Source"]["Source"]
        ]

    def run(self, call: Call[policysession.CheckPolicyRequest, policysession.CheckPolicyResponse]) -> None:
        """Answer one question."""
        asked = call.one()
        self.asked.append(asked)
        call.send(self.decide(asked))


@contextlib.contextmanager
def policing(
    daemon: Daemon, decide: Decide = lambda _asked: ALLOW, more: dict[str, Method] | None = None
) -> Iterator[Policing]:
    """The session, while it is there. more: other methods that it serves, by their paths"""
    made = Policing(decide)
    served = {methods.POLICY: Method(*methods.TABLES[methods.POLICY], made.run), **(more or {})}
    head = (
        f"{UPGRADE}X-Docker-Expose-Session-Uuid: {made.id}\r\nX-Docker-Expose-Session-Grpc-Method: {methods.POLICY}\r\n"
    )
    with running(dial(daemon, "/session", head), False, served):
        yield made


def rule(action: int, pattern: str, target: str = "", kind: int = policy.WILDCARD, **attrs: str) -> policy.Rule:
    """One rule of a policy."""
    updates: policy.Update = {"identifier": target, "attrs": {key.replace("_", "."): attrs[key] for key in attrs}}
    return {
        "action": action,
        "selector": {"identifier": pattern, "match_type": kind, "constraints": []},
        "updates": updates,
    }


def policy_of(*rules: policy.Rule) -> policy.Policy:
    """A policy of these."""
    return {"version": 1, "rules": list(rules)}


def source(identifier: str, attrs: Mapping[str, str] | None = None) -> ops.Definition:
    """A graph that is about one source."""
    writer = Writer()
    return writer.definition(writer.add({"source": {"identifier": identifier, "attrs": dict(attrs or {})}}))


def directory(**files: str) -> ops.Definition:
    """A graph that is about these files."""
    writer = Writer()
    actions = [{"mkfile": {**MKFILE, "path": f"/{name}", "data": text.encode()}} for name, text in files.items()]
    return writer.definition(writer.files(*actions))


def build(asked: Frontend, *lines: str, **options: str) -> str:
    """The id of what a Dockerfile makes; contexts and files that its client does not have are none."""
    text = "".join(f"{line}\n" for line in lines)
    inputs = {name: directory(Dockerfile=text, file="of the context\n") for name in ("context", "dockerfile")}
    request = {"Frontend": "dockerfile.v0", "FrontendOpt": options, "FrontendInputs": inputs}
    found = asked("Solve", {**request, "allowResultReturn": True, "allowResultArrayRef": True})["result"]
    return found["ref"]["id"]
