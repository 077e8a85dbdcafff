"""Every error keylane raises, and how a message is built. Nothing is raised here; look at the callers.

The policy: one root, so that a caller can catch all of keylane; each leaf is also the builtin that
a Python programmer would expect, so that catching it needs no import of keylane. A message gives what
was got, what is allowed and what to do. `exit_code` is what the command line ends with:
1 failure, 2 usage or invalid contract, 4 a threshold of the contract is broken.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from keylane.records import Finding, Reason, Undelivered

__all__ = [
    "ArgumentError",
    "BrokerError",
    "CacheError",
    "ContractError",
    "CountError",
    "DataError",
    "DeliveryError",
    "FencedError",
    "JarError",
    "KeylaneError",
    "LaneCountError",
    "MissingExtraError",
    "NotShownError",
    "SparkError",
    "TargetError",
    "UnknownNameError",
    "UnplacedError",
    "UnreadableError",
    "UsageError",
    "cause",
    "did_you_mean",
    "first_line",
    "listed_names",
    "visible",
]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'encoding'?`, or nothing when no known word is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""


class KeylaneError(Exception):
    """The root of everything keylane raises on purpose."""

    exit_code = 1

    @classmethod
    def of(cls, what: str, *, got: object = None, allowed: str = "", hint: str = "") -> Self:
        """Build the message in its agreed order: what, got, allowed, hint.

        >>> str(UsageError.of("no such output", got="xml", allowed="table, json", hint="-o json"))
        "no such output: got 'xml'; allowed: table, json; hint: -o json"
        """
        parts = [f"got {shorten(got)}"] if got is not None else []
        parts += [f"allowed: {allowed}"] if allowed else []
        parts += [f"hint: {hint}"] if hint else []
        return cls(visible(f"{what}: {'; '.join(parts)}" if parts else what))


def visible(text: str, keep: str = "") -> str:
    r"""Text from elsewhere, with control characters written out: none takes effect on a terminal or in a log.

    >>> visible("a\x1b]0;b\x07 \u202ec")
    'a\\x1b]0;b\\x07 \\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def shorten(value: object, most: int = 120) -> str:
    """Show a value without letting a megabyte of key into a message."""
    if isinstance(value, str | bytes) and len(value) > most:
        return f"{value[:most]!r}…"
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to write out integers of more than a few thousand digits.
        text = f"a value of type {type(value).__name__} too long to show"
    return text if len(text) <= most + 3 else f"{text[:most]}…"


#: Names in a message; a closed list of keylane's own is shorter than twice this, and is never cut.
_NAMES_SHOWN = 20


def listed_names(names: Sequence[str]) -> str:
    """Names for a message: all of a short list; of a long one, as a wide file's columns, the first and how many more.

    >>> listed_names(["merchant", "amount"])
    'merchant, amount'
    >>> listed_names([f"c{n}" for n in range(1_000)])[-18:]
    'c19 … and 980 more'
    """
    if len(names) <= 2 * _NAMES_SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMES_SHOWN])} … and {len(names) - _NAMES_SHOWN} more"


def first_line(text: str) -> str:
    """The first line that is not empty: what comes below it in an error of Java is its stack."""
    return next((line.strip() for line in text.splitlines() if line.strip()), text)


def cause(text: str) -> str:
    """What a long error of Java has at the bottom of it, or of a Python that Java ran; otherwise its first line."""
    lines = text.splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    python = [line for line in lines if re.match(r"\w*(Error|Exception): ", line)]
    messages = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    lost = re.findall(r"Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): (.+)", text)
    return next((found[-1] for found in (python, causes, lost, messages) if found), first_line(text))


class UsageError(KeylaneError, ValueError):
    """An argument or option that makes no sense, alone or with another."""

    exit_code = 2


class ArgumentError(UsageError, TypeError):
    """An argument of a type that is not taken; the message says what was given, and what is taken."""


class NotShownError(KeylaneError, ValueError):
    """Data that does not show what was to be found in it."""

    exit_code = 4


class UnsupportedError(UsageError, NotImplementedError):
    """An ability that a system lacks, asked of one of its streams."""


class LaneCountError(KeylaneError, ValueError):
    """A lane count that is zero, negative, fractional, absurd, not the topic's, or `live` without a cluster to ask."""

    exit_code = 2


class UnknownNameError(KeylaneError, LookupError):
    """A partitioner, hash or column that does not exist; the nearest one that does is named."""

    exit_code = 2
    #: The name itself.
    got: str | None = None

    @classmethod
    def among(cls, kind: str, got: str, known: Sequence[str]) -> Self:
        """List what exists, and which of it was probably meant."""
        made = cls.of(f"unknown {kind}", got=got, allowed=listed_names(known), hint=did_you_mean(got, known))
        made.got = got
        return made


class ContractError(KeylaneError, ValueError):
    """A contract file that is not one. Carries every problem of the file at once."""

    exit_code = 2

    def __init__(self, message: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


class UnreadableError(KeylaneError, OSError):
    """A file that was named and cannot be read."""


class UnplacedError(KeylaneError, ValueError):
    """A record that has no lane under this contract. `reason` is from the closed list `records.Reason`."""

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason


class DataError(KeylaneError, ValueError):
    """A data set that cannot be read, or does not hold what was asked of it."""


class NoSuchFieldError(DataError, LookupError):
    """A field or column that the data does not have: asked for by an option, or by a contract."""

    exit_code = 2
    #: The name itself.
    got: str | None = None


class MissingExtraError(KeylaneError, ImportError):
    """A part of keylane whose libraries are not installed; gives the command that installs them."""

    @classmethod
    def named(cls, extra: str, library: str) -> Self:
        """Name the extra and the command that installs it."""
        from keylane.extras import install_command

        return cls.of(f"{library} is not installed", hint=install_command(extra))


class TargetError(KeylaneError, OSError):
    """A target that cannot be written: not keylane's, another contract's, in use, damaged, or full."""


class CountError(KeylaneError, ArithmeticError):
    """Records that do not add up: in is not out + dead + filtered."""


class NoRecordsError(DataError):
    """A source that is there and has not one record, because every file of it is empty."""


class SparkError(KeylaneError, RuntimeError):
    """Spark that cannot start, or a job of it that failed for a reason outside the data."""


class JarError(KeylaneError, OSError):
    """A Java archive that cannot be had, or that is not the one that was pinned."""


class CacheError(KeylaneError, PermissionError):
    """A cache folder, or a file of it, that another user of this machine could have changed."""


class DeliveryError(KeylaneError, OSError):
    """Records that a producer took and did not deliver, or not yet. `records` names those that failed.

    `waiting`: so many more are still in the producer's queue; they may be delivered yet.
    """

    def __init__(self, message: str, records: Sequence[Undelivered] = (), waiting: int = 0) -> None:
        super().__init__(message)
        self.records = tuple(records)
        self.waiting = waiting


class BrokerError(KeylaneError, ConnectionError):
    """A broker that does not start, does not answer, or is not ours to touch."""


class FencedError(BrokerError):
    """An owner whose lanes another has taken: what it wrote last was refused."""
