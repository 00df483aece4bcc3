"""Opens the log that a log target names, for writing.

Run by the daemon, which hands the open log to a monitor in C, and by a launcher in Python.
"""

from engine.logs.jsonwriter import JsonWriter
from engine.logs.openlog import OpenLog
from engine.logs.target import LogTarget
from engine.logs.writer import Writer

REFUSED = "failed to create task for container: failed to initialize logging driver: "
"""docker's words before the reason for which a log cannot be had."""
NOT_TRIED = 128
"""The status of a command that was never tried."""


def open_log(target: LogTarget) -> OpenLog | None:
    """Open the container's log for writing; None when it has no log. Raises OSError."""
    if not target.directory:
        return None
    if not target.file:
        return Writer(target.directory, target.max_size, target.max_files)
    limits = (target.max_size, target.max_files)
    return JsonWriter(target.directory, target.file, *limits, target.attributes, target.compress)
