"""The table of moves."""

import itertools

import pytest

from engine.daemon.containers import states
from engine.daemon.containers.record import Container
from engine.errors import Conflict


def container(status="created"):
    host_config = {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}, "AutoRemove": False, "CgroupParent": ""}
    host_config["LogConfig"] = {"Type": "local", "Config": {}}
    config = {"Labels": {}, "StopSignal": None, "Healthcheck": None}
    made = Container("a" * 64, "n", 0, "busybox", "sha256:0", config, host_config, {}, "true", [], ())
    made.state.status = status
    return made


@pytest.mark.parametrize(("old", "new"), list(itertools.product(states.MOVES, repeat=2)))
def test_a_move_is_made_if_and_only_if_it_is_in_the_table(old, new):
    subject = container(old)
    with subject.changed:
        if new in states.MOVES[old]:
            states.move(subject, new)
            assert subject.state.status == new
        else:
            with pytest.raises(Conflict):
                states.move(subject, new)
            assert subject.state.status == old


def test_every_state_can_be_left():
    assert all(states.MOVES.values())
    assert set().union(*states.MOVES.values()) <= set(states.MOVES)
