"""Formats the tables of a run as text for a terminal or as Markdown: cases by engines, and how costs grow. Pure."""

from bench.cases import GROWTH, OURS, SIZES, Case
from bench.results import Results


def number(value: float) -> str:
    """A figure with its significant digits only: 0.056, 0.56, 5.62, 56.2, 562, 5620."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):.0f}"
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.2g}"


def ratio(advantage: float | None) -> str:
    """How many times better ours is, as text to stand behind a figure; empty when it is not known."""
    if advantage is None:
        return ""
    return f" ({advantage:.0f}x)" if advantage >= 10 else f" ({advantage:.2g}x)"


def rows(results: Results) -> list[list[str]]:
    """The cells, the heading first: the case, ours, the other engines, the floors, the goal."""
    others = [name for name in results.engines if name != OURS]
    heading = [name if name == OURS else f"{name} {results.engines[name]}" for name in (OURS, *others)]
    table = [["case", *heading, "near the limit", "goal"]]
    for case in results.cases():
        cells = [_cell(results, case, name) for name in (OURS, *others)]
        floors = [name for name in results.references if results.find(case.key, name)]
        near = ", ".join(f"{name} {_cell(results, case, name)}" for name in floors)
        table.append([f"{case.title} ({case.unit})", *cells, near, _goal(results, case)])
    return table


def _cell(results: Results, case: Case, engine: str) -> str:
    figure = results.find(case.key, engine)
    if figure is None:
        return "-"
    return number(figure.value) + ("" if engine == OURS else ratio(results.advantage(case.key, engine)))


def _goal(results: Results, case: Case) -> str:
    goal = results.goal(case.key)
    if goal is None:
        return ""
    limit, reached = goal
    return f"{'≤' if case.less else '≥'} {number(limit)} {'reached' if reached else 'missed'}"


def growth(results: Results) -> list[list[str]]:
    """The cells of the table of growth, the heading first; empty when nothing of it was measured."""
    measured = [row for row in GROWTH if row.key in results.growth]
    if not measured:
        return []
    table = [["so many", *map(str, SIZES)]]
    for row in measured:
        figures = results.growth[row.key]
        cells = [number(figures[str(size)]) if str(size) in figures else "-" for size in SIZES]
        table.append([f"{row.title} ({row.unit})", *cells])
    return table


def text(results: Results) -> str:
    """The tables in columns, then the steps of each flow and the failed measurements."""
    tables = [_in_columns(table) for table in (rows(results), growth(results)) if table]
    return "\n".join([*tables, *notes(results)])


def _in_columns(table: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join([*lines, ""])


def markdown(results: Results) -> str:
    """The tables for a README, with their date and machine above them."""
    parts = [f"{results.date}: {', '.join(results.machine.values())}."]
    for table in filter(None, (rows(results), growth(results))):
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
        lines.insert(1, "|---" * len(table[0]) + "|")
        parts += ["", *lines]
    return "\n".join([*parts, ""])


def notes(results: Results) -> list[str]:
    """The lines below the table: how to read it, the details, the failures."""
    lines = ["Medians of one run. (nx): how many times better the engine is than that column."]
    for figure in results.figures:
        if figure.detail:
            detail = ", ".join(f"{name} {number(value)}" for name, value in figure.detail.items())
            lines.append(f"{figure.case}, {figure.engine}: {detail}")
    lines += [f"not measured: {what}: {why}" for what, why in results.failures.items()]
    return lines
