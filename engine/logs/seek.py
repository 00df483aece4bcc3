"""Finds the record at which the reading of a log must begin for `tail` and `since`.

Run by a thread of the daemon; reads segments, keeps nothing. Tests compare `_muxer/log/seek.c` with it.

The streams are interleaved and lines are sent in the order in which they end, so a place is not one number but one for
each stream: a line of stdout may begin long before the last line of stderr and still end after it.
"""

from engine.dataclass import dataclass
from engine.logs import format
from engine.logs.query import Query
from engine.logs.segment import Segment


@dataclass(slots=True)
class Start:
    """Where to begin: in `segments[segment]` at record `record`.

    skip: by stream, the (record, byte within its payload) before which nothing of the stream is used
    middle: streams that are in the middle of an unwanted line at `record`
    """

    segment: int
    record: int
    skip: dict[int, tuple[int, int]]
    middle: frozenset[int] = frozenset()


def start(segments: list[Segment], query: Query, following: bool) -> Start:
    """The place to begin at. With `following`, an unfinished last line is no line yet, so tail does not count it."""
    begin = _tail(segments, query, max(query.tail, 0), following) if query.tail is not None else Start(0, 0, {})
    return _since(segments, query, begin) if query.first_ns else begin


def _look(segment: Segment) -> Segment:
    """The segment, which is opened if it is not open. The torn records at its end are left out, so that its last one is
    valid. A segment that is gone has none.
    """
    if not segment.is_open and segment.open():
        segment.trim()
    return segment


def _tail(segments: list[Segment], query: Query, left: int, following: bool) -> Start:
    """Counts ends of lines from the back until one too many is found; the reading begins just after that end."""
    for place in range(len(segments) - 1, -1, -1):
        segment = _look(segments[place])
        if place < len(segments) - 1 or not following:
            # The end of a segment ends the lines in progress, stdout's first; counted backwards, stderr's first.
            for stream in sorted(query.streams, reverse=True):
                if _open_at(segment, segment.count, stream):
                    if left == 0:
                        return _after(segment, place, query, stream, segment.count, 0)
                    left -= 1
        for number in range(segment.count - 1, -1, -1):
            record = segment.record(number)
            if record is None or record.stream not in query.streams:
                continue
            payload = segment.payload(record)
            ends = payload.count(b"\n")
            if ends <= left:
                left -= ends
                continue
            byte = len(payload)
            for _ in range(left + 1):
                byte = payload.rindex(b"\n", 0, byte)
            return _after(segment, place, query, record.stream, number, byte + 1)
    return Start(0, 0, {})


def _after(segment: Segment, place: int, query: Query, stream: int, number: int, byte: int) -> Start:
    """The start just after the end of a line of `stream` at byte `byte` of record `number`.

    A number equal to `count` is the end of the segment, where only a stream with a higher number still ends a line.
    """
    skip = {stream: (number, byte)}
    for other in query.streams - {stream}:
        if number == segment.count and other < stream:
            skip[other] = (segment.count, 0)
        else:
            skip[other] = _line_start(segment, number, other)
    return Start(place, min(skip.values())[0], skip)


def _line_start(segment: Segment, before: int, stream: int) -> tuple[int, int]:
    """Where the line of `stream` that is in progress, or comes next, at record `before` begins."""
    if not _open_at(segment, before, stream):
        return before, 0
    for number in range(before - 1, -1, -1):
        record = segment.record(number)
        if record and record.stream == stream:
            end = segment.payload(record).rfind(b"\n") + 1
            if end:
                return number, end
    return 0, 0


def _open_at(segment: Segment, before: int, stream: int) -> bool:
    """True when `stream` is in the middle of a line at record `before`."""
    for number in range(before - 1, -1, -1):
        record = segment.record(number)
        if record:
            return bool(record.open_lines & format.line_bit(stream))
    return False


def _segment_since(segments: list[Segment], low: int, first_ns: int) -> int:
    """The place of the first segment, from `low` on, with which the query begins; else of the last segment.

    A binary search finds it, since the latest time so far never steps back, and opens few of many segments.
    """
    found = high = len(segments) - 1
    while low < high:
        middle = (low + high) // 2
        probe = next((place for place in range(middle, high) if _look(segments[place]).count), high)
        if probe < high and segments[probe].latest_ns < first_ns:
            low = probe + 1
        else:
            found = probe if probe < high else found
            high = middle
    return found


def _since(segments: list[Segment], query: Query, begin: Start) -> Start:
    """Moves `begin` on to the first record that is not older than the query, by binary search; in a segment where times
    have stepped back, to its beginning.
    """
    if begin.segment >= len(segments):
        return begin
    place = _segment_since(segments, begin.segment, query.first_ns)
    segment = _look(segments[place])
    low, high = 0, segment.count if segment.in_order else 0
    while low < high:
        probe = middle = (low + high) // 2
        while probe > low and segment.time_ns(probe) == 0:
            probe -= 1  # past damaged ones
        if segment.time_ns(probe) < query.first_ns:
            low = middle + 1
        else:
            high = probe
    skip = begin.skip if place == begin.segment else {}
    if place == begin.segment and low <= begin.record:
        return begin
    # A stream whose tail begins at or after this record begins with a line; any other stream may be within an older
    # line.
    streams = (stream for stream in query.streams if skip.get(stream, (0, 0)) < (low, 0))
    return Start(place, low, skip, frozenset(stream for stream in streams if _open_at(segment, low, stream)))
