"""The order of a joiner's steps, which security depends on, and the datagrams that it reports with."""

from engine.birth import join
from engine.wire import channel, report
from engine.wire.schema import Failed


def place(name: str) -> int:
    return [step.__name__ for _, step in join.STEPS].index(name)


def test_everything_is_closed_before_anything_is_entered() -> None:
    assert place("seclude") == 0 < place("cgroup") < place("enter")


def test_the_profile_is_asked_for_by_the_engines_own_proc() -> None:
    assert place("label_ahead") < place("enter") < place("enter_users")


def test_nothing_of_the_containers_files_is_looked_at_from_outside() -> None:
    assert place("enter") < min(place(name) for name in ("user", "directory", "terminal_", "streams"))


def test_there_is_nothing_left_to_be_had_when_somebody_is_born() -> None:
    born = place("bear")
    assert max(place(name) for name in ("enter", "directory", "limits", "privileges")) < born < place("fork")
    assert join.STEPS[-1][1].__name__ == "execute"


def test_every_step_has_a_name_for_a_client_to_read() -> None:
    assert all(name.isalpha() for name, _ in join.STEPS)


def test_a_birth_says_whether_the_command_runs_already() -> None:
    assert report.encode_birth(1234, executed=False) == report.BORN + b"1234"
    assert report.encode_birth(1234, executed=True) == report.EXECUTED + b"1234"


def test_what_is_passed_on_to_the_daemon_is_a_whole_message() -> None:
    failed = Failed("exec", 2, "no such file", 127)
    assert channel.unpack(channel.datagram(failed), []) == (failed, [])
