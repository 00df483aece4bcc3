"""Tells the versions of the engine, of its API and of the kernel, for GET /version.

Runs in a request's thread. Many clients ask this first, and few ask for the rest of `info`.
"""

import os
import sys

from engine.daemon.images import platform
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.settings.every import VERSION, Settings


@timed("host_info_functions", "system_version")
def version(newest: str, oldest: str, settings: Settings) -> Object:
    """The API's SystemVersion; `newest` and `oldest` are the API versions that the daemon speaks."""
    system = os.uname()
    architecture = platform.host().architecture
    details = {
        "ApiVersion": newest,
        "Arch": architecture,
        "BuildTime": "",
        "Experimental": "true" if settings.experimental else "false",
        "GitCommit": "",
        "GoVersion": "",
        "KernelVersion": system.release,
        "MinAPIVersion": oldest,
        "Os": "linux",
        "PythonVersion": sys.version.partition(" ")[0],
    }
    return {
        "Platform": {"Name": ""},
        "Version": VERSION,
        "ApiVersion": newest,
        "MinAPIVersion": oldest,
        "Os": "linux",
        "Arch": architecture,
        "Components": [{"Name": "Engine", "Version": VERSION, "Details": details}],
        "GitCommit": "",
        "GoVersion": "",
        "KernelVersion": system.release,
        "BuildTime": "",
    }
