"""The page of `keylane demo migrate`: both runs side by side, and the records of some keys as they were applied.

From a document of schema keylane.demo-migrate/1, which `pipelines.demo.migrate` makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keylane.numbers import count, duration, percent
from keylane.report.html import Markup, join, tag
from keylane.report.sections import chart, fact, facts, intro_of, section, whole_page
from keylane.report.svg_charts import Box, Scale, across, drawing, mark, polyline, text, upright, whole_steps

if TYPE_CHECKING:
    from keylane.documents.demo_migrate import DemoMigrateDocument, GrowthKey, GrowthTrial

_HIGH: Final = 240
_WIDE: Final = 1100


def demo_migrate_page(document: DemoMigrateDocument) -> str:
    """The whole file."""
    sections = {name: _run(document, one) for name, one in zip(("ungated", "gated"), document.trials, strict=True)}
    where = f"{document.old_lanes} to {document.new_lanes} lanes"
    return whole_page("keylane demo migrate", "demo: a topic grows from", where, _top(document), sections)


def _top(document: DemoMigrateDocument) -> Markup:
    ungated, gated = document.trials
    pause = "none" if gated.pause_seconds is None else duration(gated.pause_seconds)
    about = (
        f"{document.producers} producers, {count(document.keys)} keys, and a reader that leaves lane "
        f"{document.slow_lane} alone until {duration(document.slow_seconds)} after the topic has grown. "
        f"{percent(document.moved_share)} of the keys change lane."
    )
    return join(
        tag("h1", f"{count(ungated.broken)} broken orders without the gate, {count(gated.broken)} with it"),
        tag("p", about, class_="sub"),
        facts(
            fact(
                "Without the gate",
                count(ungated.broken),
                f"of {count(ungated.applied)} records, after a newer one",
            ),
            fact("Keys with a broken order", count(ungated.broken_keys), f"of {count(document.keys)}"),
            fact("With the gate", count(gated.broken), f"of {count(gated.applied)} records; {gated.verdict}"),
            fact("Pause of producers", pause, "at the fence, the longest of them"),
        ),
    )


def _run(document: DemoMigrateDocument, one: GrowthTrial) -> Markup:
    longest = max(each.seconds for each in document.trials)
    return section(one.name, intro_of(one.name), chart(lambda width: timeline(one, longest, width), _WIDE))


def timeline(trial: GrowthTrial, seconds: float, width: int = _WIDE) -> Markup:
    """Which record of a key was applied when: a line for each key, and a ring where it steps back."""
    box = Box(44, 30, width - 16, 30 + _HIGH)
    most = max((point.number for key in trial.timeline for point in key.points), default=1)
    x, y = Scale(0, seconds, box.left, box.right), Scale(0, most, box.bottom, box.top)
    notes = ((trial.grown_at, "topic has its lanes"), (trial.slow_until, "slow lane goes on"))
    return drawing(
        f"Records of {len(trial.timeline)} keys as they were applied: {count(trial.broken)} broken orders in the run",
        width,
        box.bottom + 44,
        *(across(box, y.at(value), f"{value:g}") for value in whole_steps(most)),
        *(upright(box, x.at(value), f"{value:g} s") for value in whole_steps(seconds, 8)),
        *(_note(box, x.at(at), words, high=i) for i, (at, words) in enumerate(notes)),
        *(_key(key, x, y) for key in trial.timeline),
        text("record of its key, by when it was applied", box.left, box.bottom + 38),
        kind="growth",
    )


def _note(box: Box, x: float, words: str, high: int) -> Markup:
    line = tag("line", x1=f"{x:g}", x2=f"{x:g}", y1=f"{box.top:g}", y2=f"{box.bottom:g}", class_="mean")
    return join(line, text(words, x - 4, box.top - 16 + 13 * high, anchor="end", kind="strong"))


def _key(key: GrowthKey, x: Scale, y: Scale) -> Markup:
    places = [(x.at(point.at), y.at(point.number)) for point in key.points]
    dots = [
        mark(
            f"key {key.key}, record {point.number}\nlane {point.lane}, at {point.at:.2f} s"
            + ("\na newer record was applied before it" if point.broken else ""),
            tag("circle", cx=f"{at[0]:g}", cy=f"{at[1]:g}", r=4 if point.broken else 2),
            kind="late" if point.broken else "kept",
        )
        for point, at in zip(key.points, places, strict=True)
    ]
    return join(polyline(places, "step") if places else None, *dots)
