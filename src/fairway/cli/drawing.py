"""A table on a terminal, as wide as the window: what people copy (ids, names, states, numbers) stays whole.

If a table is too wide, columns without a single value go first; then free text is cut with an ellipsis, each
column of it in its turn; then the columns furthest to the right go, and are named. What is still too wide
after that is left to the terminal, which breaks lines but loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

GAP = 2
#: To so many characters free text is cut, all of it to the first before any to the second.
LEAST_TEXT = (16, 8)
#: What a row is about and its state: these columns never go.
MOST_WANTED = 2

Cells = Sequence[Sequence[str]]


class Column:
    """One column: its heading, its cells and how wide it shall be."""

    def __init__(self, heading: str, cells: Sequence[str]) -> None:
        self.heading, self.cells = heading, cells
        # A heading may be folded between its words, a cell may not.
        self.wanted = self.width = max(map(cell_len, [*heading.split(), *cells]))

    @property
    def is_empty(self) -> bool:
        """Whether no row has a value here."""
        return all(cell == "-" for cell in self.cells)

    def shrink(self, excess: int, least: int) -> int:
        """Give up to *excess* characters away but keep *least*; return how many are still too many."""
        given = max(min(excess, self.width - least), 0)
        self.width -= given
        return excess - given


def fit(headings: Sequence[str], cells: Cells, gives_way: Sequence[str], width: int) -> list[Column]:
    """Return the columns that are shown in a window of *width*."""
    columns = [
        Column(heading, column) for heading, column in zip(headings, zip(*cells, strict=True), strict=True)
    ]
    if _excess(columns, width) > 0:
        columns = [column for column in columns if not column.is_empty]
    while _shrink(columns, gives_way, _excess(columns, width)) > 0:
        rigid = [column for column in columns[MOST_WANTED:] if column.heading not in gives_way]
        if not rigid:
            break
        columns.remove(rigid[-1])
    return columns


def _shrink(columns: Sequence[Column], gives_way: Sequence[str], excess: int) -> int:
    """Shorten free text, one column after the other; return how many characters are still too many."""
    for column in columns:
        column.width = column.wanted
    by_heading = {column.heading: column for column in columns}
    for least in LEAST_TEXT:
        for heading in gives_way:
            if heading in by_heading:
                excess = by_heading[heading].shrink(excess, least)
    return excess


def _excess(columns: Sequence[Column], width: int) -> int:
    """Return by how many characters the columns are too wide if none gives way."""
    return sum(column.wanted + GAP for column in columns) - GAP - width


def draw(columns: Sequence[Column], colours: dict[str, str], numbers: Sequence[str], folded: str) -> None:
    """Write the columns with rich; those headed *numbers* stand to the right, the *folded* one has lines."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in columns:
        justify: Any = "right" if column.heading in numbers else "left"
        is_folded = column.heading == folded
        overflow: Any = "fold" if is_folded else "ellipsis"
        table.add_column(column.heading, justify=justify, width=column.width, overflow=overflow)
    for row in zip(*(column.cells for column in columns), strict=True):
        # Text, never a string: square brackets in a queue's tags are no markup.
        cells = [Text(cell, style=colours.get(cell, "")) for cell in row]
        for cell, column in zip(cells, columns, strict=True):
            cell.no_wrap = column.heading != folded
        table.add_row(*cells)
    console = Console(highlight=False)
    console.width = max(console.width, sum(column.width + GAP for column in columns))
    console.print(table)
