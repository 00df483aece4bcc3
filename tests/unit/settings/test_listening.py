"""The addresses on which a daemon listens, and what --tls and --tlsverify mean together."""

import pytest

from engine.errors import Invalid
from engine.settings import every, listening, whose

FILES = ["--tlscacert=/ca", "--tlscert=/c", "--tlskey=/k"]


def made(*arguments, environ=None, name=""):
    return every.from_arguments(["--config-file", "/dev/null", *arguments], environ or {}, 0, name)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("unix:///a/b", "unix:///a/b"),
        ("fd://", "fd://"),
        ("fd://*", "fd://*"),
        ("tcp://", "tcp://0.0.0.0:2376"),
        ("tcp://:1", "tcp://0.0.0.0:1"),
        ("tcp://a", "tcp://a:2376"),
        ("tcp://a:1", "tcp://a:1"),
        ("tcp://[::1]:1", "tcp://[::1]:1"),
        ("tcp://[::1]", "tcp://[::1]:2376"),
        ("tcp://::1:2375", "tcp://[::1]:2375"),
        ("tcp://fe80::ff:1", "tcp://[fe80::ff]:1"),
        ("::1:1", "tcp://[::1]:1"),
        ("127.0.0.1:1", "tcp://127.0.0.1:1"),
    ],
)
def test_an_address_is_completed(text, full):
    assert listening.host(text) == full


@pytest.mark.parametrize(
    "text",
    ["", "foo://x", "/run/x", "unix://x", "tcp://a:b", "tcp://a:99999", "tcp://::x:1", "tcp://::1", "tcp://a/b:1"],
)
def test_an_address_that_cannot_be_listened_on_is_refused(text):
    with pytest.raises(Invalid):
        listening.host(text)


def test_tcp_is_refused_without_tlsverify_and_tlsverify_without_its_files():
    with pytest.raises(Invalid, match=r"tcp://0\.0\.0\.0:1 without --tlsverify would give root"):
        made("-H", "tcp://:1")
    with pytest.raises(Invalid, match="--tlsverify needs --tlscert, --tlskey too"):
        made("--tlsverify", "--tlscacert", "/ca")
    assert made("-H", "tcp://:1", "--tlsverify", *FILES).hosts == ("tcp://0.0.0.0:1",)


@pytest.mark.parametrize(
    ("arguments", "tls", "verify", "unguarded"),
    [
        ([], False, False, False),
        (["--tls", *FILES], True, True, False),
        (["--tlsverify", *FILES], True, True, False),
        (["--tls=false", "-H", "tcp://:1"], False, False, True),
        (["--tlsverify=false", "-H", "tcp://:1", *FILES[1:]], True, False, True),
        (["--tls", "--tlsverify=false", "-H", "tcp://:1", *FILES], True, False, True),
    ],
)
def test_tls_means_verification_unless_somebody_says_no(arguments, tls, verify, unguarded):
    chosen = made(*arguments)
    assert (chosen.tls, chosen.tlsverify, chosen.unguarded) == (tls, verify, unguarded)


def test_a_program_called_dockerd_finds_its_certificates_and_its_address():
    chosen = made("--tlsverify", environ={"HOME": "/h"}, name=whose.DOCKERD)
    assert chosen.hosts == ("tcp://localhost:2376",)
    assert (chosen.tlscacert, chosen.tlscert, chosen.tlskey) == (
        *("/h/.docker/ca.pem", "/h/.docker/cert.pem", "/h/.docker/key.pem"),
    )
    chosen = made("-H", "fd://", environ={"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/c"}, name=whose.DOCKERD)
    assert (chosen.tlsverify, chosen.hosts, chosen.tlskey) == (True, ("fd://",), "/c/key.pem")
    assert not made(environ={"DOCKER_TLS_VERIFY": "1"}).tlsverify
