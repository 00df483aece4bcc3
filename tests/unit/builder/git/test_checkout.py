"""Fetching from a git repository: which commit it is, what is laid out, and what a hostile repository cannot do."""

import base64
import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.builder.git import checkout, gitaddress, gitprogram
from engine.daemon.buildkit.llb import repositories
from engine.errors import EngineError, Invalid, NotFound, SystemFailure, Unavailable
from tests.harness.gitserver import SECONDS, GitServer, serving
from tests.harness.listening import until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as served:
        yield served


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    place = tmp_path / "scratch"
    place.mkdir()
    return place


class Client:
    """A giver with these secrets, and the path of an agent."""

    def __init__(self, secrets: dict[str, bytes] | None = None, agent: bool = False, name: str = "default") -> None:
        self.secrets, self.has_agent, self.name = secrets or {}, agent, name

    def secret(self, id: str) -> bytes | None:
        return self.secrets.get(id)

    @contextlib.contextmanager
    def agent(self, id: str, path: str) -> Iterator[bool]:
        assert id == self.name
        if self.has_agent:
            Path(path).touch()
        yield self.has_agent


def fetched(scratch: Path, text: str, giver: Client | None = None, keep: bool = False) -> checkout.CheckedOut:
    """What a build gets for an address."""
    address = gitaddress.parse(text)
    assert address is not None
    resolved = checkout.resolve(address, str(scratch), giver, lambda: None)
    return checkout.check_out(address, resolved, str(scratch), giver, lambda: None, keep)


def files(found: checkout.CheckedOut) -> dict[str, str]:
    """The files and their contents."""
    top = Path(found.path)
    return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*")) if path.is_file()}


def test_a_branch_a_tag_and_a_commit_are_found(server: GitServer, scratch: Path) -> None:
    repository = server.repository("a")
    first = repository.commit({"one": "1", "deep/er/file": "x"})
    repository("tag", "plain")
    repository("tag", "-a", "-m", "words", "noted")
    second = repository.commit({"two": "2"})
    repository("branch", "feature/x", first)
    url = server.url("a")
    for ref, commit in {
        "": second,
        "#main": second,
        "#refs/heads/main": second,
        "#plain": first,
        "#noted": first,
        "?tag=noted": first,
        "#feature/x": first,
        f"#{first}": first,
        f"#{second}": second,
        f"?checksum={second[:10]}#main": second,
        f"?fetch-by-commit&checksum={first}": first,
    }.items():
        found = fetched(scratch, url + ref)
        assert found.commit == commit, ref
        assert ("two" in files(found)) == (commit == second)
        assert not os.path.lexists(os.path.join(found.path, ".git"))
    assert files(fetched(scratch, f"{url}#main:deep/er")) == {"file": "x"}


def test_what_is_not_there_is_refused(server: GitServer, scratch: Path) -> None:
    repository = server.repository("a")
    repository.commit({"one": "1"})
    (repository.place / "link").symlink_to("/etc")
    (repository.place / "inner").symlink_to("deep")
    commit = repository.commit({"deep/file": "x"})
    url = server.url("a")
    for text, kind, words in (
        (f"{url}#absent", NotFound, "does not contain ref absent"),
        (f"{url}#{'a' * 40}", EngineError, "a" * 40),
        (f"{url}?checksum=abcdef12", Invalid, "expected checksum to match abcdef12, got"),
        (f"{url}?checksum=abcdef12#{commit}", Invalid, "expected checksum to match abcdef12, got"),
        (f"{url}#:absent", NotFound, "has no directory absent"),
        (f"{url}#:link", Invalid, "a link leads to it"),
        (f"{url}#:link/ssl", Invalid, "a link leads to it"),
        (f"{url}#:inner", Invalid, "a link leads to it"),
        (server.url("nothing"), SystemFailure, "git ls-remote failed"),
    ):
        with pytest.raises(kind, match=words):
            fetched(scratch, text)


def test_the_files_of_git_stay_where_they_are_wanted(server: GitServer, scratch: Path) -> None:
    commit = server.repository("a").commit({"one": "1"})
    found = fetched(scratch, server.url("a"), keep=True)
    git = gitprogram.Git(found.path)
    assert git("rev-parse", "HEAD").strip() == commit
    assert git("remote", "get-url", "origin").strip() == server.url("a")
    assert git("status", "--porcelain") == ""


def test_the_time_of_the_commit_can_be_that_of_the_files(server: GitServer, scratch: Path) -> None:
    repository = server.repository("a")
    (repository.place / "link").symlink_to("one")
    repository.commit({"one": "1", "deep/two": "2"})
    found = fetched(scratch, f"{server.url('a')}?mtime=commit")
    for name in ("one", "link", "deep", "deep/two"):
        assert os.lstat(os.path.join(found.path, name)).st_mtime == SECONDS


@pytest.mark.parametrize("dumb", [False, True])
def test_submodules_come_with_it_unless_they_are_not_wanted(server: GitServer, scratch: Path, dumb: bool) -> None:
    server.repository("inner").commit({"within": "w"})
    outer = server.repository("outer")
    outer("submodule", "-q", "add", server.url("inner"), "sub")
    outer.commit({"own": "o"})
    server.dumb = dumb
    assert set(files(fetched(scratch, server.url("outer")))) == {".gitmodules", "own", "sub/within"}
    assert set(files(fetched(scratch, f"{server.url('outer')}?submodules=false"))) == {".gitmodules", "own"}


@pytest.mark.parametrize("url", ["file://{}", "{}", "ext::sh -c touch% {}/pwned", "-u./{}", "fd::3"])
def test_a_submodule_reaches_nothing_on_the_host(server: GitServer, scratch: Path, tmp_path: Path, url: str) -> None:
    inner = server.repository("inner")
    commit = inner.commit({"secret": "s"})
    outer = server.repository("outer")
    text = f'[submodule "sub"]\n\tpath = sub\n\turl = {url.format(inner.place)}\n\tupdate = !touch {tmp_path}/pwned\n'
    (outer.place / ".gitmodules").write_text(text)
    outer("update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    outer.commit()
    with contextlib.suppress(EngineError):
        assert "sub/secret" not in files(fetched(scratch, server.url("outer")))
    assert not list(tmp_path.rglob("pwned"))


def test_nothing_of_a_repository_is_run(server: GitServer, scratch: Path, tmp_path: Path) -> None:
    repository = server.repository("a")
    hook = f"#!/bin/sh\ntouch {tmp_path}/pwned\n"
    for name in ("post-checkout", "hooks/post-checkout", ".githooks/post-checkout"):
        path = repository.place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(hook)
        path.chmod(0o755)
    (repository.place / ".gitconfig").write_text(f'[filter "x"]\n\tsmudge = touch {tmp_path}/pwned\n')
    repository.commit({".gitattributes": "* filter=x\n", "file": "x"})
    found = fetched(scratch, server.url("a"), keep=True)
    assert os.path.exists(os.path.join(found.path, "file"))
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize(
    "secrets",
    [
        {"GIT_AUTH_TOKEN": b"secret\n"},
        {"GIT_AUTH_TOKEN.127.0.0.1:{}": b"secret", "GIT_AUTH_TOKEN": b"wrong"},
        {"GIT_AUTH_HEADER": b"basic " + base64.b64encode(b"x-access-token:secret")},
    ],
    ids=["token", "of the host", "header"],
)
def test_a_token_of_the_client_opens_a_repository(server: GitServer, scratch: Path, secrets: dict) -> None:
    server.repository("a").commit({"one": "1"})
    server.token = "basic " + base64.b64encode(b"x-access-token:secret").decode()
    client = Client({name.format(server.port): value for name, value in secrets.items()})
    assert files(fetched(scratch, server.url("a"), client)) == {"one": "1"}
    with pytest.raises(SystemFailure, match=r"terminal prompts disabled|Authentication failed"):
        fetched(scratch, server.url("a"))
    with pytest.raises(Invalid, match="is no token"):
        fetched(scratch, server.url("a"), Client({"GIT_AUTH_HEADER": b"a\r\nHost: other"}))


def test_ssh_is_spoken_with_the_clients_agent(
    server: GitServer, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.repository("a").commit({"one": "1"})
    programs = tmp_path / "programs"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\necho "$SSH_AUTH_SOCK" > {tmp_path}/agent\n'
        f"for last; do :; done\ncd {server.place}\nexport GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory"
        ' GIT_CONFIG_VALUE_0="*"\neval "$last"\n'
    )
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert files(fetched(scratch, "git@host.example:a.git", Client(agent=True))) == {"one": "1"}
    words = (tmp_path / "words").read_text().split()
    assert "git@host.example" in words and "StrictHostKeyChecking=no" in words
    assert (tmp_path / "agent").read_text().strip().endswith("/agent")


def test_ssh_is_spoken_with_hosts_that_a_graph_knows_and_with_the_agent_that_it_names(
    server: GitServer, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys lie in a file that is gone afterwards."""
    server.repository("a").commit({"one": "1"})
    programs = tmp_path / "programs"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n'
        f'for word; do case $word in UserKnownHostsFile=*) cp "${{word#*=}}" {tmp_path}/known;; esac; done\n'
        f"for last; do :; done\ncd {server.place}\nexport GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory"
        ' GIT_CONFIG_VALUE_0="*"\neval "$last"\n'
    )
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    attrs = {
        "git.fullurl": "git@host.example:a.git",
        "git.knownsshhosts": "host.example key\n",
        "git.mountsshsock": "me",
    }
    address = repositories.read("git://host.example/a.git", attrs).address
    client = Client(agent=True, name="me")
    resolved = checkout.resolve(address, str(scratch), client, lambda: None)
    assert files(checkout.check_out(address, resolved, str(scratch), client, lambda: None, False)) == {"one": "1"}
    words = (tmp_path / "words").read_text().split()
    assert "StrictHostKeyChecking=yes" in words and (tmp_path / "known").read_text() == "host.example key\n"
    (place,) = (word.partition("=")[2] for word in words if word.startswith("UserKnownHostsFile="))
    assert not os.path.exists(place)


def test_without_git_the_host_says_so(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(scratch))
    with pytest.raises(Unavailable, match="this host has no git"):
        fetched(scratch, "https://host.example/a.git")


class Gone(EngineError):
    """Nobody waits any more."""


def test_a_client_that_goes_away_ends_git(server: GitServer, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = scratch / "programs"
    programs.mkdir()
    (programs / "git").write_text(f"#!/bin/sh\nsleep 600 & echo $! > {scratch}/child\nwait\n")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def check() -> None:
        if (scratch / "child").exists() and (scratch / "child").read_text():
            raise Gone

    with pytest.raises(Gone):
        gitprogram.Git(str(scratch), check=check)("fetch")
    child = (scratch / "child").read_text().strip()
    until(lambda: not Path(f"/proc/{child}").exists() or "State:\tZ" in Path(f"/proc/{child}/status").read_text())
