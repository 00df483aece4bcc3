"""Whatever a client gives as a secret goes to the server that it is for, and nowhere else.

Each field that can hold one has a word of its own in it, and is used well and in vain. Then none of the words is in an
answer, an event, the log, a process's arguments, or a file of the roots, where histories, the cache's records and
provenance are.
"""

import base64
import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.api.building import TAR, context
from tests.harness import web
from tests.harness.contexts import Member, archive
from tests.harness.daemon import Daemon
from tests.harness.gitserver import GitServer, serving
from tests.harness.http import Answer

WORD = f"canary{secrets.token_hex(6)}"  # no other process of the host has it in its arguments
LONG = 60
# What the daemon must know for as long as a container or a volume lives stands in its database, which root alone reads.
_KEPT = rb"(?!\w+-(?:env|exec|proxy|bare-proxy|volume|splunk))"
TREE = archive(Member("Dockerfile", "FROM scratch\nCOPY a /a\n"), Member("a", "text"))
PAGES: web.Pages = {
    "/file": (200, {}, b"text"),
    "/ctx.tar": (200, {"Content-Type": "application/x-tar"}, TREE),
    "/page": (200, {"Content-Type": "text/html"}, b"<html>"),
    "/moved": (302, {"Location": f"http://u:{WORD}-moved@127.0.0.1:1/"}, b""),
}


class Asker:
    """Calls a daemon, and keeps what can be seen of it meanwhile. url: of the pages; git: of the repositories"""

    def __init__(self, daemon: Daemon, url: str, git: GitServer) -> None:
        self.daemon, self.url, self.git = daemon, url, git
        self.seen: dict[str, bytes] = {}
        git.look = self.look

    def look(self) -> None:
        """Read the arguments of all processes."""
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = file.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            self.seen[f"arguments of {file.parent.name}"] = words

    def __call__(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None, **query: object
    ) -> Answer:
        words = urlencode(query, doseq=True)
        with self.daemon.connection(LONG) as connection:
            answer = connection.request(method, f"{path}?{words}" if words else path, body, headers or {})
        self.seen[f"answer {len(self.seen)} to {method} {path}"] = answer.body
        for line in answer.body.splitlines():
            if b"moby.buildkit.trace" in line:
                self.seen[f"trace {len(self.seen)}"] = base64.b64decode(json.loads(line)["aux"])
        return answer

    def secret(self, name: str, url: str) -> str:
        """The URL with credentials, whose password has a word and the name."""
        return url.replace("://", f"://user:{WORD}-{name}@", 1)

    def build(self, dockerfile: str = "FROM scratch\n", **query: object) -> None:
        """Build it with the classic builder and with BuildKit, also where that may reach the pages."""
        for how in ({"version": "1"}, {"version": "2"}, {"version": "2", "networkmode": "host"}):
            self("POST", "/build", context({"Dockerfile": dockerfile}), TAR, **how, **query)


def _git_context(ask: Asker) -> None:
    for version in ("1", "2"):
        for place in ("a.git", "a.git#absent", "none.git"):
            url = f"http://127.0.0.1:{ask.git.port}/{place}"
            ask("POST", "/build", version=version, remote=ask.secret("git-context", url))
    ask("POST", "/build", remote=f"http://{WORD}-git-name@127.0.0.1:{ask.git.port}/a.git")
    for scheme in ("ssh", "git"):
        ask("POST", "/build", remote=ask.secret(f"{scheme}-context", f"{scheme}://127.0.0.1:1/a.git"))


def _remote_context(ask: Asker) -> None:
    for version in ("1", "2"):
        for place in ("ctx.tar", "page", "absent", "moved", "bad%zz"):
            ask("POST", "/build", version=version, remote=ask.secret("context", f"{ask.url}/{place}"))
        for place in ("ftp://h/x", "http://127.0.0.1:1/x", "http://h:port/x", "http:///x", "http://[x/"):
            ask("POST", "/build", version=version, remote=ask.secret("strange-context", place))
        for odd in ("a/b", "a b", "a%b", "a\tb", "a@b"):
            ask("POST", "/build", version=version, remote=f"http://user:{WORD}-odd{odd}{WORD}-odd@127.0.0.1:1/x")


def _add(ask: Asker) -> None:
    for number, place in enumerate(("file", "absent", "moved")):
        ask.build(f"FROM scratch\nLABEL n={number}\nADD {ask.secret('add', f'{ask.url}/{place}')} /f\n")
    url = ask.secret("add-git", f"http://127.0.0.1:{ask.git.port}/a.git")
    ask.build(f"FROM scratch\nADD --keep-git-dir=true {url} /g\n")
    ask.build(f"FROM scratch\nADD --checksum=sha256:{'0' * 64} {ask.secret('sum', f'{ask.url}/file')} /f\n")


def _import(ask: Asker) -> None:
    for place in (f"{ask.url}/ctx.tar", f"{ask.url}/page", "http://127.0.0.1:1/x", "ftp://h/", "http://h:bad/"):
        ask("POST", "/images/create", fromSrc=ask.secret("import", place), repo="imported")


def _registry(ask: Asker) -> None:
    given = {"username": "u", "password": f"{WORD}-registry", "serveraddress": "127.0.0.1:1"}
    tokens = {"identitytoken": f"{WORD}-identity", "registrytoken": f"{WORD}-token"}
    for auth in (given, given | tokens, {"auth": base64.b64encode(f"u:{WORD}-auth".encode()).decode()}):
        headers = {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(auth).encode()).decode()}
        ask("POST", "/images/create", None, headers, fromImage="127.0.0.1:1/x", tag="latest")
        ask("POST", "/images/127.0.0.1:1/x/push", None, headers)
        ask("GET", "/distribution/127.0.0.1:1/x/json", None, headers)
        ask("POST", "/auth", auth | {"serveraddress": "127.0.0.1:1"})
        several = base64.urlsafe_b64encode(json.dumps({"127.0.0.1:1": auth}).encode()).decode()
        tar = TAR | {"X-Registry-Config": several}
        for version in ("1", "2"):
            ask("POST", "/build", context({"Dockerfile": "FROM 127.0.0.1:1/x\n"}), tar, version=version)
    ask("GET", f"/distribution/{quote(ask.secret('name', 'http://127.0.0.1:1/x'), safe='')}/json")


def _proxies(ask: Asker) -> None:
    """An ARG that is there without being named is in no history."""
    arguments = {"HTTP_PROXY": f"http://u:{WORD}-proxy@127.0.0.1:1", "https_proxy": f"u:{WORD}-bare-proxy@127.0.0.1:1"}
    ask.build("FROM busybox\nRUN true\n", buildargs=json.dumps(arguments))


def _volume(ask: Asker) -> None:
    options = {"type": "cifs", "device": "//127.0.0.1/x", "o": f"addr=127.0.0.1,username=u,password={WORD}-volume"}
    made = ask.daemon.request("POST", "/volumes/create", {"Name": "kept", "Driver": "local", "DriverOpts": options})
    assert made.status == 201, made  # its answer, and inspect, show the options, as with docker
    body = {"Image": "busybox", "Cmd": ["true"], "HostConfig": {"Binds": ["kept:/v:nocopy"]}}
    answer = ask("POST", "/containers/create", body)
    ask("POST", f"/containers/{answer.json()['Id']}/start")
    ask.daemon.remove(answer.json()["Id"])
    ask.daemon.request("DELETE", "/volumes/kept")


def _log_driver(ask: Asker) -> None:
    for url in ("http://127.0.0.1:1", "nothing"):
        options = {"splunk-url": url, "splunk-token": f"{WORD}-splunk"}
        config = {"LogConfig": {"Type": "splunk", "Config": options}}
        made = ask("POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"], "HostConfig": config})
        ask("POST", f"/containers/{made.json()['Id']}/start")
        ask.daemon.remove(made.json()["Id"])


def _environment(ask: Asker) -> None:
    """Of containers and of commands in them; inspect shows them, as with docker."""
    body = {"Image": "busybox", "Cmd": ["sleep", "99"], "Env": [f"SECRET={WORD}-env"]}
    container = ask("POST", "/containers/create", body).json()["Id"]
    ask("POST", f"/containers/{container}/start")
    asked = {"Cmd": ["sleep", "99"], "Env": [f"SECRET={WORD}-exec"]}
    command = ask("POST", f"/containers/{container}/exec", asked).json()["Id"]
    ask("POST", f"/exec/{command}/start", {"Detach": True})
    ask.look()
    for path in (f"/containers/{container}/top", "/containers/json", f"/exec/{command}/json"):
        ask("GET", path)
    ask.daemon.remove(container)


FIELDS: tuple[Callable[[Asker], None], ...] = (
    *(_git_context, _remote_context, _add, _import, _registry, _proxies, _volume, _log_driver, _environment),
)


@pytest.fixture
def ask(own_daemon: Daemon, tmp_path: Path) -> Iterator[Asker]:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    pages, repositories = own_daemon.namespaces.socket(), own_daemon.namespaces.socket()
    with web.serving(PAGES, pages) as url, serving(tmp_path, repositories) as git:
        git.repository("a").commit({"Dockerfile": "FROM scratch\nCOPY . /c\n"})
        yield Asker(own_daemon, url, git)


def test_no_secret_is_seen(ask: Asker) -> None:
    for use in FIELDS:
        use(ask)
    assert any(field.lower().startswith("basic ") for field in ask.git.asked)  # they were of use
    ask.look()
    for image in ask("GET", "/images/json", all=1).json():
        ask("GET", f"/images/{image['Id']}/history")
        ask("GET", f"/images/{image['Id']}/json")
    ask("GET", "/system/df", verbose=1)
    ask("GET", "/events", since=1, until=ask.daemon.request("GET", "/info").json()["SystemTime"])
    seen = dict(ask.seen) | {"the log": ask.daemon.log.encode()}
    assert not _found(seen.items())
    for root in (ask.daemon.data_root, ask.daemon.exec_root):
        assert not _found(((str(path), path.read_bytes()) for path in _files(root)), _KEPT)


def _files(top: Path) -> Iterator[Path]:
    return (path for path in top.rglob("*") if path.is_file() and not path.is_symlink())


def _found(texts: Iterable[tuple[str, bytes]], without: bytes = b"") -> dict[str, list[bytes]]:
    """The words in texts, by name: the first ones, with what stands around each."""
    around = re.compile(rb".{0,60}" + without + WORD.encode() + rb".{0,40}", re.DOTALL)
    return {name: found[:3] for name, text in texts if (found := around.findall(text))}
