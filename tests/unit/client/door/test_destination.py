"""Which daemon is meant: the variables, the forms of addresses, TLS; and how ssh is asked."""

import pytest

from engine.client.door import sshpipe
from engine.client.door.destination import Certificates, Destination, certificates, destination
from engine.errors import Invalid


def unix(path):
    return Destination("unix", path=path)


@pytest.mark.parametrize(
    ("environ", "uid", "place"),
    [
        ({}, 0, unix("/run/engine.sock")),
        ({"XDG_RUNTIME_DIR": "/x"}, 5, unix("/x/engine.sock")),
        ({"DOCKER_HOST": "unix:///d"}, 0, unix("/d")),
        ({"ENGINE_HOST": "unix:///e", "DOCKER_HOST": "unix:///d"}, 0, unix("/e")),
        ({"ENGINE_HOST": "", "DOCKER_HOST": "unix:///d"}, 0, unix("/d")),
        ({"ENGINE_HOST": "tcp://h"}, 0, Destination("tcp", host="h", port=2375)),
        ({"ENGINE_HOST": "tcp://[::1]:7/"}, 0, Destination("tcp", host="::1", port=7)),
        ({"ENGINE_HOST": "ssh://h"}, 0, Destination("ssh", host="h")),
        ({"ENGINE_HOST": "ssh://u@h:22/a/s"}, 0, Destination("ssh", path="/a/s", host="h", port=22, user="u")),
    ],
)
def test_engine_host_comes_before_docker_host_and_the_default(environ, uid, place):
    assert destination(environ, uid) == place


@pytest.mark.parametrize(
    "address",
    [
        *("unix://relative", "/run/x.sock", "npipe://x", "tcp://", "tcp://h:0", "tcp://h:x", "tcp://h:65536"),
        *("tcp://h/path", "tcp://[::1", "tcp://[::1]x", "ssh://", "ssh://-oProxyCommand=x", "ssh://-l@h"),
        *("ssh://u:secret@h", "fd://"),
    ],
)
def test_an_address_of_no_known_form_is_refused(address):
    with pytest.raises(Invalid, match="unable to parse host"):
        destination({"ENGINE_HOST": address}, 0)


@pytest.mark.parametrize("text", ["unix:///a", "tcp://h:1", "tcp://[::1]:2", "ssh://u@h:3/s", "ssh://h"])
def test_an_address_is_shown_as_it_was_written(text):
    assert destination({"ENGINE_HOST": text}, 0).shown == text


def test_tls_is_asked_for_as_with_docker(tmp_path):
    assert certificates({}) is None
    assert certificates({"DOCKER_TLS_VERIFY": "", "DOCKER_CERT_PATH": "/c"}) is None
    whole = certificates({"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/c"})
    assert whole == Certificates(True, "/c/ca.pem", "/c/cert.pem", "/c/key.pem")
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "ca.pem").touch()
    home = certificates({"DOCKER_TLS": "1", "HOME": str(tmp_path)})
    assert home == Certificates(False, f"{tmp_path}/.docker/ca.pem", "", "")
    environ = {"DOCKER_HOST": "tcp://h", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/c"}
    assert destination(environ, 0) == Destination("tcp", host="h", port=2376, tls=whole)
    assert destination({**environ, "DOCKER_HOST": "unix:///s"}, 0).tls is None


def test_ssh_gets_its_options_apart_from_the_host():
    words = sshpipe.command(Destination("ssh", path="/a b", host="h", port=7, user="u"))
    assert words[:-1] == ["ssh", "-o", "ConnectTimeout=30", "-T", "-l", "u", "-p", "7", "--", "h"]
    assert "engine -H 'unix:///a b' system dial-stdio" in sshpipe.script("/a b")
    assert sshpipe.command(Destination("ssh", host="h"))[4:6] == ["--", "h"]
