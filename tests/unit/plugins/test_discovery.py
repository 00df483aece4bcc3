"""Finding plugins by their names: sockets, spec files, files of JSON, and what is none of these."""

import json
import os
import socket

import pytest

from engine.errors import NotFound, SystemFailure
from engine.plugins import discovery
from engine.plugins.discovery import Address


@pytest.fixture
def places(tmp_path):
    """Two directories, with a plugin of each kind, and what only looks like one."""
    first, second = tmp_path / "run", tmp_path / "etc"
    for each in (first, second, first / "nested", second / "deep"):
        each.mkdir(exist_ok=True)
    sockets = []
    for path in (first / "plain.sock", first / "nested" / "nested.sock"):
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(path))
        sockets.append(made)
    (first / "file.sock").write_text("no socket")
    (first / "other.sock.x").write_text("")
    (second / "named.spec").write_text("tcp://h:1\n")
    (second / "plain.spec").write_text("tcp://the-socket-comes-first:1")
    (second / "deep" / "deep.json").write_text(
        json.dumps(
            {"Name": "x", "Addr": "https://h/p", "TLSConfig": {"CAFile": "/ca", "CertFile": "/c", "KeyFile": "/k"}}
        )
    )
    (second / "loose.json").write_text(json.dumps({"Addr": "https://h:5"}))
    (second / "odd.spec").write_text("nothing")
    (second / "bad.json").write_text("[" * 100000)
    os.mkfifo(second / "fifo.spec")
    yield str(first), str(second)
    for each in sockets:
        each.close()


def test_all_names_are_listed(places):
    names = ["bad", "deep", "loose", "named", "nested", "odd", "plain"]
    assert discovery.names((*places, "/not/there")) == names


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("named", Address("tcp", "h:1", checked=False)),
        ("deep", Address("tcp", "h:443", True, "/ca", "/c", "/k", True)),
        ("loose", Address("tcp", "h:5", True, checked=False)),
    ],
)
def test_a_file_says_where_a_plugin_listens(places, name, address):
    assert discovery.find(places, name) == address


@pytest.mark.parametrize(("name", "file"), [("plain", "plain.sock"), ("nested", "nested/nested.sock")])
def test_a_socket_comes_before_a_file(places, name, file):
    assert discovery.find(places, name) == Address("unix", os.path.join(places[0], file))


@pytest.mark.parametrize("name", ["none", "file", "fifo", "../run/plain", "", ".", "a/b", "x\0y", "n" * 5000])
def test_what_is_no_plugin_is_not_found(places, name):
    with pytest.raises(NotFound, match=r"^plugin .* not found$"):
        discovery.find(places, name)


@pytest.mark.parametrize("name", ["odd", "bad"])
def test_a_file_that_makes_no_sense_is_told(places, name):
    with pytest.raises(SystemFailure):
        discovery.find(places, name)
