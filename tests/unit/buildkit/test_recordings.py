"""The recorded conversations: this engine's HTTP/2, gRPC and tables read all of what was said, and write it again."""

from collections import Counter

import pytest

from engine.daemon.buildkit import methods
from engine.protocols import grpc, protobuf
from tests.unit.buildkit import recorded

CONNECTIONS = dict(recorded.connections())
# Nobody answers these: they are what a client reports of itself.
UNKNOWN = {"/opentelemetry.proto.collector.trace.v1.TraceService/Export"}


@pytest.mark.parametrize("name", CONNECTIONS)
def test_every_message_is_read_and_written_as_it_was(name: str) -> None:
    for call in recorded.calls(CONNECTIONS[name]):
        if call.path in UNKNOWN:
            continue
        asked, answer = methods.TABLES[call.path]
        for table, data in (*((asked, each) for each in call.asked), *((answer, each) for each in call.answered)):
            read = protobuf.decode(table, data)
            written = protobuf.encode(table, read)
            assert (len(written), protobuf.decode(table, written)) == (len(data), read), f"{call.path}: {read}"


def test_all_that_was_said_was_looked_at() -> None:
    calls = [call for pieces in CONNECTIONS.values() for call in recorded.calls(pieces)]
    count = Counter(call.path.rsplit("/", 1)[1] for call in calls)
    assert {"Solve", "Status", "ListWorkers", "DiffCopy", "Ping", "Return", "GetSecret", "Check"} <= set(count)
    assert sum(len(call.asked) + len(call.answered) for call in calls) > 450
    assert {call.status.code for call in calls if call.status} >= {grpc.OK, grpc.UNKNOWN}
