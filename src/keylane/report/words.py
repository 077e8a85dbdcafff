"""Numbers as a reader wants them: short. Keys: `measure.masking`."""

from __future__ import annotations

__all__ = ["count", "lanes", "percent", "times"]


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
