"""Values that nobody may see: given as a reference, read at the last moment, and never shown.

    ${env:NAME}      the environment of the process that uses it
    ${file:/path}    the text of a file, without the line's end

The reference may be shown, written down and sent to other machines; what it stands for is read where a client is made.
Which settings are secret is said in `kafka_access`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from keylane.errors import UsageError

__all__ = ["HIDDEN", "Secret", "is_reference", "reveal"]

HIDDEN: Final = "[hidden]"
_REFERENCE = re.compile(r"\$\{(env|file):([^{}\s]+)\}")
FORMS: Final = "${env:NAME}, ${file:/path}"


class Secret:
    """A text that shows itself as `[hidden]` in every way there is, also when it is pickled.

    >>> f"{Secret('pw')} {Secret('pw')!r}"
    '[hidden] [hidden]'
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, _spec: str) -> str:
        return HIDDEN

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (HIDDEN,)

    def reveal(self) -> str:
        """The text itself: for the one call that needs it."""
        return self._text


def is_reference(text: str) -> bool:
    """Whether a text says where a secret is, and not what it is."""
    return _REFERENCE.fullmatch(text) is not None


def reveal(reference: str) -> Secret:
    """Read what a reference stands for."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise UsageError.of("a secret stands in the open", got=HIDDEN, allowed=FORMS)
    kind, name = found.groups()
    return Secret(_from_environment(name) if kind == "env" else _from_file(name))


def _from_environment(name: str) -> str:
    if name not in os.environ:
        raise UsageError.of("a secret is not in the environment", got=name, hint=f"export {name}=…")
    return os.environ[name]


def _from_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise UsageError.of("the file of a secret cannot be read", got=name, hint=str(error.strerror)) from None
