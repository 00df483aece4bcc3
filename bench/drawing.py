"""Draws the table of a run as an SVG: one panel a case, one bar a column, ours in a colour of its own. Pure: returns
text.

The bars of a panel share one scale, from zero to the longest; beside the unit stands which end is better. The colours
follow the reader's light or dark setting.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from bench.cases import OURS, Case
from bench.results import Results
from bench.table import number, ratio

COLUMNS = 3
PANEL_WIDTH = 368
GAP = 20
MARGIN = 28
HEAD = 78
TITLE = 42
BAR = 22
LABEL = 104
VALUE = 86
LENGTH = PANEL_WIDTH - LABEL - VALUE

STYLE = """
text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #24292f }
.page { fill: #ffffff } .panel { fill: #f6f8fa; stroke: #d8dee4 }
.heading { font-size: 20px; font-weight: 600 } .title { font-size: 12.5px; font-weight: 600 }
.faint { fill: #656d76; font-size: 11px } .ours { font-weight: 600 }
.bar-ours { fill: #1a7f64 } .bar-peer { fill: #8da4c0 } .bar-floor { fill: #d3c08a }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #8d96a0 }
.page { fill: #0d1117 } .panel { fill: #161b22; stroke: #30363d }
.bar-ours { fill: #3fb68b } .bar-peer { fill: #566b87 } .bar-floor { fill: #8a7b4c }
}
""".strip()


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: the texts left and right of it, its length (0 to 1), and its kind (`ours`, `peer` or `floor`)."""

    label: str
    value: str
    share: float
    kind: str


def bars(results: Results, case: Case) -> list[Bar]:
    """The bars of a case: ours, the peers, the floors; a column without a figure has no bar."""
    kinds = {name: "ours" if name == OURS else "peer" for name in (OURS, *results.engines)}
    kinds |= dict.fromkeys(results.references, "floor")
    found = {name: figure for name in kinds if (figure := results.find(case.key, name)) is not None}
    longest = max(figure.value for figure in found.values()) or 1.0
    return [
        Bar(name, number(figure.value) + _behind(results, case, name), figure.value / longest, kinds[name])
        for name, figure in found.items()
    ]


def _behind(results: Results, case: Case, name: str) -> str:
    return "" if name == OURS else ratio(results.advantage(case.key, name))


def svg(results: Results) -> str:
    """The whole picture as text."""
    panels = {case: bars(results, case) for case in results.cases()}
    cases = list(panels)
    lines = [cases[first : first + COLUMNS] for first in range(0, len(cases), COLUMNS)]
    heights = [TITLE + BAR * max(len(panels[case]) for case in line) + 12 for line in lines]
    width = 2 * MARGIN + COLUMNS * PANEL_WIDTH + (COLUMNS - 1) * GAP
    height = HEAD + sum(heights) + GAP * len(heights) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        *_head(results),
    ]
    top = HEAD
    for line, tall in zip(lines, heights, strict=True):
        for column, case in enumerate(line):
            left = MARGIN + column * (PANEL_WIDTH + GAP)
            parts += _panel(left, top, tall, case, panels[case])
        top += tall + GAP
    note = "(nx): how many times better the engine is than that bar's owner; medians of one run"
    return "\n".join([*parts, text(MARGIN, height - MARGIN / 2 - 4, note, "faint"), "</svg>", ""])


def _head(results: Results) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}".strip() for name, version in results.engines.items())
    yield text(MARGIN, 36, "The engine and its peers", "heading")
    yield text(MARGIN, 58, f"{results.date} · {', '.join(results.machine.values())} · {versions}", "faint")


def _panel(left: float, top: float, height: float, case: Case, its_bars: list[Bar]) -> Iterator[str]:
    yield f'<rect class="panel" x="{left}" y="{top}" width="{PANEL_WIDTH}" height="{height}" rx="6"/>'
    yield text(left + 12, top + 19, case.title, "title")
    yield text(left + 12, top + 34, f"{case.unit}, {'less' if case.less else 'more'} is better", "faint")
    for row, bar in enumerate(its_bars):
        middle = top + TITLE + BAR * row + BAR / 2
        long = max(1.5, bar.share * LENGTH)
        weight = "ours" if bar.kind == "ours" else ""
        yield text(left + LABEL - 6, middle + 4, bar.label, weight, "end")
        place = f'x="{left + LABEL}" y="{middle - 7}" width="{long:.1f}" height="14" rx="2"'
        yield f'<rect class="bar-{bar.kind}" {place}/>'
        yield text(left + LABEL + long + 6, middle + 4, bar.value, weight)


def text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
