"""buildctl, BuildKit's client: graphs that BuildKit's library has made, and a frontend that is an image's program."""

import base64
import itertools
import json
import subprocess
import tarfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.daemon.buildkit.messages import ops
from engine.protocols import protobuf
from tests.__main__ import CACHE
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.harness import agents
from tests.harness.contexts import Member, build
from tests.harness.daemon import Daemon
from tests.harness.graphs import MKFILE, Made, Writer
from tests.setup.buildctl import PROGRAMS, VERSION

IMAGE = "docker.io/library/busybox:latest"
LONG = 100


@dataclass(frozen=True)
class Buildctl:
    """The client. address: that it speaks to; place: a directory for its files"""

    address: str
    place: Path
    docker: Client

    def __call__(self, *words: str, input: bytes = b"", status: int = 0) -> str:
        program = str(PROGRAMS.place(CACHE, "buildctl"))
        done = subprocess.run(
            [program, "--addr", self.address, *words], input=input, capture_output=True, cwd=self.place, timeout=LONG
        )
        output = (done.stdout + done.stderr).decode("utf-8", "replace")
        assert done.returncode == status, output
        return output

    def graph(self, name: str) -> bytes:
        """The definition of that name, as BuildKit's library makes it."""
        program = str(PROGRAMS.place(CACHE, "graphs"))
        return subprocess.run([program, name, IMAGE], capture_output=True, check=True, timeout=LONG).stdout

    def solve(self, name: str, tag: str, *options: str, status: int = 0) -> str:
        """Build that graph as an image."""
        output = ("--output", f"type=image,name={tag}")
        return self("build", "--progress=plain", *output, *options, input=self.graph(name), status=status)

    def within(self, tag: str, script: str) -> str:
        """What a command says in a container of the image, whose own config there may be none of."""
        return said(self.docker("run", "--rm", tag, "/bin/sh", "-c", script))


@pytest.fixture
def buildctl(daemon: Daemon, docker: Client, tmp_path: Path, world: object) -> Buildctl:
    if not PROGRAMS.complete(CACHE):
        pytest.skip(f"needs buildctl {VERSION}: {PROGRAMS.unable() or '`python3 -m tests` could not build it'}")
    return Buildctl(f"unix://{daemon.socket}", tmp_path, docker)


@pytest.fixture
def tag(docker: Client) -> Iterator[str]:
    name = f"graph-{next(_numbers)}"
    yield name
    docker("rmi", "-f", name)


_numbers = itertools.count(1)


def test_the_worker(buildctl: Buildctl) -> None:
    assert "linux/" in buildctl("debug", "workers")


def test_a_command(buildctl: Buildctl, tag: str) -> None:
    output = buildctl.solve("exec", tag)
    assert "the command" in output
    assert buildctl.within(tag, "cat /out /limit; grep -c 10.9.8.7 /hosts") == "hello /tmp\n77\n1\n"
    assert buildctl.solve("exec", tag).count(" CACHED") >= 1


@pytest.mark.parametrize(
    ("graph", "script", "expected"),
    [
        ("hostname", "cat /out", "somewhere\n"),
        ("user", "cat /tmp/out", "1234\n77\n"),
        ("exits", "cat /out", "seven\n"),
        ("network", "cat /out", "lo\n"),
        ("merge", "cat /one /two /both", "1\n2\n2\n"),
    ],
)
def test_graphs(buildctl: Buildctl, tag: str, graph: str, script: str, expected: str) -> None:
    buildctl.solve(graph, tag)
    assert buildctl.within(tag, script) == expected


def test_files(buildctl: Buildctl, tag: str) -> None:
    buildctl.solve("files", tag)
    script = "cat /made/link; stat -c '%a %u %g' /made /made/file /three; ls /copied /part/b; readlink /made/link"
    assert buildctl.within(tag, script).split("\n")[:-1] == [
        *("contents", "750 5 6", "640 0 0", "644 9 8", "/copied:", "one", "", "/part/b:", "two", "file"),
    ]


def test_outputs_that_are_no_images(buildctl: Buildctl) -> None:
    """A directory of the client gets the files of a mount that is an output, and what one tree has beyond another."""
    for name, files in (("mounts", {"of": "root\n", "out": "given\n1\n"}), ("diff", {"new": "new\n"})):
        to = buildctl.place / name
        buildctl("build", "--output", f"type=local,dest={to}", input=buildctl.graph(name))
        assert {path.name: path.read_text() for path in to.iterdir() if path.is_file()} == files


def test_secrets(buildctl: Buildctl, tag: str) -> None:
    (buildctl.place / "s").write_text("hush")
    buildctl.solve("secret", tag, "--secret", "id=s,src=s", "--no-cache")
    assert buildctl.within(tag, "cat /out") == "440 7\n"
    assert "secret s: not found" in buildctl.solve("secret", tag, "--no-cache", status=1)


def test_an_agent(buildctl: Buildctl, asker: bytes) -> None:
    """A command of a graph asks the client's agent, and gets its answer."""
    word = uuid.uuid4().bytes.hex().encode()
    writer = Writer()
    files = writer.files(
        {"mkfile": {**MKFILE, "path": "/ask", "data": asker, "mode": 0o755}},
        {"mkfile": {**MKFILE, "path": "/request", "data": agents.sign_request(word)}},
    )
    mounts: tuple[ops.Mount, ...] = (
        {"input": 1, "dest": "/given", "output": -1, "readonly": True},
        {"input": -1, "dest": "/agent", "output": -1, "mountType": ops.SSH, "SSHOpt": {"ID": "mine", "mode": 0o600}},
        {"input": -1, "dest": "/out", "output": 1},
    )
    script = "/given/ask < /given/request > /out/answer"
    meta = {"env": ["PATH=/bin", "SSH_AUTH_SOCK=/agent"]}
    run = writer.run(writer.image(IMAGE), "/bin/sh", "-ec", script, mounts=mounts, inputs=(files,), meta=meta)
    graph = protobuf.encode(ops.Definition, writer.definition(Made(run.digest, 1)))
    to = buildctl.place / "to"
    output = ("--output", f"type=local,dest={to}")
    with agents.serving("my agent", buildctl.place / "a"):
        buildctl("build", "--ssh", "mine=a", *output, input=graph)
    assert (to / "answer").read_bytes().endswith(agents.signature("my agent", word))
    assert "unset ssh forward key mine" in buildctl("build", "--no-cache", *output, input=graph, status=1)


def test_a_directory_of_the_client(buildctl: Buildctl, tag: str) -> None:
    context = buildctl.place / "context"
    (context / "kept.d").mkdir(parents=True)
    for name in ("kept", "kept.not", "other", "kept.d/file"):
        (context / name).write_text(name)
    buildctl.solve("local", tag, "--local", f"context={context}")
    assert buildctl.within(tag, "cd /local; find . -type f | sort") == "./kept\n./kept.d/file\n"


def test_an_image_in_a_layout_of_the_client(buildctl: Buildctl) -> None:
    layout = buildctl.place / "layout"
    buildctl("build", "--output", f"type=oci,tar=false,dest={layout}", input=buildctl.graph("exits"))
    (image,) = json.loads((layout / "index.json").read_text())["manifests"]
    writer = Writer()
    name = f"oci-layout://there@{image['digest']}"
    source = writer.add({"source": {"identifier": name, "attrs": {"oci.store": "there"}}})
    graph = protobuf.encode(ops.Definition, writer.definition(writer.run(source, "cp", "/out", "/again")))
    to = buildctl.place / "to"
    buildctl("build", "--oci-layout", f"there={layout}", "--output", f"type=local,dest={to}", input=graph)
    assert (to / "again").read_text() == "seven\n"
    assert "failed to solve" in buildctl("build", input=graph, status=1)


def test_provenance_names_what_a_graph_has_used(buildctl: Buildctl) -> None:
    (buildctl.place / "s").write_text("hush")
    options = ("--opt", "attest:provenance=mode=max", "--secret", "id=s,src=s", "--output", "type=oci,dest=image.tar")
    buildctl("build", *options, input=buildctl.graph("secret"))
    with tarfile.open(buildctl.place / "image.tar") as archive:
        blobs = [archive.extractfile(each) for each in archive if each.isfile()]
        texts = [blob.read() for blob in blobs if blob is not None]
    (statement,) = [text for text in texts if text.startswith(b"{") and b"slsa.dev/provenance" in text[:300]]
    assert b"pkg:docker/busybox@latest" in statement and b'"id":"s"' in statement.replace(b'": "', b'":"')
    assert b"hush" not in statement


def test_what_fails_is_told(buildctl: Buildctl, tag: str) -> None:
    output = buildctl.solve("fails", tag, status=1)
    assert "words" in output
    assert 'process "/bin/sh -ec echo words; exit 3" did not complete successfully: exit code: 3' in output
    assert "security.insecure is not allowed" in buildctl.solve("insecure", tag, status=1)


# A frontend that is the program of an image


@pytest.fixture
def frontend(buildctl: Buildctl, daemon: Daemon) -> Iterator[Callable[..., str]]:
    """Builds by the frontend in an image: `frontend(tag, "key=value", ..., status=0)`."""
    program = PROGRAMS.place(CACHE, "graphs").read_bytes()
    lines = (
        *("FROM busybox", "COPY graphs /frontend", 'ENTRYPOINT ["/frontend"]'),
        "LABEL moby.buildkit.frontend.caps=moby.buildkit.frontend.inputs",
    )
    made = build(daemon, "\n".join(lines), Member("graphs", program, 0o755), t="our-frontend")
    assert made.id, made

    def run(tag: str, *options: str, status: int = 0, progress: str = "plain") -> str:
        words = [word for each in options for word in ("--opt", each)]
        output = ("--output", f"type=image,name={tag}")
        source = ("--frontend", "gateway.v0", "--opt", "source=our-frontend")
        return buildctl(
            "build", f"--progress={progress}", *source, *output, *words, "--local", "dockerfile=.", status=status
        )

    yield run
    buildctl.docker("rmi", "-f", "our-frontend")


def test_a_frontend_of_an_image(buildctl: Buildctl, frontend: Callable[..., str], tag: str) -> None:
    """It reads a file of the client, resolves an image, solves a graph, looks at what comes of it, and warns."""
    (buildctl.place / "File").write_text("of the client\n")
    output = frontend(tag, "filename=File", f"build-arg:IMAGE={IMAGE}", "target=t", progress="rawjson")
    assert base64.b64encode(b"a warning of the frontend").decode() in output
    assert buildctl.within(tag, "cat /made/link") == "of the client\n"
    labels = json.loads(said(buildctl.docker("inspect", "-f", "{{json .Config.Labels}}", tag)))
    assert labels["names"] == '["file","link"]' and labels["text"] == '"of the client\\n"'
    assert (labels["size"], labels["session"], labels["workers"], labels["target"]) == ("14", "true", "1", '"t"')


def test_a_frontend_that_fails(buildctl: Buildctl, frontend: Callable[..., str], tag: str) -> None:
    (buildctl.place / "File").write_text("x")
    assert "the frontend fails: so" in frontend(tag, "fail=so", status=1)
    image = f"build-arg:IMAGE={IMAGE}"
    assert "no such file" in frontend(tag, "filename=absent", image, status=1)
    assert "unsupported frontend capability moon" in frontend(tag, "frontend.caps=moon", status=1)
    words = buildctl("build", "--frontend", "gateway.v0", "--opt", "source=busybox", status=1)
    assert 'exec: "/run": stat /run: no such file or directory' in words


def test_a_frontend_that_says_nothing(buildctl: Buildctl, daemon: Daemon, docker: Client) -> None:
    for program, expected in (
        ("true", "ended without a result"),
        ("false", "ended with the exit code 1"),
        ("yes", "broken the connection"),
    ):
        assert build(daemon, f'FROM busybox\nENTRYPOINT ["{program}"]', t="quiet-frontend").id
        words = buildctl("build", "--frontend", "gateway.v0", "--opt", "source=quiet-frontend", status=1)
        assert f"the frontend has {expected}" in words
    docker("rmi", "-f", "quiet-frontend")


def test_nothing_is_left_of_a_frontend(buildctl: Buildctl, frontend: Callable[..., str], tag: str) -> None:
    before = said(buildctl.docker("ps", "-aq"))
    (buildctl.place / "File").write_text("x")
    frontend(tag, "filename=File", f"build-arg:IMAGE={IMAGE}")
    frontend(tag, "fail=so", status=1)
    assert said(buildctl.docker("ps", "-aq")) == before
