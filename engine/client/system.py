"""The client's verb about the engine itself: `engine version`.

Runs in the client's one thread.
"""

import platform
from collections.abc import Sequence

from engine.client.api import Api
from engine.commandline import Given
from engine.settings.every import VERSION

_DAEMON_FACTS = ("Version", "ApiVersion", "MinAPIVersion", "Os", "Arch", "KernelVersion")


def version_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine version`: show the versions of the client, then those of the daemon."""
    print(f"Client:\n  {'Version':<15}{VERSION}\n  {'Python':<15}{platform.python_version()}")
    found = api.call("GET", "/version")
    print("Daemon:")
    for name in _DAEMON_FACTS:
        if name in found:
            print(f"  {name:<15}{found[name]}")
    return 0
