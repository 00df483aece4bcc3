"""Declares the daemon's options about cgroups: who makes those of containers, and where.

Names, keys and words are dockerd's. Whether the host has what a driver needs, and whether a parent is one for that
driver, is checked when the daemon has looked at the host (`engine.daemon.main`).
"""

from engine.commandline import Option
from engine.errors import Invalid
from engine.literals import integer

DRIVERS = ("systemd", "cgroupfs")

_DRIVER = "native.cgroupdriver"


def driver(exec_opts: tuple[str, ...]) -> str:
    """The cgroup driver that these `exec_opts` name; empty for the host's own. As in dockerd, the first one counts."""
    return next((option.partition("=")[2] for option in exec_opts), "")


def _exec_opt(text: str) -> str:
    name, separator, value = (part.strip() for part in text.partition("="))
    if not separator:
        raise Invalid(f"unable to parse key/value option: {text}")
    if name.lower() != _DRIVER:
        raise Invalid(f"unknown exec-opt {name}: there is {_DRIVER}")
    if value not in DRIVERS:
        raise Invalid(f"{_DRIVER} option {value} not supported")
    return f"{_DRIVER}={value}"


OPTIONS = (
    Option(
        "exec-opt",
        f"{_DRIVER}={' or '.join(DRIVERS)}: who makes cgroups; systemd where it runs a host with cgroups v2",
        kind="list",
        check=_exec_opt,
        default=(),
        value="option",
        key="exec-opts",
    ),
    Option(
        "cgroup-parent",
        "Parent of the cgroups of containers that name none: a slice with systemd, else a path",
        value="parent",
        key="cgroup-parent",
    ),
    *(
        Option(
            name,
            f"{what} of the real-time scheduler that all containers share; cgroups v1 alone, 0 to leave the host's",
            kind="number",
            check=lambda text: str(integer(text, low=0)),
            default=0,
            value="microseconds",
            key=name,
        )
        for name, what in (("cpu-rt-period", "Period"), ("cpu-rt-runtime", "Runtime in each period"))
    ),
)
