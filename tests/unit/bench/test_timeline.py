"""Tests of `bench.switches`, `bench.lanes` and `bench.timeline`: who ran when, read from perf's words and drawn."""

import threading
from xml.etree import ElementTree

from bench import lanes, switches, timeline
from bench.switches import Turn

SVG = "{http://www.w3.org/2000/svg}"
PRINTED = """\
   engine daemon   100 [000]    10.000000:       sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=engine daemon next_pid=100 next_prio=120
   engine daemon   100 [000]    10.001000: sched:sched_process_fork: comm=engine daemon pid=100 child_comm=engine \
daemon child_pid=101
   engine daemon   100 [000]    10.002000:       sched:sched_switch: prev_comm=engine daemon prev_pid=100 \
prev_prio=120 prev_state=S ==> next_comm=engine init next_pid=101 next_prio=120
   engine init     101 [000]    10.003000: sched:sched_process_exec: filename=/bin/echo pid=101 old_pid=101
            perf   900 [001]    10.003500:       sched:sched_switch: prev_comm=perf prev_pid=900 prev_prio=120 \
prev_state=D ==> next_comm=cc next_pid=7 next_prio=0
            echo   101 [000]    10.004000:       sched:sched_switch: prev_comm=echo prev_pid=101 prev_prio=120 \
prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120
              cc     7 [001]    10.005000:       sched:sched_switch: prev_comm=cc prev_pid=7 prev_prio=120 \
prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
""".splitlines()


def test_turns_begin_and_end_with_the_switches_of_their_processor():
    recorded = switches.parse([*PRINTED, "no line of an event"])
    assert recorded.turns == [
        Turn(100, "engine daemon", 0, 10.0, 10.002),
        Turn(101, "echo", 0, 10.002, 10.004),
        Turn(7, "cc", 1, 10.0035, 10.005),
    ]
    assert recorded.programs == {101: ("/bin/echo", 10.003)}
    assert recorded.descendants({100}) == {100, 101}


def test_each_task_of_the_engine_has_a_lane_and_all_others_share_one():
    marks = [("create", 10.001), ("", 10.0045)]
    found = timeline.of(switches.parse(PRINTED), {100}, marks)
    assert [(lane.name, lane.kind, len(lane.turns)) for lane in found] == [
        ("client", "peer", 0),
        ("daemon", "ours", 1),
        ("echo", "ours", 1),
        ("other programs", "floor", 1),
    ]
    assert [round(lane.busy(10.001, 10.0045) * 1e3, 3) for lane in found] == [0, 1, 2, 1]


def test_the_client_is_the_thread_that_asks():
    turn = Turn(threading.get_native_id(), "python3", 0, 1.0, 2.0)
    found = timeline.of(switches.Recorded([turn]), set(), [("create", 1.0), ("", 2.0)])
    assert found[0].turns == [turn]


def test_a_task_is_named_by_its_last_two_names_until_then():
    turns = [Turn(1, name, 0, 0.0, 1.0) for name in ("engine spare", "engine launch", "engine init")]
    assert timeline.name(turns, "/bin/echo", 0.5, 1.0) == "init → echo"
    assert timeline.name(turns, "/bin/echo", 1.5, 1.0) == "launch → init"


def test_the_picture_is_xml_with_a_bar_for_each_turn_within_the_flow():
    turns = [Turn(1, "x", 0, 0.0, 0.5), Turn(1, "x", 0, 0.9, 1.1), Turn(1, "x", 0, 3.0, 4.0)]
    root = ElementTree.fromstring(lanes.svg("A & B", "", [lanes.Lane("x", turns, "ours")], [("start", 0.2), ("", 1.0)]))
    assert [rectangle.get("class") for rectangle in root.iter(f"{SVG}rect")].count("bar-ours") == 2
