"""Tells the versions of the engine, of its API and of the kernel, for GET /version.

Runs in a request's thread. Many clients ask this first, and few ask for the rest of `info`.
"""

import os
import sys

from engine.daemon.images import platform
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.settings.advertised import VERSION
from engine.settings.every import Settings


@timed("host_info_functions", "system_version")
def version(newest: str, oldest: str, settings: Settings) -> Object:
    """The API's SystemVersion; `newest` and `oldest` are the API versions that the daemon speaks."""
    system = os.uname()
    architecture = platform.host().architecture
    # The component that is not docker's comes first; clients find docker's by its name, `Engine`.
    own = {"Name": "engine", "Version": VERSION, "Details": {"PythonVersion": sys.version.partition(" ")[0]}}
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
    }
    return {
        "Platform": {"Name": ""},
        "Version": settings.report_version,
        "ApiVersion": newest,
        "MinAPIVersion": oldest,
        "Os": "linux",
        "Arch": architecture,
        "Components": [own, {"Name": "Engine", "Version": settings.report_version, "Details": details}],
        "GitCommit": "",
        "GoVersion": "",
        "KernelVersion": system.release,
        "BuildTime": "",
    }
