"""Tests of the spawner's loop and the two halves of a monitor: what they hold, tell, and survive."""

import json
import os
import signal
import socket
import termios
import time
from collections import Counter

import pytest

import _muxer

if not _muxer.built():
    pytest.skip("the C muxer is not built: python3 -m _muxer.build", allow_module_level=True)

from engine.wire import channel, codec, exitfile, waits
from engine.wire.schema import Exited, Resize, Started
from engine.wire.waits import Wait
from tests.harness.descriptors import open_links
from tests.harness.ready import ready
from tests.unit.muxer.played import frame, receive
from tests.unit.muxer.spawned import (
    PATIENCE_S,
    STDERR,
    STDIN,
    STDOUT,
    TOLD,
    Spawned,
    begin,
    ended,
    heard,
    started,
    stat_field,
)

ALL = STDIN | STDOUT | STDERR


def test_a_container_is_seen_through_to_its_end(spawner, tmp_path):
    link, _ = begin(spawner(), directory=str(tmp_path), script="echo out; echo err >&2; exit 7", mounts=True)
    exited = codec.decode(link.recv(4096).removeprefix(b"J"))
    assert (exited.exit_code, exited.started_ns) == (7, 1234)
    assert exited.finished_ns > 1234
    assert exitfile.read(str(tmp_path)) == codec.encode(Exited(7, exited.finished_ns, 1234))
    assert heard(link) is None
    logged = (tmp_path / "log" / "00000001.log").read_bytes()
    assert logged in (frame(1, b"out\n") + frame(2, b"err\n"), frame(2, b"err\n") + frame(1, b"out\n"))
    link.close()


def test_death_by_a_signal_is_told_as_a_shell_does(spawner, tmp_path):
    link, _ = begin(spawner(), directory=str(tmp_path), script="kill -TERM $$")
    assert ended(link) == 128 + signal.SIGTERM


def test_a_container_may_have_neither_log_nor_streams(spawner, tmp_path):
    link, _ = begin(spawner(), directory=str(tmp_path), script="exit 3", log=False, streams_kept=False)
    assert ended(link) == 3


def test_the_resolver_is_one_process_that_lives_as_long_as_it_likes(spawner, tmp_path):
    """Not a monitor of two halves; the spawner makes containers meanwhile, and its end is not the resolver's."""
    one = spawner(spares=True)
    spare = one.wait_for_spare()
    link = one.ask(mark=b"R", what="be the resolver")
    told = heard(link)
    assert told["asked"] == 'R{"what": "be the resolver"}'
    assert (told["children"], told["descriptors"]) == ("", 0)
    assert os.getsid(told["pid"]) == told["pid"]
    assert spare != told["pid"], "a spare is for containers"
    container, _ = begin(one, mark=b"O", directory=str(tmp_path), script="exit 3")
    assert ended(container) == 3
    assert one.end() == 0
    assert not ready(link, 0.1)
    link.close()


def test_many_containers_with_many_clients_are_served_at_a_time(spawner, attached, tmp_path):
    one, links, clients = spawner(), [], []
    for number in range(6):
        near, far = attached(number + 1)
        directory = tmp_path / str(number)
        directory.mkdir()
        links.append(begin(one, *far, directory=str(directory), script="cat; exit 5", streams=ALL)[0])
        clients.append(near)
    for link, near in reversed(list(zip(links, clients, strict=True))):
        near[0].sendall(b"hello")
        for each in near:
            assert receive(each, 13) == frame(1, b"hello")
        near[0].shutdown(socket.SHUT_WR)
        for each in near:
            assert receive(each, 1) == b""
        assert ended(link) == 5


def test_a_request_may_have_250_descriptors(spawner, attached, tmp_path):
    near, far = attached(249)
    link, _ = begin(spawner(), *far, directory=str(tmp_path), script="read x; echo hi", streams=ALL)
    near[100].sendall(b"\n")
    for each in near:
        assert receive(each, 100) == frame(1, b"hi\n")
    assert ended(link) == 0


def test_a_client_that_cannot_be_served_is_sent_away_and_the_container_goes_on(spawner, attached, tmp_path):
    # A replay takes two descriptors more of a monitor that has none to spare.
    near, far = attached(80)
    script = "echo up; read x; exit 5"
    link, _ = begin(spawner(nofile=128), *far, directory=str(tmp_path), script=script, streams=ALL, replay=True)
    got = [receive(each, 11) for each in near]
    assert set(got) == {b"", frame(1, b"up\n")}
    near[got.index(frame(1, b"up\n"))].sendall(b"\n")
    assert ended(link) == 5


def test_the_half_that_stays_holds_what_it_needs_and_nothing_else(asleep, tmp_path):
    _, _, said = asleep
    staying = stat_field(said["pid"], 4)
    assert staying != said["launcher"]
    held = open_links(staying)
    files = sorted(each for each in held if each.startswith("/"))
    log = f"{tmp_path}/log"
    assert files == sorted(["/dev/null"] * 3 + [str(tmp_path), log, f"{log}/00000001.idx", f"{log}/00000001.log"])
    kinds = Counter(each.partition(":")[0] for each in held if each not in files)
    # The link, the listener and the client; the container's streams, and what the test hears words by; the pidfd.
    assert kinds == {"socket": 3, "pipe": 3 + 1, "anon_inode": 1}


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="AddressSanitizer has pages of its own")
def test_the_half_that_stays_keeps_a_few_pages_of_its_own(asleep):
    _, _, said = asleep
    staying = stat_field(said["pid"], 4)
    with open(f"/proc/{staying}/smaps_rollup") as file:
        sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file) if "kB" in rest}
    # 32 were measured, and 136 after thousands of tests: it is forked from this process, whose heap has holes then.
    # What a monitor keeps that the spawner has forked is in tests/api/test_spares.py.
    assert sizes["Private_Dirty"] < 250


def test_a_new_daemon_is_the_daemon_and_nothing_is_woken_for_it(asleep, tmp_path):
    link, client, said = asleep
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.settimeout(PATIENCE_S)
        daemon.connect(str(tmp_path / "monitor.sock"))
        greeting = Started(said["pid"], stat_field(said["pid"], 22), 1234, keeps_waiters=True, wakes=True)
        assert codec.decode(daemon.recv(200)[1:]) == greeting
        assert heard(link) is None
        client.shutdown(socket.SHUT_WR)
        assert codec.decode(daemon.recv(200)[1:]).exit_code == 5


@pytest.mark.parametrize("word", [None, "s", "x" * 200, "nowhere"])
def test_at_the_end_an_engine_that_sleeps_is_called_by_who_has_no_daemon(asleep, tmp_path, word):
    """At the socket whose path the daemon has left; another path is no harm, and neither is none."""
    link, client, _ = asleep
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "s"))
        engine.listen()
        engine.settimeout(PATIENCE_S)
        if word is not None:
            (tmp_path / "wake").write_text(str(tmp_path / word))
        link.shutdown(socket.SHUT_RD)  # as a daemon does before it ends, which may take a while
        client.shutdown(socket.SHUT_WR)
        until = time.monotonic() + PATIENCE_S
        while not (tmp_path / "exit").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        if word == "s":
            with engine.accept()[0] as caller:
                assert caller.recv(1) == b""
        client.settimeout(PATIENCE_S)
        while client.recv(100):  # it is closed after that
            pass
        engine.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            engine.accept()


def test_the_monitor_of_an_engine_that_is_awake_calls_nobody(asleep, tmp_path):
    link, client, _ = asleep
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "s"))
        engine.listen()
        (tmp_path / "wake").write_text(str(tmp_path / "s"))
        client.shutdown(socket.SHUT_WR)
        assert ended(link) == 5  # and its end of the link is closed
        engine.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            engine.accept()


def entrust(link: socket.socket, number: int, *, for_removal: bool = False) -> socket.socket:
    """Have a monitor keep one who waits; that one's end."""
    near, far = socket.socketpair()
    near.settimeout(PATIENCE_S)
    with far:
        socket.send_fds(
            link, [waits.pack(Wait(number, for_removal, True, (b"1:", b"2:", b"3:"), b";"))], [far.fileno()]
        )
    return near


def test_who_waits_is_answered_by_a_monitor_without_a_daemon_and_nothing_is_woken(asleep, tmp_path):
    link, client, _ = asleep
    with entrust(link, 1) as first, entrust(link, 2) as second, entrust(link, 3, for_removal=True) as last:
        link.send(waits.pack_answered(2))
        assert second.recv(10) == b""
        link.close()
        client.shutdown(socket.SHUT_WR)
        assert receive(first, 4) == b"1:5;"
        assert first.recv(10) == b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
            daemon.settimeout(PATIENCE_S)
            daemon.connect(str(tmp_path / "monitor.sock"))
            greeting = codec.decode(daemon.recv(200)[1:])
            assert (greeting.exit_code, greeting.waiters) == (5, 1)
            daemon.send(waits.SETTLED)
            daemon.send(b"J{} of another time")
            daemon.send(waits.REMOVED)
            assert receive(last, 4) == b"1:5;"
            assert daemon.recv(10) == b""


def test_while_the_daemon_lives_the_monitor_answers_nobody(asleep):
    link, client, _ = asleep
    with entrust(link, 1) as one:
        client.shutdown(socket.SHUT_WR)
        assert heard(link)["waiters"] == 1
        link.send(waits.SETTLED)
        assert not ready(one, 0.1)
        link.send(waits.pack_answered(1))
        assert heard(link) is None
        assert one.recv(10) == b""


def test_the_daemons_end_wakes_nothing_either(asleep, tmp_path):
    link, client, _ = asleep
    link.close()
    client.sendall(b"still here")
    assert receive(client, 18) == frame(1, b"still here")
    client.shutdown(socket.SHUT_WR)
    assert client.recv(100) == b""
    assert codec.decode((tmp_path / "exit").read_bytes()).exit_code == 5


def test_a_rotation_does_not_wake_it(spawner, attached, tmp_path):
    near, far = attached()
    link, _ = begin(spawner(), *far, directory=str(tmp_path), script="cat", streams=ALL, max_size=100)
    near[0].sendall(b"x" * 100)
    assert receive(near[0], 108) == frame(1, b"x" * 100)
    near[0].sendall(b"y" * 10)
    assert receive(near[0], 18) == frame(1, b"y" * 10)
    near[0].shutdown(socket.SHUT_WR)
    assert heard(link)["exit_code"] == 0
    assert (tmp_path / "log" / "00000002.log").read_bytes() == frame(1, b"y" * 10)


def test_a_signal_does_not_wake_it(asleep):
    link, client, said = asleep
    for _ in range(20):
        os.kill(stat_field(said["pid"], 4), signal.SIGUSR1)
        client.sendall(b"ping")
        assert receive(client, 12) == frame(1, b"ping")
    client.shutdown(socket.SHUT_WR)
    assert ended(link) == 5


def test_the_terminal_is_its_own_and_outlives_the_pumps(spawner, attached, tmp_path):
    near, far = attached()
    script = "echo up; read x; exec sleep 100 </dev/null >/dev/null 2>&1"
    link, said = begin(spawner(), *far, directory=str(tmp_path), script=script, streams=ALL, tty=True)
    assert b"up" in near[0].recv(100)
    terminal = os.open(f"/proc/{said['pid']}/fd/0", os.O_RDONLY | os.O_NOCTTY)
    staying = stat_field(said["pid"], 4)
    masters = [fd for fd in os.listdir(f"/proc/{staying}/fd") if "ptmx" in os.readlink(f"/proc/{staying}/fd/{fd}")]
    assert len(masters) == 3
    near[0].sendall(b"\n")
    link.send(channel.datagram(Resize(rows=12, columns=345)))
    until = time.monotonic() + PATIENCE_S
    while termios.tcgetwinsize(terminal) != (12, 345):
        assert time.monotonic() < until
        time.sleep(0.01)
    os.close(terminal)
    os.kill(said["pid"], signal.SIGKILL)
    assert ended(link) == 128 + signal.SIGKILL


def test_a_launching_half_that_has_nothing_to_hand_over_is_heard_as_the_end(spawner, tmp_path):
    with spawner().ask(fails="before") as link:
        assert heard(link) is None


def test_what_a_launching_half_leaves_running_when_it_dies_is_killed(spawner, tmp_path):
    script = "sleep 1000 & sleep 1000"
    with spawner().ask(directory=str(tmp_path), script=script, fails="after") as link:
        _, pidfd = started(link)
        assert heard(link) is None
        assert ready(pidfd, PATIENCE_S)
        os.close(pidfd)


def test_a_request_that_is_too_large_is_refused_by_its_end(spawner, tmp_path):
    one = spawner()
    one.requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with one.ask(padding="x" * 65536) as link:
        assert heard(link) is None
    assert ended(begin(one, directory=str(tmp_path), script="exit 1")[0]) == 1


def test_the_largest_request_is_taken(spawner, tmp_path):
    one, request = spawner(), {"directory": str(tmp_path), "script": "exit 1", "padding": ""}
    padding = "x" * (65536 - len(json.dumps(request)))
    assert ended(begin(one, **request | {"padding": padding})[0]) == 1


def test_a_request_whose_descriptors_were_cut_is_refused_by_its_end(spawner, attached, tmp_path):
    one = spawner(nofile=64)
    with one.ask(*attached(100)[1], directory=str(tmp_path), script="exit 1", streams=ALL) as link:
        assert heard(link) is None
    assert ended(begin(one, directory=str(tmp_path), script="exit 1")[0]) == 1


def test_the_spawner_ends_with_its_socket_and_its_monitors_go_on(spawner, attached, tmp_path):
    near, far = attached()
    one = spawner()
    link, _ = begin(one, *far, directory=str(tmp_path), script="cat; exit 6", streams=ALL)
    assert one.end() == 0
    near[0].sendall(b"who is there")
    assert receive(near[0], 20) == frame(1, b"who is there")
    near[0].shutdown(socket.SHUT_WR)
    assert ended(link) == 6


def test_an_ordinary_request_is_given_to_the_spare_and_no_other(spawner, tmp_path):
    one = spawner(spares=True)
    one.wait_for_spare()
    for number, mark in enumerate([b"J", b"O", b"J", b"O"]):
        directory = tmp_path / str(number)
        directory.mkdir()
        link, said = begin(one, mark=mark, directory=str(directory), script=f"exit {number}")
        assert said["prepared"] == (mark == b"O")
        assert ended(link) == number
        if mark == b"O":
            one.wait_for_spare()


def test_a_request_that_a_dead_spare_cannot_take_is_served_all_the_same(spawner, tmp_path):
    one = spawner(spares=True)
    spare = one.wait_for_spare()
    pidfd = os.pidfd_open(stat_field(spare, 4))
    os.kill(spare, signal.SIGKILL)
    # Its other half ends with it: nobody has the socket any more that the spawner would send the request to.
    assert ready(pidfd, PATIENCE_S)
    os.close(pidfd)
    link, said = begin(one, mark=b"O", directory=str(tmp_path), script="exit 4")
    assert not said["prepared"]
    assert ended(link) == 4


def asked_for_exec(one: Spawned, *clients: socket.socket, **request) -> tuple[socket.socket, str]:
    """An exec that was asked for: its link, and which part of a monitor it was that took it."""
    link = one.ask(*clients, mark=b"E", streams=ALL, **request)
    return link, heard(link)["part"]


@pytest.mark.parametrize("way", ["newborn", "forks"])
def test_an_exec_is_told_of_when_it_runs_and_seen_through_to_its_end(spawner, attached, way):
    near, far = attached()
    link, part = asked_for_exec(spawner(), *far, exec=way, script="cat; echo $COLOUR; exit 5")
    assert part == "launches"
    told = heard(link)
    assert told["@"] == "Started" and told["pid_start"] == stat_field(told["pid"], 22)
    near[0].sendall(b"hello\n")
    assert receive(near[0], 14) == frame(1, b"hello\n")
    near[0].shutdown(socket.SHUT_WR)
    colour = b"red\n" if way == "newborn" else b"\n"
    assert receive(near[0], 100) == frame(1, colour)
    assert ended(link) == 5


def test_a_newborn_leads_a_session_with_its_terminal(spawner, attached):
    near, far = attached()
    link, _ = asked_for_exec(spawner(), *far, exec="terminal", script="tty </dev/tty; read x; exit 6")
    told = heard(link)
    assert told["@"] == "Started" and stat_field(told["pid"], 6) == told["pid"]
    assert b"/dev/" in near[0].recv(100)
    near[0].sendall(b"\n")
    assert ended(link) == 6


def test_what_a_joiner_reports_is_passed_on_and_its_failure_is_the_end(spawner, attached):
    near, far = attached()
    link, _ = asked_for_exec(spawner(), *far, exec="fails", script="")
    assert tuple(codec.decode(link.recv(4096).removeprefix(b"J")) for _ in TOLD) == TOLD
    assert heard(link) is None and near[0].recv(10) == b""
    link.close()


def test_execs_have_a_spare_of_their_own_while_there_are_execs(spawner, tmp_path):
    one = spawner(spares=True)
    one.wait_for_spare()
    for wanted in ("launches", "prepares exec", "prepares exec"):
        link, part = asked_for_exec(one, exec="newborn", script="exit 3")
        assert part == wanted
        assert heard(link)["@"] == "Started"
        assert ended(link) == 3
        one.wait_for_spare()
    link, said = begin(one, mark=b"O", directory=str(tmp_path), script="exit 4")
    assert said["prepared"] and ended(link) == 4


def test_a_spare_ends_with_the_spawner(spawner):
    one = spawner(spares=True)
    one.wait_for_spare()
    assert one.end() == 0  # the fixture sees that nothing is left
