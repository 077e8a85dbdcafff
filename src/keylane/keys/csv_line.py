"""The cells of one line of CSV as Spark's parser has them, also where quotes are in odd places. Pure.

Lines whose quotes are where they belong are read by Arrow or Python's own `csv`; files of them: `systems.files.lines`.
"""

from __future__ import annotations

import re
from functools import cache


def odd_cells(line: str, delimiter: str) -> list[tuple[str, bool]]:
    """Cells, and whether each was in quotes, of a line with quotes in odd places: as Spark's parser has them.

    Quotes within a cell are characters. A cell that begins with one ends at the next, and spaces may follow; where
    something else does, the quotes are characters too. One that is left open runs to the end of the line.

    >>> odd_cells('a"b,"c" ,"d"e', ",")
    [('a"b', False), ('c', True), ('"d"e', False)]
    """
    cells, at = list[tuple[str, bool]](), 0
    while True:
        closed = _quoted_cell().match(line, at) if line.startswith('"', at) else None
        if closed is not None:
            text, end = closed[1].replace('""', '"'), closed.end() + len(closed[2])
            quoted = end == len(line) or line.startswith(delimiter, end)
            if not quoted:
                end = _until(line, delimiter, closed.end())
                rest = line[closed.end() : end]
                # What Spark's parser does at the end of a line whose last cell goes on so after its closing quote.
                more = '"' if end == len(line) and re.match(r' +[^ "]"', rest) else ""
                text = f'"{text}"{rest}{more}'
            cells.append((text, quoted))
        elif line.startswith('"', at):
            end = len(line)
            cells.append((line[at + 1 :].replace('""', '"') or '"', True))
        else:
            end = _until(line, delimiter, at)
            cells.append((line[at:end], False))
        if end == len(line):
            return cells
        at = end + len(delimiter)


def _until(line: str, delimiter: str, at: int) -> int:
    end = line.find(delimiter, at)
    return len(line) if end < 0 else end


@cache
def _quoted_cell() -> re.Pattern[str]:
    return re.compile(r'"((?:[^"]|"")*+)"(?=( *))')
