"""Asks systemd to make, change and end units, such as the scopes of containers.

Runs in the API's threads, which wait here; nothing is shared, so there is no lock. Each request has a connection of its
own (`busline`): to systemd's own socket, which root may use and no other program has to run for, or else to the bus.
systemd closes its connections when it executes itself anew (`systemctl daemon-reexec`), and answers nobody while it
reads its files anew (`daemon-reload`), so a request is made again until its time is over. The interface is described in
org.freedesktop.systemd1(5).
"""

import os
import time
from collections.abc import Callable, Sequence

from engine.daemon.runtime.busline import Disconnected, Line, Refused, Silent
from engine.errors import SystemFailure
from engine.protocols.dbus import Variant
from engine.settings import whose

SECONDS = 30.0
"""The most seconds that one request takes."""
PRIVATE = "/run/systemd/private"
BUS = "/run/dbus/system_bus_socket"

_NAME = "org.freedesktop.systemd1"
_PATH = "/org/freedesktop/systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_DBUS = ("/org/freedesktop/DBus", "org.freedesktop.DBus")
_EXISTS = "org.freedesktop.systemd1.UnitExists"
# What the bus says in the manager's place, while that executes itself anew.
_AWAY = frozenset(f"org.freedesktop.DBus.Error.{name}" for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply"))
_ASK_SECONDS = 0.5  # after which systemd is asked whether it still knows a unit that is not there yet
_SHORTEST, _LONGEST = 0.002, 0.1
_PAUSE = 0.001

Property = tuple[str, str, object]
"""A property of a unit: its name, its D-Bus type, its value."""


class Units:
    """systemd's manager, of the system or of a user.

    private: the path of the manager's own socket; bus: that of the bus, for when the first cannot be reached
    seconds: the most that one request takes
    """

    def __init__(self, private: str = PRIVATE, bus: str = BUS, seconds: float = SECONDS) -> None:
        """Connect to nothing yet."""
        self._private, self._bus = private, bus
        self._seconds = seconds

    def start(self, unit: str, properties: Sequence[Property], there: Callable[[], bool]) -> None:
        """Have systemd begin to make a unit; `wait` returns when it has.

        there: whether it is as it is to be. A unit of this name that is not is a leftover, and is ended first. Raises
            SystemFailure.
        """
        shown = _shown(properties)

        def ask(request: _Request) -> None:
            try:
                request.call("StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "replace", shown, [])
            except Refused as refusal:
                if refusal.name != _EXISTS:
                    raise
                if there():  # made by a request whose answer was lost
                    return
                request.end(unit)
                raise _Again from refusal

        self._request(f"start {unit}", ask)

    def wait(self, unit: str, there: Callable[[], bool]) -> None:
        """Return when a unit whose making has begun is there. Raises SystemFailure.

        The unit itself is looked for. To hear systemd's signal that the job has ended is to hear of all units, and a
        signal may be lost.
        """
        latest = time.monotonic() + self._seconds
        while not _in_time(there):
            # If the job has failed, systemd has forgotten the unit, and refuses this.
            self._request(f"start {unit}", lambda request: request.call("GetUnit", "s", unit))
            if time.monotonic() > latest:
                raise SystemFailure(f"systemd could not start {unit} in {self._seconds:.0f} seconds")

    def change(self, unit: str, properties: Sequence[Property]) -> None:
        """Change properties of a unit until the next boot. Raises SystemFailure."""
        shown = _shown(properties)
        self._request(f"change {unit}", lambda request: request.call("SetUnitProperties", "sba(sv)", unit, True, shown))

    def end(self, unit: str) -> None:
        """Have a unit stopped and forgotten; one that does not exist is fine. Raises SystemFailure."""
        self._request(f"stop {unit}", lambda request: request.end(unit))

    def state(self) -> str:
        """What systemd does with the host: `running`, `stopping`, ... (SystemState). Raises SystemFailure."""
        found: list[object] = []
        self._request("tell its state", lambda request: found.append(request.read("SystemState")))
        return str(found[-1])

    def control_group(self) -> str:
        """The cgroup below which the manager has its slices: `/` for the host's own. Raises SystemFailure."""
        found: list[object] = []
        self._request("tell its cgroup", lambda request: found.append(request.read("ControlGroup")))
        return str(found[-1]) or "/"

    def _request(self, what: str, ask: Callable[["_Request"], object]) -> None:
        latest = time.monotonic() + self._seconds
        pause = _SHORTEST
        why: BaseException | None = None  # the last attempt failed
        while True:
            try:
                with _Request(self._private, self._bus, latest) as request:
                    ask(request)
                return
            except (Disconnected, _Again) as error:
                why = error.__cause__ if isinstance(error, _Again) else error
                if time.monotonic() + pause > latest:
                    raise SystemFailure(f"systemd could not {what}: {why}") from error
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)
            except Silent as error:  # perhaps only because no time was left for this attempt
                raise SystemFailure(f"systemd could not {what}: {why or error}") from error
            except SystemFailure as error:
                raise SystemFailure(f"systemd could not {what}: {error}") from error


def ours() -> Units:
    """The manager of whose daemon this process is: the host's, or that of a user.

    Raises SystemFailure at once for a user who has none, such as one of a `su` or of a cron job: none is about to come.
    """
    uid = whose.owner(os.environ, os.geteuid())
    if not uid:
        return Units()
    runtime = whose.of(uid, os.environ).runtime
    private, bus = f"{runtime}/systemd/private", f"{runtime}/bus"
    if not os.path.exists(private) and not os.path.exists(bus):
        raise SystemFailure("no systemd of this user's own runs: a login starts it, or `loginctl enable-linger`")
    return Units(private, bus)


def _in_time(there: Callable[[], bool]) -> bool:
    latest = time.monotonic() + _ASK_SECONDS
    while not there():
        if time.monotonic() > latest:
            return False
        time.sleep(_PAUSE)
    return True


class _Again(Exception):
    """The request is to be made once more."""


def _shown(properties: Sequence[Property]) -> list[tuple[str, Variant]]:
    return [(name, Variant(kind, value)) for name, kind, value in properties]


class _Request:
    """One connection to the manager; a context manager."""

    def __init__(self, private: str, bus: str, latest: float) -> None:
        try:
            self._line = Line(private, _NAME, latest)
            self._by_bus = False
        except Disconnected:
            self._line = Line(bus, _NAME, latest)
            self._by_bus = True

    def __enter__(self) -> "_Request":
        if self._by_bus:
            try:
                self._line.call(*_DBUS, "Hello", destination=_DBUS[1])
            except BaseException:
                self._line.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._line.__exit__()

    def call(self, member: str, signature: str = "", *values: object) -> tuple[object, ...]:
        try:
            return self._line.call(_PATH, _MANAGER, member, signature, *values)
        except Refused as refusal:
            if refusal.name in _AWAY:
                raise _Again from refusal
            raise

    def read(self, name: str) -> object:
        """A property of the manager."""
        (value,) = self._line.call(_PATH, _PROPERTIES, "Get", "ss", _MANAGER, name)
        return value.value if isinstance(value, Variant) else value

    def end(self, unit: str) -> None:
        for member, signature, values in (("StopUnit", "ss", (unit, "replace")), ("ResetFailedUnit", "s", (unit,))):
            try:
                self.call(member, signature, *values)
            except Refused:  # it is not loaded (any more), which is what was wanted
                continue
