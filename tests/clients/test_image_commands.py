"""Every row of `docker image --help`, by the real CLI; and `docker images`, `docker rmi` and their options.

A row is a function here named after its command; the first test reads the client's own help, so that a command which a
newer client brings has to be shown too. What each verb can do besides stands in the verb's own tests.
"""

import io
import json
import re
import tarfile
import time
import uuid
from collections.abc import Iterator

import pytest

from tests.clients.cli import OPTION, ROW, said
from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.registry import Registry, architecture

pytestmark = pytest.mark.root

OTHER = "arm64" if architecture() != "arm64" else "amd64"
LABEL = "test.images"


def tiny(contents: bytes = b"tiny") -> bytes:
    """The tar of one small file."""
    return rootfs.archive([("file", 0o644, contents)])


@pytest.fixture
def name(docker) -> Iterator[str]:
    """The name of an image; whatever image has a tag of it afterwards is removed."""
    chosen = f"row-{uuid.uuid4().hex[:12]}"
    yield chosen
    left = said(docker("image", "ls", "-aq", "--no-trunc", "--filter", f"label={LABEL}={chosen}")).split()
    left += said(docker("image", "ls", "-aq", "--no-trunc", "--filter", f"reference=*{chosen}*")).split()
    left += said(docker("image", "ls", "-aq", "--no-trunc", "--filter", f"reference=*/{chosen}*")).split()
    if left:
        said(docker("image", "rm", "-f", *dict.fromkeys(left)))


@pytest.fixture
def made(docker, name: str) -> str:
    """A small image with a label."""
    words = ["image", "import", "-c", f"LABEL {LABEL}={name}", "-m", "made", "-", name]
    return said(docker(*words, input=tiny(name.encode()))).strip()


@pytest.fixture
def shelf(registry: Registry, name: str) -> str:
    """An index of two platforms in the registry, and its name there."""
    members = {
        machine: registry.push(f"{name}:", [tiny(machine.encode())], {"Labels": {LABEL: name}}, "oci", machine)
        for machine in (OTHER, architecture())
    }
    registry.push_index(f"{name}:two", members)
    registry.push(f"{name}:one", [tiny(b"one")], {"Labels": {LABEL: name}})
    return f"{registry.address}/{name}"


def test_every_row_of_the_help_is_shown_here(docker) -> None:
    rows = ROW.findall(said(docker("image", "--help")))
    assert len(rows) > 10
    assert [row for row in rows if f"test_{row}" not in globals()] == []


def test_build(daemon: Daemon, docker, name: str, tmp_path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM busybox\nLABEL {LABEL}={name}\nCOPY here /there\nCMD cat /there\n")
    (tmp_path / "here").write_text("copied\n")
    built = daemon.command("env", "DOCKER_BUILDKIT=0", "docker", "image", "build", "-q", "-t", name, str(tmp_path))
    assert said(built).startswith("sha256:")
    assert said(docker("run", "--rm", name)) == "copied\n"


def test_history(docker, name: str, made: str) -> None:
    said(docker("create", "--name", name, made, "none"))
    try:
        said(docker("commit", "-m", "upon", name, f"{name}:two"))
    finally:
        said(docker("rm", name))
    upper, lower = said(docker("image", "history", "--no-trunc", "--format", "{{json .}}", f"{name}:two")).splitlines()
    upper, lower = json.loads(upper), json.loads(lower)
    assert (lower["ID"], lower["Comment"], upper["Comment"]) == (made, "made", "upon")
    table = said(docker("history", f"{name}:two"))
    assert table.splitlines()[0].split() == ["IMAGE", "CREATED", "CREATED", "BY", "SIZE", "COMMENT"]
    assert said(docker("history", "-q", "--platform", f"linux/{architecture()}", made)).split() == [made[7:19]]
    refused = docker("history", "--platform", "linux/s390x", name)
    assert (refused.returncode, b"does not provide the specified platform (linux/s390x)" in refused.stderr) == (1, True)


def test_import(docker, name: str, tmp_path) -> None:
    (tmp_path / "tar").write_bytes(tiny())
    words = ["-c", f"LABEL {LABEL}={name}", "-c", "ENV A=b", "-m", "words", "--platform", f"linux/{OTHER}"]
    assert said(docker("image", "import", *words, str(tmp_path / "tar"), name)).startswith("sha256:")
    (found,) = json.loads(said(docker("image", "inspect", name)))
    assert (found["Comment"], found["Config"]["Env"], found["Architecture"]) == ("words", ["A=b"], OTHER)


def test_inspect(docker, name: str, made: str) -> None:
    (found,) = json.loads(said(docker("image", "inspect", name)))
    assert (found["Id"], found["RepoTags"]) == (made, [f"{name}:latest"])
    assert said(docker("image", "inspect", "-f", "{{.Architecture}} {{.Size}}", made[7:20])).startswith(architecture())
    named = docker("image", "inspect", "--platform", f"linux/{architecture()}", "-f", "{{.Id}}", name)
    assert said(named) == f"{made}\n"
    missing = docker("image", "inspect", name, "no-such-image")
    assert (missing.returncode, b"No such image: no-such-image:latest" in missing.stderr) == (1, True)


def test_load(docker, name: str, made: str, tmp_path) -> None:
    said(docker("image", "save", "-o", str(tmp_path / "tar"), name))
    said(docker("image", "rm", name))
    assert said(docker("image", "load", "-i", str(tmp_path / "tar"))) == f"Loaded image: {name}:latest\n"
    again = docker("image", "load", "-q", input=(tmp_path / "tar").read_bytes())
    assert f"{name}:latest" in said(again)
    assert said(docker("image", "ls", "-q", "--no-trunc", name)) == f"{made}\n"


def test_ls(docker, name: str, made: str) -> None:
    said(docker("image", "tag", made, f"{name}:v1"))
    newer = docker("import", "-c", f"LABEL {LABEL}={name}", "-", input=tiny(b"newer" + name.encode()))
    newer = said(newer).strip()

    def shown(*filters: str, form: str = "{{.Repository}}:{{.Tag}}") -> set[str]:
        words = [word for one in filters for word in ("--filter", one)]
        return set(said(docker("image", "ls", "--format", form, "--filter", f"label={LABEL}={name}", *words)).split())

    both = {f"{name}:latest", f"{name}:v1"}
    assert shown() == {*both, "<none>:<none>"}
    assert shown("dangling=true") == {"<none>:<none>"} and shown("dangling=false") == both
    assert shown("reference=row-*:v?") == {f"{name}:v1"} and shown("reference=nope*") == set()
    assert shown(f"since={name}") == {"<none>:<none>"} and shown(f"before={newer}") == both
    assert shown("until=1h") == set() and shown("until=0s") == {*both, "<none>:<none>"}
    assert shown(form="{{.ID}}") == {made[7:19], newer[7:19]}
    assert said(docker("images", "-q", "--no-trunc", name)).split() == [made, made]
    table = said(docker("images", "--digests", f"{name}:v1")).splitlines()
    assert table[0].split() == ["REPOSITORY", "TAG", "DIGEST", "IMAGE", "ID", "CREATED", "SIZE"] and made in table[1]
    assert {json.loads(row)["Tag"] for row in said(docker("image", "ls", "--format", "json", name)).splitlines()} == {
        "latest",
        "v1",
    }
    bad = docker("image", "ls", "--filter", "nope=1")
    assert (bad.returncode, b"invalid filter 'nope'" in bad.stderr) == (1, True)


def test_ls_as_a_tree(docker, name: str, shelf: str) -> None:
    for machine in (OTHER, architecture()):
        said(docker("pull", "-q", "--platform", f"linux/{machine}", f"{shelf}:two"))
    user = said(docker("create", "--platform", f"linux/{OTHER}", f"{shelf}:two", "true")).strip()
    try:
        tree = said(docker("image", "ls", "--tree", "--filter", f"label={LABEL}={name}"))
        rows = {row.split()[1]: row.split()[-1] for row in tree.splitlines() if "─" in row}
        assert rows.keys() == {f"linux/{OTHER}", f"linux/{architecture()}"} and rows[f"linux/{OTHER}"] == "U"
        shown = json.loads(said(docker("inspect", "-f", "{{json .ImageManifestDescriptor}}", user)))
        assert shown["platform"]["architecture"] == OTHER
    finally:
        said(docker("rm", user))


def test_prune(docker, name: str, made: str) -> None:
    """With a label, as the daemon is others' too."""
    ours = ("--filter", f"label={LABEL}={name}")
    words = ["import", "-c", f"LABEL {LABEL}={name} second=1", "-"]
    dangling = said(docker(*words, input=tiny(b"2" + name.encode()))).strip()
    used = said(docker(*words, f"{name}:used", input=tiny(b"3" + name.encode()))).strip()
    user = said(docker("create", used, "true")).strip()
    said(docker("tag", used, f"{name}:more"))
    assert "Total reclaimed space: 0B" in said(docker("image", "prune", "-f", "--filter", "until=1h", *ours))
    shown = said(docker("image", "prune", "-f", *ours))
    assert f"untagged: {dangling}" in shown and f"deleted: {dangling}" in shown and "space: 0B" not in shown
    shown = said(docker("image", "prune", "-a", "-f", "--filter", "label!=second", *ours))
    assert f"untagged: {name}:latest" in shown and f"deleted: {made}" in shown
    shown = said(docker("image", "prune", "-a", "-f", *ours))
    assert f"untagged: {name}:more" in shown and f"{name}:used" not in shown
    assert said(docker("images", "-q", "--no-trunc", *ours)).split() == [used], "one name of what is used stays"
    said(docker("rm", user))
    assert f"untagged: {name}:used" in said(docker("image", "prune", "-a", "-f", *ours))


def test_pull(docker, name: str, shelf: str) -> None:
    assert f"Downloaded newer image for {shelf}:one" in said(docker("image", "pull", f"{shelf}:one"))
    assert f"Image is up to date for {shelf}:one" in said(docker("image", "pull", f"{shelf}:one"))
    assert said(docker("image", "pull", "-q", "-a", shelf)).splitlines()[-1].startswith(shelf)
    tags = said(docker("image", "ls", "--format", "{{.Tag}}", "--filter", f"reference={shelf}")).split()
    assert sorted(tags) == ["one", "two"]


def test_push(docker, name: str, made: str, registry: Registry) -> None:
    target = f"{registry.address}/{name}:pushed"
    said(docker("image", "tag", name, target))
    pushed = said(docker("image", "push", target))
    assert f"pushed: digest: {made} size: " in pushed
    said(docker("image", "rm", target, name))
    said(docker("image", "pull", "-q", target))
    assert said(docker("image", "ls", "-q", "--no-trunc", target)) == f"{made}\n"


def test_rm(docker, name: str, made: str) -> None:
    said(docker("image", "tag", made, f"{name}:v1"))
    refused = docker("image", "rm", made)
    assert (refused.returncode, b"image is referenced in multiple repositories" in refused.stderr) == (1, True) or (
        b"must be forced" in refused.stderr
    )
    assert said(docker("rmi", f"{name}:v1")) == f"Untagged: {name}:v1\n"
    user = said(docker("create", name, "true")).strip()
    refused = docker("image", "rm", name)
    assert (refused.returncode, b"(must be forced) - container" in refused.stderr) == (1, True)
    said(docker("rm", user))
    assert said(docker("image", "rm", "--no-prune", name)) == f"Untagged: {name}:latest\nDeleted: {made}\n"
    missing = docker("image", "rm", name)
    assert (missing.returncode, f"No such image: {name}:latest".encode() in missing.stderr) == (1, True)
    assert docker("image", "rm", "-f", name).returncode == 0, "with force what is not there is no error to the client"


def test_rm_of_a_platform(docker, name: str, shelf: str) -> None:
    for machine in (OTHER, architecture()):
        said(docker("pull", "-q", "--platform", f"linux/{machine}", f"{shelf}:two"))
    refused = docker("image", "rm", "--platform", f"linux/{OTHER}", f"{shelf}:two")
    assert (refused.returncode, b"removed from all images referencing this variant" in refused.stderr) == (1, True)
    assert said(docker("image", "rm", "-f", "--platform", f"linux/{OTHER}", f"{shelf}:two")).startswith(
        "Deleted: sha256:"
    )
    platform = docker("image", "inspect", "-f", "{{.Architecture}}", f"{shelf}:two")
    assert said(platform).strip() == architecture()
    gone = docker("image", "inspect", "--platform", f"linux/{OTHER}", f"{shelf}:two")
    assert (gone.returncode, b"does not provide the specified platform" in gone.stderr) == (1, True)


def test_save(docker, name: str, made: str, tmp_path) -> None:
    said(docker("image", "save", "-o", str(tmp_path / "tar"), name))
    streamed = docker("image", "save", "--platform", f"linux/{architecture()}", name)
    for archive in (tmp_path / "tar").read_bytes(), streamed.stdout:
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            (image,) = json.load(opened.extractfile("manifest.json"))
            assert image["RepoTags"] == [f"{name}:latest"] and "index.json" in opened.getnames()


def test_tag(docker, name: str, made: str) -> None:
    assert said(docker("image", "tag", made[7:19], f"{name}:v2")) == ""
    assert said(docker("images", "-q", "--no-trunc", f"{name}:v2")) == f"{made}\n"
    for source, target in (("no-such-image", f"{name}:v3"), (name, f"{name}:a@b"), (name, name.upper())):
        assert docker("image", "tag", source, target).returncode == 1
    said(docker("image", "rm", f"{name}:v2"))
    words = ["events", "--since", "1m", "--until", f"{time.time():.9f}", "--filter", f"image={made}", "--format"]
    told = said(docker(*words, "{{.Action}} {{.Actor.Attributes.name}}")).splitlines()
    assert told == [f"tag {name}:latest", f"import {made}", f"tag {name}:v2", f"untag {name}:v2"]


# The options of the commands whose verbs are shown here whole: where each is used above.
OPTIONS = {
    "history": {"format", "no-trunc", "platform", "quiet", "human"},
    "inspect": {"format", "platform"},
    "ls": {"all", "digests", "filter", "format", "no-trunc", "quiet", "tree"},
    "prune": {"all", "filter", "force"},
    "rm": {"force", "no-prune", "platform"},
    "tag": set(),
}


@pytest.mark.parametrize("row", OPTIONS)
def test_every_option_of_a_row_is_shown_here(docker, row: str) -> None:
    assert set(OPTION.findall(said(docker("image", row, "--help")))) <= OPTIONS[row]


def test_sizes_and_moments_as_they_are(docker, name: str, made: str) -> None:
    size = said(docker("image", "inspect", "-f", "{{.Size}}", name)).strip()
    shown = json.loads(said(docker("image", "history", "--human=false", "--format", "json", name)))
    assert 0 < int(shown["Size"]) <= int(size) and re.match(r"\d{4}-\d\d-\d\dT", shown["CreatedAt"])


@pytest.mark.parametrize("version", ["1.24", "1.42", "1.47", "1.50"])
def test_a_client_of_an_older_version_is_served(daemon: Daemon, docker, name: str, made: str, version: str) -> None:
    def older(*words: str) -> str:
        return said(daemon.command("env", f"DOCKER_API_VERSION={version}", "docker", *words))

    assert older("images", "-q", "--no-trunc", name) == f"{made}\n"
    older("tag", name, f"{name}:older")
    older("tag", name, f"{name}:other")
    (found,) = json.loads(older("image", "inspect", f"{name}:older"))
    assert (found["Id"], found["Parent"], found["Comment"]) == (made, "", "made")
    assert older("history", "-q", "--no-trunc", name) == f"{made}\n"
    assert older("rmi", f"{name}:older") == f"Untagged: {name}:older\n"
