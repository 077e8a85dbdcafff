"""A page as its elements, and what is wrong with them."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["Reader", "read"]

VOID = {"meta", "input", "br", "hr", "img"}


class Reader(HTMLParser):
    """Reads a page and keeps what is wrong with it, and what a test wants to know."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        self.ids += [str(found["id"])] if "id" in found else []
        self.targets += [str(found[name]) for name in ("href", "src", "srcset", "action") if name in found]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at line {self.getpos()[0]}")


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader
