"""What is asked of a container beside its end or its removal: whole, or refused; never a 500, and nothing left."""

import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.listening import listening, until

pytestmark = pytest.mark.usefixtures("busybox")

LARGE = 8 << 20
SCRIPT = f"""
[ -e /t/a-large ] || head -c {LARGE} /dev/zero > /t/a-large
[ -e /t/vol/file ] || echo inside > /t/vol/file
echo ready
exec sleep 600
"""
UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}


@pytest.fixture
def box(daemon: Daemon, container: Callable[..., str]) -> Iterator[str]:
    """A container that runs, with a large file and a volume behind it."""
    one = container("sh", "-c", SCRIPT, HostConfig={"NetworkMode": "none", "Binds": ["beside:/t/vol"]})
    daemon.begin(one)
    until(lambda: b"ready" in daemon.logs(one))
    yield one
    daemon.remove(one)
    assert daemon.request("DELETE", "/volumes/beside").status == 204


def end(daemon: Daemon, container: str) -> None:
    """Have it ended, and the end known."""
    assert daemon.request("POST", f"/containers/{container}/kill").status == 204
    daemon.wait(container)


def members(body: bytes) -> dict[str, int]:
    """The names and sizes in a whole archive."""
    assert body.endswith(bytes(1024)), "the end is withheld"
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        return {each.name: each.size for each in archive}


def status_of(daemon: Daemon, container: str, path: str) -> int:
    """Of a question for the path."""
    return daemon.request("HEAD", f"/containers/{container}/archive?path={path}").status


@pytest.mark.parametrize("again", [False, True], ids=["ended", "started again"])
def test_a_copy_of_files_is_whole_when_the_container_ends_meanwhile(daemon: Daemon, box: str, again: bool) -> None:
    """Also what was mounted in it, which is met after the end."""
    with daemon.connection() as copying, daemon.connection() as exporting:
        assert copying.open_stream("GET", f"/containers/{box}/archive?path=/t")[0] == 200
        assert exporting.open_stream("GET", f"/containers/{box}/export")[0] == 200
        end(daemon, box)
        if again:
            daemon.begin(box)
        copied, exported = (members(b"".join(each.chunks())) for each in (copying, exporting))
    assert copied == {"t": 0, "t/a-large": LARGE, "t/vol": 0, "t/vol/file": 7}
    assert exported["t/a-large"] == LARGE and "t/vol/file" not in exported


def test_a_copy_is_not_said_to_be_whole_when_the_container_is_removed_meanwhile(daemon: Daemon, box: str) -> None:
    with daemon.connection() as copying:
        assert copying.open_stream("GET", f"/containers/{box}/archive?path=/t")[0] == 200
        daemon.remove(box)
        with pytest.raises(EOFError):
            list(copying.chunks())


def sending(daemon: Daemon, container: str) -> tuple[Connection, bytes]:
    """An archive that is half sent, of which the first file is there; and its other half."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as archive:
        for name in ("first", "second"):
            info = tarfile.TarInfo(name)
            info.size = 1 << 20
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    data = body.getvalue()
    half = (1 << 20) + 100_000
    connection = daemon.connection()
    head = f"PUT /containers/{container}/archive?path=/tmp HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    connection.send(head.encode() + data[:half])
    until(lambda: status_of(daemon, container, "/tmp/first") == 200)
    return connection, data[half:]


def test_files_are_put_into_a_container_that_ends_meanwhile(daemon: Daemon, box: str) -> None:
    connection, rest = sending(daemon, box)
    with connection:
        end(daemon, box)
        connection.send(rest)
        assert connection.read_answer().status == 200
    assert status_of(daemon, box, "/tmp/second") == 200


def test_a_commit_of_a_container_that_ends_meanwhile_is_an_image(daemon: Daemon, box: str) -> None:
    """It is unpaused by its end, which is no failure of the commit's."""
    with daemon.connection() as committing, listening(daemon, filters={"container": [box]}) as events:
        committing.send_request("POST", f"/commit?container={box}&repo=beside")
        events.until("pause")
        end(daemon, box)
        answer = committing.read_answer()
    assert answer.status == 201, answer
    image = daemon.request("GET", "/images/beside/json").json()
    assert image["Id"] == answer.json()["Id"]
    assert daemon.shell("ls -l /t/a-large | wc -l", Image="beside") == "1"
    assert daemon.request("DELETE", "/images/beside").status == 200


def test_attach_beside_a_removal_is_served_or_not_found(daemon: Daemon, container: Callable[..., str]) -> None:
    """And the daemon keeps no descriptor of who came last, nor lets him wait for a start that never comes."""
    statuses: list[int] = []
    cut: list[Exception] = []

    def attach(one: str) -> None:
        try:
            for logs in ("0", "1", "0"):
                with daemon.connection() as connection:
                    target = f"/containers/{one}/attach?stream=1&stdout=1&logs={logs}"
                    connection.send_request("POST", target, headers=UPGRADE)
                    status, _ = connection.read_head()
                    statuses.append(status)
                    if status == 101:
                        connection.read_to_end()
        except (OSError, EOFError) as error:
            cut.append(error)

    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for _ in range(12):
        one = container("sleep", "600")
        attaching = [threading.Thread(target=attach, args=(one,)) for _ in range(4)]
        for each in attaching:
            each.start()
        daemon.remove(one)
        for each in attaching:
            each.join()
    assert not cut
    assert set(statuses) <= {101, 404}
    until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= before)


def test_the_same_files_put_by_several_clients_at_once(daemon: Daemon, box: str) -> None:
    """Each of them replaces what another one has made a moment before; none is refused for that."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as archive:
        for number in range(200):
            info = tarfile.TarInfo(f"same/{number % 20}")
            info.type = tarfile.SYMTYPE if number % 2 else tarfile.REGTYPE
            info.linkname = "there" if number % 2 else ""
            archive.addfile(info)
    answers = []

    def put() -> None:
        for _ in range(10):
            path = f"/containers/{box}/archive?path=/tmp"
            answers.append(daemon.request("PUT", path, body.getvalue(), {"Content-Type": "application/x-tar"}))

    putting = [threading.Thread(target=put) for _ in range(4)]
    for each in putting:
        each.start()
    for each in putting:
        each.join()
    assert not [answer for answer in answers if answer.status != 200]
    assert len(answers) == 40
