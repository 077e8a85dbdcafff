"""What sections of the pages of plan and profile are built from: headings, figures, tables, charts for two widths.

The sections themselves: `plan_sections`. The shell of a page, and tags: `html`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.report.html import Markup, join, page, tag, texts
from keylane.report.svg_charts import NARROW, WIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from keylane.documents.plan import LanesOverTime
    from keylane.report.html import Child


def words(part: str) -> dict[str, Any]:
    """A part of `assets/plan.toml`."""
    found: dict[str, Any] = texts("plan")[part]
    return found


def named(part: str, name: str) -> str:
    """What a closed list calls something; a name it does not know is shown as it is, with its dashes as spaces."""
    return str(words(part).get(name, name.replace("-", " ").replace("_", " ")))


def heading_of(name: str) -> str:
    """The title of a section."""
    return str(words("sections")[name]["title"])


def section(name: str, intro: Child, *children: Child) -> Markup:
    """A part of the page under its heading; the navigation leads to `name`."""
    lead = tag("p", intro, class_="intro") if intro else None
    return tag("section", tag("h2", heading_of(name)), lead, *children, id=name)


def intro_of(name: str, which: str = "intro") -> str:
    """What a section begins with."""
    return str(words("sections")[name][which])


def whole_page(
    title: str,
    what: str,
    where: str,
    top: Markup,
    sections: Mapping[str, Markup | None],
    data: dict[str, object] | None = None,
) -> str:
    """The file of a page: what it is of, the top, and the sections that there are; `data` is for maps of lanes."""
    found = {name: made for name, made in sections.items() if made is not None}
    links = [tag("a", heading_of(name), href=f"#{name}") for name in found]
    body = join(
        tag("header", tag("p", tag("b", "keylane"), f" {what} ", tag("bdi", where), class_="brand"), top),
        tag("nav", *links, aria_label="Sections"),
        tag("main", *found.values()),
        tag("div", id="tip", role="status", hidden=True),
        tag("noscript", tag("p", words("page")["no_script"])),
    )
    drawn = {"maps": {}, "windows": [], "power": 1} if data is None else data
    return page(title, body, drawn, "plan", ("charts", "plan"), ("tip", "plan"))


def fact(title: str, figure: Child, *more: Child, kind: str | None = None) -> Markup:
    """A figure with its name above it, and what it should be read with below."""
    notes = [tag("p", note, class_="note") for note in more if note]
    return tag("div", tag("dt", title), tag("dd", tag("p", figure, class_="figure"), *notes), class_=kind)


def facts(*found: Markup | None) -> Markup:
    """Figures in a row."""
    return tag("dl", *found, class_="facts")


def chart(draw: Callable[[int], Markup], wide: int = WIDE) -> Markup:
    """A chart for wide and for narrow places: the style sheet shows the one that fits."""
    return tag(
        "div",
        read_by_keys(draw(wide), "for-wide"),
        read_by_keys(draw(NARROW), "for-narrow"),
        class_="chart",
    )


def read_by_keys(drawn: Markup, kind: str | None = None) -> Markup:
    """A drawing whose marks the script reads out, one after the other, as the arrow keys are pressed."""
    label = "Chart: arrow keys go from mark to mark"
    return tag("div", drawn, class_=kind, tabindex=0, role="group", aria_label=label)


def table(heads: Sequence[Child], rows: Iterable[Markup], label: str, kind: str | None = None) -> Markup:
    """A table that scrolls in itself where the page is too narrow for it."""
    head = tag("tr", *(text if _is_cell(text) else tag("th", text, scope="col") for text in heads))
    made = tag("table", tag("thead", head), tag("tbody", *rows), class_=kind)
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=label)


def _is_cell(text: Child) -> bool:
    return isinstance(text, Markup) and text.startswith("<th")


def sentence(words_: str) -> str:
    """With a capital at its beginning and a full stop at its end; a name at its beginning stays as it is.

    >>> sentence("it keeps order per key"), sentence("payments.refunds breaks")
    ('It keeps order per key.', 'payments.refunds breaks.')
    """
    text = words_.strip()
    first = text.partition(" ")[0].rstrip(":,;")
    begun = f"{text[:1].upper()}{text[1:]}" if first.isalpha() and first.islower() else text
    return begun if not begun or begun.endswith((".", "!", "?", ":")) else f"{begun}."


def prose(text: str) -> Markup:
    """Text in which `names` stand between backticks."""
    return join(*(tag("code", part) if i % 2 else part for i, part in enumerate(text.split("`"))))


def side_title(name: str, side: LanesOverTime, *, alone: bool) -> Markup:
    """Which side a picture is of: before, after, or the one there is."""
    if not alone or name != "after":
        return join(tag("b", name, class_=name), side.title)
    # The title says which one it is: said twice, it would read as a mistake.
    called, colon, title = side.title.partition(": ")
    return join(tag("b", called if colon else "chosen", class_="chosen"), title if colon else side.title)


def bullets(lines: Sequence[str], kind: str | None = None) -> Markup | None:
    """Sentences as a list; none are none."""
    return tag("ul", *(tag("li", line) for line in lines), class_=kind) if lines else None


def aside(title: str, *children: Child) -> Markup:
    """A short text beside a chart."""
    return tag("div", tag("h3", title), join(*children), class_="aside")
