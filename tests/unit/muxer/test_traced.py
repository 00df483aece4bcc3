"""An exec's new process that a program in the container traces, and speaks in the place of."""

import pytest

import _muxer

if not _muxer.built():
    pytest.skip("the C muxer is not built: python3 -m _muxer.build", allow_module_level=True)

from engine.kernel.syscalls import process_start
from tests.harness.descriptors import open_links
from tests.unit.muxer.spawned import STDOUT, Spawned, heard


def parent(pid: int) -> int:
    """The process that has made it."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_nobody_is_believed_who_speaks_in_the_place_of_a_newborn() -> None:
    """The daemon could take a process of the host for the exec's. Descriptors that nobody asked for are closed."""
    spawner = Spawned()
    with spawner.ask(mark=b"E", streams=STDOUT, exec="traced", script="sleep 0.3; exit 5") as link:
        assert heard(link)["part"] == "launches"
        told = heard(link)
        assert (told["@"], told["pid_start"]) == ("Started", process_start(told["pid"]))
        held = open_links(parent(told["pid"]))
        assert held and "/dev/zero" not in held
        told = heard(link)
        assert (told["@"], told["exit_code"], heard(link)) == ("Exited", 5, None)
    assert (spawner.end(), spawner.complaints()) == (0, "")
