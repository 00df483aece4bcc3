"""engine.daemon.api.listeners, acceptor and tls: sockets opened, replaced, refused; connections served and ended."""

import os
import select
import socket
import ssl
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine.daemon.api import listeners
from engine.daemon.api.acceptor import Acceptor
from engine.daemon.api.answers import Text
from engine.daemon.api.listeners import Listener, open_listeners
from engine.errors import Conflict, Invalid
from engine.settings.every import from_arguments

CERTIFICATES = Path(__file__).parent / "certificates"
TLS = [
    "--tlsverify",
    f"--tlscacert={CERTIFICATES}/ca.pem",
    f"--tlscert={CERTIFICATES}/server.pem",
    f"--tlskey={CERTIFICATES}/server.pem",
]
GET = b"GET /a HTTP/1.1\r\n\r\n"


def settings(*arguments: str):
    return from_arguments([*arguments, "--config-file=/dev/null"])


@pytest.fixture
def listen():
    """Open listeners, and close what is still open afterwards."""
    opened: list[Listener] = []

    def make(*arguments: str, environ=None) -> list[Listener]:
        opened.extend(open_listeners(settings(*arguments), environ or {}))
        return opened

    yield make
    for listener in opened:
        listener.close()


@pytest.fixture
def serve():
    """Serve an application on listeners."""
    acceptors = []

    def make(listeners, application=lambda request: Text(request.path)):
        acceptors.append(Acceptor(listeners, application))
        acceptors[-1].start()
        return acceptors[-1]

    yield make
    for acceptor in acceptors:
        acceptor.stop(1)


def connected(path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(str(path))
    return client


def test_a_unix_socket_is_for_root_and_its_group(listen, tmp_path):
    path = tmp_path / "deep" / "s.sock"
    listen(f"--host=unix://{path}", f"--group={os.getgid()}")
    found = path.stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, os.getgid())


def test_a_group_that_does_not_exist_is_refused(listen, tmp_path):
    with pytest.raises(Invalid, match="group no-such-group not found"):
        listen(f"--host=unix://{tmp_path}/s", "--group=no-such-group")


def test_dockerds_group_may_be_missing_and_the_socket_is_roots_alone_then(listen, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(listeners.grp, "getgrnam", {}.__getitem__)
    listen(f"--host=unix://{tmp_path}/s", "--group=docker")
    assert (tmp_path / "s").stat().st_gid == os.getgid()
    assert "group docker not found" in caplog.text


def test_tcp_without_tls_is_plain_once_somebody_has_said_so(listen, serve, caplog):
    serve(listen("--host=tcp://127.0.0.1:0", "--tls=false"))
    assert "gives root on this host to everyone who can reach it" in caplog.text


def test_a_stale_socket_is_replaced(listen, tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    listen(f"--host=unix://{tmp_path}/s")
    connected(tmp_path / "s").close()


def test_a_live_socket_is_never_replaced(listen, tmp_path):
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(tmp_path / "s"))
        live.listen()
        with pytest.raises(Conflict, match="another daemon listens"):
            listen(f"--host=unix://{tmp_path}/s")
        connected(tmp_path / "s").close()


def test_what_is_no_socket_is_never_replaced(listen, tmp_path):
    (tmp_path / "s").write_text("mine")
    with pytest.raises(Conflict, match="not a socket"):
        listen(f"--host=unix://{tmp_path}/s")
    assert (tmp_path / "s").read_text() == "mine"


def test_a_path_too_long_for_a_socket_is_refused_in_words(listen, tmp_path):
    with pytest.raises(Invalid, match="at most 107 bytes"):
        listen(f"--host=unix://{tmp_path}/{'x' * 108}")


def test_when_one_address_fails_the_others_are_closed_again(listen, tmp_path):
    (tmp_path / "b").write_text("")
    with pytest.raises(Conflict):
        listen(f"--host=unix://{tmp_path}/a", f"--host=unix://{tmp_path}/b")
    assert not (tmp_path / "a").exists()


def test_a_closed_listener_takes_its_file_along_and_no_other_s(listen, tmp_path):
    first, second = listen(f"--host=unix://{tmp_path}/a", f"--host=unix://{tmp_path}/b")
    (tmp_path / "b").unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "b"))
        first.close()
        second.close()
        assert not (tmp_path / "a").exists()
        assert (tmp_path / "b").exists()


def test_sockets_of_another_process_s_activation_are_not_ours(listen):
    for environ in ({}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}):
        with pytest.raises(Invalid, match="no sockets were passed"):
            listen("--host=fd://", environ=environ)


@pytest.mark.parametrize("count", ["abc", "-1", "1000000000", "9" * 5000, " 1", "1.5", "2"])
def test_descriptors_that_were_not_passed_are_refused_in_words(listen, tmp_path, count):
    """Of two descriptors of this process one at least is no socket that listens."""
    place = tmp_path / "a"
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count}
    for host in ("fd://", f"unix://{place}"):
        with pytest.raises(Invalid, match="LISTEN_FDS="):
            listen(f"--host={host}", environ=environ)
    assert not place.exists()


@pytest.mark.parametrize("opened", ["4</dev/null", "4<&-", "4<&5"])
def test_what_is_no_listening_socket_is_named(tmp_path, opened):
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as idle:
        one.bind(str(tmp_path / "one"))
        one.listen()
        numbers = (one.fileno(), idle.fileno())
        shell = f'exec 5<&{numbers[1]}; exec 3<&{numbers[0]} {opened}; exec "$@"'
        command = ["bash", "-c", shell, "bash", sys.executable, "-c", ACTIVATED, "one"]
        done = subprocess.run(command, pass_fds=numbers, capture_output=True, text=True)
    assert "Invalid: LISTEN_FDS=2: the descriptor 4 is no listening socket" in done.stderr


ACTIVATED = """
import os, socket, sys
from engine.daemon.api.listeners import open_listeners
from engine.settings.every import from_arguments
environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "one:two"}
listener, = open_listeners(from_arguments(["--host=fd://" + sys.argv[1], "--config-file=/dev/null"]), environ)
assert not os.get_inheritable(int(listener.address.removeprefix("fd://")))
with listener.accept() as peer:
    peer.sendall(listener.address.encode())
"""


@pytest.mark.parametrize(("wanted", "fd"), [("two", 4), ("3", 3)])
def test_a_socket_that_systemd_passes_is_used(tmp_path, wanted, fd):
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        for name, listening in (("one", one), ("two", two)):
            listening.bind(str(tmp_path / name))
            listening.listen()
        numbers = (one.fileno(), two.fileno())
        shell = f'exec 3<&{numbers[0]} 4<&{numbers[1]}; exec "$@"'
        command = ["bash", "-c", shell, "bash", sys.executable, "-c", ACTIVATED, wanted]
        with subprocess.Popen(command, pass_fds=numbers) as process:
            with connected(tmp_path / ("one" if fd == 3 else "two")) as client:
                assert client.recv(100) == f"fd://{fd}".encode()
            assert process.wait(30) == 0


def test_connections_are_served_at_the_same_time(listen, serve, tmp_path):
    meeting = threading.Barrier(3, timeout=30)

    def meet(request):
        meeting.wait()
        return Text("met")

    serve(listen(f"--host=unix://{tmp_path}/s"), meet)
    clients = [connected(tmp_path / "s") for _ in range(3)]
    for client in clients:
        client.sendall(GET)
    for client in clients:
        assert client.recv(65536).endswith(b"met")
        client.close()


def test_a_stop_closes_idle_connections_and_lets_answers_end(listen, serve, tmp_path):
    begun, end = threading.Event(), threading.Event()

    def slow(request):
        begun.set()
        assert end.wait(10)
        return Text("whole")

    acceptor = serve(listen(f"--host=unix://{tmp_path}/s"), slow)
    with connected(tmp_path / "s") as idle, connected(tmp_path / "s") as busy:
        busy.sendall(GET)
        assert begun.wait(10)
        stopper = threading.Thread(target=acceptor.stop)
        stopper.start()
        assert idle.recv(100) == b""
        end.set()
        stopper.join(10)
        assert not stopper.is_alive()
        answer = b"".join(iter(lambda: busy.recv(65536), b""))
        assert b"whole" in answer
    assert not (tmp_path / "s").exists()


def test_a_stop_hangs_up_on_an_answer_that_does_not_end(listen, serve, tmp_path):
    begun = threading.Event()

    def endless(request):
        with request.stream(200, "text/plain") as out:
            begun.set()
            while True:
                out.write(b"x" * 65536)

    acceptor = serve(listen(f"--host=unix://{tmp_path}/s"), endless)
    with connected(tmp_path / "s") as client:
        client.sendall(GET)
        assert begun.wait(10)
        acceptor.stop(0.1)
        while client.recv(1 << 20):
            pass


@pytest.fixture
def tls_server(listen, serve):
    """Serve an application over TLS; the port."""

    def make(application=lambda request: Text(request.path)):
        listeners = listen("--host=tcp://127.0.0.1:0", *TLS)
        serve(listeners, application)
        return int(listeners[0].address.rpartition(":")[2])

    return make


def client_context(with_certificate: bool = True) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))
    if with_certificate:
        context.load_cert_chain(str(CERTIFICATES / "client.pem"))
    return context


def tls_connected(port: int, with_certificate: bool = True) -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", port), 10)
    return client_context(with_certificate).wrap_socket(raw, server_hostname="localhost")


def test_a_client_with_a_certificate_is_served_over_tls(tls_server):
    with tls_connected(tls_server()) as client:
        for _ in range(2):
            client.sendall(GET)
            assert client.recv(65536).endswith(b"/a")


def test_a_client_without_a_certificate_is_not_served(tls_server):
    with pytest.raises(OSError), tls_connected(tls_server(), with_certificate=False) as client:
        client.sendall(GET)
        assert client.recv(65536) != b"", "closed without an alert"


def exchanged(client: ssl.SSLSocket, data: bytes) -> bytes:
    """Send and receive at once, in one thread, as one TLS connection must be used."""
    client.setblocking(False)
    answer = b""
    while True:
        try:
            data = data[client.send(data[:16384]) :] if data else data
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            part = client.recv(1 << 20)
            if not part:
                return answer
            answer += part
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            poll = select.poll()
            poll.register(client, select.POLLIN | (select.POLLOUT if data else 0))
            poll.poll(10_000)


def test_large_bodies_go_both_ways_through_tls(tls_server):
    data = os.urandom(3_000_000)

    def echo(request):
        with request.stream(200, "text/plain") as out:
            while part := request.body.read(100_000):
                out.write(part)

    with tls_connected(tls_server(echo)) as client:
        head = b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(data)
        answer = exchanged(client, head + data)
    body, rest = b"", answer.partition(b"\r\n\r\n")[2]
    while (size := int(rest.partition(b"\r\n")[0], 16)) > 0:
        rest = rest.partition(b"\r\n")[2]
        body += rest[:size]
        rest = rest[size + 2 :]
    assert body == data


def test_a_hijacked_tls_connection_is_a_plain_socket(tls_server):
    def take(request):
        peer = request.hijack(True)
        assert isinstance(peer, socket.socket) and not isinstance(peer, ssl.SSLSocket)
        with peer:
            peer.sendall(b"<" + peer.recv(100) + b">")

    with tls_connected(tls_server(take)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 101 UPGRADED\r\n")
        client.sendall(b"bytes")
        assert b"".join(iter(lambda: client.recv(100), b"")) == b"<bytes>"


def test_a_tls_client_that_hangs_up_is_noticed(tls_server):
    begun, gone = threading.Event(), threading.Event()

    def wait(request):
        begun.set()
        while not request.gone():
            gone.wait(0.01)
        gone.set()
        return Text("")

    client = tls_connected(tls_server(wait))
    client.sendall(GET)
    assert begun.wait(10)
    client.close()
    assert gone.wait(10)


def test_tcp_without_tls_is_refused(listen):
    with pytest.raises(Invalid, match="refused"):
        listen("--host=tcp://127.0.0.1:0")


def test_a_certificate_that_cannot_be_used_is_told(listen, tmp_path):
    with pytest.raises(Invalid, match="for TLS"):
        listen("--host=tcp://127.0.0.1:0", *TLS[:2], f"--tlscert={tmp_path}/nope", f"--tlskey={tmp_path}/nope")


def test_the_kernel_asks_whether_a_client_over_tcp_is_still_there():
    """One that vanished without a word would keep its connection, and what waits for it, for ever."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listener = Listener(listening, "tcp")
        with socket.create_connection(listening.getsockname()), select.epoll() as waiting:
            waiting.register(listening)
            waiting.poll(30)
            with listener.accept() as peer:
                assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15
