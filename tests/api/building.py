"""Builds over raw HTTP, for the tests of `POST /build`: what was sent, what was said, and what came of it."""

import json
import re
import time
import uuid
from dataclasses import dataclass
from urllib.parse import urlencode

from tests.harness import rootfs, schema
from tests.harness.daemon import Daemon
from tests.harness.http import Answer

TAR = {"Content-Type": "application/x-tar"}


@dataclass(frozen=True)
class Built:
    """One build's answer."""

    answer: Answer

    @property
    def lines(self) -> list[dict]:
        """Its lines."""
        return self.answer.lines

    @property
    def text(self) -> str:
        """All that it said, as a client prints it."""
        return "".join(line.get("stream", "") for line in self.lines)

    @property
    def error(self) -> str:
        """What went wrong; empty for nothing."""
        if self.answer.status != 200:
            return self.answer.message
        return self.lines[-1].get("error", "")

    @property
    def image(self) -> str:
        """The id of what was built."""
        assert not self.error, (self.error, self.text)
        return [line["aux"]["ID"] for line in self.lines if "aux" in line][-1]

    @property
    def output(self) -> list[str]:
        """What the commands and the builder said, without what says how far it is, and without ids."""
        marks = ("Step ", " ---> ", "Successfully ")
        return [line for line in self.text.splitlines() if line and not line.startswith(marks)]

    @property
    def cached(self) -> int:
        """How many steps ran nothing."""
        return self.text.count(" ---> Using cache\n")

    @property
    def ran(self) -> int:
        """How many commands were run: a step that changes only the config has a container that never runs."""
        steps = re.split(r"^Step \S+ : ", self.text, flags=re.MULTILINE)
        return sum(step.count(" ---> Running in ") for step in steps if step.upper().startswith(("RUN", "FROM")))


def context(files: dict[str, str | bytes]) -> bytes:
    """A tar of plain files."""
    return rootfs.archive([(name, 0o644, _bytes(content)) for name, content in files.items()])


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def request_target(query: dict[str, object]) -> str:
    """The path of a build; commands have no network unless something else is said."""
    pairs = []
    for name, value in {"networkmode": "none", **query}.items():
        for each in value if isinstance(value, list) else [value]:
            pairs.append((name, json.dumps(each) if isinstance(each, dict) else each))
    return f"/build?{urlencode(pairs)}"


def build(
    daemon: Daemon,
    dockerfile: str | dict[str, str | bytes],
    headers: dict[str, str] | None = None,
    api: str = "",
    **query: object,
) -> Built:
    """Build a Dockerfile, or a context with one in it; api: as the path says its version."""
    files = dockerfile if isinstance(dockerfile, dict) else {"Dockerfile": dockerfile}
    with daemon.connection(60) as connection:
        target = request_target(query)
        answer = connection.request("POST", api + target, context(files), {**TAR, **(headers or {})})
    if not api:
        schema.check("POST", target.partition("?")[0], answer)
    return Built(answer)


def config_of(daemon: Daemon, image: str) -> dict:
    """The container's config of an image."""
    return inspect(daemon, image)["Config"]


def inspect(daemon: Daemon, image: str) -> dict:
    """An image as the API shows it."""
    return daemon.request("GET", f"/images/{image}/json").json()


def history(daemon: Daemon, image: str) -> list[str]:
    """The lines of an image's history, the newest first."""
    return [step["CreatedBy"] for step in daemon.request("GET", f"/images/{image}/history").json()]


def images(daemon: Daemon, query: str = "all=1") -> set[str]:
    """Ids of the images that a listing shows."""
    return {image["Id"] for image in daemon.request("GET", f"/images/json?{query}").json()}


def containers(daemon: Daemon) -> list[str]:
    """Ids of all containers."""
    return [container["Id"] for container in daemon.request("GET", "/containers/json?all=1").json()]


def unique() -> str:
    """A word that no build before has used."""
    return uuid.uuid4().hex[:12]


def see(found: object, seconds: float = 30.0) -> object:
    """Ask until it is true; for what no event tells."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.01)
    return value
