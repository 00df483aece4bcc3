"""Every row of `docker system --help`, with every option of each, and what of docker's own commands is about the whole.

A row is a function here named after its command; the first test reads the client's own help, so that a command which a
newer client brings has to be shown too. The daemon is this file's own: `docker system prune` spares nobody.
"""

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.clients.cli import OPTION, ROW, said
from tests.clients.conftest import Client
from tests.harness import rootfs
from tests.harness.daemon import Daemon

KINDS = ("Images", "Containers", "Local Volumes", "Build Cache")


@pytest.fixture
def docker(apart: Daemon) -> Client:
    """The docker CLI and a daemon that nobody else has, with busybox."""
    if shutil.which("docker") is None:
        pytest.skip("needs the docker CLI")
    return Client(apart, "docker")


class Things:
    """One of each kind that a prune takes away, and one of each that is in use; all with a label."""

    def __init__(self, docker: Client, label: str) -> None:
        self.docker = docker
        self.label = label
        ours = ("--label", label)
        name = f"row-{uuid.uuid4().hex[:12]}"
        self.used, self.plain, self.anonymous = f"{name}-used", f"{name}-plain", ""
        self.network, self.tagged = f"{name}-net", f"{name}:tagged"
        said(docker("volume", "create", *ours, self.used))
        said(docker("volume", "create", *ours, self.plain))
        self.anonymous = said(docker("volume", "create", *ours)).strip()
        said(docker("network", "create", *ours, self.network))
        change = ("-c", f"LABEL {label.replace('=', ' ')}")
        self.dangling = self.image(change, "")
        self.tagged_id = self.image(change, self.tagged)
        running = ("run", "-d", "--network", "none", *ours, "-v", f"{self.used}:/v")
        self.running = said(docker(*running, "busybox", "sleep", "600")).strip()
        self.stopped = said(docker("create", *ours, "busybox", "true")).strip()

    def image(self, change: tuple[str, ...], name: str) -> str:
        """The id of a small image."""
        archive = rootfs.archive([("file", 0o644, os.urandom(2000))])
        return said(self.docker("import", *change, "-", *([name] if name else []), input=archive)).strip()

    def left(self) -> set[str]:
        """What of all this is there, by the names of the attributes."""
        words = ("-q", "--no-trunc", "--filter", f"label={self.label}")
        found = said(self.docker("ps", "-a", *words)) + said(self.docker("images", "-a", *words))
        named = ("-q", "--filter", f"label={self.label}")
        found += said(self.docker("volume", "ls", *named))
        found += said(self.docker("network", "ls", "--format", "{{.Name}}", "--filter", f"label={self.label}"))
        names = ("used", "plain", "anonymous", "network", "dangling", "tagged_id", "running", "stopped")
        return {name for name in names if getattr(self, name) in found.split()}


@pytest.fixture
def things(docker: Client) -> Iterator[Things]:
    """Things of one test's own, gone afterwards."""
    made = Things(docker, f"test.system={uuid.uuid4().hex}")
    yield made
    docker("rm", "-f", "-v", made.running)
    docker("system", "prune", "-f", "-a", "--volumes", "--filter", f"label={made.label}")
    docker("volume", "rm", "-f", made.used, made.plain)


def test_every_row_of_the_help_is_shown_here(docker: Client) -> None:
    rows = ROW.findall(said(docker("system", "--help")))
    assert len(rows) >= 4
    assert [row for row in rows if f"test_{row}" not in globals()] == []


def test_df(docker: Client, things: Things) -> None:
    def rows(*words: str) -> dict[str, dict]:
        found = map(json.loads, said(docker("system", "df", "--format", "json", *words)).splitlines())
        return {row["Type"]: row for row in found}

    table = said(docker("system", "df")).splitlines()
    assert table[0].split() == ["TYPE", "TOTAL", "ACTIVE", "SIZE", "RECLAIMABLE"]
    assert [next(kind for kind in KINDS if row.startswith(kind)) for row in table[1:]] == list(KINDS)
    before = rows()
    counts = {kind: (row["TotalCount"], row["Active"]) for kind, row in before.items()}
    assert counts == {
        "Images": ("3", "1"),
        "Containers": ("2", "1"),
        "Local Volumes": ("3", "1"),
        "Build Cache": ("0", "0"),
    }
    script = "head -c 100000 /dev/zero > /v/f; head -c 300000 /dev/zero > /f; sync"
    said(docker("exec", things.running, "sh", "-c", script))
    after = rows()
    assert after["Local Volumes"]["Size"] == "100kB" and after["Local Volumes"]["Reclaimable"] == "0B (0%)"
    assert after["Containers"]["Size"] != before["Containers"]["Size"]
    assert said(docker("system", "df", "--format", "{{.Type}}={{.TotalCount}}")).splitlines()[1] == "Containers=2"
    assert docker("system", "df", "-v", "--format", "{{.Type}}").returncode != 0, "of the long form json alone"


def test_df_verbose(docker: Client, things: Things) -> None:
    shown = said(docker("system", "df", "--verbose"))
    parts = re.split(r"^(\w[\w ]+?)(?: space)? usage:.*\n", shown, flags=re.MULTILINE)
    tables = {name: text.strip().splitlines() for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    assert tables.keys() == {"Images", "Containers", "Local Volumes", "Build cache"}
    columns = "REPOSITORY TAG IMAGE ID CREATED SIZE SHARED SIZE UNIQUE SIZE CONTAINERS"
    assert " ".join(tables["Images"][0].split()) == columns
    by_id = {row.split()[2]: row.split() for row in tables["Images"][1:]}
    assert by_id[things.tagged_id[7:19]][:2] == things.tagged.split(":") and by_id[things.tagged_id[7:19]][-1] == "0"
    assert {row.split()[0] for row in tables["Containers"][1:]} == {things.running[:12], things.stopped[:12]}
    links = {row.split()[0]: row.split()[1] for row in tables["Local Volumes"][1:]}
    assert links == {things.used: "1", things.plain: "0", things.anonymous: "0"}
    whole = json.loads(said(docker("system", "df", "-v", "--format", "json")))
    assert {volume["Name"] for volume in whole["Volumes"]} == set(links)


def test_events(docker: Client, things: Things) -> None:
    """What happened to each kind, told once it has happened, and by filters."""
    began = f"{time.time():.9f}"
    said(docker("rm", things.stopped))
    said(docker("volume", "rm", things.plain))
    said(docker("network", "rm", things.network))
    said(docker("rmi", things.dangling))
    asked = ("system", "events", "--since", began, "--until", f"{time.time():.9f}")
    told = said(docker(*asked, "--format", "{{.Type}} {{.Action}} {{.Actor.ID}}")).splitlines()
    network = next(line.split()[2] for line in told if line.startswith("network destroy"))
    assert told == [
        f"container destroy {things.stopped}",
        f"volume destroy {things.plain}",
        f"network destroy {network}",
        f"image untag {things.dangling}",
        f"image delete {things.dangling}",
    ]
    for words, count in ((["type=volume"], 1), (["event=destroy"], 3), (["type=image", "type=network"], 3)):
        filters = [word for one in words for word in ("--filter", one)]
        assert len(said(docker(*asked, *filters)).splitlines()) == count
    plain = said(docker(*asked, "-f", f"volume={things.plain}")).strip()
    assert re.fullmatch(rf"\S+ volume destroy {things.plain} \(driver=local\)", plain)
    moment = datetime.fromtimestamp(float(began), UTC).isoformat()
    assert said(docker(*asked[:3], moment, *asked[4:], "--filter", "type=network", "--format", "json")).count("\n") == 1


def test_info(docker: Client, apart: Daemon, things: Things) -> None:
    whole = json.loads(said(docker("system", "info", "--format", "json")))
    assert (whole["Containers"], whole["ContainersRunning"], whole["Images"]) == (2, 1, 3)
    assert whole["DockerRootDir"] == str(apart.data_root)
    assert whole["Plugins"]["Volume"] == ["local"] and {"bridge", "host", "null"} <= set(whole["Plugins"]["Network"])
    assert said(docker("info", "-f", "{{.Driver}} {{.Swarm.LocalNodeState}}")) == f"{whole['Driver']} inactive\n"
    text = said(docker("info"))
    for line in (
        "Server:",
        " Swarm: inactive",
        f" Docker Root Dir: {apart.data_root}",
        " Live Restore Enabled: true",
    ):
        assert f"\n{line}\n" in text


def test_prune(docker: Client, things: Things) -> None:
    """Of what has the label: first what nobody misses, then all that is not in use."""
    ours = ("--filter", f"label={things.label}")
    everything = things.left()
    assert len(everything) == 8
    shown = said(docker("system", "prune", *ours, input=b"n\n"))
    assert "all networks not used by at least one container" in shown and things.left() == everything
    shown = said(docker("system", "prune", *ours, input=b"y\n"))
    assert f"Deleted Containers:\n{things.stopped}\n" in shown and f"Deleted Networks:\n{things.network}\n" in shown
    assert f"deleted: {things.dangling}" in shown and "Total reclaimed space: 0B" not in shown
    assert things.left() == everything - {"stopped", "network", "dangling"}
    shown = said(docker("system", "prune", "--all", "--force", "--volumes", *ours))
    assert f"Deleted Volumes:\n{things.anonymous}\n" in shown and f"untagged: {things.tagged}" in shown
    assert things.left() == {"running", "used", "plain"}


def test_prune_of_everything(docker: Client, apart: Daemon, tmp_path) -> None:
    """The cache of builds too; and the daemon is as it began."""
    (tmp_path / "Dockerfile").write_text("FROM busybox\nRUN echo built > /built\n")
    said(apart.command("env", "DOCKER_BUILDKIT=0", "docker", "build", "-q", "-t", "built", str(tmp_path)))
    said(docker("network", "create", "net"))
    said(docker("create", "-v", "/v", "built", "true"))
    assert "Build Cache=0" not in said(docker("system", "df", "--format", "{{.Type}}={{.TotalCount}}"))
    said(docker("system", "prune", "-f"))
    assert "built" in said(docker("images")), "one with a name stays"
    said(docker("system", "prune", "-a", "-f", "--filter", "until=1h"))
    assert "built" in said(docker("images")), "so does what is younger than asked for"
    shown = said(docker("system", "prune", "-a", "-f", "--volumes"))
    assert "untagged: built:latest" in shown
    counts = said(docker("system", "df", "--format", "{{.TotalCount}} {{.Size}}")).splitlines()
    assert counts == ["0 0B"] * 4
    assert not os.listdir(apart.data_root / "layers") and not os.listdir(apart.data_root / "blobs/sha256")
    apart.import_busybox()


# Where each option of a command is used above.
OPTIONS = {
    "df": {"format", "verbose"},
    "events": {"filter", "format", "since", "until"},
    "info": {"format"},
    "prune": {"all", "filter", "force", "volumes"},
}


@pytest.mark.parametrize("row", OPTIONS)
def test_every_option_of_a_row_is_shown_here(docker: Client, row: str) -> None:
    assert set(OPTION.findall(said(docker("system", row, "--help")))) <= OPTIONS[row]


def test_dial_stdio(docker: Client) -> None:
    """Not in the help: what `docker -H ssh://` runs on the other side."""
    asked = b"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answered = said(docker("system", "dial-stdio", input=asked))
    assert answered.startswith("HTTP/1.1 200 OK\r\n") and answered.endswith("\r\n\r\nOK")


def test_inspect_finds_out_what_a_name_is(docker: Client, things: Things) -> None:
    """`docker inspect` asks for one kind after the other, those of a swarm and of plugins too."""
    for kind, name in (
        ("container", things.running),
        ("image", things.tagged),
        ("volume", things.plain),
        ("network", things.network),
    ):
        (found,) = json.loads(said(docker("inspect", name)))
        assert name in (found.get("Id"), found.get("Name"), *found.get("RepoTags", ())), kind
        assert json.loads(said(docker("inspect", "--type", kind, name))) == [found]
    missing = docker("inspect", "NOSUCH")
    assert (missing.returncode, missing.stdout.strip()) == (1, b"[]")
    assert missing.stderr.lower().strip() == b"error: no such object: nosuch", "whatever kind is asked for"
    for kind in ("node", "service", "task", "secret", "config"):
        refused = docker("inspect", "--type", kind, "x")
        assert (refused.returncode, b"This node is not a swarm manager." in refused.stderr) == (1, True), kind
    refused = docker("inspect", "--type", "plugin", "x")
    assert (refused.returncode, b'plugin "x" not found' in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["swarm", "init"], b"without a swarm"),
        (["swarm", "join", "--token", "t", "127.0.0.1:1"], b"without a swarm"),
        (["swarm", "leave"], b"This node is not part of a swarm"),
        (["swarm", "ca"], b"This node is not a swarm manager"),
        (["node", "ls"], b"This node is not a swarm manager"),
        (["service", "ls"], b"This node is not a swarm manager"),
        (["stack", "ls"], b"This node is not a swarm manager"),
        (["secret", "ls"], b"This node is not a swarm manager"),
        (["config", "ls"], b"This node is not a swarm manager"),
        (["plugin", "install", "--grant-all-permissions", "some/plugin"], b"no managed plugins"),
        (["plugin", "rm", "x"], b'plugin "x" not found'),
        (["plugin", "enable", "x"], b'plugin "x" not found'),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_a_lone_engine_has_not_is_said_in_words(docker: Client, words: list[str], text: bytes) -> None:
    refused = docker(*words)
    assert (refused.returncode != 0, text in refused.stderr) == (True, True), refused


def test_there_are_no_plugins(docker: Client) -> None:
    assert said(docker("plugin", "ls", "-q")) == ""


def test_version(docker: Client) -> None:
    shown = json.loads(said(docker("version", "--format", "json")))["Server"]
    assert (shown["ApiVersion"], shown["MinAPIVersion"], shown["Os"]) == ("1.54", "1.24", "linux")
    assert said(docker("version", "--format", "{{.Server.Version}}")).strip() == shown["Version"]
