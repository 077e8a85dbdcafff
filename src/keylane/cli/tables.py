"""Tables and sentences laid out for a terminal of some width, and the colours of verdicts. What is shown: `output`.

A table that is too wide gets its longest columns of text wrapped; where that is not enough, the last columns are left
out, and a line below says which. Nothing is ever cut without a word.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import click

from keylane.numbers import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Tone: TypeAlias = Literal["good", "bad", "unsure"]
COLOURS: Final[dict[Tone, str]] = {"good": "green", "bad": "red", "unsure": "yellow"}
#: What a line that is a verdict begins with, or a whole cell says.
VERDICTS: Final[dict[str, Tone]] = {
    **dict.fromkeys(("ok", "certified", "in balance", "kept", "done", "answers", "one writer"), "good"),
    **dict.fromkeys(
        ("broken", "error", "missing", "wrong", "ended", "mixed writers", "misplaced", "worse than today"), "bad"
    ),
    **dict.fromkeys(("Worth it", "Leave it", "It holds"), "good"),
    **dict.fromkeys(("Worse than today", "Not possible", "Fix the writers first"), "bad"),
    **dict.fromkeys(("Only if you need more throughput", "Needed", "Not worth it", "It does not hold"), "unsure"),
    **dict.fromkeys(("not proven", "warning", "unknown", "silent", "proposed", "does not hold", "stopped"), "unsure"),
}
# The longest first, where one begins another; "error-prone" begins with none.
_VERDICT: Final = re.compile(rf"(?:{'|'.join(sorted(map(re.escape, VERDICTS), key=len, reverse=True))})(?![\w-])")
#: Between two columns.
_GAP: Final = "  "
#: A column of text is not wrapped to less than this.
NARROW: Final = 14
#: Something to copy: a line that is a command or an address, after a label or not, is left to the terminal to wrap.
_COPIED: Final = re.compile(r"\s*(?:[\w' ]{1,30}: )?(?:keylane [a-z]|\S+://|kafka-[a-z-]+\.sh )")
#: A command within a sentence, which is not broken: it ends where the sentence goes on.
_COMMAND: Final = re.compile(r"\b(?:keylane [a-z]|kafka-[a-z-]+\.sh )[^`();]*[^`();.\s]")
_KEPT_SPACE: Final = "\x00"


def toned(line: str) -> str:
    """A line in colour from its verdict on, where it begins with one.

    >>> toned("broken: 2 errors")
    '\\x1b[31mbroken\\x1b[0m: 2 errors'
    """
    text = line.lstrip()
    found = _VERDICT.match(text)
    if found is None:
        return line
    return line[: len(line) - len(text)] + styled(found[0], VERDICTS[found[0]]) + text[found.end() :]


def copies_tone(copies: float | None) -> Tone | None:
    """A request that is copied to many lanes is bad news."""
    from keylane.plan.geo_work import COSTLY_COPIES

    return "bad" if copies is not None and copies > COSTLY_COPIES else None


def styled(text: str, tone: Tone) -> str:
    """A text in the colour of its tone."""
    return click.style(text, fg=COLOURS[tone])


def wrapped(line: str, width: int | None) -> list[str]:
    """A sentence over as many lines as it needs, those after the first set in."""
    if width is None or columns_of(line) <= width or _COPIED.match(line):
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", _KEPT_SPACE), line)
    parts = textwrap.wrap(whole, width, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False)
    return [part.replace(_KEPT_SPACE, " ") for part in parts] or [line]


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: two for each character of East Asian writing, none for an accent."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def laid_out(
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    numeric: Sequence[bool],
    unbroken: Sequence[bool] = (),
    width: int | None = None,
    colour: bool = False,
    tones: Sequence[Sequence[Tone | None]] | None = None,
) -> list[str]:
    """The lines of a table; numbers stand to the right of their column, and no word of an unbroken one is broken."""
    widths = [max(map(columns_of, column)) for column in zip(heads, *cells, strict=True)]
    words = [max(_longest_word(text) for text in column) for column in zip(heads, *cells, strict=True)]
    least = [
        width if number else max(words[i], columns_of(heads[i])) if i < len(unbroken) and unbroken[i] else None
        for i, (width, number) in enumerate(zip(widths, numeric, strict=True))
    ]
    shown, widths = _fitted(heads, widths, words, least, width)
    head = _joined([heads[i] for i in shown], widths, [numeric[i] for i in shown])
    lines = [click.style(head, bold=True) if colour else head]
    for n, row in enumerate(cells):
        marks = [tones[n][i] if tones else None for i in shown]
        lines += _row([row[i] for i in shown], widths, [numeric[i] for i in shown], marks, colour=colour)
    left_out = [heads[i].lower() for i in range(len(heads)) if i not in shown]
    if left_out:
        lines += wrapped(f"({plural(len(left_out), 'more column')}: {', '.join(left_out)}; -o wide shows all)", width)
    return lines


def fits(heads: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a table has room for every cell on one line."""
    return _total([max(map(columns_of, column)) for column in zip(heads, *cells, strict=True)]) <= width


def _longest_word(text: str) -> int:
    return max(map(columns_of, text.split()), default=0)


def _fitted(
    heads: Sequence[str], widths: list[int], words: list[int], fixed: Sequence[int | None], width: int | None
) -> tuple[list[int], list[int]]:
    """Which columns are shown, and how wide: the widest of text give way first, then the last are left out.

    Two that are equally wide give way alike. A word is broken only where the columns would not fit otherwise. `fixed`
    is what a column needs that cannot give way further, None for text.
    """
    shown = list(range(len(widths)))
    if width is None:
        return shown, widths
    least = [min(widths[i], max(NARROW, columns_of(heads[i])) if one is None else one) for i, one in enumerate(fixed)]
    while len(shown) > 1 and _total([least[i] for i in shown]) > width:
        shown.pop()
    whole = [min(widths[i], max(least[i], words[i])) for i in range(len(widths))]
    if _total([whole[i] for i in shown]) <= width:
        least = whole
    found = {i: widths[i] for i in shown}
    while _total(list(found.values())) > width:
        widest = max((i for i in shown if found[i] > least[i]), key=lambda i: found[i], default=None)
        if widest is None:
            break
        found[widest] -= 1
    return shown, [found[i] for i in shown]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _row(
    cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], tones: Sequence[Tone | None], *, colour: bool
) -> Iterator[str]:
    parts = [_folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for n in range(max(map(len, parts), default=0)):
        texts = [part[n] if n < len(part) else "" for part in parts]
        if not colour:
            yield _joined(texts, widths, numeric)
            continue
        marks = [tone or VERDICTS.get(cell) for tone, cell in zip(tones, cells, strict=True)]
        yield _joined(texts, widths, numeric, marks)


def _folded(cell: str, width: int) -> list[str]:
    if columns_of(cell) <= width:
        return [cell]
    narrow = width if cell.isascii() else max(1, width // 2)
    # A name that has to be broken is broken at a hyphen, if it has one.
    return textwrap.wrap(cell, narrow, break_on_hyphens=_longest_word(cell) > narrow) or [""]


def _joined(
    texts: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], tones: Sequence[Tone | None] = ()
) -> str:
    parts = []
    for i, (text, width, right) in enumerate(zip(texts, widths, numeric, strict=True)):
        room = " " * (width - columns_of(text))
        tone = tones[i] if tones else None
        shown = styled(text, tone) if tone and text else text
        parts.append(f"{room}{shown}" if right else f"{shown}{room}")
    return _GAP.join(parts).rstrip()


def markdown(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    rows = [heads, ["---"] * len(heads), *cells]
    return ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows]
