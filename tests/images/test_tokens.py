"""A registry that takes nothing but tokens, and the server that gives them: whom to whom, for what, and until when."""

import contextlib

import pytest

from engine.errors import NotFound, Unauthorized
from tests.harness.tokens import IDENTITY, TokenServer
from tests.images.conftest import need, registries
from tests.images.test_registries import pull

pytestmark = pytest.mark.root


@pytest.fixture
def tokens(tmp_path):
    need("openssl")
    with contextlib.closing(TokenServer(tmp_path)) as server:
        yield server


@pytest.fixture
def address(tokens, tmp_path, layout):
    """A registry that wants them, with an image in it."""
    with registries(tmp_path) as make:
        found = make(tokens.wanted())
        layout.copy(f"docker://{found}/made:1", "--dest-tls-verify=false", "--dest-creds", "user:secret")
        tokens.asked.clear()
        yield found


def test_a_token_is_had_for_a_password_or_an_identity_token_and_for_nothing_else(store, address, tokens):
    with pytest.raises((NotFound, Unauthorized), match="pull access denied"):
        pull(store, address)
    for auth in ({"username": "user", "password": "wrong"}, {"identitytoken": "another one"}):
        with pytest.raises(Unauthorized, match=r"^authentication required - "):
            pull(store, address, auth=auth)
    assert store.all() == []
    tokens.asked.clear()
    assert pull(store, address, auth={"username": "user", "password": "secret"}).repo_tags
    assert [(method, asked["service"], asked["scope"]) for method, asked in tokens.asked] == [
        ("GET", "here", "repository:made:pull")
    ]


def test_an_identity_token_is_given_for_a_token_and_a_ready_one_is_used_as_it_is(store, address, tokens):
    assert pull(store, address, auth={"identitytoken": IDENTITY}).repo_tags
    assert [(method, asked["grant_type"]) for method, asked in tokens.asked] == [("POST", "refresh_token")]
    tokens.asked.clear()
    ready = tokens.token("repository:made:pull", "here")
    assert pull(store, address, auth={"registrytoken": ready}).repo_tags
    assert tokens.asked == []
