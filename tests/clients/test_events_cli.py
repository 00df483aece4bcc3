"""Events and health checks with the clients that people use: the docker CLI and the docker SDK."""

import json
import subprocess
import time
import uuid
from collections.abc import Iterator

import pytest

from tests.clients.conftest import Client
from tests.harness.listening import until


@pytest.fixture
def name(docker: Client) -> Iterator[str]:
    """A container's name, and nothing of that container afterwards."""
    chosen = f"ev-{uuid.uuid4().hex}"
    yield chosen
    docker("rm", "-f", "-v", chosen)


def ok(done: subprocess.CompletedProcess) -> str:
    """The output of a command that went well."""
    assert done.returncode == 0, done
    return done.stdout.decode().strip()


def test_docker_events_of_the_past(docker: Client, name: str) -> None:
    """--since and --until as durations and as moments, --filter and --format."""
    options = ("--name", name, "--label", "a=b", "--network", "none")
    assert docker("run", *options, "busybox", "sh", "-c", "exit 3").returncode == 3
    asked = ("events", "--since", "10m", "--until", "-1s", "--filter", f"container={name}")
    lines = ok(docker(*asked, "--format", "{{.Type}} {{.Action}} {{.Actor.Attributes.name}}")).splitlines()
    assert lines == [f"container {action} {name}" for action in ("create", "attach", "start", "die")]
    assert ok(docker(*asked, "--filter", "event=die", "--format", "{{.Actor.Attributes.exitCode}}")) == "3"
    died = json.loads(ok(docker(*asked, "--filter", "event=die", "--format", "{{json .}}")))
    assert died["Actor"]["Attributes"]["a"] == "b"
    plain = ok(docker(*asked, "--filter", "event=create"))
    assert " container create " in plain and plain.endswith(f"(a=b, image=busybox, name={name})")
    moment = str(died["time"] + 1)
    later = ("events", "--since", moment, "--until", moment, "--filter", f"container={name}")
    assert ok(docker(*later)) == ""


def test_docker_events_as_they_come(docker: Client, name: str) -> None:
    """What happens while the command runs, until its time is over."""

    def listeners() -> int:
        return int(ok(docker("info", "--format", "{{.NEventsListener}}")))

    asked = ["events", "--filter", f"container={name}", "--format", "{{.Action}}", "--until"]
    before = listeners()
    words = [*docker.program, *asked, f"{time.time() + 600:.3f}"]
    with subprocess.Popen(words, env=docker.environment, stdout=subprocess.PIPE) as client:
        try:
            until(lambda: listeners() > before)
            ok(docker("run", "-d", "--name", name, "--network", "none", "busybox", "sleep", "600"))
            ok(docker("pause", name))
            ok(docker("unpause", name))
            ok(docker("kill", name))
            seen = [client.stdout.readline().decode().strip() for _ in range(6)]
        finally:
            client.kill()
    assert seen == ["create", "start", "pause", "unpause", "kill", "die"]
    # It ends by itself; where its time is over before the client has asked, it tells the past.
    assert ok(docker(*asked, f"{time.time() + 1:.3f}")).splitlines() in ([], seen)


def test_docker_run_with_a_health_check(docker: Client, name: str) -> None:
    """Every option of it; what ps, inspect and events show."""
    options = (
        *("--health-cmd", "test ! -e /sick", "--health-interval", "200ms", "--health-timeout", "5s"),
        *("--health-retries", "2", "--health-start-period", "1ms", "--health-start-interval", "100ms"),
    )
    ok(docker("run", "-d", "--name", name, "--network", "none", *options, "busybox", "sleep", "60"))
    asked = json.loads(ok(docker("inspect", "-f", "{{json .Config.Healthcheck}}", name)))
    assert asked == {
        "Test": ["CMD-SHELL", "test ! -e /sick"],
        "Interval": 200_000_000,
        "Timeout": 5_000_000_000,
        "StartPeriod": 1_000_000,
        "StartInterval": 100_000_000,
        "Retries": 2,
    }

    def status() -> str:
        return ok(docker("ps", "--filter", f"name={name}", "--format", "{{.Status}}"))

    until(lambda: status().endswith("(healthy)"))
    ok(docker("exec", name, "touch", "/sick"))
    until(lambda: status().endswith("(unhealthy)"))
    assert int(ok(docker("inspect", "-f", "{{.State.Health.FailingStreak}}", name))) >= 2
    assert ok(docker("ps", "-q", "--no-trunc", "--filter", "health=unhealthy", "--filter", f"name={name}"))
    told = ("events", "--since", "10m", "--until", "-1s", "--filter", f"container={name}", "--filter")
    assert ok(docker(*told, "event=health_status", "--format", "{{.Action}}")).splitlines() == [
        "health_status: healthy",
        "health_status: unhealthy",
    ]


def test_docker_run_without_the_image_s_health_check(docker: Client, name: str) -> None:
    """--no-healthcheck, for an image that has one."""
    image = f"{name}:1"
    ok(docker("create", "--name", name, "--network", "none", "busybox", "sleep", "60"))
    ok(docker("commit", "-c", 'HEALTHCHECK --interval=100ms CMD ["true"]', name, image))
    ok(docker("rm", name))
    try:
        ok(docker("run", "-d", "--name", name, "--network", "none", image))
        until(lambda: "(healthy)" in ok(docker("ps", "--filter", f"name={name}", "--format", "{{.Status}}")))
        ok(docker("rm", "-f", name))
        ok(docker("run", "-d", "--name", name, "--network", "none", "--no-healthcheck", image))
        assert ok(docker("inspect", "-f", "{{json .State.Health}}", name)) == "null"
        assert ok(docker("inspect", "-f", "{{index .Config.Healthcheck.Test 0}}", name)) == "NONE"
    finally:
        docker("rm", "-f", name)
        docker("rmi", image)


def test_the_sdk_s_events(sdk: object, name: str) -> None:
    """Decoded, filtered, and ended by closing; the iterator stands before the first event."""
    stream = sdk.events(decode=True, filters={"container": name})
    made = sdk.containers.create("busybox", "true", name=name)
    made.start()
    made.wait()
    seen = []
    for event in stream:
        seen.append((event["Type"], event["Action"], event["Actor"]["ID"]))
        if event["Action"] == "die":
            break
    assert seen == [("container", action, made.id) for action in ("create", "start", "die")]
    stream.close()
    past = sdk.events(decode=True, since=0, until=int(time.time()) + 1, filters={"container": name})
    assert [event["Action"] for event in past] == ["create", "start", "die"]


def test_the_sdk_s_health(sdk: object, name: str) -> None:
    """`Container.health`, which people wait for in a loop."""
    check = {"test": ["CMD", "true"], "interval": 200_000_000}
    made = sdk.containers.run("busybox", ["sleep", "60"], name=name, detach=True, healthcheck=check)
    made.reload()
    assert made.health in ("starting", "healthy")

    def reloaded() -> str:
        made.reload()
        return made.health

    until(lambda: reloaded() == "healthy")
