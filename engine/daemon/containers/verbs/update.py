"""Change the limits or the restart policy of a container, while it runs or between its runs.

Runs in the API's threads. HostConfig is shown without copying, so an update replaces it as a whole, under
`container.changed`. The order is dockerd's: invalid values are refused, then conflicts with what the container has,
then the kernel's limits change, then the database. An update that the kernel refuses changes nothing.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final, Literal

from engine.daemon.containers import config, validate
from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import cgroupparent, resources
from engine.daemon.containers.shapes import HostConfig, RestartPolicy, ThrottleDevice, WeightDevice
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.store import containers as table
from engine.errors import Conflict, EngineError, SystemFailure
from engine.sandbox.spec import Limits

_Processors = Literal["NanoCpus", "CpuPeriod", "CpuQuota"]
_NUMBERS: Final = (
    "BlkioWeight",
    "CpuShares",
    "NanoCpus",
    "CpuPeriod",
    "CpuQuota",
    "CpuRealtimePeriod",
    "CpuRealtimeRuntime",
    "Memory",
    "MemorySwap",
    "MemoryReservation",
)
_SETS: Final = ("CpusetCpus", "CpusetMems")
_RATES: Final = ("BlkioDeviceReadBps", "BlkioDeviceWriteBps", "BlkioDeviceReadIOps", "BlkioDeviceWriteIOps")
# What an update reads from the body itself, or does not obey: it need not be whole there.
_READ_FROM_BODY = dict.fromkeys(("PidsLimit", "RestartPolicy", "Ulimits"))
_NO_SWAPPINESS = -1
_ELSEWHERE = ("PidsLimit", "CpuCount", "CpuPercent", "IOMaximumIOps", "IOMaximumBandwidth")
_CHANGED = frozenset({*_NUMBERS, *_SETS, *_RATES, *_ELSEWHERE, "BlkioWeightDevice", "RestartPolicy"})
# (key of the update, key of the container that excludes it, dockerd's words)
_CONFLICTS: tuple[tuple[_Processors, _Processors, str], ...] = (
    ("NanoCpus", "CpuPeriod", "Nano CPUs cannot be updated as CPU Period has already been set"),
    ("NanoCpus", "CpuQuota", "Nano CPUs cannot be updated as CPU Quota has already been set"),
    ("CpuPeriod", "NanoCpus", "CPU Period cannot be updated as NanoCPUs has already been set"),
    ("CpuQuota", "NanoCpus", "CPU Quota cannot be updated as NanoCPUs has already been set"),
)
_MEMORY_ABOVE_SWAP = (
    "Memory limit should be smaller than already set memoryswap limit, update the memoryswap at the same time"
)
_POLICY_OF_REMOVED = "Restart policy cannot be updated because AutoRemove is enabled for the container"


def update(engine: ContainerParts, find: Callable[[], Container], body: Object) -> list[str] | None:
    """Change what the body names (0 and empty: leave it); return the warnings, None without any, as dockerd does.

    find: returns the container; called only after the body has been checked. Raises Invalid, NotFound, Conflict,
        SystemFailure.
    """
    asked = config.complete(config.HOST_CONFIG, {**body, **_READ_FROM_BODY})
    policy = validate.restart_policy(body.get("RestartPolicy") or {})
    asked["PidsLimit"] = body.get("PidsLimit")
    warnings = resources.check(asked, engine.cgroups, update=True)
    defaults: Mapping[str, object] = config.HOST_CONFIG
    for key in sorted(body):
        if key not in _CHANGED and body[key] and body[key] not in (defaults[key], _NO_SWAPPINESS):
            warnings.append(f"{key} cannot be changed by an update. It stays as it is.")
    container = find()
    with container.operation:
        try:
            _change(engine, container, asked, asked["PidsLimit"], policy)
        except EngineError as error:
            raise type(error)(f"Cannot update container {container.id}: {error}") from error
    announce(engine, container, "update")
    return warnings or None


def _change(
    engine: ContainerParts, container: Container, asked: HostConfig, pids: int | None, policy: RestartPolicy | None
) -> None:
    state = container.settled()
    if container.removed or state.status in ("removing", "dead"):
        raise SystemFailure('container is marked for removal and cannot be "update"')
    before = container.host_config
    after: HostConfig = {**before}
    for number in _NUMBERS:
        after[number] = asked[number] or before[number]
    for numbers in _SETS:
        after[numbers] = asked[numbers] or before[numbers]
    # An empty list takes all limits of that kind back; only null, or no list at all, leaves them.
    for rates in _RATES:
        if asked[rates] is not None:
            after[rates] = asked[rates]
    if asked["BlkioWeightDevice"] is not None:
        after["BlkioWeightDevice"] = asked["BlkioWeightDevice"]
    _check_together(before, asked)
    if pids is not None:
        after["PidsLimit"] = max(pids, 0)
    if policy is not None:
        if before["AutoRemove"] and policy["Name"] != "no":
            raise Conflict(_POLICY_OF_REMOVED)
        after["RestartPolicy"] = policy
    running = state.status in ("running", "paused")
    if running:
        parent = cgroupparent.of(container)
        engine.cgroups.update(container.id, _limits(engine, after, before), parent, _limits(engine, before, after))
    try:
        with container.changed:
            container.host_config = after
            with engine.database.transaction(durable=True) as connection:
                table.save_settings(connection, container)
    except BaseException:
        with container.changed:
            container.host_config = before
        if running:
            engine.cgroups.update(container.id, _limits(engine, before, after), parent, _limits(engine, after, before))
        raise
    if running and after["Memory"] > 0 >= before["Memory"]:
        engine.oom.limited(engine, container)


def _check_together(before: HostConfig, asked: HostConfig) -> None:
    for wanted, present, text in _CONFLICTS:
        if asked[wanted] > 0 and before[present] > 0:
            raise Conflict(f"Conflicting options: {text}")
    if asked["Memory"] and not asked["MemorySwap"] and asked["Memory"] > before["MemorySwap"]:
        raise Conflict(_MEMORY_ABOVE_SWAP)


def _limits(engine: ContainerParts, host_config: HostConfig, other: HostConfig) -> Limits:
    """The limits that can change while it runs: none that only a new cgroup takes, and of devices those that `other`
    has not.

    other: the settings after the change for those before it, and the other way round. Raises SystemFailure for a device
    that is none.
    """
    plain: HostConfig = {**host_config, "MemorySwappiness": None, "OomKillDisable": False}
    for key in _RATES:
        rates, others = host_config[key] or [], other[key] or []
        plain[key] = None if rates == others else [*rates, *_unlimited(rates, others)]
    weights, others_weights = host_config["BlkioWeightDevice"] or [], other["BlkioWeightDevice"] or []
    plain["BlkioWeightDevice"] = None if weights == others_weights else [*weights, *_unweighed(weights, others_weights)]
    return engine.cgroups.fitting(resources.limits_of(plain, resources.device_number))[0]


def _unlimited(rates: list[ThrottleDevice | None], others: list[ThrottleDevice | None]) -> list[ThrottleDevice | None]:
    """The devices of `others` alone, with the rate that stands for no limit, but for those that are gone."""
    named = {(each or {}).get("Path") for each in rates}
    paths = [path for each in others if each and (path := each.get("Path")) and path not in named]
    return [{"Path": path, "Rate": 0} for path in paths if os.path.exists(path)]


def _unweighed(weights: list[WeightDevice | None], others: list[WeightDevice | None]) -> list[WeightDevice | None]:
    """The same for weights: 0 stands for the weight of a device that has none of its own."""
    named = {(each or {}).get("Path") for each in weights}
    paths = [path for each in others if each and (path := each.get("Path")) and path not in named]
    return [{"Path": path, "Weight": 0} for path in paths if os.path.exists(path)]
