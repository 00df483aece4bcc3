"""`docker buildx history`: the records of builds, with the real CLI and nothing set but the daemon's address."""

import json
import os
import re
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from tests.__main__ import CACHE
from tests.clients.building import LONG, Building, told
from tests.harness.daemon import Daemon
from tests.setup import compose as built

pytestmark = pytest.mark.seldom


@pytest.fixture
def builder(own_daemon: Daemon, tmp_path: Path) -> Building:
    """buildx with an empty directory, on a daemon whose history is its own."""
    if not built.complete(CACHE):
        pytest.skip("needs buildx, which the set-up builds where it has Go")
    plugins = tmp_path / "settings" / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-buildx").symlink_to(built.buildx(CACHE))
    (tmp_path / "context").mkdir()
    return Building(own_daemon, tmp_path / "context", plugins.parent)


def printed(done: subprocess.CompletedProcess) -> str:
    """What a command prints that goes well."""
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def records(builder: Building, *words: str) -> list[dict]:
    """What `history ls` shows, the last build first."""
    shown = printed(builder("buildx", "history", "ls", "--format", "json", *words))
    return [json.loads(line) for line in shown.splitlines()]


def ref(record: dict) -> str:
    """A build's own name, without the builder's."""
    return record["ref"].rpartition("/")[2]


def test_a_build_is_recorded_and_its_record_outlives_the_daemon(builder: Building, tmp_path: Path) -> None:
    builder.write("RUN echo heard", "ARG x")
    told(builder("build", "-t", "one", "--build-arg", "x=y", "--metadata-file", str(tmp_path / "metadata"), "."))
    (record,) = records(builder)
    assert (record["status"], record["total_steps"]) == ("Completed", record["completed_steps"])
    assert json.loads((tmp_path / "metadata").read_text())["buildx.build.ref"] == record["ref"]
    builder.daemon.kill9()
    builder.daemon.start()
    (after,) = records(builder)
    assert after["ref"] == record["ref"]
    shown = printed(builder("buildx", "history", "inspect", ref(record)))
    assert re.search(r"^Build Steps:\s+(\d+)/\1 ", shown, re.MULTILINE), shown
    assert re.search(r"^x\s+y$", shown, re.MULTILINE), shown
    inspected = json.loads(printed(builder("buildx", "history", "inspect", "--format", "json", ref(record))))
    assert inspected["Status"] == "completed"
    logs = builder("buildx", "history", "logs", ref(record))
    assert logs.returncode == 0
    assert re.search(r"^#\d+ \d+\.\d+ heard$", logs.stdout + logs.stderr, re.MULTILINE), logs


def test_a_failed_build_is_recorded_with_the_reason(builder: Building) -> None:
    builder.write("RUN echo why; exit 3")
    told(builder("build", "."), 1)
    (record,) = records(builder, "--filter", "status=error")
    assert record["status"] == "Error"
    shown = printed(builder("buildx", "history", "inspect", ref(record)))
    assert "did not complete successfully: exit code: 3" in shown
    assert re.search(r"^   3 \| >>> RUN echo why; exit 3$", shown, re.MULTILINE), shown
    assert "> => [2/2] RUN echo why; exit 3:\n" in shown and re.search(r"^> .*why$", shown, re.MULTILINE), shown


def test_records_are_chosen_and_removed(builder: Building) -> None:
    builder.write("RUN true")
    for _ in range(3):
        told(builder("build", "."))
    found = records(builder)
    assert len({each["ref"] for each in found}) == 3
    assert [each["ref"] for each in records(builder, "--filter", f"ref={ref(found[1])}")] == [found[1]["ref"]]
    assert records(builder, "--filter", "status=error") == []
    assert len(records(builder, "--filter", "startedAt>1h")) == 3
    printed(builder("buildx", "history", "rm", ref(found[0])))
    assert [each["ref"] for each in records(builder)] == [each["ref"] for each in found[1:]]
    printed(builder("buildx", "history", "rm", "--all"))
    assert records(builder) == []
    assert os.listdir(builder.daemon.data_root / "history") == []


def test_an_interrupted_build_is_recorded_as_cancelled(builder: Building) -> None:
    builder.write("RUN echo begun; sleep 1000")
    with builder.begun("build", ".") as client:
        for line in client.stdout:
            if line.rstrip().endswith(" begun"):
                break
        (running,) = records(builder)
        assert running["status"] == "Running"
        client.terminate()
        client.wait(LONG)
    end = time.monotonic() + LONG
    while records(builder)[0]["status"] == "Running":
        assert time.monotonic() < end
        time.sleep(0.1)
    assert re.search(r"^Status:\s+Canceled$", printed(builder("buildx", "history", "inspect")), re.MULTILINE)


def test_a_record_is_exported(builder: Building, tmp_path: Path) -> None:
    builder.write("RUN echo heard")
    told(builder("build", "-t", "one", "."))
    printed(builder("buildx", "history", "export", "-o", str(tmp_path / "bundle"), ref(records(builder)[0])))
    with tarfile.open(tmp_path / "bundle") as bundle:
        blobs = {name.name: bundle.extractfile(name).read() for name in bundle if name.isreg()}
    index = json.loads(blobs["index.json"])
    manifest = json.loads(blobs["blobs/" + index["manifests"][0]["digest"].replace(":", "/")])
    kinds = {layer["mediaType"] for layer in manifest["layers"]}
    assert {"application/vnd.buildkit.status.v0", "application/vnd.buildkit.otlp.json.v0"} <= kinds
    record = json.loads(blobs["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    assert record["Ref"] == ref(records(builder)[0])


def test_the_trace_of_a_build(builder: Building) -> None:
    builder.write("RUN true")
    told(builder("build", "."))
    (trace,) = json.loads(printed(builder("buildx", "history", "trace", ref(records(builder)[0]))))["data"]
    names = {span["operationName"]: span for span in trace["spans"]}
    assert "[2/2] RUN true" in names
    assert names["[2/2] RUN true"]["duration"] <= names["moby.buildkit.v1.Control/Solve"]["duration"]


def test_what_is_attached_to_a_record(builder: Building) -> None:
    builder.write("RUN true")
    told(builder("build", "-t", "one", "."))
    name = ref(records(builder)[0])
    attached = json.loads(printed(builder("buildx", "history", "inspect", "--format", "json", name)))["Attachments"]
    (provenance,) = (each for each in attached if each["Type"].startswith("https://slsa.dev/provenance/"))
    document = json.loads(printed(builder("buildx", "history", "inspect", "attachment", name, provenance["Digest"])))
    assert "buildType" in json.dumps(document)
    assert (
        json.loads(printed(builder("buildx", "history", "inspect", "attachment", "--type", "provenance", name)))
        == document
    )
