"""Whom the host asks: its file as it is now, and no more than a few."""

import os
import socket

from engine.resolver import servers
from engine.resolver.servers import HostServers, addresses

V4 = (socket.AF_INET, ("192.0.2.1", 53))


def test_servers_are_addresses_of_either_family():
    assert addresses(["192.0.2.1", "2001:db8::1"]) == (V4, (socket.AF_INET6, ("2001:db8::1", 53, 0, 0)))


def test_what_is_no_address_is_left_out_and_so_are_those_behind_the_third():
    assert addresses(["a.name", "", "192.0.2.1\n", "fe80::1%no-such-link", "\0", "192.0.2.1", "192.0.2.1"]) == (V4,)
    assert len(addresses([f"192.0.2.{number}" for number in range(9)])) == 3


def test_a_server_on_a_link_is_asked_there():
    assert addresses(["fe80::1%lo"]) == ((socket.AF_INET6, ("fe80::1", 53, 0, 1)),)


def test_the_host_s_file_is_read_again_when_it_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(servers, "_LOOK_SECONDS", 0.0)
    file = tmp_path / "resolv.conf"
    host = HostServers(str(file))
    assert host() == ()
    file.write_text("nameserver 192.0.2.1\nsearch a.test\n")
    assert host() == (V4,)
    new = tmp_path / "new"
    new.write_text("# none\nnameserver 192.0.2.7 \n")
    os.replace(new, file)
    assert host() == ((socket.AF_INET, ("192.0.2.7", 53)),)
    file.unlink()
    assert host() == ()


def test_the_host_s_file_is_looked_at_once_a_second_at_most(tmp_path, monkeypatch):
    now = [5.0]

    class Clock:
        """Stands for the module `time`, for the servers alone."""

        @staticmethod
        def monotonic() -> float:
            return now[0]

    monkeypatch.setattr(servers, "time", Clock)
    file = tmp_path / "resolv.conf"
    host = HostServers(str(file))
    assert host() == ()
    file.write_text("nameserver 192.0.2.1\n")
    now[0] += 0.9
    assert host() == ()
    now[0] += 0.1
    assert host() == (V4,)
