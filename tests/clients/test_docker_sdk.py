"""The docker SDK for Python: the calls that scripts make."""

import io
import tarfile
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.listening import until

errors = pytest.importorskip("docker.errors", reason="needs the docker SDK: pip install docker")


@pytest.fixture
def made(sdk):
    """Create containers that are removed after the test: `made("sleep", "60")`."""
    containers = []

    def create(*command, **named):
        containers.append(sdk.containers.create("busybox", list(command), name=f"sdk-{uuid.uuid4().hex}", **named))
        return containers[-1]

    yield create
    for container in containers:
        container.remove(force=True)


def test_ping_version_and_info(sdk):
    assert sdk.ping() is True
    assert sdk.version()["ApiVersion"]
    assert sdk.info()["OSType"] == "linux"


def test_run_returns_the_output(sdk):
    assert sdk.containers.run("busybox", ["echo", "hi"], remove=True) == b"hi\n"


def test_run_returns_the_output_of_the_default_log(sdk):
    """It reads only logs of drivers that it knows."""
    assert sdk.containers.run("busybox", "echo hi", remove=True) == b"hi\n"
    assert sdk.info()["LoggingDriver"] == "json-file"


def test_a_driver_that_was_asked_for_is_shown_as_it_is(made):
    asked = made("true", log_config={"type": "local", "config": {}})
    default = made("true")
    asked.reload()
    default.reload()
    types = [one.attrs["HostConfig"]["LogConfig"]["Type"] for one in (asked, default)]
    assert types == ["local", "json-file"]


def test_run_raises_with_status_and_stderr(sdk):
    with pytest.raises(errors.ContainerError) as caught:
        sdk.containers.run("busybox", ["sh", "-c", "echo bad >&2; exit 3"], remove=True)
    assert (caught.value.exit_status, caught.value.stderr) == (3, b"bad\n")


def test_a_missing_image_and_a_missing_container_are_their_own_errors(sdk):
    with pytest.raises(errors.ImageNotFound):
        sdk.images.get("sdk/none:1")
    with pytest.raises(errors.NotFound):
        sdk.containers.get("sdk-none")


def test_a_container_from_create_to_remove(sdk, made):
    container = made("sh", "-c", "echo out; echo err >&2; exit 5", labels={"a": "b"}, environment={"X": "1"})
    assert container.status == "created"
    container.start()
    assert container.wait()["StatusCode"] == 5
    container.reload()
    assert (container.status, container.labels) == ("exited", {"a": "b"})
    assert container.logs(stderr=False) == b"out\n"
    assert container.logs(stdout=False) == b"err\n"
    assert "X=1" in container.attrs["Config"]["Env"]


def test_logs_are_streamed_line_by_line(made):
    container = made("sh", "-c", "for i in 1 2 3; do echo line $i; done")
    container.start()
    assert list(container.logs(stream=True, follow=True)) == [b"line 1\n", b"line 2\n", b"line 3\n"]


def test_attach_before_start_misses_nothing(made):
    container = made("sh", "-c", "echo first; echo second")
    stream = container.attach(stream=True, logs=True)
    container.start()
    assert b"".join(stream) == b"first\nsecond\n"


def test_the_log_is_whole_for_who_attaches_later(made):
    """Each of several times: the SDK loses what it reads along with the answer's head."""
    container = made("sh", "-c", "echo one; echo two; echo three")
    container.start()
    container.wait()
    for _ in range(10):
        assert container.attach(stream=False, logs=True) == b"one\ntwo\nthree\n"


def test_an_attached_socket_carries_input(made):
    container = made("cat", stdin_open=True)
    attached = container.attach_socket(params={"stdin": 1, "stdout": 1, "stream": 1})
    container.start()
    attached._sock.sendall(b"word\n")
    assert attached.read(8) == b"\x01\0\0\0\0\0\0\x05"
    assert attached.read(5) == b"word\n"
    attached.close()
    container.kill()


def test_stop_and_kill_give_their_codes(made):
    script = "trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    stopped, killed = made("sh", "-c", script), made("sleep", "600")
    for container in (stopped, killed):
        container.start()
    killed.kill()
    assert killed.wait()["StatusCode"] == 137
    until(lambda: stopped.logs() == b"ready\n")  # only then does it obey
    stopped.stop()
    assert stopped.wait()["StatusCode"] == 4


def test_containers_are_listed_by_filter(sdk, made):
    container = made("true", labels={"sdk": "list"})
    found = sdk.containers.list(all=True, filters={"label": "sdk=list"})
    assert [one.id for one in found] == [container.id]
    assert sdk.containers.list(filters={"label": "sdk=list"}) == []


def test_an_image_is_imported_tagged_listed_and_removed(sdk):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    sdk.api.import_image_from_data(archive.getvalue(), "sdk/imported", "1")
    image = sdk.images.get("sdk/imported:1")
    assert image.tags == ["sdk/imported:1"]
    assert image.id in [one.id for one in sdk.images.list("sdk/imported")]
    assert image.tag("sdk/imported", "2") and sdk.images.get("sdk/imported:2").id == image.id
    (step,) = image.history()
    assert (step["Id"], step["Tags"]) == (image.id, ["sdk/imported:1", "sdk/imported:2"])
    assert image.id not in str(sdk.images.prune({"until": "2020-01-01"}))
    sdk.images.remove("sdk/imported:2")
    sdk.images.remove("sdk/imported:1")
    assert sdk.images.list("sdk/imported") == []


def test_no_output_of_an_exec_is_lost_on_a_busy_machine(daemon, sdk, made):
    """Many at once: the SDK loses what it reads along with the head of the answer."""
    container = made("sleep", "600")
    container.start()
    package = pytest.importorskip("docker")

    def run(_) -> list[bytes]:
        client = package.DockerClient(base_url=daemon.url)
        try:
            one = client.containers.get(container.id)
            return [one.exec_run(["echo", "said"]).output for _ in range(25)]
        finally:
            client.close()

    with ThreadPoolExecutor(8) as pool:
        said = [output for outputs in pool.map(run, range(8)) for output in outputs]
    assert said == [b"said\n"] * 200
