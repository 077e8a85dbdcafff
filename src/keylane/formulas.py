"""The guard against formulas in CSV: text that a spreadsheet would run gets an apostrophe, which is taken off again.

`-o csv` puts it on (`cli.output`); whoever reads CSV that keylane wrote takes it off. Text that begins with apostrophes
before such a beginning gets one more, so that taking one off always gives what was there. In CSV that somebody else
wrote such an apostrophe may be the account's own, or a guard: that is not guessed (`unguarded`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a spreadsheet takes for the start of a formula, also in its full width; and what it looks behind.
_FORMULA: Final = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
#: The first line of the CSV that `shards keys list` writes.
KEYS_HEAD: Final = ("account", "hash_key", "at", "weight", "origin")


def _runs(text: str) -> bool:
    """Whether a cell is a formula, or would be one with its leading apostrophes off."""
    bare = text.lstrip("'")
    return _FORMULA.match(bare) is not None and _NUMBER.fullmatch(bare) is None


def guarded(text: str) -> str:
    """A cell that no spreadsheet runs.

    >>> [guarded(text) for text in ("=1+1", "-5", "-5+cmd|x", "'@acme", "'quoted'")]
    ["'=1+1", '-5', "'-5+cmd|x", "''@acme", "'quoted'"]
    """
    return f"'{text}" if _runs(text) else text


def unguarded(text: str, head: Sequence[str]) -> str:
    """A cell as it was before it was guarded; ValueError where the first line of the file is none of keylane's.

    >>> [unguarded(guarded(text), KEYS_HEAD) for text in ("=1+1", "-5", "'@acme", "'quoted'")]
    ['=1+1', '-5', "'@acme", "'quoted'"]
    """
    if not text.startswith("'") or not _runs(text):
        return text
    if tuple(head) == KEYS_HEAD:
        return text[1:]
    hint = f"with {','.join(KEYS_HEAD)} as the first line one apostrophe is taken off each: {text}, or '{text}"
    raise ValueError(f"the apostrophe is the account's own, or a guard against formulas: got {text!r}; hint: {hint}")
