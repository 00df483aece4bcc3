"""The log drivers that send lines over a network, through real containers: what a receiver gets, and what it can do."""

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.logdrivers import driver
from tests.harness import frames, receivers
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")

CERTIFICATES = Path(__file__).resolve().parents[1] / "unit" / "api" / "certificates"


@pytest.fixture
def listener(daemon: Daemon) -> Iterator[Callable[..., socket.socket]]:
    """A function: a socket on the daemon's loopback address, and its port; a port that was used before can be named."""
    with contextlib.ExitStack() as stack:

        def make(kind: int = socket.SOCK_STREAM, port: int = 0) -> tuple[socket.socket, int]:
            made = stack.enter_context(daemon.namespaces.socket(kind))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.settimeout(receivers.PATIENCE)
            made.bind(("127.0.0.1", port))
            return made, made.getsockname()[1]

        yield make


def test_gelf_gets_each_line_and_it_can_be_read_here(
    daemon: Daemon, ended: Callable[..., str], listener: Callable[..., tuple[socket.socket, int]]
) -> None:
    """Compressed, with the container's command, labels and variables."""
    receiver, port = listener(socket.SOCK_DGRAM)
    options = {"gelf_address": f"udp://127.0.0.1:{port}", "labels": "l", "env": "E", "tag": "{{.Name}}"}
    one = ended("echo out; sleep 0.1; echo err >&2", Labels={"l": "x"}, Env=["E=y"], **driver("gelf", **options))
    got = [receivers.gelf_message(receiver) for _ in range(2)]
    shown = daemon.inspect(one)
    assert [(each["short_message"], each["level"]) for each in got] == [("out", 6), ("err", 3)]
    for each in got:
        assert {name: value for name, value in each.items() if name.startswith("_")} == {
            "_command": " ".join([shown["Path"], *shown["Args"]]),
            "_container_id": one,
            "_container_name": shown["Name"].lstrip("/"),
            "_created": shown["Created"],
            "_image_id": shown["Image"],
            "_image_name": "busybox",
            "_tag": shown["Name"].lstrip("/"),
            "_l": "x",
            "_E": "y",
        }
    assert frames.stdout(daemon.logs(one, "stdout=1")) == b"out\n"
    assert daemon.request("GET", f"/containers/{one}/logs?stdout=1&details=1").body.endswith(b"E=y,l=x out\n")


def test_fluentd_gets_each_line_acknowledged(
    daemon: Daemon, ended: Callable[..., str], listener: Callable[..., tuple[socket.socket, int]]
) -> None:
    """And the pieces of a long one, which know of each other."""
    receiver, port = listener()
    body = driver("fluentd", fluentd_address=f"127.0.0.1:{port}", fluentd_request_ack="true", cache_disabled="true")
    with receivers.fluentd(receiver) as arrivals:
        one = ended("echo out; sleep 0.1; head -c 20000 /dev/zero | tr '\\0' x; echo", **body)
        got = [record for _, _, record, _ in arrivals.take(3)]
    assert [each["log"] for each in got] == ["out", "x" * 16384, "x" * 3616]
    assert {each["container_id"] for each in got} == {one}
    assert [(each["partial_ordinal"], each["partial_last"]) for each in got[1:]] == [("1", "false"), ("2", "true")]
    answer = daemon.request("GET", f"/containers/{one}/logs?stdout=1")
    assert (answer.status, answer.message) == (501, "configured logging driver does not support reading")


def test_fluentd_that_is_away_gets_asynchronous_lines_when_it_is_back(
    daemon: Daemon, container: Callable[..., str], listener: Callable[..., tuple[socket.socket, int]]
) -> None:
    """It goes in the middle too, and nothing that was not acknowledged is lost; the container never waits."""
    reserved, port = listener()
    reserved.close()
    options = {"fluentd_async": "true", "fluentd_retry_wait": "50ms", "fluentd_request_ack": "true"}
    body = driver("fluentd", fluentd_address=f"127.0.0.1:{port}", **options)
    one = container("sh", "-c", "echo 1; read x; echo 2; read x; echo 3", OpenStdin=True, **body)
    with daemon.connection() as connection:
        connection.hijack(f"/containers/{one}/attach?stream=1&stdin=1&stdout=1")
        daemon.begin(one)
        assert connection.read(10)[8:] == b"1\n"
        for number in (1, 2):
            receiver, _ = listener(port=port)
            with receivers.fluentd(receiver) as arrivals:
                assert arrivals.take()[0][2]["log"] == str(number)
            connection.send(b"go\n")
            assert connection.read(10)[8:] == b"%d\n" % (number + 1)
        receiver, _ = listener(port=port)
        with receivers.fluentd(receiver) as arrivals:
            assert arrivals.take()[0][2]["log"] == "3"
    assert daemon.wait(one) == 0


def test_splunk_gets_each_line(
    daemon: Daemon, ended: Callable[..., str], listener: Callable[..., tuple[socket.socket, int]]
) -> None:
    """Over TLS, compressed; the rest when the container ends."""
    receiver, port = listener()
    receiver.settimeout(None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    options = {"splunk_url": f"https://127.0.0.1:{port}", "splunk_token": "t", "splunk_gzip": "true"}
    body = driver("splunk", splunk_capath=str(CERTIFICATES / "ca.pem"), splunk_format="json", **options)
    with receivers.splunk(receiver, context=context) as arrivals:
        one = ended("echo '{\"a\": 1}'; sleep 0.1; echo err >&2", **body)
        asked, posted = arrivals.take(2)
    assert asked[0] == "OPTIONS"
    assert [each["event"] for each in posted[3]] == [
        {"line": {"a": 1}, "source": "stdout", "tag": one[:12]},
        {"line": "err", "source": "stderr", "tag": one[:12]},
    ]
    assert frames.stdout(daemon.logs(one, "stdout=1")) == b'{"a": 1}\n'


@pytest.mark.parametrize("form", ["rfc5424", "rfc3164"])
def test_syslog_goes_over_tls(
    daemon: Daemon, ended: Callable[..., str], listener: Callable[..., tuple[socket.socket, int]], form: str
) -> None:
    """Each message with its length before it, where RFC 5425 says so; the server's and the client's certificate."""
    receiver, port = listener()
    receiver.listen()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    context.load_verify_locations(CERTIFICATES / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    pair = str(CERTIFICATES / "client.pem")
    files = {"syslog_tls_ca_cert": str(CERTIFICATES / "ca.pem"), "syslog_tls_cert": pair, "syslog_tls_key": pair}
    body = driver("syslog", syslog_address=f"tcp+tls://127.0.0.1:{port}", syslog_format=form, **files)
    with receivers.accepted(receiver, context) as connections:
        one = ended("echo one; echo two", **body)
        [connection] = connections.take()
        got = b""
        while data := connection.recv(65536):
            got += data
        connection.close()
    for text in (b"one", b"two"):
        if form == "rfc5424":
            size, _, got = got.partition(b" ")
            message, got = got[: int(size)], got[int(size) :]
        else:
            message, _, got = got.partition(b"\n")
            message += b"\n"
        assert message.endswith(b" %b\n" % text)
    assert got == b""
    assert frames.stdout(daemon.logs(one, "stdout=1")) == b"one\ntwo\n"


def test_a_server_without_a_believed_certificate_is_refused_at_the_start(
    daemon: Daemon, container: Callable[..., str], listener: Callable[..., tuple[socket.socket, int]]
) -> None:
    """With Go's words; with syslog-tls-skip-verify it is taken."""
    receiver, port = listener()
    receiver.listen()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    address = f"tcp+tls://127.0.0.1:{port}"
    with receivers.accepted(receiver, context) as connections:
        answer = daemon.request(
            "POST", f"/containers/{container('true', **driver('syslog', syslog_address=address))}/start"
        )
        assert answer.status == 500
        assert answer.message.endswith(
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )
        one = container("echo", "hi", **driver("syslog", syslog_address=address, syslog_tls_skip_verify="1"))
        daemon.begin(one)
        [connection] = connections.take()
        assert connection.recv(65536).endswith(b": hi\n")
        connection.close()
        assert daemon.wait(one) == 0


@pytest.mark.parametrize("name", ["gelf", "fluentd"])
def test_a_receiver_that_never_reads_holds_up_no_container_that_may_drop(
    daemon: Daemon, ended: Callable[..., str], listener: Callable[..., tuple[socket.socket, int]], name: str
) -> None:
    """mode=non-blocking: it ends soon, and the log that is kept here is whole."""
    receiver, port = listener()
    receiver.listen()
    address = f"tcp://127.0.0.1:{port}"
    body = driver(name, mode="non-blocking", max_buffer_size="100k", **{f"{name}_address": address})
    script = "yes 0123456789012345678901234567890123456789 | head -n 200000; echo done"
    begun = time.monotonic()
    one = ended(script, **body)
    assert time.monotonic() - begun < receivers.PATIENCE
    assert daemon.inspect(one)["State"]["ExitCode"] == 0
    assert frames.stdout(daemon.logs(one, "stdout=1&tail=1")) == b"done\n"


def test_forwarders_go_on_while_there_is_no_daemon(own_daemon: Daemon) -> None:
    """Each keeps all of its code in memory."""
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(own_daemon.namespaces.socket(socket.SOCK_DGRAM))
        receiver.settimeout(receivers.PATIENCE)
        receiver.bind(("127.0.0.1", 0))
        body = driver("gelf", gelf_address=f"udp://127.0.0.1:{receiver.getsockname()[1]}")
        one = own_daemon.create("sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done", **body)
        own_daemon.begin(one)
        own_daemon.kill9()
        said = [receivers.gelf_message(receiver)["short_message"] for _ in range(5)]
        own_daemon.start()
        assert own_daemon.wait(one) == 0
    assert said == list("12345")
