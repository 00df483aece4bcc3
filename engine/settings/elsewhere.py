"""Declares dockerd's options about parts that this engine does not have: containerd, swarm, NRI, other programs.

Pure. An option that would change nothing that a user could notice is taken, and the daemon's log says so in one line.
An option that would change something is refused in words. No such value reaches the `Settings`.
"""

import json
from collections.abc import Callable

from engine.commandline import Given, Option, Value
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import boolean
from engine.settings import configfile


@dataclass(frozen=True, slots=True)
class Without:
    """One option without its part. note: why a value changes nothing, for the log; empty where only refusals are told.

    refusal: why any other value is refused; empty where every value changes nothing
    harmless: whether a value changes nothing, where there is a refusal
    """

    option: Option
    note: str = ""
    refusal: str = ""
    harmless: Callable[[Value], bool] = bool


def _nri(text: str) -> str:
    """`true` or `false` of `enable=BOOL,plugin-path=PATH,...`. Raises Invalid."""
    enabled = "false"
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name == "enable":
            enabled = "true" if boolean(value or "true") else "false"
        elif name not in ("plugin-path", "plugin-config-path", "socket-path"):
            raise Invalid(f"unexpected key '{name}' in '{part}'")
    return enabled


def _nri_of_file(value: object) -> str:
    enable = configfile.members(value, ("enable",)).get("enable", False)
    if not isinstance(enable, bool):
        raise Invalid(f"enable: expected true or false, got {json.dumps(enable)}")
    return "true" if enable else "false"


def _storage_option(text: str) -> str:
    name, equals, _ = text.partition("=")
    name = name.strip().lower()
    if not equals:
        raise Invalid(f"unable to parse storage-opt key/value: {text}")
    if name == "overlay2.size":
        raise Invalid("storage option overlay2.size is not built: it needs project quotas of the file system")
    if name not in _NEEDLESS:
        raise Invalid(f"unknown option {name}")
    return text


def _backend(text: str) -> str:
    if text not in ("", "iptables", "nftables"):
        raise Invalid('invalid firewall-backend: allowed values are "iptables" and "nftables"')
    if text == "iptables":
        raise Invalid("this engine makes its rules with nf_tables alone, and does not run iptables")
    return text


def _text(name: str, help_: str, value: str = "value") -> Option:
    return Option(name, help_, value=value, key=name)


def _flag(name: str, help_: str) -> Option:
    return Option(name, help_, kind="flag", default=False, key=name)


def _is_unset(value: Value) -> bool:
    return not value


_NO_CONTAINERD = "this engine runs containers itself, without containerd"
_NO_SWARM = "this engine is in no swarm"
# Options of a storage driver that the kernel of today has made needless; dockerd takes them too.
_NEEDLESS = frozenset({"overlay2.override_kernel_check", "overlay.override_kernel_check"})
_WITHOUT = (
    Without(_text("containerd", f"Nothing: {_NO_CONTAINERD}", "path"), _NO_CONTAINERD),
    Without(_text("containerd-namespace", f"Nothing: {_NO_CONTAINERD}", "name"), _NO_CONTAINERD),
    Without(_text("containerd-plugins-namespace", f"Nothing: {_NO_CONTAINERD}", "name"), _NO_CONTAINERD),
    Without(
        _flag("cri-containerd", "Refused: there is no containerd that a kubelet could use"),
        refusal="there is no containerd that a kubelet could use",
        harmless=_is_unset,
    ),
    Without(_text("swarm-default-advertise-addr", f"Nothing: {_NO_SWARM}", "address"), _NO_SWARM),
    Without(
        Option(
            "network-control-plane-mtu",
            f"Nothing: {_NO_SWARM}",
            kind="number",
            default=1500,
            value="bytes",
            key="network-control-plane-mtu",
        ),
        _NO_SWARM,
    ),
    Without(
        Option(
            "network-diagnostic-port",
            "Refused: there is no diagnostic server of swarm's networks",
            kind="number",
            default=0,
            value="port",
            key="network-diagnostic-port",
        ),
        refusal="there is no diagnostic server of swarm's networks",
        harmless=_is_unset,
    ),
    Without(
        Option(
            "nri-opts",
            "Refused where it enables NRI (enable=true): this engine has no Node Resource Interface",
            check=_nri,
            value="options",
            key="nri-opts",
        ),
        refusal="this engine has no Node Resource Interface",
        harmless=lambda value: value != "true",
    ),
    Without(
        _text("userland-proxy-path", "Nothing: the userland proxy is a part of the engine", "path"),
        "the userland proxy is a part of the engine, which runs no other program in its place",
    ),
    Without(
        _flag("raw-logs", "Nothing: the lines of the log have full timestamps and no colours anyway"),
        "the lines of the log have full timestamps and no colours anyway",
    ),
    Without(
        Option(
            "firewall-backend",
            "Nothing: the rules are made with nf_tables; iptables is refused",
            check=_backend,
            value="backend",
            key="firewall-backend",
        ),
        "the rules are made with nf_tables anyway",
    ),
    Without(
        Option(
            "storage-opt",
            "Nothing: overlay2.override_kernel_check alone is taken, all others are refused; repeatable",
            kind="list",
            check=_storage_option,
            default=(),
            value="option",
            key="storage-opts",
        ),
        "no kernel on which this engine runs needs it",
    ),
    Without(
        _flag("rootless", "Nothing: a daemon that a user other than root starts is that user's own anyway"),
        "a daemon that a user other than root starts is that user's own without this option",
    ),
    Without(
        Option(
            "restart",
            "Nothing, as in dockerd: restart policies of containers have taken its place",
            short="r",
            kind="flag",
            default=True,
        ),
        "Please use a restart policy on docker run",
    ),
)
OPTIONS = tuple(each.option for each in _WITHOUT)
FILE_READERS: dict[str, Callable[[object], Value]] = {"nri-opts": _nri_of_file}


def notes_on(told: Given) -> tuple[str, ...]:
    """The lines that the daemon is to log about these options.

    told: the options that somebody has given, by name. Raises Invalid.
    """
    notes = []
    for each in _WITHOUT:
        name = each.option.name
        if name not in told:
            continue
        if each.refusal and not each.harmless(told[name]):
            raise Invalid(f"--{name}: {each.refusal}")
        if each.note:
            notes.append(f"--{name} has no effect: {each.note}")
    return tuple(notes)
