"""Registries that want a password or a token, with the real buildx: who is given what, by the client's settings alone.

The client fetches tokens itself, so it runs in the daemon's network, as the registries and the token server do.
"""

import base64
import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.building import Building, building, told
from tests.clients.conftest import Client
from tests.harness.daemon import Daemon
from tests.harness.registry import Registry
from tests.harness.tokens import IDENTITY, TokenServer
from tests.images.conftest import HTPASSWD

pytestmark = pytest.mark.seldom
PORTS = {"password": 5001, "token": 5002}
NO_KEY = "push access denied, repository does not exist or may require authorization"
REFUSED = {"password": "the registry refuses the credentials", "token": "401 Unauthorized"}
RIGHT, WRONG = "user:secret", "user:wrong"


@dataclass
class Locked:
    """buildx, and a registry that is locked. tokens: the server of its tokens, also where it wants a password

    refusal: what is said of a wrong password
    """

    build: Building
    address: str
    tokens: TokenServer
    refusal: str

    def keys(self, pair: str = "", **more: str) -> None:
        """The client has this for the registry, and nothing else."""
        entry = {**more, **({"auth": base64.b64encode(pair.encode()).decode()} if pair else {})}
        (self.build.settings / "config.json").write_text(json.dumps({"auths": {self.address: entry} if entry else {}}))
        self.tokens.asked.clear()

    def forget(self) -> None:
        """Nothing of it is in the daemon."""
        for image in self.build.daemon.request("GET", "/images/json?all=1").json():
            if any(name.startswith(self.address) for name in image["RepoTags"]):
                self.build.daemon.request("DELETE", f"/images/{image['Id']}?force=1")
        assert self.build.daemon.request("POST", "/build/prune?all=1").status == 200


@pytest.fixture(scope="module")
def tokens(apart: Daemon, world) -> Iterator[TokenServer]:
    """The server, and the registries beside it."""
    for program in ("docker-registry", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    place = world.directory()
    (place / "htpasswd").write_text(HTPASSWD)
    password = f"auth:\n  htpasswd:\n    realm: here\n    path: {place}/htpasswd\n"
    machine = apart.namespaces
    with (
        contextlib.closing(TokenServer(place, machine.socket())) as server,
        Registry(world.directory(), machine, PORTS["password"], password),
        Registry(world.directory(), machine, PORTS["token"], server.wanted()),
    ):
        yield server


@pytest.fixture(params=PORTS)
def locked(apart: Daemon, docker: Client, tokens: TokenServer, tmp_path: Path, request) -> Iterator[Locked]:
    made = building(apart, tmp_path)
    made.program = ["nsenter", f"--target={apart.namespaces.pid}", "--net", "--", "docker"]
    there = Locked(made, f"127.0.0.1:{PORTS[request.param]}", tokens, REFUSED[request.param])
    yield there
    there.forget()


def test_a_registry_is_pushed_to_and_built_from_by_who_has_the_key(locked: Locked) -> None:
    name = f"{locked.address}/made/{locked.build.place.parent.name.replace('_', '-').lower()}:1"
    locked.build.write("RUN echo of the base > /file")
    for pair, words in (("", NO_KEY), (WRONG, locked.refusal)):
        locked.keys(pair)
        assert words in told(locked.build("build", "-t", name, "--push", "."), 1)
    locked.keys(RIGHT)
    told(locked.build("build", "-t", name, "--push", "."))
    (locked.build.place / "Dockerfile").write_text(f"FROM {name}\nRUN cat /file\n")
    for pair in ("", WRONG):
        locked.forget()
        locked.keys(pair)
        output = told(locked.build("build", "."), 1)
        assert name in output and "of the base" not in output
    locked.keys(RIGHT)
    assert " of the base\n" in told(locked.build("build", "."))


def test_a_cache_is_kept_behind_the_lock(locked: Locked) -> None:
    """Who has no key builds without it."""
    cache = f"type=registry,ref={locked.address}/made/cache"
    locked.build.write("RUN echo made $((1 + 1)) times")
    locked.keys(RIGHT)
    told(locked.build("build", "--cache-to", cache, "."))
    locked.forget()
    locked.keys()
    output = told(locked.build("build", "--cache-from", cache, "."))
    assert " made 2 times\n" in output, output
    locked.forget()
    locked.keys(RIGHT)
    output = told(locked.build("build", "--cache-from", cache, "."))
    assert re.search(r"^#(\d+) \[2/2\] RUN echo made .*\n#\1 CACHED$", output, re.MULTILINE), output


@pytest.mark.parametrize("locked", ["token"], indirect=True)
def test_the_client_fetches_tokens_for_what_is_to_be_done_and_gives_those_that_it_has(locked: Locked) -> None:
    """The token server is asked by the client, which tells its own name there."""
    locked.build.write("RUN echo of the base > /file")
    words = ("build", "-t", f"{locked.address}/made/token:1", "--push", ".")
    for key in ({"pair": RIGHT}, {"identitytoken": IDENTITY}):
        locked.keys(**key)
        told(locked.build(*words))
        scopes = {word for _, asked in locked.tokens.asked for word in asked["scope"].split()}
        assert "repository:made/token:pull,push" in scopes, locked.tokens.asked
        names = {asked.get("client_id") for method, asked in locked.tokens.asked if method == "POST"}
        assert names == {"buildkit-client"}, locked.tokens.asked
    locked.keys(registrytoken=locked.tokens.token("repository:made/token:pull,push", "here"))
    told(locked.build(*words))
    assert locked.tokens.asked == []
    locked.keys(registrytoken=locked.tokens.token("repository:made/other:pull,push", "here"))
    assert NO_KEY in told(locked.build(*words), 1)
