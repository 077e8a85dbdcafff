"""HTML from values: text is escaped unless it was made here, so a merchant named `<script>` does no harm."""

from __future__ import annotations

import html
from typing import TypeAlias

__all__ = ["Child", "Markup", "join", "tag"]

_VOID = frozenset({"br", "circle", "hr", "img", "input", "line", "meta", "path", "rect", "stop"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = str | int | None


def tag(name: str, /, *children: Child, **attributes: Child | bool) -> Markup:
    """An element. A child that is not Markup is escaped; `class_` is class, `data_case` is data-case, None is left out.

    >>> tag("td", "a < b", class_="n")
    '<td class="n">a &lt; b</td>'
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    return Markup(f"{opened}/>" if name in _VOID else f"{opened}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Children in a row, escaped where they must be."""
    return Markup("".join(_escaped(child) for child in children if child is not None))


def _escaped(child: str | int) -> str:
    return child if isinstance(child, Markup) else html.escape(str(child))


def _attribute(key: str, value: Child | bool) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
