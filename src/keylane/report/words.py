"""Numbers as a reader wants them: short. Keys: `measure.masking`."""

from __future__ import annotations

import unicodedata

__all__ = ["chance", "count", "lanes", "percent", "share", "short_count", "spread", "times", "visible"]


def count(number: int) -> str:
    """With thousands apart: 1,745,240."""
    return f"{number:,}"


def times(value: float, digits: int = 2) -> str:
    """How many times the mean: 3.79×."""
    return f"{value:.{digits}f}×"


def percent(share: float, digits: int = 1) -> str:
    """A share in percent, which never breaks over two lines; what is not nothing is never shown as 0.

    >>> [percent(share).split()[0] for share in (0.0, 0.00001, 0.5, 0.99999, 1.0)]
    ['0', '<0.1', '50.0', '>99.9', '100']
    """
    return f"{_percents(share, digits)}\N{NO-BREAK SPACE}%"


def share(value: float) -> str:
    """A share in percent, with two digits that count: of 1,000 lanes, a key that fills one has 0.1 %.

    >>> [share(value).split()[0] for value in (0.0, 0.5, 0.0618, 0.00437, 0.000437)]
    ['0', '50.0', '6.2', '0.44', '0.044']
    """
    digits = 1
    while 0 < value < 10.0 ** (-digits - 1) and digits < 6:
        digits += 1
    return percent(value, digits)


def spread(cv: float) -> str:
    """How far lanes are from their mean (CV), in percent; it may be above 100.

    >>> [spread(cv).split()[0] for cv in (0.0, 0.00412, 0.33, 1.76)]
    ['0.00', '0.41', '33.0', '176']
    """
    digits = 2 if cv < 0.1 else 1 if cv < 1 else 0
    return f"{cv * 100:.{digits}f}\N{NO-BREAK SPACE}%"


def _percents(share: float, digits: int) -> str:
    least, value = 10.0**-digits, share * 100
    if share in (0, 1):
        return f"{value:.0f}"
    if value < least / 2:
        return f"<{least:g}"
    return f">{100 - least:g}" if value > 100 - least / 2 else f"{value:.{digits}f}"


def lanes(numbers: list[int], most: int = 6) -> str:
    """Lane numbers, runs of neighbours as one: 0–5, 17."""
    parts = [f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in _runs(sorted(numbers))]
    return ", ".join([*parts[:most], *(["…"] if len(parts) > most else [])])


def _runs(numbers: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def short_count(number: float) -> str:
    """For an axis: 10, 2.5k, 3M.

    >>> [short_count(number) for number in (0, 10, 2_500, 3_000_000)]
    ['0', '10', '2.5k', '3M']
    """
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def visible(key: str) -> str:
    r"""A key as it is, but for characters that would not be seen or would turn the text around: those as escapes.

    >>> visible("a\u202eb\n")
    'a\\u202eb\\n'
    """
    return "".join(_seen(character) for character in key)


def _seen(character: str) -> str:
    hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return character.encode("unicode_escape").decode() if hidden else character


def chance(value: float) -> str:
    """A small probability: 0.02, 4e-4, below 1e-9 as < 1e-9.

    >>> [chance(value) for value in (0.5, 0.0214, 0.0004, 1e-12)]
    ['0.5', '0.021', '4e-4', '< 1e-9']
    """
    if value < 1e-9:
        return "< 1e-9"
    if value >= 0.001:
        return f"{value:.2g}"
    digits, _, power = f"{value:.0e}".partition("e")
    return f"{digits}e{int(power)}"
