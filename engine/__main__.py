"""Entry point of the command `engine`: runs the daemon, the spawner, a verb of the client, or a tool for operators.

Runs first in every process that a user starts. It loads nothing before it knows which of these is asked for: a daemon
must be small and quick to start, and must never hold a module of the client.
"""

import gc
import os
import sys

from engine import origin
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # a daemon has nothing of the client in memory, and a client nothing of the daemon
    from engine import boot, errors, postponed
    from engine.bundle import main as bundling
    from engine.check import main as checking
    from engine.client import verbs
    from engine.daemon import poweroff
    from engine.inspection import verb
    from engine.kernel import sealing
    from engine.listen import main as listening
    from engine.migrate import main as migrating
    from engine.rootless import arrival
    from engine.settings import every, whose
    from engine.units import install
else:
    boot = late("engine.boot")
    errors = late("engine.errors")
    postponed = late("engine.postponed")
    bundling = late("engine.bundle.main")
    checking = late("engine.check.main")
    verbs = late("engine.client.verbs")
    poweroff = late("engine.daemon.poweroff")
    verb = late("engine.inspection.verb")
    sealing = late("engine.kernel.sealing")
    listening = late("engine.listen.main")
    migrating = late("engine.migrate.main")
    arrival = late("engine.rootless.arrival")
    every = late("engine.settings.every")
    whose = late("engine.settings.whose")
    install = late("engine.units.install")


def main(arguments: list[str] | None = None) -> int:
    """The command `engine`; returns the exit status of the process."""
    words = sys.argv[1:] if arguments is None else arguments
    if arguments is None and os.path.basename(sys.argv[0]) == "dockerd":
        return daemon()
    if words[:1] == ["daemon"]:
        return daemon(words[1:], seals=arguments is None)
    if words[:1] == ["power-off"]:
        return daemon(words[1:], seals=arguments is None, only_stops=True)
    if words[:1] == ["spawner"]:
        _seal()
        _stay_small()
        # a daemon executes this when its spawner has died; it is of no use to a user
        return boot.be_spawner(*words[1:])
    if words[:1] == ["inspect-processes"]:
        return verb.main(words[1:])
    if words[:1] == ["check"]:
        return checking.main(words[1:])
    if words[:1] == ["bundle"]:
        return bundling.main(words[1:])
    if words[:1] == ["install-units"]:
        return install.main(words[1:])
    if words[:1] == ["migrate"]:
        return migrating.main(words[1:])
    if words[:1] == ["listen"]:
        return listening.main(words[1:])
    return verbs.main(words)


def daemon(arguments: list[str] | None = None, seals: bool = True, only_stops: bool = False) -> int:
    """The command `engined`, which is `engine daemon`, and `dockerd`; returns the exit status of the process.

    only_stops: it is `engine power-off`, see `daemon.poweroff`
    seals: start the program anew from a read-only mount, and keep it small; False when `arguments` are not this
    process's own command line
    """
    words = sys.argv[1:] if arguments is None else arguments
    if seals:
        _seal()
        _stay_small()
    try:
        wish = every.asked(words)
        if wish == "validate":
            every.from_arguments(words)
            print("configuration OK", file=sys.stderr)
        elif wish:
            print((every.usage() if wish == "help" else every.version()).rstrip())
        if wish:
            return 0
        if arrival.needed():
            arrival.enter(words)
            if seals:
                origin.hand_on()
                _seal()
        chosen = every.from_arguments(words)
        if only_stops:
            stopping = poweroff.only_stopping(chosen)
            if stopping is None:
                return 0
            chosen = stopping
        return boot.boot(chosen, lambda: every.from_arguments(words))
    except errors.EngineError as error:
        name = whose.program()
        print(error if name == whose.DOCKERD else f"{name}: {error}", file=sys.stderr)
        return 1


def _seal() -> None:
    """Start the program anew from files that no process can write to, before modules are loaded that the new start
    would load again.
    """
    try:
        sealing.seal()
    except OSError as error:
        sys.exit(f"engine: {error}. Is /proc mounted (mount -t proc proc /proc)?")
    origin.keep_to_itself()


def _stay_small() -> None:
    """Postpone the import of modules that this process and its children may never need.

    What is imported lives long: until all is there (`daemon.main`, `spawner.main`) no garbage is looked for among it.
    """
    gc.disable()
    postponed.postpone(*postponed.IDLE)


if __name__ == "__main__":
    sys.exit(main())
