"""The transcript's calls, sent to a daemon in their order with the ids of one side put in place of the other's.

Run by the test process. Between the calls it waits for what the recording waited for with a sleep.
"""

import json
import lzma
import re
import time
from pathlib import Path
from typing import NamedTuple

from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.http import Answer

TRANSCRIPT = Path(__file__).resolve().parents[1] / "data" / "engine-transcript-1.54.jsonl.xz"
IDENTIFIER = re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b")
_BUILT = 'FROM busybox\nARG X=1\nENV Y=$X\nCOPY a.txt /a\nRUN echo built && echo warn >&2\nCMD ["cat","/a"]\n'
DOCKERFILES = {
    239: _BUILT,
    240: _BUILT,
    241: "FROM busybox\nRUN exit 3\n",
    242: "FRM busybox\n",
    243: "",
    244: "FROM busybox\nCOPY nope /x\n",
    245: "FROM busybox\n",
}
# Bodies that the transcript shows only the start of.
RAW_BODIES = {
    **dict.fromkeys((194, 195, 196, 236), rootfs.archive([("f", 0o644, b"hi")])),
    **{
        number: rootfs.archive([("Dockerfile", 0o644, text.encode()), ("a.txt", 0o644, b"A")])
        for number, text in DOCKERFILES.items()
    },
}
# Asks for the events of the recording's time; ours are those of the replay's.
EVENTS = 308
# Calls that the recording's client gave up on: only the head of the answer is read.
ENDLESS = {135}


class Call(NamedTuple):
    """One call and what dockerd answered: `body` decoded where it was JSON."""

    number: int
    note: str
    method: str
    path: str
    body: object
    headers: dict[str, str]
    status: int
    answered: dict[str, str]
    wanted: object


def calls() -> list[Call]:
    """The calls of the transcript."""
    found = []
    for line in lzma.decompress(TRANSCRIPT.read_bytes()).decode().splitlines():
        entry = json.loads(line)
        request, response = entry["request"], entry["response"]
        body = request.get("body", request["raw"].encode("latin-1") if "raw" in request else None)
        found.append(
            Call(
                entry["n"],
                entry["note"],
                request["method"],
                request["path"],
                RAW_BODIES.get(entry["n"], body),
                request.get("headers", {}),
                response["status"],
                {name.lower(): value for name, value in response["headers"].items()},
                response["body"],
            )
        )
    return found


class Replay:
    """Sends the calls and keeps which id of the recording is which of ours."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.ours: dict[str, str] = {}
        self.began = time.time()

    def translated(self, text: str) -> str:
        """Text of the recording with our ids in it."""
        return IDENTIFIER.sub(lambda match: self.ours.get(match[0], match[0]), text)

    def send(self, call: Call) -> Answer:
        """Our answer to one call."""
        path = self.translated(call.path)
        if call.number == EVENTS:
            path = f"/v1.54/events?since={self.began:.6f}&until={time.time():.6f}"
        self.settle(call, path)
        body = call.body
        if isinstance(body, dict):
            body = json.loads(self.translated(json.dumps(body)))
        with self.daemon.connection(timeout=60) as connection:
            connection.send_request(call.method, path, body, call.headers)
            if call.number in ENDLESS:
                return Answer(*connection.read_head(), b"")
            answer = connection.read_answer(call.method)
        self.learn(call, answer)
        return answer

    def learn(self, call: Call, answer: Answer) -> None:
        """Note that two ids, the recording's and ours, name the same container."""
        if isinstance(call.wanted, dict) and "Id" in call.wanted and call.status == answer.status == 201:
            theirs, mine = call.wanted["Id"], answer.json()["Id"]
            self.ours.update({theirs: mine, theirs[:12]: mine[:12]})

    def settle(self, call: Call, path: str) -> None:
        """Wait for the end of a container whose state after its start is asked for, or of a probe before a pause."""
        pause = path.endswith("/pause")
        if not (pause or call.note.startswith("inspect after")):
            return
        end = time.monotonic() + 60
        while time.monotonic() < end:
            answer = self.daemon.request("GET", f"{path.removesuffix('/pause')}/json" if pause else path, checked=False)
            if answer.status != 200 or not (answer.json()["ExecIDs"] if pause else answer.json()["State"]["Running"]):
                return
            time.sleep(0.02)  # the recording slept; there is no event that both sides would send
