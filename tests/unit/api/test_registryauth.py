"""engine.daemon.api.registryauth: X-Registry-Auth is read strictly, or ignored."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.api.registryauth import decode_auth


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
    "value",
    ["e30", "e30==", "e3 0=", "e30=x", "+/+/", "%%%", "eyJhIg==", encoded({"username": 1}), encoded([])],
)
def test_what_cannot_be_read_is_none(value):
    assert decode_auth(value) is None


@given(st.text(max_size=20) | st.binary(max_size=20).map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_any_value_is_credentials_or_none(value):
    assert decode_auth(value) is None or isinstance(decode_auth(value), dict)
