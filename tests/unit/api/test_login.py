"""Logging in: by password, by token, for a token to keep; and docker's words where it does not work."""

import json

import pytest

from engine.daemon.api.login import check_login
from engine.errors import Unauthorized
from tests.unit.images.fakeregistry import FakeRegistry, answer, serving

PASSWORD = {"username": "u", "password": "p"}


@pytest.fixture
def registry():
    """A registry with a token server, which gives a token to keep to those that ask for one."""
    with serving() as served:

        def hook(handler) -> bool:
            if handler.path.startswith("/token"):
                return token(handler)
            if handler.headers.get("Authorization") == "Bearer good":
                return False
            return answer(handler, 401, WWW_Authenticate=f'Bearer realm="http://{served.address}/token",service="s"')

        def token(handler) -> bool:
            if handler.command == "POST":
                form = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
                served.forms.append(form)
                good = "grant_type=refresh_token&refresh_token=kept" in form
                more = {}
            else:
                good = handler.headers.get("Authorization") == "Basic dTpw"
                more = {"refresh_token": "kept"} if "offline_token=true" in handler.path else {}
            words = {"token": "good", **more} if good else {"details": "no such user"}
            return answer(handler, 200 if good else 401, json.dumps(words).encode())

        served.forms = []
        served.hook = hook
        yield served


def test_a_token_server_gives_an_identity_token(registry: FakeRegistry):
    assert check_login(registry.address, PASSWORD, ()) == "kept"
    (asked,) = [path for _, path, _ in registry.asked if path.startswith("/token")]
    assert asked == "/token?account=u&client_id=engine&offline_token=true&service=s"


def test_the_identity_token_logs_in_again(registry: FakeRegistry):
    assert check_login(registry.address, {"identitytoken": "kept"}, ()) == "kept"
    assert registry.forms == ["grant_type=refresh_token&refresh_token=kept&client_id=engine&service=s"]


def test_a_ready_token_is_used_as_it_is(registry: FakeRegistry):
    assert check_login(registry.address, {"registrytoken": "good"}, ()) == ""
    assert not [path for _, path, _ in registry.asked if path.startswith("/token")]


@pytest.mark.parametrize("auth", [{"username": "u", "password": "wrong"}, {"identitytoken": "old"}, {}])
def test_a_token_server_that_refuses(registry: FakeRegistry, auth: dict):
    with pytest.raises(Unauthorized) as failure:
        check_login(registry.address, auth, ())
    address = f"http://{registry.address}/v2/"
    assert str(failure.value) == f'Get "{address}": unauthorized: the token server answered 401: no such user'


def test_dockers_words_for_basic_passwords(registry: FakeRegistry):
    registry.hook = lambda handler: answer(handler, 401, WWW_Authenticate='Basic realm="x"')
    address = f"http://{registry.address}/v2/"
    with pytest.raises(Unauthorized) as failure:
        check_login(registry.address, PASSWORD, ())
    assert str(failure.value) == f"login attempt to {address} failed with status: 401 Unauthorized"
    with pytest.raises(Unauthorized) as failure:
        check_login(registry.address, {}, ())
    assert str(failure.value) == f'Get "{address}": no basic auth credentials'


@pytest.mark.parametrize("status", [403, 404, 500])
def test_another_status(registry: FakeRegistry, status: int):
    registry.hook = lambda handler: answer(handler, status)
    with pytest.raises(Exception, match=f"login attempt to .* failed with status: {status} "):
        check_login(registry.address, PASSWORD, ())
