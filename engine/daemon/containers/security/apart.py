"""Knows which runs have a kernel of their own, and refuses what cannot reach their processes.

Runs in the daemon's threads. In such a sandbox (gVisor) process 1, as the host sees it, is the sandbox itself: a signal
to it does not reach the container, and its namespaces are not the container's. How its runtime is called stands in a
file of the run's exec directory, so it does not depend on the options of a later daemon.
"""

import json
import os
from collections.abc import Callable

from engine.annotating import Literal
from engine.daemon.containers import paths
from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import HostConfig
from engine.daemon.parts import SecurityParts, SettingsPart
from engine.errors import NotBuilt, SystemFailure
from engine.kernel import reasons
from engine.sandbox.spec import Sandbox
from engine.settings.runtimes import OWN

_FILE = "apart"
_OWN_NAMESPACES = frozenset({"mount", "pid", "uts", "ipc", "net"})
_DEVICES: tuple[Literal["Privileged", "Devices", "DeviceRequests", "DeviceCgroupRules"], ...] = (
    *("Privileged", "Devices"),
    *("DeviceRequests", "DeviceCgroupRules"),
)
_WITHOUT_MEANING = ("unconfined", "builtin", "disable")


def keep(exec_dir: str, runtime: tuple[str, ...]) -> None:
    """Write down that the run that is about to start has a kernel of its own. runtime: see `Sandbox`"""
    try:
        with open(os.path.join(exec_dir, _FILE), "w") as file:
            json.dump(runtime, file)
    except OSError as error:
        raise SystemFailure(f"how the runtime is called cannot be kept: {reasons.whole(error)}") from error


def of(engine: SettingsPart, container: Container) -> tuple[str, ...]:
    """The runtime of the container's present run (see `Sandbox`); empty where it has the host's kernel."""
    if container.host_config["Runtime"] in OWN:
        return ()
    settings = engine.settings
    place = paths.of(settings.data_root, settings.exec_root, container.id)
    try:
        with open(os.path.join(place.exec_dir, _FILE)) as file:
            return tuple(json.load(file))
    except FileNotFoundError:
        return ()


def refuse(engine: SettingsPart, container: Container, what: str) -> None:
    """Raise NotBuilt, naming what is asked of a running container, where it has a kernel of its own."""
    if of(engine, container):
        raise NotBuilt(f"{what} is not built for a container of a runtime with a kernel of its own")


def _shares(host_config: HostConfig, made: Sandbox) -> str:
    shared = _OWN_NAMESPACES.difference(made.namespaces)
    return f"a namespace of others ({', '.join(sorted(shared))})" if shared else ""


def _has_devices(host_config: HostConfig, made: Sandbox) -> str:
    given = [key for key in _DEVICES if host_config[key]]
    return f"a device of the host ({', '.join(given)})" if given else ""


def _has_parameters(host_config: HostConfig, made: Sandbox) -> str:
    return f"a parameter of the kernel ({', '.join(host_config['Sysctls'])})" if host_config["Sysctls"] else ""


def _has_profile(host_config: HostConfig, made: Sandbox) -> str:
    for option in host_config["SecurityOpt"] or ():
        name, _, value = option.replace(":", "=", 1).partition("=")
        if name in ("seccomp", "apparmor", "label") and value not in _WITHOUT_MEANING:
            return f"a profile of the host's kernel ({name})"
    return ""


_REFUSED: tuple[Callable[[HostConfig, Sandbox], str], ...] = (_shares, _has_devices, _has_parameters, _has_profile)


def check(name: str, host_config: HostConfig, made: Sandbox) -> None:
    """Raise NotBuilt, naming it, for what a container of the runtime `name` cannot have with a kernel of its own."""
    for asks in _REFUSED:
        if what := asks(host_config, made):
            raise NotBuilt(f"the runtime {name} has a kernel of its own, so its containers cannot have {what}")


def check_joined(engine: SecurityParts, pids: set[int]) -> None:
    """Raise NotBuilt where one of these processes is that of a container with a kernel of its own."""
    for other in engine.containers.all() if pids else ():
        if other.state.pid in pids:
            refuse(engine, other, f"to join the namespaces of {other.name}")
