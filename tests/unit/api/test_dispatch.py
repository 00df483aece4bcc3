"""engine.daemon.api.dispatch: from a path to its handler, and from a failure to its status."""

import pytest

from engine import errors
from engine.daemon.api.answers import Json
from engine.daemon.api.dispatch import STATUSES, Dispatcher, Route, status_of
from engine.daemon.api.streams import ClientGone


def show(engine, request):
    """What reached the handler."""
    return Json([engine, request.path, request.parameters, list(request.version)])


ROUTES = (
    Route("GET", "/_ping", show),
    Route("GET", "/things/json", show),
    Route("GET", "/things/{id}", show),
    Route("GET", "/things/{id}/json", show),
    Route("GET", "/things/{id}/a/b", show),
    Route("GET", "/images/{name...}/json", show),
    Route("DELETE", "/images/{name...}", show),
)


def failing(error: Exception, raw_errors: bool = False, late: bool = False) -> Dispatcher:
    """A dispatcher whose one route fails."""

    def fail(engine, request):
        if late:
            request.stream(200, "text/plain").write(b"begun")
        raise error

    return Dispatcher(None, [Route("GET", "/fail", fail, raw_errors)])


@pytest.mark.parametrize(
    ("method", "path", "parameters"),
    [
        ("GET", "/_ping", {}),
        ("GET", "/_ping/", {}),
        ("GET", "/things/json", {}),
        ("GET", "/things/x", {"id": "x"}),
        ("GET", "/things/x//", {"id": "x"}),
        ("GET", "/things/x%20y/json", {"id": "x y"}),
        ("GET", "/things/x/a/b", {"id": "x"}),
        ("GET", "/images/busybox/json", {"name": "busybox"}),
        ("GET", "/images/localhost:5000/a/b:tag/json", {"name": "localhost:5000/a/b:tag"}),
        ("GET", "/images/a%2Fb@sha256:0/json", {"name": "a/b@sha256:0"}),
        ("GET", "/images/json/json", {"name": "json"}),
        ("DELETE", "/images/a/json", {"name": "a/json"}),
    ],
)
def test_a_path_finds_its_handler_and_parameters(connect, method, path, parameters):
    for version, numbers in (("", [1, 54]), ("/v1.54", [1, 54]), ("/v1.24", [1, 24])):
        status, _, body = connect(Dispatcher("engine", ROUTES)).ask(method, version + path)
        assert status == 200
        assert body[0] == "engine"
        assert body[2:] == [parameters, numbers]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "*"), ("GET", "/nope"), ("GET", "/v1.54"), ("GET", "/v1/_ping"), ("POST", "/_ping")]
    + [("HEAD", "/things/x"), ("GET", "/things/"), ("GET", "/things//json"), ("GET", "/things/x/a"), ("GET", "//_ping")]
    + [("GET", "/images//json"), ("GET", "/images/json"), ("DELETE", "/images/")],
)
def test_what_is_no_route_is_404(connect, method, path):
    status, _, body = connect(Dispatcher(None, ROUTES)).ask(method, path)
    assert status == 404
    assert body == (b"" if method == "HEAD" else {"message": "page not found"})


def test_options_is_answered_for_any_path(connect):
    assert connect(Dispatcher(None, ROUTES)).ask("OPTIONS", "/v1.54/anything")[::2] == (200, b"")


def test_a_version_too_new_is_refused_in_json(connect):
    status, headers, body = connect(Dispatcher(None, ROUTES)).ask("GET", "/v1.99/_ping")
    assert (status, headers["content-type"]) == (400, "application/json")
    assert body == {"message": "client version 1.99 is too new. Maximum supported API version is 1.54"}


@pytest.mark.parametrize("version", ["1.10", "1.23", "0.1"])
def test_a_version_too_old_is_refused_in_plain_text(connect, version):
    status, headers, body = connect(Dispatcher(None, ROUTES)).ask("GET", f"/v{version}/_ping")
    assert (status, headers["content-type"]) == (400, "text/plain; charset=utf-8")
    text = f"client version {version} is too old. Minimum supported API version is 1.24, "
    assert body.decode() == text + "please upgrade your client to a newer version\n"


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.EngineError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_failure_has_its_status(connect, kind):
    status, _, body = connect(failing(kind("the words"))).ask("GET", "/fail")
    assert status == STATUSES[kind]
    if kind is errors.NotModified:
        assert body == b""
    else:
        assert body == {"message": "the words"}


def test_a_kind_made_from_another_has_that_ones_status():
    class Special(errors.Conflict):
        """A kind of its own in some room."""

    assert status_of(Special("x")) == 409


def test_what_a_handler_did_not_foresee_is_500_and_the_daemon_goes_on(connect):
    client = connect(failing(ZeroDivisionError("by zero")))
    for _ in range(2):
        status, _, body = client.ask("GET", "/fail")
        assert (status, body) == (500, {"message": "internal error: by zero"})


def test_a_route_of_raw_errors_tells_them_as_a_line(connect):
    """Transcript 207."""
    status, headers, body = connect(failing(errors.NotFound("No such container: nope"), raw_errors=True)).ask(
        "GET", "/fail"
    )
    assert (status, headers["content-type"]) == (404, "application/vnd.docker.raw-stream")
    assert body == b"No such container: nope\r\n"


@pytest.mark.parametrize("error", [errors.Conflict("late"), ZeroDivisionError("late")])
def test_a_failure_within_an_answer_cuts_it_off(connect, error):
    client = connect(failing(error, late=True))
    client.send(b"GET /fail HTTP/1.1\r\n\r\n")
    assert client.head()[0] == 200
    assert client.rest() == b"5\r\nbegun\r\n"


def test_a_client_that_has_gone_is_no_failure(connect, caplog):
    client = connect(failing(ClientGone("gone")))
    client.send(b"GET /fail HTTP/1.1\r\n\r\n")
    assert client.is_closed()
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_a_handler_that_does_not_answer_is_a_fault(connect):
    dispatcher = Dispatcher(None, [Route("GET", "/x", lambda engine, request: None)])
    assert connect(dispatcher).ask("GET", "/x")[0] == 500


@pytest.mark.parametrize("pattern", ["/a/b/{id}", "/a/{id}/{name}", "/{id}"])
def test_a_pattern_that_cannot_be_looked_up_is_refused(pattern):
    with pytest.raises(ValueError, match="second segment"):
        Dispatcher(None, [Route("GET", pattern, show)])
