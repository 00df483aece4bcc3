"""The daemon's options about proxies: through which one it asks the web, as a proxy of the test sees it."""

import socket
from collections.abc import Callable

from tests.harness import web
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World


def test_what_is_asked_goes_through_the_proxies_that_the_daemon_was_told(
    world: World, make_daemon: Callable[..., Daemon], monkeypatch
) -> None:
    """http:// and https:// each through its own; hosts of --no-proxy without one."""
    asked: list[tuple[int, str]] = []

    def page(self: web._Handler) -> None:
        asked.append((self.server.server_address[1], f"{self.command} {self.path}"))
        self.send_error(404)

    monkeypatch.setattr(web._Handler, "do_GET", page)
    monkeypatch.setattr(web._Handler, "do_CONNECT", page, raising=False)
    plain, secure = (world.namespaces.socket(socket.SOCK_STREAM) for _ in range(2))
    with web.serving({}, plain) as first, web.serving({}, secure) as second:
        ports = [int(url.rpartition(":")[2]) for url in (first, second)]
        daemon = make_daemon(f"--http-proxy={first}", f"--https-proxy={second}", "--no-proxy=127.0.0.1,direct.test")
        info = daemon.request("GET", "/info").json()
        assert (info["HttpProxy"], info["HttpsProxy"], info["NoProxy"]) == (first, second, "127.0.0.1,direct.test")
        for scheme in ("http", "https"):
            answer = daemon.request("POST", f"/images/create?fromSrc={scheme}://far.test/x")
            assert answer.status >= 400, answer
        assert asked == [(ports[0], "GET http://far.test/x"), (ports[1], "CONNECT far.test:443")]
        answer = daemon.request("POST", "/images/create?fromSrc=http://direct.test/x")
        assert "lookup direct.test" in answer.message
        answer = daemon.request("POST", f"/images/create?fromSrc={first}/x")
        assert answer.status == 404 and asked[2:] == [(ports[0], "GET /x")]
