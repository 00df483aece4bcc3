"""The answer to `frontend.targets` (docker buildx build --call=targets): the stages of a Dockerfile.

Pure. The form is BuildKit's (frontend/subrequests/targets).
"""

from engine.daemon.buildkit.subrequests.columns import columns
from engine.daemon.buildkit.subrequests.descriptions import described
from engine.daemon.buildkit.subrequests.excerpts import ranges
from engine.daemon.buildkit.subrequests.source import Answer, Source, dumped
from engine.daemon.dockerfile import commands, instructions, parser
from engine.daemon.jsontext import Object

VERSION = "1.0.0"


def report(source: Source) -> Answer:
    """The answer. Raises Misplaced."""
    dockerfile = parser.parse(source.data, source.name)
    found = [one for one in dockerfile.instructions if one.keyword == "FROM"]
    targets: list[Object] = []
    rows = [("TARGET", "DESCRIPTION")]
    for one in found:
        opening = instructions.read(one)
        assert isinstance(opening, commands.From)  # as the keyword says
        last = one is found[-1]
        description = described(one.comments, opening.name)
        told: Object = {
            "name": opening.name,
            "default": last,
            "description": description,
            "base": opening.image,
            "platform": opening.platform,
            "location": {"ranges": ranges(one.line, one.last_line)},
        }
        targets.append({key: value for key, value in told.items() if value})
        rows.append((" ".join(filter(None, (opening.name, "(default)" if last else ""))), description))
    return {
        "result.json": dumped({"targets": targets, "sources": [source.encoded]}),
        "result.txt": columns(rows, 1).encode("utf-8", "replace"),
        "version": VERSION.encode(),
    }
