"""POST /commit: an image of what a container has changed, which runs, is listed, and shares its parent's layers."""

import json
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon
from tests.harness.http import Answer

pytestmark = pytest.mark.root

SCRIPT = """
echo -n data > /made && chown 5:6 /made && chmod 6711 /made && ln /made /hard && ln -s made /link && mkfifo /pipe
rm /etc/shadow && rm -r /var && mkdir -p /var/www && echo > /var/www/x
mkdir -m 1777 /sticky && touch -d @5000 /sticky
"""
PROOF = """
stat -c '%n %a %u %g %F' /made /hard /pipe /sticky; cat /made; echo; readlink /link; ls /etc/shadow 2>&1
find /var | sort
[ /made -ef /hard ] && echo same
"""
WANTED = """\
/made 6711 5 6 regular file
/hard 6711 5 6 regular file
/pipe 644 0 0 fifo
/sticky 1777 0 0 directory
data
made
ls: /etc/shadow: No such file or directory
/var
/var/www
/var/www/x
same"""


@pytest.fixture
def ended(daemon: Daemon, container: Callable[..., str]) -> Callable[..., str]:
    """Run a script in a container to its end; the container's id."""

    def run(script: str, **body: object) -> str:
        identifier = container("sh", "-c", script, **body)
        daemon.begin(identifier)
        assert daemon.wait(identifier) == 0, daemon.logs(identifier)
        return identifier

    return run


@pytest.fixture
def commit(daemon: Daemon) -> Iterator[Callable[..., dict]]:
    """Commit; what inspect says of the image, which is removed after the test, and its containers."""
    made: list[str] = []

    def run(container: str, body: object = None, **query: str) -> dict:
        answer = ask(daemon, container, body, **query)
        assert answer.status == 201, answer
        made.append(answer.json()["Id"])
        return daemon.request("GET", f"/images/{made[-1]}/json").json()

    yield run
    for image in reversed(made):
        for listed in daemon.request("GET", "/containers/json?all=1").json():
            if listed["ImageID"] == image:
                daemon.remove(listed["Id"])
        daemon.request("DELETE", f"/images/{image}?force=1")


def ask(daemon: Daemon, container: str, body: object = None, **query: str | list[str]) -> Answer:
    parts = [f"container={container}"]
    for key, value in query.items():
        parts += [f"{key}={quote(each)}" for each in ([value] if isinstance(value, str) else value)]
    return daemon.request("POST", f"/commit?{'&'.join(parts)}", body)


def test_the_image_holds_what_was_changed(daemon: Daemon, ended: Callable[..., str], commit: Callable) -> None:
    image = commit(ended(SCRIPT))
    assert daemon.shell(PROOF, Image=image["Id"]) == WANTED


def test_parents_layers_are_shared_and_the_history_goes_on(
    daemon: Daemon, busybox: str, ended: Callable[..., str], commit: Callable
) -> None:
    parent = daemon.request("GET", f"/images/{busybox}/json").json()
    image = commit(ended("echo > /x"), repo="rec/commit", tag="1", comment="c", author="a")
    assert image["RootFS"]["Layers"][:-1] == parent["RootFS"]["Layers"]
    assert (image["Parent"], image["RepoTags"], image["Comment"], image["Author"]) == (
        parent["Id"],
        ["rec/commit:1"],
        "c",
        "a",
    )
    assert image["Size"] < parent["Size"] * 1.1
    listed = daemon.request("GET", "/images/json").json()
    assert [row["ParentId"] for row in listed if row["Id"] == image["Id"]] == [parent["Id"]]


def test_nothing_changed_makes_no_layer(daemon: Daemon, busybox: str, container: Callable, commit: Callable) -> None:
    parent = daemon.request("GET", f"/images/{busybox}/json").json()
    image = commit(container("true"))
    assert image["RootFS"] == parent["RootFS"] and image["Id"] != busybox


def test_config_is_the_containers_and_what_the_client_says_goes_before(
    container: Callable[..., str], commit: Callable
) -> None:
    identifier = container(
        "sh", "-c", "true", Env=["A=1", "B=2"], Labels={"k": "v"}, WorkingDir="/tmp", User="33", Hostname="h", Tty=True
    )
    body = {"Env": ["A=9", "Z=1"], "Labels": {"l": "w"}, "Cmd": ["ls"]}
    config = commit(identifier, body)["Config"]
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert config == {
        "User": "33",
        "Env": ["A=9", "Z=1", "B=2", path],
        "Cmd": ["ls"],
        "WorkingDir": "/tmp",
        "Labels": {"l": "w", "k": "v"},
    }


def test_changes_are_instructions(container: Callable[..., str], commit: Callable) -> None:
    lines = [
        "ENV C=3 D='4 5'",
        'ENTRYPOINT ["/bin/echo"]',
        'CMD ["x", "y"]',
        "EXPOSE 80",
        "VOLUME /data",
        "ONBUILD RUN true",
        "STOPSIGNAL SIGINT",
        "HEALTHCHECK --interval=1s CMD true",
        "LABEL a=b",
        "WORKDIR /w",
        "USER 5",
    ]
    config = commit(container("true", Env=["C=1"]), changes=lines)["Config"]
    assert {"C=3", "D=4 5"} <= set(config["Env"])
    assert (config["Entrypoint"], config["Cmd"]) == (["/bin/echo"], ["x", "y"])
    assert config["ExposedPorts"] == {"80/tcp": {}} and config["Volumes"] == {"/data": {}}
    assert config["OnBuild"] == ["RUN true"] and config["StopSignal"] == "SIGINT"
    assert config["Healthcheck"] == {"Test": ["CMD-SHELL", "true"], "Interval": 1_000_000_000}
    assert (config["Labels"], config["WorkingDir"], config["User"]) == ({"a": "b"}, "/w", "5")


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({"changes": "FROM x"}, 400, "FROM is not a valid change command"),
        ({"changes": "CMD x\nrUn x"}, 400, "rUn is not a valid change command"),
        ({"repo": "Upper/Case"}, 400, "repository name (library/Upper/Case) must be lowercase"),
        ({"repo": "a@sha256:" + "0" * 64}, 400, "cannot import digest reference"),
        ({"repo": "a", "tag": "!"}, 400, "invalid tag format"),
    ],
)
def test_what_is_wrong_is_told(
    daemon: Daemon, container: Callable[..., str], query: dict, status: int, text: str
) -> None:
    answer = ask(daemon, container("true"), **query)
    assert answer.status == status and (text in answer.message or "repo" in query), answer


def test_no_container_is_not_found(daemon: Daemon) -> None:
    answer = ask(daemon, "nope")
    assert (answer.status, answer.message) == (404, "No such container: nope")


def test_a_running_container_is_paused_meanwhile_and_goes_on(
    daemon: Daemon, container: Callable[..., str], commit: Callable
) -> None:
    identifier = container("sh", "-c", "echo > /x; echo ready; sleep 1000")
    daemon.begin(identifier)
    with daemon.connection() as logs:
        logs.open_stream("GET", f"/containers/{identifier}/logs?stdout=1&follow=1")
        next(logs.chunks())
    since = time.time()
    commit(identifier, repo="paused")
    commit(identifier, pause="0")
    assert daemon.inspect(identifier)["State"]["Status"] == "running"
    filters = quote(json.dumps({"container": [identifier]}))
    query = f"since={since:.9f}&until={time.time():.9f}&filters={filters}"
    events = daemon.request("GET", f"/events?{query}", checked=False).lines
    assert [event["Action"] for event in events] == ["pause", "commit", "unpause", "commit"]
    assert events[1]["Actor"]["Attributes"]["imageRef"] == "paused:latest"
    assert events[1]["Actor"]["Attributes"]["imageID"].startswith("sha256:")


def test_a_paused_container_stays_paused(daemon: Daemon, container: Callable[..., str], commit: Callable) -> None:
    identifier = container("sleep", "1000")
    daemon.begin(identifier)
    assert daemon.request("POST", f"/containers/{identifier}/pause").status == 204
    commit(identifier)
    assert daemon.inspect(identifier)["State"]["Status"] == "paused"
    assert daemon.request("POST", f"/containers/{identifier}/unpause").status == 204


def test_a_chain_of_commits_and_an_image_that_outlives_its_parents_name(
    daemon: Daemon, ended: Callable[..., str], commit: Callable
) -> None:
    image = "busybox"
    for number in range(4):
        image = commit(ended(f"echo {number} > /n{number}; echo {number} > /last", Image=image), repo="chain")["Id"]
    assert daemon.shell("cat /n0 /n1 /n2 /n3 /last", Image=image).split() == ["0", "1", "2", "3", "3"]


def test_a_container_whose_image_was_removed_can_be_committed(
    daemon: Daemon, ended: Callable[..., str], commit: Callable
) -> None:
    base = commit(ended("echo > /base"), repo="forgotten")
    identifier = ended("echo > /top", Image="forgotten")
    assert daemon.request("DELETE", f"/images/{base['Id']}?force=1").status == 200
    image = commit(identifier)
    assert daemon.shell("ls /base /top", Image=image["Id"]).split() == ["/base", "/top"]


def test_a_daemon_that_is_started_again_still_has_the_image(own_daemon: Daemon) -> None:
    identifier = own_daemon.create("sh", "-c", "echo kept > /kept")
    own_daemon.begin(identifier)
    own_daemon.wait(identifier)
    assert ask(own_daemon, identifier, repo="kept").status == 201
    own_daemon.kill9()
    own_daemon.start()
    assert own_daemon.shell("cat /kept", Image="kept") == "kept"
