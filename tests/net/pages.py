"""A page as snapshots: its elements, the names of its attributes and of its data; and apart from them its words."""

from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from tests.net.snapshots import held, held_text, normalised_text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["names_of", "page_held"]

#: Elements whose text is no words: they are held by a digest, beside the words.
CODE: Final = ("script", "style")


class _Reader(HTMLParser):
    """Goes over a page once."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: dict[str, set[str]] = {}
        self.words: list[str] = []
        self.code: list[tuple[str, str]] = []
        self.drawn = hashlib.sha256()
        self._inside: tuple[str, bool] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = tag + "".join(f"#{given['id']}" for _ in range("id" in given and given["id"] is not None))
        name += "".join(f".{one}" for one in (given.get("class") or "").split())
        self.elements.append(name)
        self.attributes.setdefault(tag, set()).update(given)
        plain = [(key, value) for key, value in attrs if value is None or not re.search(r"[A-Za-z]{2,} ", value)]
        self.drawn.update(repr((tag, plain)).encode())
        if tag in CODE:
            self._inside = (tag, given.get("type") == "application/json")

    def handle_endtag(self, tag: str) -> None:
        if tag in CODE:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.code.append(("json" if self._inside[1] else self._inside[0], data))
        elif data.strip():
            self.words.append(" ".join(data.split()))


def page_held(name: str, page: Path, *places: Path) -> None:
    """Hold a page: `NAME.json` has its structure, `NAME.text.txt` its words and digests of its code and its drawing."""
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    data = [json.loads(text) for kind, text in reader.code if kind == "json"]
    document = {
        "elements": [f"{one} x{sum(1 for _ in same)}" for one, same in groupby(reader.elements)],
        "attributes": {tag: sorted(names) for tag, names in sorted(reader.attributes.items())},
        "data": [sorted(names_of(one)) for one in data],
    }
    held(name, document)
    digests = [f"{kind}: {hashlib.sha256(text.encode()).hexdigest()}" for kind, text in reader.code if kind != "json"]
    digests.append(f"drawing: {reader.drawn.hexdigest()}")
    held_text(name, normalised_text("\n".join([*digests, *reader.words]), *places))


def names_of(data: Any, where: str = "$") -> set[str]:
    """Every field of a JSON value by its path, with the types that it holds; items of a list are one."""
    if isinstance(data, dict):
        return {where} | {one for name, value in data.items() for one in names_of(value, f"{where}.{name}")}
    if isinstance(data, list):
        return {f"{where}[]"} | {one for value in data for one in names_of(value, f"{where}[]")}
    return {f"{where}: {type(data).__name__}"}
