"""Where each user's daemon has its socket, its roots and its configuration file."""

import os
import stat

import pytest

from engine.errors import Unavailable
from engine.settings import whose


def test_a_user_without_a_runtime_directory_is_told_what_to_set():
    whose.check(0, {})
    with pytest.raises(Unavailable, match=r"XDG_RUNTIME_DIR is not set.*systemd-logind"):
        whose.check(7, {"HOME": "/h"})


def test_a_runtime_directory_must_be_the_users_alone(tmp_path):
    """In /tmp another user could have made the exec root before, or a link in its place."""
    uid, own = os.getuid() + 7, {"XDG_RUNTIME_DIR": str(tmp_path)}

    def seen(path, mode=0o700, owner=uid):
        return os.stat_result((stat.S_IFDIR | mode, 1, 1, 1, owner, 1, 0, 0, 0, 0))

    whose.check(uid, own, seen)
    whose.check(uid, own, lambda path: seen(path, 0o755))
    for look, words in (
        (lambda path: seen(path, owner=5), "belongs to the user 5"),
        (lambda path: seen(path, 0o1777), r"others may write \(mode 1777\)"),
        (lambda path: seen(path, 0o770), r"others may write \(mode 0770\)"),
    ):
        with pytest.raises(Unavailable, match=words):
            whose.check(uid, own, look)
    with pytest.raises(Unavailable, match="No such file or directory"):
        whose.check(uid, {"XDG_RUNTIME_DIR": str(tmp_path / "none")})


def test_the_paths_of_a_user_follow_the_base_directories():
    found = whose.of(7, {"XDG_RUNTIME_DIR": "/x", "HOME": "/h", "XDG_CONFIG_HOME": "/c"})
    assert found.socket == "/x/engine.sock"
    assert found.config_file == "/c/engine/daemon.json"
    assert whose.of(7, {"XDG_RUNTIME_DIR": "/x", "HOME": "/h"}).config_file == "/h/.config/engine/daemon.json"
    assert whose.of(0, {"XDG_RUNTIME_DIR": "/x", "HOME": "/h"}) == whose.ROOTS


@pytest.mark.parametrize(
    ("called", "name"),
    [("/usr/bin/dockerd", "dockerd"), ("dockerd", "dockerd"), ("/opt/engined", "engine daemon"), ("", "engine daemon")],
)
def test_a_program_is_dockerd_by_its_name_alone(called, name):
    assert whose.program(called) == name


def test_who_is_in_dockerds_place_has_its_socket_and_not_its_data_root():
    found = whose.of(0, {}, whose.DOCKERD)
    assert (found.socket, found.group) == ("/var/run/docker.sock", "docker")
    assert (found.data_root, found.exec_root) == (whose.ROOTS.data_root, whose.ROOTS.exec_root)


@pytest.mark.parametrize(
    ("there", "path"),
    [
        ({"/x/engine.sock", "/run/engine.sock"}, "/x/engine.sock"),
        ({"/x/engine.sock"}, "/x/engine.sock"),
        ({"/run/engine.sock"}, "/run/engine.sock"),
        (set(), "/x/engine.sock"),
    ],
)
def test_a_client_finds_the_users_socket_before_the_hosts(there, path):
    assert whose.socket_of_client(7, {"XDG_RUNTIME_DIR": "/x"}, there.__contains__) == path


@pytest.mark.parametrize(
    ("told", "uid", "owner"), [("7", 0, 7), ("7", 5, 5), ("", 0, 0), ("-1", 0, 0), ("x", 0, 0), ("\u0667", 0, 0)]
)
def test_only_root_of_a_user_namespace_is_somebody_elses(told, uid, owner):
    assert whose.owner({whose.OWNER: told}, uid) == owner
