"""Where a container's output goes: what a log driver makes of a container's options, and what a monitor opens.

Pure data. A `LogTarget` travels in `engine.wire.schema.Start`; a field is only ever added to it with a default.
"""

from engine.dataclass import dataclass

Config = dict[str, str]
"""The options of one container's LogConfig, by name."""

FRAMES, LINES, PLUGIN, NOTHING = "frames", "lines", "plugin", ""
"""What a reader of a log finds: frames (`engine.logs.format`), lines of JSON (`engine.logs.jsonlines`), a plugin that
tells of its lines, or no log.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The host paths for one container's log: its own directory, the directory for a log of frames, and the directory
    that lasts as long as the run.
    """

    home: str
    log: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class Forward:
    """Who else is sent each line: the driver's name and what its `Sender` is made from.

    most: bytes of lines that may wait for it, further lines are dropped; 0: the container waits
    """

    driver: str
    values: tuple[tuple[str, str], ...]
    most: int = 0


@dataclass(frozen=True, slots=True)
class LogTarget:
    """Where a container's output is kept: `directory` (empty: nowhere), bytes a segment, number of segments.

    file: of a log of JSON lines, its name in the directory; empty: the log is one of frames
    attributes: of a log of JSON lines, what stands in each line; compress: whether its rotated files are compressed
    forward: who else is sent each line; None: nobody
    """

    directory: str
    max_size: int = 0
    max_files: int = 1
    file: str = ""
    attributes: bytes = b""
    compress: bool = False
    forward: Forward | None = None
