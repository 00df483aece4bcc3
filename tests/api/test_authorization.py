"""Authorization plugins: what they are told of requests and answers, and that nothing they deny is served."""

import base64
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.protocols import http2
from tests.api.test_tls import CERTIFICATES, PORT, context
from tests.harness import frames
from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.plugin import Object, Plugin

ASKED, ANSWERED = "AuthZPlugin.AuthZReq", "AuthZPlugin.AuthZRes"
LIMIT = 4 * 1024 * 1024


def allow(_: Object) -> Object:
    """Yes."""
    return {"Allow": True}


class Judge(Plugin):
    """An authorization plugin that allows everything until a test says otherwise."""

    def __init__(self) -> None:
        super().__init__("authz")
        self.relent()

    def relent(self) -> None:
        """Allow everything again."""
        self.methods |= {ASKED: allow, ANSWERED: allow}
        self.calls.clear()

    def told(self, method: str, target: str) -> Object:
        """What it was told last of requests for this target."""
        return [each for each in self.asked(method) if each["RequestUri"] == target][-1]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the daemon of these tests looks for plugins."""
    return tmp_path_factory.mktemp("z")


@pytest.fixture(scope="module")
def judges(directory: Path) -> Iterator[tuple[Judge, Judge]]:
    """Two plugins, `first` and `second`."""
    with Judge().serving(directory / "first.sock") as first, Judge().serving(directory / "second.sock") as second:
        yield first, second


@pytest.fixture(scope="module")
def judged(world, directory: Path, judges: tuple[Judge, Judge]) -> Iterator[Daemon]:
    """A daemon that asks both, on its Unix socket and on TCP with TLS."""
    files = {"--tlscacert": "ca.pem", "--tlscert": "server.pem", "--tlskey": "server.pem"}
    tls = [part for name, file in files.items() for part in (name, str(CERTIFICATES / file))]
    tls = ["-H", f"tcp://127.0.0.1:{PORT + 7}", "--tlsverify", *tls]
    plugins = ["--authorization-plugin", "first", "--authorization-plugin", "second", "--plugin-dir", str(directory)]
    daemon = world.daemon([*plugins, *tls]).start()
    daemon.import_busybox()
    yield daemon
    daemon.stop()


@pytest.fixture
def judge(judges: tuple[Judge, Judge], judged: Daemon) -> Iterator[Judge]:
    """The first of them."""
    for each in judges:
        each.relent()
    yield judges[0]
    for each in judges:
        each.relent()


def decoded(text: str) -> bytes:
    """The bytes that a plugin was told."""
    return base64.b64decode(text, validate=True)


def test_a_plugin_is_told_all_of_a_request_and_its_answer(judged: Daemon, judge: Judge) -> None:
    """But credentials in headers."""
    body = {"Name": "told", "Labels": {"a": "b"}}
    headers = {"X-Registry-Auth": "secret", "X-Own": "shown"}
    answer = judged.request("POST", "/v1.44/volumes/create?x=%2F", body, headers=headers)
    assert answer.status == 201
    asked = judge.told(ASKED, "/v1.44/volumes/create?x=%2F")
    assert (asked["RequestMethod"], json.loads(decoded(asked["RequestBody"]))) == ("POST", body)
    assert asked["RequestHeaders"]["X-Own"] == "shown"
    assert asked["RequestHeaders"]["Content-Type"] == "application/json"
    assert "X-Registry-Auth" not in asked["RequestHeaders"]
    assert not {"User", "UserAuthNMethod", "ResponseBody"} & asked.keys()
    answered = judge.told(ANSWERED, "/v1.44/volumes/create?x=%2F")
    assert (answered["ResponseStatusCode"], answered["ResponseHeaders"]) == (201, {"Content-Type": "application/json"})
    assert decoded(answered["ResponseBody"]) == answer.body
    assert answered["RequestBody"] == asked["RequestBody"]
    judged.request("DELETE", "/volumes/told")
    assert judged.request("GET", "/info").json()["Plugins"]["Authorization"] == ["first", "second"]


def test_who_shows_a_certificate_is_named(judged: Daemon, judge: Judge) -> None:
    """With the certificate."""
    made = Connection.__new__(Connection)
    made.buffer = b""
    plain = judged.namespaces.connect(PORT + 7)
    plain.settimeout(30)
    made.socket = context(certificate=True).wrap_socket(plain, server_hostname="localhost")
    assert made.request("GET", "/volumes").status == 200
    made.socket.close()
    asked = judge.told(ASKED, "/volumes")
    shown = decoded(asked["RequestPeerCertificates"][0]).decode()
    assert (asked["User"], asked["UserAuthNMethod"]) == ("engine test client", "TLS")
    assert shown.strip() in (CERTIFICATES / "client.pem").read_text()


@pytest.mark.parametrize("number", [0, 1])
def test_what_one_denies_is_not_done(judged: Daemon, judges: tuple[Judge, Judge], judge: Judge, number: int) -> None:
    """Whichever it is; the one after the first refusal is not asked."""
    judges[number].methods[ASKED] = lambda _: {"Allow": False, "Msg": "not today"}
    answer = judged.request("POST", "/volumes/create", {"Name": "denied"})
    name = ("first", "second")[number]
    words = f"authorization denied by plugin {name}: not today"
    assert (answer.status, answer.message) == (403, words)
    assert len(judges[1].asked(ASKED)) == number
    for each in judges:
        each.relent()
    assert judged.request("GET", "/volumes/denied").status == 404


def test_an_answer_that_is_denied_is_not_sent(judged: Daemon, judge: Judge) -> None:
    """An error is, as with dockerd."""
    judge.methods[ANSWERED] = lambda _: {"Allow": False, "Msg": "hush"}
    answer = judged.request("GET", "/images/busybox/json")
    assert (answer.status, answer.message) == (403, "authorization denied by plugin first: hush")
    assert judged.request("GET", "/images/nosuch/json").status == 404


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"Allow": True, "Err": "broken"}, "plugin first failed with error: broken"),
        ((500, b"no"), "plugin first failed with error: AuthZPlugin.AuthZReq: no"),
        ((200, b"["), "plugin first failed with error: AuthZPlugin.AuthZReq: the plugin's answer is no object of JSON"),
        ({}, "authorization denied by plugin first: "),
        ({"Allow": "true", "Msg": 7}, "authorization denied by plugin first: "),
        ({"Allow": 1}, "authorization denied by plugin first: "),
    ],
)
def test_what_is_no_yes_is_a_no(judged: Daemon, judge: Judge, said: object, words: str) -> None:
    """Whatever a plugin answers."""
    judge.methods[ASKED] = lambda _: said
    answer = judged.request("POST", "/volumes/create", {"Name": "denied"})
    assert answer.status in (403, 500)
    assert answer.message == words


def test_cve_2024_41110_and_2026_34040_no_body_reaches_the_daemon_alone(judged: Daemon, judge: Judge) -> None:
    """In chunks, without a length, with another type, too large: the plugin has seen it, or it is not served."""
    data = json.dumps({"Name": "smuggled"}).encode()
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)
    cases = [
        ("Transfer-Encoding: chunked\r\nContent-Type: application/json", chunked, 201),
        (f"Content-Length: {len(data)}\r\nContent-Type: APPLICATION/JSON ; charset=utf-8", data, 201),
        (f"Content-Length: {len(data)}\r\nContent-Type: text/plain", data, 400),
        (f"Content-Length: {len(data)}", data, 400),
        ("Content-Length: 0\r\nContent-Type: application/json", data, 400),
        (f"Content-Length: {LIMIT + 1}\r\nContent-Type: application/json", data + b" " * (LIMIT + 1 - len(data)), 500),
    ]
    for fields, body, status in cases:
        with judged.connection() as raw:
            judge.calls.clear()
            raw.send(f"POST /volumes/create HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n".encode() + body)
            got = raw.socket.recv(65536)
            assert got.startswith(b"HTTP/1.1 %d " % status), (fields, got)
            told = [each.get("RequestBody", "") for each in judge.asked(ASKED)]
            if status == 201:
                assert [decoded(each) for each in told] == [data]
            assert (judged.request("GET", "/volumes/smuggled").status == 200) is (status == 201), fields
            judged.request("DELETE", "/volumes/smuggled")


@pytest.mark.parametrize(
    "target", ["/volumes/cre%61te", "/v1.44/volumes/create/", "http://host/v1.44/volumes/create", "/volumes/create//"]
)
def test_a_path_is_told_as_it_is_served(judged: Daemon, judge: Judge, target: str) -> None:
    """However the client has written it: a plugin that knows the plain one cannot be gone around."""

    def guard(told: Object) -> Object:
        return {"Allow": not told["RequestUri"].endswith("/volumes/create")}

    judge.methods[ASKED] = guard
    assert judged.request("POST", target, {"Name": "around"}).status == 403


def test_a_login_is_not_shown(judged: Daemon, judge: Judge) -> None:
    """Its body has a password."""
    judged.request("POST", "/v1.44/auth", {"username": "u", "password": "secret", "serveraddress": "127.0.0.1:1"})
    assert "RequestBody" not in judge.told(ASKED, "/v1.44/auth")


def test_streams_and_hijacked_connections_are_asked_about_before(judged: Daemon, judge: Judge) -> None:
    """A start, an attach and the log go on as usual when they are allowed, and do not begin when they are not."""
    one = judged.create("echo", "hi", HostConfig={"NetworkMode": "none"})
    with judged.connection() as attached:
        attached.hijack(f"/containers/{one}/attach?stream=1&stdout=1")
        judged.begin(one)
        assert attached.read_to_end() == frames.frame(1, b"hi\n")
    judged.wait(one)
    assert frames.stdout(judged.logs(one, "stdout=1")) == b"hi\n"
    judge.methods[ASKED] = lambda told: {"Allow": "/logs" not in told["RequestUri"]}
    assert judged.request("GET", f"/containers/{one}/logs?stdout=1").status == 403
    judge.relent()
    judged.remove(one)


def test_http_2_is_asked_about_before_its_first_call(judged: Daemon, judge: Judge) -> None:
    """A connection that needs no upgrade would lead past the plugins; as a request it is `PRI *`."""
    judge.methods[ASKED] = lambda asked: {"Allow": asked["RequestMethod"] != "PRI", "Msg": "no HTTP/2"}
    with judged.connection() as client:
        client.socket.sendall(http2.PREFACE)
        answer = b"".join(iter(lambda: client.socket.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 403 ") and b"no HTTP/2" in answer
    assert judge.told(ASKED, "*")["RequestMethod"] == "PRI"


def test_a_daemon_does_not_start_without_its_plugin(world, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In the words of dockerd."""
    daemon = world.daemon(["--authorization-plugin", "none", "--plugin-dir", str(tmp_path_factory.mktemp("n"))])
    with pytest.raises(AssertionError, match=r"the daemon ended with 1"):
        daemon.start()
    assert 'error validating authorization plugin: plugin "none" not found' in daemon.log


def test_a_reload_changes_who_is_asked(world, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """From nobody to a plugin, and back."""
    directory, file = tmp_path_factory.mktemp("r"), tmp_path / "daemon.json"
    file.write_text("{}")
    with Judge().serving(directory / "first.sock") as plugin:
        daemon = world.daemon(["--config-file", str(file), "--plugin-dir", str(directory)]).start()
        plugin.methods[ASKED] = lambda _: {"Allow": False, "Msg": "no"}
        for names, status in ((["first"], 403), ([], 200)):
            file.write_text(json.dumps({"authorization-plugins": names}))
            daemon.process.send_signal(signal.SIGHUP)
            for _ in range(500):
                if daemon.request("GET", "/volumes").status == status:
                    break
                time.sleep(0.02)
            assert daemon.request("GET", "/volumes").status == status
        daemon.stop()
