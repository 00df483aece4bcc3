"""What a registry refuses, or answers that is none, in dockerd's words."""

import pytest

from engine.errors import EngineError, SystemFailure
from tests.unit.images.fakeregistry import answer
from tests.unit.images.verbs.test_pull import pull


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (403, b"", "unknown: {}: 403 Forbidden"),
        (403, b"text", "unknown: {}: 403 Forbidden"),
        (403, b'{"reason": "x"}', "error from registry: {}: 403 Forbidden"),
        (403, b'{"errors": [{"code": "DENIED", "message": "no way"}]}', "error from registry: no way"),
        (
            403,
            b'{"errors": [{"code": "A", "message": "a"}, {"code": "B"}]}',
            "error from registry: a\nunknown\nunknown",
        ),
        (401, b'{"errors": [{"code": "DENIED", "message": "no way"}]}', "unknown: {}: 401 Unauthorized"),
        (429, b'{"errors": [{"code": "DENIED", "message": "no way"}]}', "unknown: {}: 429 Too Many Requests"),
    ],
)
def test_an_answer_that_is_unexpected_is_told_in_dockerds_words(store, registry, status, body, words):
    """Of a registry that asks for no credentials; where it forbids, GET tells the reasons that HEAD cannot have."""
    registry.hook = lambda handler: "/manifests/" in handler.path and answer(handler, status, body)
    with pytest.raises(EngineError) as refused:
        pull(store, registry, tag="x")
    url = f"http://{registry.address}/v2/x/manifests/x"
    text = f'failed to resolve reference "{registry.address}/x:x": unexpected status from HEAD request to {url}'
    assert str(refused.value) == words.format(text)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"nope", "unable to decode token response: invalid character 'o' in literal null (expecting 'u')"),
        (b"", "unable to decode token response: EOF"),
        (b"[]", "authorization server did not include a token in the response"),
    ],
)
def test_a_token_that_cannot_be_read_is_told(store, registry, body, words):
    challenge = f'Bearer realm="http://{registry.address}/token",service="s"'
    registry.hook = lambda handler: (
        answer(handler, 200, body)
        if handler.path.startswith("/token")
        else "/manifests/" in handler.path and answer(handler, 401, WWW_Authenticate=challenge)
    )
    with pytest.raises(SystemFailure) as refused:
        pull(store, registry, tag="x")
    assert str(refused.value).endswith(f": failed to authorize: failed to fetch anonymous token: {words}")


def test_a_digest_that_is_none_is_told(store, registry):
    registry.hook = lambda handler: (
        "/manifests/" in handler.path and answer(handler, 200, b"", Docker_Content_Digest="nonsense")
    )
    with pytest.raises(
        SystemFailure, match=r'"nonsense" in header not a valid digest: invalid checksum digest format$'
    ):
        pull(store, registry, tag="x")
