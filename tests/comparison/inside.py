"""What a container sees: a script that tells it, in sections, and in which sections two containers differ."""

import re
from collections.abc import Iterator
from random import Random

from tests.comparison.comparing import neutral
from tests.comparison.containers import bodies, merged
from tests.replay.compare import Departure

SECTIONS = {
    "status": "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Cpus_all|Mems_all|Umask)' /proc/self/status",
    "environment": "env | sort",
    "place": "pwd; id; hostname; cat /proc/sys/kernel/domainname",
    "limits": "cat /proc/self/limits",
    "mounts": "cat /proc/self/mountinfo",
    "files": 'for f in /etc/resolv.conf /etc/hosts /etc/hostname; do echo "$f"; cat $f; ls -ln $f | cut -c1-30; done',
    "links": "for l in /sys/class/net/*; do echo ${l##*/} $(cat $l/mtu $l/flags $l/tx_queue_len); done",
    "addresses": "ip -o addr | sed 's/^[0-9]*: //; s/valid_lft.*//'",
    "routes": "ip route; ip -6 route | sort",
    "devices": "ls -ln /dev | sed 's/ [A-Z][a-z][a-z] .*[0-9] / /'; ls -ln /dev/shm /dev/mqueue | head -3",
    "root": (
        "ls -la / | sed 's/^\\([^ ]*\\) *[0-9]* /\\1 /' | cut -c1-30 | grep -v total; "
        "stat -c '%n %a %u:%g' / /dev /proc /sys /tmp /etc /dev/shm"
    ),
    "cgroup": "cat /proc/self/cgroup; ls -1 /sys/fs/cgroup",
    "kernel": (
        "cd /proc/sys; for f in kernel/shmmax kernel/msgmax net/ipv4/ip_forward net/ipv4/ip_unprivileged_port_start "
        "net/ipv4/ping_group_range net/ipv6/conf/all/disable_ipv6 net/ipv6/conf/default/forwarding "
        "net/ipv4/conf/all/forwarding net/ipv4/ip_default_ttl; do echo $f $(cat $f 2>&1); done"
    ),
    "process": "cat /proc/self/oom_score_adj /proc/1/comm; tty; cat /proc/1/cmdline | tr '\\0' ' ' | cut -c1-40; umask",
    "masked": "cd /proc; for f in kcore keys timer_list acpi scsi ../sys/firmware; do ls -ld $f | cut -c-28; done",
    "written": "for f in /proc/sys/x /sys/x /x /etc/x /dev/x /dev/shm/x /proc/sysrq-trigger; do : >$f && echo $f; done",
    "memory": "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes pids/pids.max cpu/cpu.shares memory.max",
}
SCRIPT = "\n".join(f"echo '@@ {name}'; ({words}) 2>&1" for name, words in SECTIONS.items())
# Paths of one daemon's own in a mount's source, device numbers, ids of mounts; what an overlay consists of.
NUMBERS = re.compile(r"^\d+ \d+ \d+:\d+ ")
OVERLAY = re.compile(r"(lowerdir|upperdir|workdir)(\+)?=[^, ]*")
PLACES = re.compile(r"/\S*/(containers|volumes|image|init)/\S*")
PEERS = re.compile(r" (shared|master|propagate_from):\d+")
NUMBERED = re.compile(r"\b(eth\d+|veth\w+)(@if\d+)\b")
# The ends of others' pairs, which the host has while their containers go, and addresses that the kernel has drawn.
PASSING = re.compile(r"\bveth\w+|\bfe80::\S+/64")


def body(chance: Random) -> dict:
    """A create with up to four fields' values, whose command is the script."""
    found = merged(*chance.sample(bodies(), chance.choice((0, 1, 2, 3, 4))))
    found.setdefault("HostConfig", {}).setdefault("NetworkMode", chance.choice(("none", "bridge", "bridge", "host")))
    return {**found, "Image": "busybox", "Cmd": ["-c", SCRIPT], "Entrypoint": ["sh"]}


def sections(output: str) -> dict[str, list[str]]:
    """What was said, by section."""
    found: dict[str, list[str]] = {}
    for block in output.split("@@ ")[1:]:
        name, _, lines = block.partition("\n")
        found[name.strip()] = [line.rstrip() for line in lines.splitlines()]
    return found


def tidy(section: str, line: str) -> str:
    """A line without what differs from run to run."""
    if section == "mounts":
        line = PLACES.sub(r"PLACE/\1", PEERS.sub("", NUMBERS.sub("", line)))
        line = OVERLAY.sub(r"\1", line)
    return NUMBERED.sub(r"\1", neutral(line))


def departures(theirs: str, ours: str) -> Iterator[Departure]:
    """Where what two containers saw differs: a row a line that one of them has alone."""
    pair = [sections(side) for side in (theirs, ours)]
    if not (pair[0] and pair[1]):
        if bool(pair[0]) != bool(pair[1]):
            yield Departure("output", "", f"{theirs[:300]!r}, ours {ours[:300]!r}")
        return
    for name in SECTIONS:
        lines = [
            [tidy(name, line) for line in side.get(name, []) if line.strip() and not PASSING.search(line)]
            for side in pair
        ]
        alone = [[line for line in side if line not in other] for side, other in (lines, lines[::-1])]
        for whose, only in zip(("theirs", "ours"), alone, strict=True):
            yield from (Departure(whose, name, line) for line in only)
        if not any(alone) and lines[0] != lines[1]:
            yield Departure("order", name, f"{' | '.join(lines[0])[:600]!r}, ours {' | '.join(lines[1])[:600]!r}")
