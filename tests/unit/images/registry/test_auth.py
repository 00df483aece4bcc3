"""Challenges, the schemes that answer them, and credentials."""

import base64

import pytest

from engine.daemon.images.registry.auth import (
    SCHEMES,
    Authorizer,
    Credentials,
    RegistryFailure,
    TokenRefused,
    UnexpectedFailure,
    UnexpectedRefusal,
    chosen,
    parse_challenges,
)
from engine.errors import Forbidden, Invalid, SystemFailure, Unauthorized, Unavailable

FROM_REGISTRY = "error from registry: "
BEARER = 'Bearer realm="https://auth/token",service="reg, istry",scope="repository:a/b:pull"'


def authorizer(credentials, answer=(200, {"token": "t0k"}), asked=None):
    def fetch(url, headers, form):
        if asked is not None:
            asked.append((url, headers, form))
        return answer

    return Authorizer(credentials, "repository:a/b:pull", fetch)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            BEARER,
            [("bearer", {"realm": "https://auth/token", "service": "reg, istry", "scope": "repository:a/b:pull"})],
        ),
        ('Basic realm="x"', [("basic", {"realm": "x"})]),
        (
            'Basic realm="a\\"b Digest q=1", Bearer realm=r',
            [("basic", {"realm": 'a"b Digest q=1'}), ("bearer", {"realm": "r"})],
        ),
        ("Negotiate", [("negotiate", {})]),
        ("", []),
        ('"', []),
        (BEARER + "," * 5000, []),
        ("Bearer " + '"\\' * 30_000, []),
    ],
)
def test_challenges_are_read(header, expected):
    assert [(challenge.scheme, challenge.parameters) for challenge in parse_challenges(header)] == expected


def test_basic_answers_with_the_pair():
    made = authorizer(Credentials("u", "p:w"))
    made.answer(parse_challenges('Basic realm="x"'), "")
    assert made.header == "Basic " + base64.b64encode(b"u:p:w").decode()


def test_basic_without_credentials_says_so():
    with pytest.raises(Unauthorized, match="no basic auth credentials"):
        authorizer(Credentials()).answer(parse_challenges('Basic realm="x"'), "")


def test_bearer_asks_the_token_server_with_the_pair():
    asked = []
    made = authorizer(Credentials("u", "p"), asked=asked)
    made.answer(parse_challenges(BEARER), "")
    ((url, headers, form),) = asked
    assert url == "https://auth/token?scope=repository%3Aa%2Fb%3Apull&service=reg%2C+istry"
    assert headers["Authorization"].startswith("Basic ")
    assert (form, made.header) == (None, "Bearer t0k")


def test_an_identity_token_is_sent_as_oauths_refresh_token():
    asked = []
    authorizer(Credentials(identity_token="id"), asked=asked).answer(parse_challenges(BEARER), "")
    ((url, headers, form),) = asked
    assert (url, headers) == ("https://auth/token", {})
    assert (form["grant_type"], form["refresh_token"]) == ("refresh_token", "id")


def test_a_registry_token_is_used_as_it_is():
    assert authorizer(Credentials(registry_token="x")).header == "Bearer x"


@pytest.mark.parametrize("answer", [(401, {}), (200, {}), (200, {"token": 5}), (200, {"token": "a\r\nEvil: b"})])
def test_a_token_server_that_gives_no_token_is_a_refusal(answer):
    with pytest.raises(Unauthorized if answer[0] == 401 else SystemFailure):
        authorizer(Credentials(), answer).answer(parse_challenges(BEARER), "")


def test_the_same_answer_refused_again_is_the_end():
    made = authorizer(Credentials("u", "p"))
    made.answer(parse_challenges("Basic realm=x"), "")
    with pytest.raises(Unauthorized):
        made.answer(parse_challenges("Basic realm=x"), made.header)


def test_a_header_that_another_thread_has_replaced_is_not_asked_for_again():
    asked = []
    made = authorizer(Credentials(), asked=asked)
    made.answer(parse_challenges(BEARER), "")
    made.answer(parse_challenges(BEARER), "")
    assert len(asked) == 1


def test_an_unknown_scheme_is_a_refusal_and_the_known_ones_are_a_table():
    assert set(SCHEMES) == {"basic", "bearer"}
    with pytest.raises(Unauthorized):
        authorizer(Credentials()).answer(parse_challenges("Negotiate"), "")


def test_credentials_come_from_every_form_of_the_header_and_are_not_shown():
    pair = base64.b64encode(b"u:p").decode()
    assert Credentials.of({"username": "u", "password": "p"}) == Credentials("u", "p")
    assert Credentials.of({"auth": pair}) == Credentials("u", "p")
    assert Credentials.of({"IdentityToken": "t"}) == Credentials(identity_token="t")
    assert Credentials.of(None) == Credentials()
    assert "secret" not in repr(Credentials("u", "secret", "secret", "secret"))
    assert Credentials.of({"auth": "%"}) == Credentials()


@pytest.mark.parametrize("token", ["a\r\nX-Other: b", "a\0", "a\u20ac", "\x7f"])
def test_what_no_header_can_hold_is_no_token(token):
    with pytest.raises(Invalid, match="registrytoken"):
        Credentials.of({"registrytoken": token})
    asked = authorizer(Credentials(), (200, {"token": token}))
    with pytest.raises(SystemFailure, match="failed to fetch anonymous token: authorization server did not include a"):
        asked.answer(parse_challenges(BEARER), "")


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((401, {"details": "bad user"}), TokenRefused, "authentication required - bad user"),
        ((403, {"details": "bad user"}), Forbidden, "denied - bad user"),
        ((404, {"errors": [{"code": "DENIED", "message": "no way"}]}), Forbidden, "error from registry: no way"),
        ((401, {"errors": [{"code": "X", "message": "a", "detail": "b"}]}), RegistryFailure, f"{FROM_REGISTRY}a - b"),
        ((403, {"errors": [{"code": "DENIED"}]}), RegistryFailure, f"{FROM_REGISTRY}denied\ndenied"),
        (
            (503, {"errors": [{"code": "UNAVAILABLE", "message": "m"}, {"code": "Y", "message": "n"}]}),
            Unavailable,
            f"{FROM_REGISTRY}m\nn",
        ),
        *(
            (
                (status, {}),
                kind,
                "failed to authorize: failed to fetch oauth token: unexpected status from GET request to "
                f"https://auth/token?scope=repository%3Aa%2Fb%3Apull&service=reg%2C+istry: {status} {phrase}",
            )
            for status, phrase, kind in (
                (401, "Unauthorized", UnexpectedRefusal),
                (403, "Forbidden", UnexpectedRefusal),
                (500, "Internal Server Error", UnexpectedFailure),
            )
        ),
    ],
)
def test_a_refusal_of_a_token_server_is_told_in_dockers_words(answer, kind, text):
    asked = authorizer(Credentials("u", "p"), answer)
    with pytest.raises(kind) as caught:
        asked.answer(parse_challenges(BEARER), "")
    assert type(caught.value) is kind and str(caught.value) == text


def test_a_realm_that_is_no_url_is_for_who_fetches_to_refuse():
    asked = []
    one = authorizer(Credentials(), asked=asked)
    one.answer(parse_challenges('Bearer realm="http://[",service="x"'), "")
    assert asked[0][0].startswith("http://[?scope=")


def test_the_credentials_of_a_registry_are_found_by_host_and_by_url() -> None:
    auths = {
        "https://index.docker.io/v1/": {"username": "hub"},
        "https://r.example/v2/": {"username": "url"},
        "h:5": {"username": "host"},
    }
    assert chosen(auths, "docker.io") == {"username": "hub"}
    assert chosen(auths, "r.example") == {"username": "url"}
    assert chosen(auths, "h:5") == {"username": "host"}
    assert chosen(auths, "other.example") is None
