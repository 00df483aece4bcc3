"""Volumes in the form the API shows them, and the filters of listing and pruning volumes.

Runs in the daemon's request threads, and changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

from engine.daemon.clock import SECOND, rfc3339
from engine.daemon.patterns import matcher, truth
from engine.daemon.volumes.store import Volumes
from engine.daemon.volumes.volume import Volume
from engine.errors import Invalid
from engine.literals import boolean

Match = Callable[[Volume], bool]
# One filter of the API: its values → a function that decides whether a volume passes.
_Filter = Callable[[Volumes, tuple[str, ...]], Match]


def show(volume: Volume) -> dict[str, Any]:
    """The volume as an object `Volume` of the API."""
    # Of one that a plugin keeps, the plugin alone knows when it was made.
    created = volume.created if volume.remote else rfc3339(volume.created_ns // SECOND * SECOND)
    return {
        **({"CreatedAt": created} if created else {}),
        "Driver": volume.driver,
        "Labels": volume.labels,
        "Mountpoint": volume.path,
        "Name": volume.name,
        "Options": volume.options,
        "Scope": volume.scope,
        **({"Status": volume.status} if volume.status is not None else {}),
    }


def chosen(volumes: Volumes, filters: dict[str, tuple[str, ...]]) -> tuple[list[Volume], list[str]]:
    """The volumes that pass every filter of GET /volumes, and what plugins could not tell. Raises Invalid."""
    matches = _matches(volumes, filters, _FILTERS)
    found, warnings = volumes.everywhere()
    return [volume for volume in found if all(match(volume) for match in matches)], warnings


def unused(volumes: Volumes, filters: dict[str, tuple[str, ...]], all_by_default: bool) -> list[Volume]:
    """The volumes that POST /volumes/prune is to remove: those that no container uses and that pass the filters.

    Named volumes are among them only if the filter `all` says so. Volumes with options are left out: their contents are
    elsewhere, and removing the volume would free nothing.
    all_by_default: the value of `all` where the client gives none; True for API versions before 1.42, whose clients
        do not know `all` and expect named volumes to be pruned too. Raises Invalid.
    """
    everything = _all(filters.get("all", ()), all_by_default)
    matches = _matches(volumes, filters, _PRUNE_FILTERS)
    local = [volume for volume in volumes.all() if not volume.options and not volume.remote]
    passing = [volume for volume in local if all(match(volume) for match in matches)]
    return [volume for volume in passing if (everything or volume.anonymous) and not volumes.users(volume.name)]


def _matches(volumes: Volumes, filters: dict[str, tuple[str, ...]], known: Mapping[str, _Filter]) -> list[Match]:
    for name in filters:
        if name not in known:
            raise Invalid(f"invalid filter '{name}'")
    return [known[name](volumes, values) for name, values in filters.items() if values]


def _all(values: tuple[str, ...], default: bool) -> bool:
    if len(values) > 1:
        raise Invalid(f"invalid filter 'all=[{' '.join(values)}]': only one value is expected")
    try:
        return boolean(values[0]) if values else default
    except Invalid as error:
        raise Invalid(f"invalid filter 'all': {error}") from error


def _dangling(volumes: Volumes, values: tuple[str, ...]) -> Match:
    wanted = truth("dangling", values)
    return lambda volume: bool(volumes.users(volume.name)) is not wanted


def _driver(_volumes: Volumes, values: tuple[str, ...]) -> Match:
    return lambda volume: volume.driver in values


def _name(_volumes: Volumes, values: tuple[str, ...]) -> Match:
    passes = matcher(values)
    return lambda volume: passes(volume.name)


def _has(volume: Volume, label: str) -> bool:
    name, equals, value = label.partition("=")
    labels = volume.labels or {}
    return name in labels and (not equals or labels[name] == value)


def _label(_volumes: Volumes, values: tuple[str, ...]) -> Match:
    return lambda volume: all(_has(volume, value) for value in values)


def _no_label(_volumes: Volumes, values: tuple[str, ...]) -> Match:
    return lambda volume: not any(_has(volume, value) for value in values)


def _any(_volumes: Volumes, _values: tuple[str, ...]) -> Match:
    return lambda _volume: True


_FILTERS = {"dangling": _dangling, "driver": _driver, "label": _label, "name": _name}
_PRUNE_FILTERS = {"all": _any, "label": _label, "label!": _no_label}
