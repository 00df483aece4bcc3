"""engine.daemon.api.registryauth: X-Registry-Auth is read strictly, or refused."""

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.api.registryauth import decode_auth
from engine.errors import Invalid


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def test_credentials_are_read():
    auth = {"username": "ü?>", "password": "p>>>???", "ServerAddress": "localhost:5000", "email": "x", "auth": ""}
    assert "-" in encoded(auth) or "_" in encoded(auth)
    assert decode_auth(encoded(auth)) == {
        "username": "ü?>",
        "password": "p>>>???",
        "serveraddress": "localhost:5000",
    }


@pytest.mark.parametrize("value", ["", "e30=", encoded({"username": ""}), encoded(None)])
def test_nothing_to_log_in_with_is_none(value):
    assert decode_auth(value) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("e30", "illegal base64 data at input byte 3"),
        ("e30==", "illegal base64 data at input byte 5"),
        ("e3 0=", "illegal base64 data at input byte 2"),
        ("e30=x", "illegal base64 data at input byte 4"),
        ("+/+/", "illegal base64 data at input byte 0"),
        ("eyJhIg==", "invalid JSON: unexpected EOF"),
        (encoded({"username": 1}), "cannot unmarshal number"),
        (encoded([]), "cannot unmarshal array"),
    ],
)
def test_what_is_no_credentials_is_invalid(value, text):
    with pytest.raises(Invalid) as caught:
        decode_auth(value)
    assert str(caught.value).startswith("invalid X-Registry-Auth header: ")
    assert text in str(caught.value)


@given(st.text(max_size=20) | st.binary(max_size=20).map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_any_value_is_credentials_or_invalid(value):
    with contextlib.suppress(Invalid):
        decode_auth(value)
