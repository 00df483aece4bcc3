"""The lines of /etc/hosts, and changes to the file of a container that runs."""

import os

import pytest

from engine.daemon.containers.endpoints import hosts
from engine.daemon.containers.record import Container
from engine.daemon.network.record import Endpoint
from tests.harness import parts

BOTH = Endpoint("1", "n", "c", ipv4="172.17.0.2", ipv6="fd00::2")
NONE = Endpoint("2", "n", "c")


def container(extra: list[str] | None = None, hostname: str = "host", domain: str = "") -> Container:
    """A container with these names."""
    return parts.container({"Hostname": hostname, "Domainname": domain}, {"ExtraHosts": extra})


def test_its_own_name_stands_by_each_of_its_addresses():
    assert hosts.own(container(), (BOTH, NONE)) == "172.17.0.2\thost\nfd00::2\thost\n"
    assert hosts.own(container(domain="test.org"), (BOTH,)).startswith("172.17.0.2\thost.test.org host\n")
    assert hosts.own(container(hostname="a.b.c"), (BOTH,)).startswith("172.17.0.2\ta.b.c a\n")
    assert hosts.own(container(hostname="a.b", domain="c"), (BOTH,)).startswith("172.17.0.2\ta.b.c a\n")
    assert hosts.own(container(hostname=""), (BOTH,)) == ""


def test_extra_hosts_are_lines_and_the_host_itself_may_have_two_addresses():
    asked = ["db:10.0.0.1", "six:[fd00::5]", "bare:fd00::6", "up:host-gateway"]
    assert hosts.extra(container(asked), ("172.17.0.1", "fd00::1")) == (
        "10.0.0.1\tdb\nfd00::5\tsix\nfd00::6\tbare\n172.17.0.1\tup\nfd00::1\tup\n"
    )
    assert hosts.asks_for_gateway(container(asked)) and not hosts.asks_for_gateway(container(asked[:3]))
    assert hosts.extra(container(None), ()) == "" and not hosts.asks_for_gateway(container(None))


@pytest.fixture
def file(tmp_path):
    """A hosts file, read and written as text, and its path."""

    class File:
        path = str(tmp_path / "hosts")

        def write(self, text: str) -> None:
            with open(self.path, "w") as opened:
                opened.write(text)

        def read(self) -> str:
            with open(self.path) as opened:
                return opened.read()

    return File()


def test_lines_come_and_go_in_place_and_what_the_container_wrote_stays(file):
    file.write("127.0.0.1\tlocalhost\n10.0.0.9 mine # without an end")
    before = os.stat(file.path).st_ino
    hosts.add(file.path, "172.17.0.2\thost\n")
    assert file.read() == "127.0.0.1\tlocalhost\n10.0.0.9 mine # without an end\n172.17.0.2\thost\n"
    hosts.drop(file.path, "172.17.0.2\thost\n")
    assert file.read() == "127.0.0.1\tlocalhost\n10.0.0.9 mine # without an end\n"
    assert os.stat(file.path).st_ino == before  # it is a bind mount


def test_names_move_to_another_address(file):
    file.write("127.0.0.1\tlocalhost\n172.17.0.2\tdb one\nfd00::2\tdb one\n172.17.0.4\tdb\n")
    hosts.renew(file.path, "db one", "172.17.0.3\tdb one\n")
    assert file.read() == "127.0.0.1\tlocalhost\n172.17.0.4\tdb\n172.17.0.3\tdb one\n"
    hosts.renew(file.path, "db one", "")
    assert file.read() == "127.0.0.1\tlocalhost\n172.17.0.4\tdb\n"


def test_a_file_that_is_too_long_to_be_one_is_left_alone(file):
    file.write("x" * (1 << 20) + "y")
    hosts.add(file.path, "1\tx\n")
    assert len(file.read()) == (1 << 20) + 1


def test_a_file_that_is_gone_is_no_failure_and_a_link_is_not_followed(file, tmp_path):
    hosts.add(file.path, "1\tx\n")
    assert not os.path.exists(file.path)
    os.symlink(tmp_path / "elsewhere", file.path)
    with pytest.raises(OSError, match="symbolic"):
        hosts.add(file.path, "1\tx\n")


def test_the_part_of_others_is_replaced_and_what_stands_around_it_stays(tmp_path):
    """Also where a program of the container has cut it or written behind it."""
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1\tlocalhost\n")
    hosts.set_others(str(path), "10.0.0.2\tweb\n")
    with open(path, "a") as file:
        file.write("10.0.0.9\tmine\n")
    hosts.set_others(str(path), "10.0.0.3\tdb\n")
    lines = path.read_text().splitlines()
    assert lines[:2] == ["127.0.0.1\tlocalhost", "10.0.0.9\tmine"] and lines[3:-1] == ["10.0.0.3\tdb"]
    hosts.set_others(str(path), "")
    assert path.read_text() == "127.0.0.1\tlocalhost\n10.0.0.9\tmine\n"
    path.write_text("\n".join([*lines[:-1], "10.0.0.9\tmine"]))
    hosts.set_others(str(path), "10.0.0.3\tdb\n")
    assert path.read_text().count("10.0.0.3\tdb\n") == 2 and "mine" in path.read_text()
