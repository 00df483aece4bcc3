"""Draws who ran when as an SVG: one lane a task, one bar each time that it was on a processor. Pure: returns text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.drawing import MARGIN, STYLE, text
from bench.switches import Turn

LANE = 20
LABEL = 190
LENGTH = 900
HEAD = 108
STEPS_APART = 13  # names of steps that follow each other stand on two lines, since a step may be short
SHARE = 64


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of the picture: its name, its turns, and its kind (`ours`, `peer` or `floor`, as in `drawing`)."""

    name: str
    turns: Sequence[Turn]
    kind: str

    def busy(self, first: float, last: float) -> float:
        """The seconds on a processor within these times."""
        return sum(max(0.0, min(turn.last, last) - max(turn.first, first)) for turn in self.turns)


def svg(title: str, faint: str, lanes: Sequence[Lane], marks: Sequence[tuple[str, float]]) -> str:
    """The whole picture as text. marks: name and beginning of each step; the last one's name is empty: the end."""
    first, last = marks[0][1], marks[-1][1]
    width = 2 * MARGIN + LABEL + LENGTH + SHARE
    bottom = HEAD + LANE * len(lanes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 50}" width="{width}"'
        f' height="{bottom + 50}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{width}" height="{bottom + 50}"/>',
        text(MARGIN, 36, title, "heading"),
        text(MARGIN, 58, faint, "faint"),
        *_steps(marks, bottom),
    ]
    for row, lane in enumerate(lanes):
        parts += _lane(lane, HEAD + LANE * row, first, last)
    note = "milliseconds; one bar each time that a task was on a processor, and at the right the sum of its bars"
    return "\n".join([*parts, text(MARGIN, bottom + 30, note, "faint"), "</svg>", ""])


def _place(moment: float, first: float, last: float) -> float:
    return MARGIN + LABEL + LENGTH * (moment - first) / (last - first)


def _steps(marks: Sequence[tuple[str, float]], bottom: float) -> Iterator[str]:
    first, last = marks[0][1], marks[-1][1]
    for number, (name, moment) in enumerate(marks):
        x, y = _place(moment, first, last), HEAD - 6 - STEPS_APART * (number % 2)
        yield f'<rect class="bar-floor" x="{x:.1f}" y="{y - 10}" width="1" height="{bottom - y + 10}"/>'
        yield text(x + 3, y, f"{name} {(moment - first) * 1e3:.2f}".strip(), "faint")


def _lane(lane: Lane, top: float, first: float, last: float) -> Iterator[str]:
    middle = top + LANE / 2
    yield text(MARGIN + LABEL - 8, middle + 4, lane.name, "ours" if lane.kind == "ours" else "", "end")
    for turn in lane.turns:
        begin, end = max(turn.first, first), min(turn.last, last)
        if end > begin:
            x = _place(begin, first, last)
            long = max(0.5, _place(end, first, last) - x)
            place = f'x="{x:.2f}" y="{middle - 6}" width="{long:.2f}" height="12"'
            yield f'<rect class="bar-{lane.kind}" {place}/>'
    yield text(MARGIN + LABEL + LENGTH + 8, middle + 4, f"{lane.busy(first, last) * 1e3:.2f}", "faint")
