"""The client's verbs about the engine itself: `engine version` and `engine info`.

Runs in the client's one thread.
"""

import platform
from collections.abc import Sequence

from engine.annotating import Any
from engine.client.api import Api
from engine.client.display import binary_size
from engine.client.showing.listings import SHOW_FORMAT, shown
from engine.client.transport import Object
from engine.commandline import Given, given_text
from engine.settings.advertised import VERSION

SHOW_OPTIONS = (SHOW_FORMAT,)
_DAEMON_FACTS = ("Version", "ApiVersion", "MinAPIVersion", "Os", "Arch", "KernelVersion")

# Each line of `info`: how far in, what it is called, and the path of its value in the answer.
_LINES = (
    (1, "Containers", "Containers"),
    (2, "Running", "ContainersRunning"),
    (2, "Paused", "ContainersPaused"),
    (2, "Stopped", "ContainersStopped"),
    (1, "Images", "Images"),
    (1, "Server Version", "ServerVersion"),
    (1, "Storage Driver", "Driver"),
    (1, "Logging Driver", "LoggingDriver"),
    (1, "Cgroup Driver", "CgroupDriver"),
    (1, "Cgroup Version", "CgroupVersion"),
    (1, "Volume Plugins", "Plugins.Volume"),
    (1, "Network Plugins", "Plugins.Network"),
    (1, "Log Plugins", "Plugins.Log"),
    (1, "Runtimes", "Runtimes"),
    (1, "Default Runtime", "DefaultRuntime"),
    (1, "Init Binary", "InitBinary"),
    (1, "Security Options", "SecurityOptions"),
    (1, "Kernel Version", "KernelVersion"),
    (1, "Operating System", "OperatingSystem"),
    (1, "OSType", "OSType"),
    (1, "Architecture", "Architecture"),
    (1, "CPUs", "NCPU"),
    (1, "Total Memory", "MemTotal"),
    (1, "Name", "Name"),
    (1, "ID", "ID"),
    (1, "Root Dir", "DockerRootDir"),
    (1, "Debug Mode", "Debug"),
    (1, "Labels", "Labels"),
    (1, "Experimental", "ExperimentalBuild"),
    (1, "Insecure Registries", "RegistryConfig.InsecureRegistryCIDRs"),
    (1, "Registry Mirrors", "RegistryConfig.Mirrors"),
    (1, "Live Restore Enabled", "LiveRestoreEnabled"),
)


def version_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine version`: the versions of the client, then those of the daemon. Raises Invalid, ApiError."""
    form = given_text(given, "format")
    client = {"Version": VERSION, "Python": platform.python_version()}
    if not form:
        print("Client:\n" + "\n".join(f"  {name:<15}{value}" for name, value in client.items()), flush=True)
    found: Object = api.call("GET", "/version")
    if form:
        print(shown({"Client": client, "Server": found}, form))
        return 0
    print("Daemon:")
    # A daemon of this engine tells its own version in a component, beside that of docker which it stands for.
    own = [each["Version"] for each in found.get("Components") or () if each["Name"] == "engine"]
    print(*(f"  {'Engine':<15}{version}\n" for version in own), sep="", end="")
    for name in _DAEMON_FACTS:
        if name in found:
            print(f"  {name:<15}{found[name]}")
    return 0


def info_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine info`. Raises Invalid, ApiError."""
    found: Object = api.call("GET", "/info")
    if form := given_text(given, "format"):
        print(shown(found, form))
        return 0
    print("Server:")
    for depth, name, path in _LINES:
        value: Any = found
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value not in (None, "", [], {}):
            print(f"{' ' * depth}{name}: {binary_size(value) if name == 'Total Memory' else _text(value)}")
    for warning in found.get("Warnings") or ():
        print(f"WARNING: {warning}")
    return 0


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, list | dict) else str(value)


FUNCTIONS = {"version": (version_verb, SHOW_OPTIONS), "info": (info_verb, SHOW_OPTIONS)}
