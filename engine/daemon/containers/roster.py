"""The list of all containers, which finds one by its id, a prefix of its id, or its name, and reserves names.

A daemon has one roster. Its threads share it under one lock, which is never held during slow work. It does not touch
the disk: `create` and `remove` keep the database in step with it.
"""

import bisect
import contextlib
from collections.abc import Callable, Iterable

from engine.daemon import locks
from engine.daemon.containers.kept import Kept
from engine.daemon.containers.record import Container
from engine.errors import Conflict, Invalid, NotFound
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for the first container without a name
    from engine.daemon.containers import naming
    from engine.daemon.jsontext import Object
else:
    naming = late("engine.daemon.containers.naming")

_ID_LENGTH = 64
_SUMMARIES_ROOM, _DETAILS_ROOM = 4 << 20, 1 << 20


class Roster:
    """The containers of a daemon.

    descriptors: (image id, manifest) → descriptor of the manifest, with its platform, as inspect shows it; kept here
        because a container outlives its image
    summaries, details: what listings and inspects have shown of containers
    """

    def __init__(
        self, containers: Iterable[Container] = (), descriptors: "dict[tuple[str, str], Object] | None" = None
    ) -> None:
        self.descriptors = descriptors or {}
        self._lock = locks.Lock("containers")
        self._by_id: dict[str, Container] = {}
        self._ids: list[str] = []
        self._names: dict[str, str] = {}
        self._in_making: dict[str, Container] = {}
        self.summaries = Kept(_SUMMARIES_ROOM, self.__contains__)
        self.details = Kept(_DETAILS_ROOM, self.__contains__)
        for container in containers:
            self._names[container.name] = container.id
            self.add(container)

    def __contains__(self, container_id: str) -> bool:
        """Whether there is a container with exactly this id."""
        return container_id in self._by_id

    def find(self, reference: str) -> Container:
        """The container with this id, name (with or without slash) or unique prefix of an id, or the one to which the
        legacy link of this name (`container/alias`) leads.

        Raises NotFound, and Invalid for a prefix of several ids.
        """
        with self._lock:
            found = self._by_id.get(reference)
            if found is None:
                found = self._by_id.get(self._names.get(reference.removeprefix("/"), ""))
            if found is None:
                found = self._by_link(reference) if "/" in reference[1:] else self._by_prefix(reference)
        if found is None:
            raise NotFound(f"No such container: {reference}")
        return found

    def glance(self, reference: str) -> tuple[str, str] | None:
        """(id, name) as `find` finds it, or None. It takes no lock, for a caller that must not wait for a thread."""
        found = self._by_id.get(reference) or self._by_id.get(self._names.get(reference, ""))
        if found is None:
            matches = [number for number in list(self._by_id) if reference and number.startswith(reference)]
            found = self._by_id.get(matches[0]) if len(matches) == 1 else None
        return (found.id, found.name) if found is not None else None

    def glance_all(self) -> list[Container]:
        """Every container, without taking a lock, for a caller that must not wait for any thread."""
        return list(self._by_id.values())

    def _by_link(self, reference: str) -> Container | None:
        of, _, alias = reference.removeprefix("/").partition("/")
        parent = self._by_id.get(self._names.get(of, ""))
        links = [each.partition(":") for each in parent.host_config["Links"] or ()] if parent is not None else ()
        return next((self._by_id.get(other) for other, _, name in links if name.strip("/") == alias.strip("/")), None)

    def _by_prefix(self, prefix: str) -> Container | None:
        if not prefix or len(prefix) >= _ID_LENGTH:
            return None
        first = bisect.bisect_left(self._ids, prefix)
        matches = [number for number in self._ids[first : first + 2] if number.startswith(prefix)]
        if len(matches) > 1:
            raise Invalid(f"multiple IDs found with provided prefix: {prefix}")
        return self._by_id[matches[0]] if matches else None

    def whole_id(self, prefix: str) -> str:
        """The only id that begins so; empty where none does, or several."""
        with self._lock, contextlib.suppress(Invalid):
            found = self._by_id.get(prefix) or self._by_prefix(prefix)
            return found.id if found is not None else ""
        return ""

    def all(self) -> list[Container]:
        """Every container, newest first."""
        with self._lock:
            containers = list(self._by_id.values())
        containers.sort(key=lambda container: container.created_ns, reverse=True)
        return containers

    def any(self, says: Callable[[Container], bool]) -> bool:
        """Whether the quick function `says` is true of any container. It is called under the roster's lock."""
        with self._lock:
            return any(map(says, self._by_id.values()))

    def using(self, image_id: str) -> list[Container]:
        """The containers that run this image or have it mounted, including those that are just being made."""
        with self._lock:
            containers = [*self._by_id.values(), *self._in_making.values()]
        return [container for container in containers if container.image_id == image_id or _mounts(container, image_id)]

    def reserve(self, container: Container, name: str | None) -> None:
        """Give a container that is being made its name (None: a random one). Raises Conflict when the name is taken.

        From here on the container holds its image. The caller must end this with `add` or with `release`.
        """
        with self._lock:
            if name is None:
                name = naming.generate(self._names.__contains__)
            holder = self._names.setdefault(name, container.id)
            if holder == container.id:
                container.name = name
                self._in_making[container.id] = container
                return
        raise _taken(name, holder)

    def release(self, container: Container) -> None:
        """Give up a container that was reserved and never added."""
        with self._lock:
            if self._in_making.pop(container.id, None) is not None:
                del self._names[container.name]

    def add(self, container: Container) -> None:
        """Make a container, whose name was reserved and which is in the database, visible to all callers."""
        with self._lock:
            self._in_making.pop(container.id, None)
            self._by_id[container.id] = container
            bisect.insort(self._ids, container.id)

    def take_name(self, container: Container, name: str) -> None:
        """Reserve a second name for a container.

        Raises Conflict when the name is taken, NotFound when the container is gone.
        """
        with self._lock:
            if container.id not in self._by_id:
                raise NotFound(f"No such container: {container.id}")
            holder = self._names.setdefault(name, container.id)
        if holder != container.id:
            raise _taken(name, holder)

    def free_name(self, container: Container, name: str) -> None:
        """Give up one of a container's names."""
        with self._lock:
            if self._names.get(name) == container.id:
                del self._names[name]

    def remove(self, container: Container) -> None:
        """Forget a container and free its name; do nothing when it has been forgotten already."""
        with self._lock:
            if self._by_id.pop(container.id, None) is None:
                return
            del self._ids[bisect.bisect_left(self._ids, container.id)]
            if self._names.get(container.name) == container.id:
                del self._names[container.name]
        self.summaries.drop(container.id)
        self.details.drop(container.id)


def _taken(name: str, holder: str) -> Conflict:
    return Conflict(
        f'Conflict. The container name "/{name}" is already in use by container "{holder}".'
        " You have to remove (or rename) that container to be able to reuse that name."
    )


def _mounts(container: Container, image_id: str) -> bool:
    return any(point["Spec"].get("Image") == image_id for point in container.mounts)
