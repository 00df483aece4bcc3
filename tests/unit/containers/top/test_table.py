"""The arguments of ps, its fields, and the tree."""

import os
import time

import pytest

from engine.daemon.containers.top import psargs
from engine.daemon.containers.top.psfields import FIELDS, Moment, Process, column
from engine.daemon.containers.top.table import _joined, grown
from engine.errors import SystemFailure

TICKS = os.sysconf("SC_CLK_TCK")
STATUS = b"Name:\tx\nUid:\t1\t0\t3\t4\nGid:\t5\t0\t7\t8\nVmLck:\t       0 kB\nVmRSS:\t    1740 kB\n"


def process(pid=42, ppid=1, comm="sleep", state="S", cmdline=b"sleep\x0030\0", ticks=250, age=100.0, **changes):
    """A process by its texts; changes: fields of stat by their place behind the state."""
    numbers = [ppid, 42, 42, 34816, -1, 4194560, 129, 0, 1, 0, ticks, 0, 0, 0, 20, 0, 1, 0]
    now = 1_000_000.0
    numbers += [int((now - age) * TICKS), 2990080, 435, 0, 4096, 21504, *[0] * 11, 1, 0, 0]
    for place, value in changes.items():
        numbers[int(place.removeprefix("at"))] = value
    stat = f"{pid} ({comm}) {state} {' '.join(map(str, numbers))} 0 0 0\n".encode()
    return Process(stat, STATUS, cmdline, b"hrtimer_nanosleep", Moment(time.time() - now, now, 4_000_000))


def headers(text):
    return [each.header for each in psargs.parse(text).columns]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("-ef", "UID PID PPID C STIME TTY TIME CMD"),
        ("-e -f", "UID PID PPID C STIME TTY TIME CMD"),
        ("", "PID TTY TIME CMD"),
        ("-e", "PID TTY TIME CMD"),
        ("aux", "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"),
        ("-aux", "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"),
        ("x", "PID TTY STAT TIME COMMAND"),
        ("-eF", "UID PID PPID C SZ RSS PSR STIME TTY TIME CMD"),
        ("-lf", "F S UID PID PPID C PRI NI ADDR SZ WCHAN STIME TTY TIME CMD"),
        ("-o pid,args", "PID COMMAND"),
        ("-eo pid -o user:20,comm=X", "PID USER X"),
        ("-eopid,comm", "PID COMMAND"),
        ("axo pid,tt", "PID TT"),
        ("--format=pid,nlwp --sort -pid", "PID NLWP"),
        ("-O user", "PID USER S TTY TIME COMMAND"),
        ("-p 1,2 -u root -o pid 77", "PID"),
    ],
)
def test_what_is_asked_for(text, wanted):
    assert " ".join(headers(text)) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--foo", "error: unknown gnu long option"),
        ("-R", "error: unsupported SysV option"),
        ("Q", "error: unsupported option (BSD syntax)"),
        ("-o nope", 'error: unknown user-defined format specifier "nope"'),
        ("-o pid:x", "error: column widths must be unsigned decimal numbers"),
        ("-o ,pid", "error: improper format list"),
        ("-o", "error: format specification must follow -o"),
        ("--sort=nope", "error: unknown sort specifier"),
        ("-p x", "error: process ID list syntax error"),
        ("-u nosuchuser", "error: user name does not exist"),
        ("-f -o pid", "error: conflicting format options"),
        ("-", "error: garbage option"),
        ("-eo uid=PID", 'specifying "uid=PID" is not allowed'),
    ],
)
def test_what_ps_refuses(text, words):
    with pytest.raises(SystemFailure) as caught:
        psargs.parse(text)
    assert str(caught.value) == words


def cell(name, subject, width=None):
    return column(name, width=width).cell(subject)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *(("pid", "42"), ("ppid", "1"), ("comm", "sleep"), ("args", "sleep 30"), ("tty", "pts/0"), ("s", "S")),
        *(("pcpu", "2.5"), ("c", "2"), ("time", "00:00:02"), ("bsdtime", "0:02"), ("cputimes", "2")),
        *(("etime", "01:40"), ("etimes", "100"), ("vsz", "2920"), ("rss", "1740"), ("sz", "730"), ("pmem", "0.0")),
        *(("uid", "0"), ("ruid", "1"), ("suid", "3"), ("fuid", "4"), ("user", "root"), ("gid", "0")),
        *(("stat", "Ss"), ("ni", "0"), ("pri", "19"), ("opri", "80"), ("priority", "20"), ("nlwp", "1")),
        *(("cls", "TS"), ("rtprio", "-"), ("psr", "1"), ("wchan", "hrtimer_nanosleep"), ("trs", "17"), ("drs", "2903")),
    ],
)
def test_a_field(name, wanted):
    assert cell(name, process()) == wanted


@pytest.mark.parametrize(
    ("seconds", "time_", "elapsed"),
    [
        (59, "00:00:59", "00:59"),
        (3599, "00:59:59", "59:59"),
        (3600, "01:00:00", "01:00:00"),
        (90061, "1-01:01:01", "1-01:01:01"),
    ],
)
def test_lengths_of_time(seconds, time_, elapsed):
    subject = process(ticks=seconds * TICKS, age=float(seconds))
    assert (cell("time", subject), cell("etime", subject)) == (time_, elapsed)


def test_when_it_was_started():
    """A time of today, a day of this year, a year."""
    for age, form in ((1.0, "%H:%M"), (400 * 86400.0, "%Y")):
        subject = process(age=age)
        began = time.localtime(time.time() - age)
        if age < 2 and began.tm_yday != time.localtime().tm_yday:
            continue  # midnight
        assert cell("stime", subject) == time.strftime(form, began)
    subject = process(age=400 * 86400.0)
    assert cell("start", subject) == time.strftime("%b %d", time.localtime(subject.began))
    assert cell("lstart", subject) == time.ctime(subject.began)


def test_marks_of_a_state():
    assert cell("stat", process(at2=1, at4=42, at15=-5, at16=3)) == "S<l+"
    assert cell("stat", process(state="Z", at15=5)) == "ZNs"


def test_names_that_hide_and_commands_that_lie():
    """A command's name may hold anything, also what ends it in stat, or a line."""
    subject = process(comm="a) R 1 (b\n", cmdline=b"")
    assert (subject.state, subject.ppid, cell("args", subject)) == ("S", 1, "[a) R 1 (b?]")
    assert cell("args", process(cmdline=b"a\x1b[2J\0b\nc\0")) == "a?[2J b?c"
    assert cell("args", process(state="Z", cmdline=b"")) == "[sleep] <defunct>"


def test_long_names_are_cut():
    subject = process()
    subject.uids[1] = 65534
    assert (cell("user", subject), cell("user", subject, 3)) == ("nobody", "no+")


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "?"), (34816, "pts/0"), (34816 + 256, "pts/256"), (1025, "tty1"), (1088, "ttyS0"), (1281, "console")],
)
def test_terminals(number, name):
    assert cell("tty", process(at3=number)) == name


def test_a_tree():
    """Each parent before its children, with lines to the later ones."""
    family = [process(pid, ppid) for pid, ppid in ((1, 0), (2, 1), (3, 1), (4, 2), (9, 77))]
    ordered, branches = grown(family, "\\_ ")
    assert [each.pid for each in ordered] == [1, 2, 4, 3, 9]
    assert branches == ["", "\\_ ", "|  \\_ ", "\\_ ", ""]


def test_processes_that_are_their_own_ancestors_end():
    """A race between two looks may show such processes."""
    assert grown([process(1, 2), process(2, 1)], "")[0] == []


def test_cells_without_a_title_go_to_the_last():
    assert _joined(["1", "a", "b c"], 2) == ["1", "a b c"]


def test_every_field_can_be_shown():
    subject = process()
    for name in FIELDS:
        assert isinstance(cell(name, subject), str)
