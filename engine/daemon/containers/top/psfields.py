"""The fields of `ps` with their names and headers, and how each is computed from a process's files in /proc.

Pure, but for the names of users and groups, which are the host's. Names, headers and forms are those of procps, whose
output docker shows for `top`.
"""

import os
import time
from collections.abc import Callable

from engine.dataclass import dataclass

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DAY = 24 * 3600
_NAME_WIDTH = 8
_POLICIES = {0: "TS", 1: "FF", 2: "RR", 3: "B", 4: "ISO", 5: "IDL", 6: "DLN"}
_WORST_PRIORITY = 39


@dataclass(frozen=True, slots=True)
class Moment:
    """The time at which the processes were read.

    boot: when the host was booted, in seconds since the epoch; uptime: seconds since then; memory: the host's, in KiB
    """

    boot: int
    uptime: float
    memory: int


class Process:
    """One process as /proc showed it at one moment. Raises ValueError for texts that are not a process's."""

    def __init__(self, stat: bytes, status: bytes, cmdline: bytes, wchan: bytes, moment: Moment) -> None:
        """The texts of /proc/PID/stat, status, cmdline and wchan."""
        head, _, tail = stat.decode("utf-8", "replace").rpartition(")")
        pid, _, comm = head.partition(" (")
        words = tail.split()
        numbers = [int(word) for word in words[1:39]]
        self.pid, self.comm, self.state = int(pid), _shown(comm), words[0]
        self.ppid, self.pgrp, self.session, self.tty, self.tpgid, self.flags = numbers[:6]
        self.minflt, _, self.majflt = numbers[6:9]
        self.ticks = numbers[10] + numbers[11]
        self.priority, self.nice, self.threads = numbers[14:17]
        self.started, self.vsize = numbers[18:20]
        self.code = max(numbers[23] - numbers[22], 0)
        self.processor, self.rt_priority, self.policy = numbers[35:38]
        lines = dict(line.split(":", 1) for line in status.decode("utf-8", "replace").splitlines() if ":" in line)
        self.uids = [int(word) for word in lines["Uid"].split()]
        self.gids = [int(word) for word in lines["Gid"].split()]
        self.rss = int(lines.get("VmRSS", "0").split()[0])
        self.locked = int(lines.get("VmLck", "0").split()[0])
        self.wchan = wchan.decode("ascii", "replace").strip("\0")
        self.args = self._args(cmdline)
        self.moment = moment

    def _args(self, cmdline: bytes) -> str:
        text = _shown(cmdline.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")) or f"[{self.comm}]"
        return f"{text} <defunct>" if self.state == "Z" else text

    @property
    def seconds(self) -> int:
        """Processor time used, in seconds."""
        return self.ticks // _TICKS

    @property
    def age(self) -> int:
        """Seconds since the process was started."""
        return max(int(self.moment.uptime - self.started / _TICKS), 0)

    @property
    def began(self) -> float:
        """When the process was started, in seconds since the epoch."""
        return self.moment.boot + self.started / _TICKS

    @property
    def busy(self) -> float:
        """Processor use over the whole life of the process, in per cent of one processor."""
        age = self.moment.uptime - self.started / _TICKS
        return self.ticks * 100 / _TICKS / age if age > 0 else 0.0


def _shown(text: str) -> str:
    """The text with `?` for each character that is not printable, so that it stays on its line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


# How a value is written.


def _clock(seconds: int) -> str:
    """Write a length of time as [DD-]HH:MM:SS."""
    days, rest = divmod(seconds, _DAY)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def _elapsed(seconds: int) -> str:
    """Write a length of time as [[DD-]HH:]MM:SS."""
    return _clock(seconds) if seconds >= 3600 else f"{seconds // 60:02d}:{seconds % 60:02d}"


def _minutes(seconds: int) -> str:
    return f"{seconds // 60}:{seconds % 60:02d}"


def _stime(began: float) -> str:
    """The time for a start of today, the date for one of this year, else the year."""
    then, now = time.localtime(began), time.localtime()
    if then.tm_year != now.tm_year:
        return time.strftime("%Y", then)
    return time.strftime("%H:%M" if then.tm_yday == now.tm_yday else "%b%d", then)


def _recent(form: str) -> Callable[[float], str]:
    def show(began: float) -> str:
        return time.strftime(form if time.time() - began <= _DAY else "%b %d", time.localtime(began))

    return show


def _terminal(number: int) -> str:
    """The name of a terminal by the numbers of its device (Linux's devices.txt)."""
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | (number >> 12) & 0xFFF00
    if 136 <= major <= 143:
        return f"pts/{minor + (major - 136) * 256}"
    if major == 4:
        return f"tty{minor}" if minor < 64 else f"ttyS{minor - 64}"
    return "console" if (major, minor) == (5, 1) else "?"


def _user(number: int) -> str:
    import pwd  # an extension module, which most daemons never need

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    import grp  # as pwd in _user

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _stat(process: Process) -> str:
    marks = process.state
    marks += "<" if process.nice < 0 else "N" if process.nice > 0 else ""
    marks += "L" if process.locked else ""
    marks += "s" if process.session == process.pid else ""
    marks += "l" if process.threads > 1 else ""
    return marks + ("+" if process.tpgid == process.pgrp else "")


def _wchan(process: Process) -> str:
    return process.wchan if process.wchan not in ("", "0") else "-"


def _memory_share(process: Process) -> float:
    return min(process.rss * 1000 // process.moment.memory, 999) / 10


def _percent(value: float) -> str:
    return f"{value:.1f}" if value <= 999 else str(int(value))


def _rt(priority: int) -> str:
    return str(priority) if priority else "-"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of ps. value: computes it, also for sorting; show: writes it as text; width: of names, else 0."""

    header: str
    value: Callable[[Process], float | str]
    show: Callable[..., str] = str
    width: int = 0


def _names(header: str, value: Callable[[Process], int], show: Callable[[int], str]) -> Field:
    return Field(header, value, show, _NAME_WIDTH)


_COMMAND = Field("COMMAND", lambda p: p.args)
_SHORT_COMMAND = Field("COMMAND", lambda p: p.comm)
_EUSER = _names("USER", lambda p: p.uids[1], _user)
_STATE = Field("S", lambda p: p.state)
_TTY = Field("TT", lambda p: p.tty, _terminal)
_TNAME = Field("TTY", lambda p: p.tty, _terminal)
_TIME = Field("TIME", lambda p: p.seconds, _clock)
_CPU = Field("%CPU", lambda p: p.busy, _percent)
_MEM = Field("%MEM", _memory_share, "{:.1f}".format)
_VSZ = Field("VSZ", lambda p: p.vsize // 1024)
_CLASS = Field("CLS", lambda p: p.policy, lambda policy: _POLICIES.get(policy, "?"))
_FLAGS = Field("F", lambda p: p.flags >> 6 & 7)

FIELDS: dict[str, Field] = {
    **dict.fromkeys(("pcpu", "%cpu"), _CPU),
    **dict.fromkeys(("pmem", "%mem"), _MEM),
    **dict.fromkeys(("args", "command"), _COMMAND),
    "cmd": Field("CMD", _COMMAND.value),
    **dict.fromkeys(("comm", "ucomm", "fname"), _SHORT_COMMAND),
    "ucmd": Field("CMD", _SHORT_COMMAND.value),
    "c": Field("C", lambda p: min(int(p.busy), 99)),
    "cp": Field("CP", lambda p: min(int(p.busy * 10), 999)),
    "pid": Field("PID", lambda p: p.pid),
    "tgid": Field("TGID", lambda p: p.pid),
    "ppid": Field("PPID", lambda p: p.ppid),
    "pgid": Field("PGID", lambda p: p.pgrp),
    "pgrp": Field("PGRP", lambda p: p.pgrp),
    **dict.fromkeys(("sess", "session"), Field("SESS", lambda p: p.session)),
    "sid": Field("SID", lambda p: p.session),
    "tpgid": Field("TPGID", lambda p: p.tpgid),
    **dict.fromkeys(("user", "uname"), _EUSER),
    "euser": _names("EUSER", lambda p: p.uids[1], _user),
    "ruser": _names("RUSER", lambda p: p.uids[0], _user),
    "suser": _names("SUSER", lambda p: p.uids[2], _user),
    "fuser": _names("FUSER", lambda p: p.uids[3], _user),
    "uid": Field("UID", lambda p: p.uids[1]),
    "euid": Field("EUID", lambda p: p.uids[1]),
    "ruid": Field("RUID", lambda p: p.uids[0]),
    "suid": Field("SUID", lambda p: p.uids[2]),
    "fuid": Field("FUID", lambda p: p.uids[3]),
    "group": _names("GROUP", lambda p: p.gids[1], _group),
    "egroup": _names("EGROUP", lambda p: p.gids[1], _group),
    "rgroup": _names("RGROUP", lambda p: p.gids[0], _group),
    "gid": Field("GID", lambda p: p.gids[1]),
    "egid": Field("EGID", lambda p: p.gids[1]),
    "rgid": Field("RGID", lambda p: p.gids[0]),
    **dict.fromkeys(("vsz", "vsize"), _VSZ),
    "rss": Field("RSS", lambda p: p.rss),
    "rssize": Field("RSS", lambda p: p.rss),
    "rsz": Field("RSZ", lambda p: p.rss),
    "sz": Field("SZ", lambda p: p.vsize // _PAGE),
    "trs": Field("TRS", lambda p: p.code // 1024),
    "drs": Field("DRS", lambda p: (p.vsize - p.code) // 1024),
    **dict.fromkeys(("tty", "tt"), _TTY),
    "tname": _TNAME,
    "stat": Field("STAT", _stat),
    "s": _STATE,
    "state": _STATE,
    "start": Field("STARTED", lambda p: p.began, _recent("%H:%M:%S")),
    "lstart": Field("STARTED", lambda p: p.began, lambda began: time.ctime(began)),
    "stime": Field("STIME", lambda p: p.began, _stime),
    "start_time": Field("START", lambda p: p.began, _stime),
    "bsdstart": Field("START", lambda p: p.began, _recent("%H:%M")),
    "etime": Field("ELAPSED", lambda p: p.age, _elapsed),
    "etimes": Field("ELAPSED", lambda p: p.age),
    **dict.fromkeys(("time", "cputime"), _TIME),
    **dict.fromkeys(("times", "cputimes"), Field("TIME", lambda p: p.seconds)),
    "bsdtime": Field("TIME", lambda p: p.seconds, _minutes),
    "nlwp": Field("NLWP", lambda p: p.threads),
    "thcount": Field("THCNT", lambda p: p.threads),
    **dict.fromkeys(("ni", "nice"), Field("NI", lambda p: p.nice)),
    "pri": Field("PRI", lambda p: _WORST_PRIORITY - p.priority),
    "priority": Field("PRI", lambda p: p.priority),
    "opri": Field("PRI", lambda p: p.priority + 60),
    **dict.fromkeys(("cls", "class"), _CLASS),
    "policy": Field("POL", _CLASS.value, _CLASS.show),
    "sched": Field("SCH", lambda p: p.policy),
    "rtprio": Field("RTPRIO", lambda p: p.rt_priority, _rt),
    "psr": Field("PSR", lambda p: p.processor),
    **dict.fromkeys(("f", "flag", "flags"), _FLAGS),
    "wchan": Field("WCHAN", _wchan),
    "min_flt": Field("MINFL", lambda p: p.minflt),
    "minflt": Field("MINFLT", lambda p: p.minflt),
    "maj_flt": Field("MAJFL", lambda p: p.majflt),
    "majflt": Field("MAJFLT", lambda p: p.majflt),
    # The kernel does not show the address of a process any more.
    "addr": Field("ADDR", lambda p: "-"),
}
"""By the names that `-o` takes."""


@dataclass(frozen=True, slots=True)
class Column:
    """A field in the output: its header, and how wide a name may be before it is cut."""

    field: Field
    header: str
    width: int

    def cell(self, process: Process) -> str:
        """The text of this column for this process."""
        text = self.field.show(self.field.value(process))
        return f"{text[: self.width - 1]}+" if 0 < self.width < len(text) else text


def column(name: str, header: str | None = None, width: int | None = None) -> Column:
    """The column of a known field."""
    field = FIELDS[name]
    return Column(field, field.header if header is None else header, width if field.width and width else field.width)
