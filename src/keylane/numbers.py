"""How numbers are written, in one form everywhere: terminal, pages, verdicts. Windows of time: `report.windows`.

    count      1,745,240
    plural     1 record, 2 records
    agree      is, are     the verb that goes with a count
    amount     14,970.5    a load, which need not be whole
    percent    48.6%       a share, with a number of digits
    share      0.044%      a share, with the digits that it needs
    among      1 of 15,848 keys    a share of things, counted where they are few
    times      3.79×       how many times the mean
    size       3.6 MiB     bytes
    duration   2 min 5 s   seconds
    distance   1,000 m     metres
    throughput 12.5 MB/s   megabytes a second
    rate       500,000/s   so many a second

Documents (`-o json`) hold the numbers themselves.
"""

from __future__ import annotations

from typing import Final


def count(number: float) -> str:
    """With thousands apart: 1,745,240; a whole number to its last digit, however large."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}"


def plural(number: int, what: str) -> str:
    """So many of a thing: 1 record, 2 records, 3 batches.

    >>> [plural(1, "record"), plural(1_500, "record"), plural(0, "batch"), plural(2, "key"), plural(2, "query")]
    ['1 record', '1,500 records', '0 batches', '2 keys', '2 queries']
    """
    if number == 1:
        return f"1 {what}"
    if what.endswith("ry"):
        return f"{count(number)} {what[:-1]}ies"
    return f"{count(number)} {what}{'es' if what.endswith(('s', 'x', 'ch')) else 's'}"


def agree(number: int, one: str, several: str) -> str:
    """The verb, or another word, that goes with a count.

    >>> [f"{plural(number, 'lane')} {agree(number, 'is', 'are')} hot" for number in (1, 2)]
    ['1 lane is hot', '2 lanes are hot']
    """
    return one if number == 1 else several


def amount(number: float) -> str:
    """A load or a rate that need not be whole: to the last digit where it is, otherwise with those that count.

    >>> [amount(number) for number in (0, 2000.0, 14970.5, 9980.333, 1.25, 0.01234, 2000.0000002)]
    ['0', '2,000', '14,970.5', '9,980.3', '1.25', '0.0123', '2,000']
    """
    if abs(number - round(number)) <= 1e-6 * abs(number):
        return count(round(number))
    return f"{number:,.1f}" if abs(number) >= 100 else f"{number:.3g}"


#: Rates of bytes, in powers of ten.
_RATES: Final = ((10**9, "GB/s"), (10**6, "MB/s"), (10**3, "kB/s"))


def carried(load: float, unit: str | None) -> str:
    """What a shard carries, with its unit where that is known: bytes in the powers of ten that limits are given in.

    >>> carried(1250.0, None), carried(1250.0, "records/s")
    ('1,250', '1,250 records/s')
    >>> [carried(load, "bytes/s") for load in (0, 999, 800_000.0, 1_738_076_248.0)]
    ['0 B/s', '999 B/s', '800.0 kB/s', '1.7 GB/s']
    """
    if unit == "bytes/s":
        by, name = next(((by, name) for by, name in _RATES if load >= by), (1, "B/s"))
        return f"{load / by:,.1f} {name}" if by > 1 else f"{load:.0f} B/s"
    return f"{amount(load)} {unit}" if unit else amount(load)


def times(value: float, digits: int = 2) -> str:
    """How many times the mean: 3.79×."""
    return f"{value:,.{digits}f}×"


def percent(share: float, digits: int = 1) -> str:
    """A share in percent; what is not nothing is never shown as 0, and what is not all never as 100.

    >>> [percent(share) for share in (0.0, 0.00001, 0.5, 0.99999, 1.0)]
    ['0%', '<0.1%', '50.0%', '>99.9%', '100%']
    """
    return f"{_percents(share, digits)}%"


def share(value: float) -> str:
    """A share in percent, with two digits that count: of 1,000 lanes, a key that fills one has 0.1%.

    >>> [share(value) for value in (0.0, 0.5, 0.0618, 0.00437, 0.000437)]
    ['0%', '50.0%', '6.2%', '0.44%', '0.044%']
    """
    digits = 1
    while 0 < value < 10.0 ** (-digits - 1) and digits < 6:
        digits += 1
    return percent(value, digits)


#: Up to so many, things are counted rather than given as a share.
FEW = 100


def among(value: float, total: int | None, what: str) -> str:
    """A share of so many things: few of them as a count, otherwise in percent; `total` is None where it is not known.

    >>> among(1 / 15_848, 15_848, "key"), among(0.0, 10, "key"), among(0.25, 15_848, "key"), among(0.25, None, "key")
    ('1 of 15,848 keys', '0 of 10 keys', '25.0% of the keys', '25.0% of the keys')
    """
    found = 0.0 if total is None else value * total
    if total is None or found > FEW:
        return f"{share(value)} of the {plural(2, what).removeprefix('2 ')}"
    return f"{count(max(round(found), 1) if value else 0)} of {plural(total, what)}"


def spread(cv: float) -> str:
    """How far lanes are from their mean (CV), in percent; it may be above 100.

    >>> [spread(cv) for cv in (0.0, 0.00412, 0.33, 1.76)]
    ['0.00%', '0.41%', '33.0%', '176%']
    """
    digits = 2 if cv < 0.1 else 1 if cv < 1 else 0
    return f"{cv * 100:,.{digits}f}%"


def length(part: float) -> str:
    """A position or a length in a drawing, in percent of it: 12.50%."""
    return f"{part * 100:.2f}%"


def _percents(share: float, digits: int) -> str:
    least, value = 10.0**-digits, share * 100
    if share in (0, 1):
        return f"{value:.0f}"
    if value < least / 2:
        return f"<{least:g}"
    return f">{100 - least:g}" if share < 1 and value > 100 - least / 2 else f"{value:.{digits}f}"


def size(number: float) -> str:
    """Bytes, in the powers of 1,024 that disks and Kafka's own settings are in.

    >>> [size(number) for number in (0, 1, 999, 1536, 6242411, 5 * 2**30, 3 * 2**50)]
    ['0 B', '1 B', '999 B', '1.5 KiB', '6.0 MiB', '5.0 GiB', '3,072.0 TiB']
    """
    if number < 1_000:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1_000:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:,.1f} TiB"


def throughput(megabytes: float) -> str:
    """Megabytes a second, in powers of ten as brokers and services are sold.

    >>> throughput(12.54), throughput(10), throughput(0.002)
    ('12.5 MB/s', '10 MB/s', '<0.1 MB/s')
    """
    if 0 < megabytes < 0.05:
        return "<0.1 MB/s"
    return f"{megabytes:,.0f} MB/s" if megabytes == int(megabytes) else f"{megabytes:,.1f} MB/s"


def distance(metres: float) -> str:
    """Metres, with a digit behind the point only where there are few.

    >>> distance(1000), distance(41.7), distance(0.5)
    ('1,000 m', '42 m', '0.5 m')
    """
    return f"{metres:,.0f} m" if metres >= 10 or metres == int(metres) else f"{metres:.1f} m"


def duration(seconds: float) -> str:
    """A length of time as people say it.

    >>> [duration(seconds) for seconds in (0.04, 3.21, 42, 125, 4000, 200_000)]
    ['0.0 s', '3.2 s', '42 s', '2 min 5 s', '1 h 6 min', '2 d 7 h']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for above, unit, below, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= above:
            return f"{whole // above} {unit} {whole % above // below} {part}"
    return f"{whole} s"


def rate(number: float, seconds: float) -> str:
    """So many a second: 500,000/s.

    >>> rate(4_000, 8.0), rate(3, 2.0), rate(1, 0.0)
    ('500/s', '1.5/s', '')
    """
    if seconds <= 0:
        return ""
    found = number / seconds
    return f"{found:,.0f}/s" if found >= 10 or found == int(found) else f"{found:.1f}/s"


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
