"""Every row of `docker volume --help`, with every option of each, by the real CLI.

A row is a function here named after its command; the first test reads the client's own help, so that a command which a
newer client brings has to be shown too. What volumes can do besides stands in tests/api.
"""

import json
import re
import uuid
from collections.abc import Iterator

import pytest

from tests.clients.cli import OPTION, ROW, said

LABEL = "test.volumes"
NO_MANAGER = b"This node is not a swarm manager."


@pytest.fixture
def name(docker) -> Iterator[str]:
    """A name, and a label's value; whatever volume has either is gone after the test."""
    chosen = f"row-{uuid.uuid4().hex[:12]}"
    yield chosen
    left = said(docker("volume", "ls", "-q", "-f", f"label={LABEL}={chosen}")).split()
    left += said(docker("volume", "ls", "-q", "-f", f"name={chosen}")).split()
    if left:
        said(docker("volume", "rm", "-f", *dict.fromkeys(left)))


@pytest.fixture
def made(docker, name: str) -> str:
    """A volume of that name with that label."""
    return said(docker("volume", "create", "--label", f"{LABEL}={name}", name)).strip()


def test_every_row_of_the_help_is_shown_here(docker) -> None:
    rows = ROW.findall(said(docker("volume", "--help")))
    assert len(rows) >= 5
    assert [row for row in rows if f"test_{row}" not in globals()] == []


def test_create(docker, name: str) -> None:
    words = ["--driver", "local", "--label", f"{LABEL}={name}", "--opt", "type=tmpfs", "-o", "device=tmpfs"]
    assert said(docker("volume", "create", *words, "-o", "o=size=1m,uid=7", name)) == f"{name}\n"
    (shown,) = json.loads(said(docker("volume", "inspect", name)))
    assert shown["Options"] == {"type": "tmpfs", "device": "tmpfs", "o": "size=1m,uid=7"}
    script = "stat -c %u /v; grep -o 'size=1024k' /proc/mounts"
    assert (
        said(docker("run", "--rm", "--network", "none", "-v", f"{name}:/v", "busybox", "sh", "-c", script))
        == "7\nsize=1024k\n"
    )
    assert said(docker("volume", "create", name)) == f"{name}\n", "one that is there is as good"
    anonymous = said(docker("volume", "create", "--label", f"{LABEL}={name}")).strip()
    assert re.fullmatch("[0-9a-f]{64}", anonymous)
    for words, text in (
        (["a b"], b'"a b" includes invalid characters for a local volume name'),
        (["-d", "nope", f"{name}2"], b'error looking up volume plugin nope: plugin "nope" not found'),
        (["-o", "x=y", f"{name}2"], b'invalid option: "x"'),
    ):
        refused = docker("volume", "create", *words)
        assert (refused.returncode, text in refused.stderr) == (1, True), refused


def test_create_for_a_cluster(docker, name: str) -> None:
    """Each of these options asks for a volume of a swarm."""
    for words in (
        ["--group", "g", "--topology-preferred", "a=b", "--topology-required", "c=d"],
        ["--scope", "multi", "--sharing", "all", "--type", "mount", "--availability", "pause"],
        ["--limit-bytes", "1g", "--required-bytes", "1m", "--secret", "a=b"],
    ):
        refused = docker("volume", "create", *words, name)
        assert (refused.returncode, NO_MANAGER in refused.stderr) == (1, True), refused


def test_inspect(docker, name: str, made: str) -> None:
    (shown,) = json.loads(said(docker("volume", "inspect", made)))
    assert (shown["Name"], shown["Driver"], shown["Scope"], shown["Options"]) == (name, "local", "local", None)
    assert shown["Labels"] == {LABEL: name} and shown["Mountpoint"].endswith(f"/volumes/{name}/_data")
    assert said(docker("volume", "inspect", "--format", "{{.Driver}} {{json .Options}}", made)) == "local null\n"
    missing = docker("volume", "inspect", made, "no-such-volume")
    assert (missing.returncode, b"get no-such-volume: no such volume" in missing.stderr) == (1, True)
    assert json.loads(missing.stdout)[0]["Name"] == name


def test_ls(docker, name: str, made: str) -> None:
    mounted = f"{name}-mounted"
    said(docker("volume", "create", "--label", f"{LABEL}={name}", "-o", "type=tmpfs", "-o", "device=tmpfs", mounted))
    user = said(docker("create", "-v", f"{made}:/v", "busybox", "true")).strip()

    def shown(*filters: str, form: str = "{{.Name}}") -> list[str]:
        words = [word for one in (f"label={LABEL}={name}", *filters) for word in ("--filter", one)]
        return said(docker("volume", "ls", "--format", form, *words)).splitlines()

    try:
        assert shown() == [made, mounted]
        assert shown("dangling=true") == [mounted] and shown("dangling=false") == [made]
        assert shown("driver=local") == [made, mounted] and shown("driver=nope") == []
        assert shown("name=-mounted") == [mounted] and shown(f"label={LABEL}=other") == []
        assert shown("name=-mounted", form="{{.Driver}} {{.Scope}} {{.Labels}}") == [f"local local {LABEL}={name}"]
        assert json.loads(shown("dangling=false", form="json")[0])["Name"] == made
    finally:
        said(docker("rm", user))
    table = said(docker("volume", "list", "-f", f"name={mounted}")).splitlines()
    assert [row.split() for row in table] == [["DRIVER", "VOLUME", "NAME"], ["local", mounted]]
    assert said(docker("volume", "ls", "-q", "--filter", f"name={mounted}")) == f"{mounted}\n"
    assert said(docker("volume", "ls", "--cluster", "-q", "--filter", f"name={mounted}")) == "", "none is a cluster's"
    bad = docker("volume", "ls", "--filter", "nope=1")
    assert (bad.returncode, b"invalid filter 'nope'" in bad.stderr) == (1, True)


def test_prune(docker, name: str, made: str) -> None:
    """With a label, as the daemon is others' too."""
    ours = ("--filter", f"label={LABEL}={name}")
    anonymous = said(docker("volume", "create", "--label", f"{LABEL}={name}")).strip()
    said(
        docker(
            "run",
            "--rm",
            "--network",
            "none",
            "-v",
            f"{anonymous}:/v",
            "busybox",
            "sh",
            "-c",
            "head -c 2000 /dev/zero > /v/f",
        )
    )
    said(docker("volume", "create", "--label", f"{LABEL}={name}", "--label", "spared=1", f"{name}-spared"))
    shown = said(docker("volume", "prune", *ours, input=b"n\n"))
    assert "anonymous local volumes not used by at least one container" in shown and "Deleted" not in shown
    shown = said(docker("volume", "prune", *ours, input=b"y\n"))
    assert f"Deleted Volumes:\n{anonymous}\n" in shown and "Total reclaimed space: 2kB" in shown
    shown = said(docker("volume", "prune", "--force", "--all", *ours, "--filter", "label!=spared"))
    assert shown == f"Deleted Volumes:\n{made}\n\nTotal reclaimed space: 0B\n"
    user = said(docker("create", "-v", f"{name}-spared:/v", "busybox", "true")).strip()
    assert "Deleted" not in said(docker("volume", "prune", "-a", "-f", *ours))
    said(docker("rm", "-v", user))
    assert f"{name}-spared" in said(docker("volume", "prune", "-a", "-f", *ours)), "the one of -v has a name and stays"


def test_rm(docker, name: str, made: str) -> None:
    user = said(docker("create", "-v", f"{made}:/v", "busybox", "true")).strip()
    refused = docker("volume", "rm", made)
    text = f"remove {made}: volume is in use - [{user}]".encode()
    assert (refused.returncode, text in refused.stderr) == (1, True)
    said(docker("rm", user))
    other = said(docker("volume", "create", f"{name}-other")).strip()
    assert said(docker("volume", "rm", made, other)) == f"{made}\n{other}\n"
    missing = docker("volume", "remove", made)
    assert (missing.returncode, f"get {made}: no such volume".encode() in missing.stderr) == (1, True)
    assert said(docker("volume", "rm", "--force", made)) == f"{made}\n"


def test_update(docker, made: str) -> None:
    refused = docker("volume", "update", "--availability", "drain", made)
    assert (refused.returncode, b"can only update cluster volumes" in refused.stderr) == (1, True), refused


# Where each option of a command is used above.
OPTIONS = {
    "create": {
        *("driver", "label", "opt"),
        *("availability", "group", "limit-bytes", "required-bytes", "scope", "secret", "sharing"),
        *("topology-preferred", "topology-required", "type"),
    },
    "inspect": {"format"},
    "ls": {"cluster", "filter", "format", "quiet"},
    "prune": {"all", "filter", "force"},
    "rm": {"force"},
    "update": {"availability"},
}


@pytest.mark.parametrize("row", OPTIONS)
def test_every_option_of_a_row_is_shown_here(docker, row: str) -> None:
    assert set(OPTION.findall(said(docker("volume", row, "--help")))) <= OPTIONS[row]


def test_an_anonymous_volume_goes_with_its_container_only_when_asked(docker) -> None:
    def volumes(*words: str) -> str:
        user = said(docker("create", "-v", "/v", "busybox", "true")).strip()
        volume = said(docker("inspect", "-f", "{{(index .Mounts 0).Name}}", user)).strip()
        said(docker("rm", *words, user))
        return said(docker("volume", "ls", "-q", "-f", f"name={volume}")).strip()

    assert volumes("-v") == ""
    left = volumes()
    assert re.fullmatch("[0-9a-f]{64}", left)
    said(docker("volume", "rm", left))
    assert (
        said(
            docker("run", "--rm", "--network", "none", "-v", "/v", "busybox", "sh", "-c", "grep -c ' /v ' /proc/mounts")
        )
        == "1\n"
    )
