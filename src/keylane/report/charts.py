"""The charts of the pages as objects, for notebooks and files: each is one SVG that needs nothing else.

    from keylane.report.charts import strategies
    strategies(json.load(open("plan.json")))             # a notebook shows it
    strategies(plan).save("strategies.svg")

They are drawn from the documents of `keylane profile -o json` and `keylane plan -o json`. The pages: `plan_page`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from keylane.documents.plan import LanesOverTime, PlanDocument
from keylane.documents.profile import ProfileDocument, ProfileWindows
from keylane.errors import UsageError
from keylane.report import heatmap, svg_charts
from keylane.report.html import asset
from keylane.systems.atomic import write_text

if TYPE_CHECKING:
    from os import PathLike

    from keylane.report.html import Markup

__all__ = ["Chart", "heat_map", "key_ranks", "lane_loads", "standing_alone", "strategies"]

#: A document as `json.load` reads it.
Plain: TypeAlias = Mapping[str, Any]
#: Pixels around a chart that stands alone.
MARGIN = 12


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: a notebook shows it, `save` writes it. Light or dark as its reader's system says."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture as an SVG file; whatever is there is replaced."""
        target = Path(path)
        if target.suffix.lower() != ".svg":
            raise UsageError.of("a chart is saved as SVG", got=str(target), allowed="a name that ends with .svg")
        write_text(target, self.svg)
        return target


def heat_map(side: LanesOverTime | Plain, windows: ProfileWindows | Plain | None = None) -> Chart:
    """Lanes over time: `side` is `over_time.before` or `.after` of a plan, `windows` those of its profile."""
    known = None if windows is None else ProfileWindows.from_json(windows)
    return standing_alone(heatmap.heat_map(LanesOverTime.from_json(side), known))


def key_ranks(document: ProfileDocument | PlanDocument | Plain) -> Chart:
    """The share of each key by rank, with a line where a key fills a lane; of a profile or of a plan."""
    of_plan = isinstance(document, PlanDocument) or (isinstance(document, Mapping) and "chosen" in document)
    found = PlanDocument.from_json(document) if of_plan else ProfileDocument.from_json(document)
    profile = found.profile if isinstance(found, PlanDocument) else found
    return standing_alone(svg_charts.key_ranks(profile.key_ranks, lane_counts(found)))


def strategies(document: PlanDocument | Plain) -> Chart:
    """Every candidate of a plan: how full its fullest lane gets, against what it keeps in order."""
    return standing_alone(svg_charts.strategies(PlanDocument.from_json(document)))


def lane_loads(side: LanesOverTime | Plain) -> Chart:
    """Lanes from the fullest to the emptiest: `side` as for `heat_map`."""
    return standing_alone(svg_charts.lane_loads(LanesOverTime.from_json(side).totals))


def lane_counts(document: ProfileDocument | PlanDocument) -> list[int]:
    """The lane counts a document speaks of: today's and the chosen one, or those that were observed."""
    if isinstance(document, PlanDocument):
        today = [document.today.lanes] if document.today else []
        return [*today, document.chosen.lanes]
    return [document.lanes.count] if document.lanes else []


def standing_alone(drawn: Markup) -> Chart:
    """A drawing with its styles, its size, and a ground and a margin of its own, so that it is readable anywhere."""
    opened, _, rest = drawn.partition(">")
    before, _, after = opened.partition(' viewBox="0 0 ')
    width, height = (float(size) + 2 * MARGIN for size in after.partition('"')[0].split())
    box = f'x="{-MARGIN}" y="{-MARGIN}" width="{width:g}" height="{height:g}"'
    sized = f'{before} viewBox="{-MARGIN} {-MARGIN} {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    named = f'{sized} xmlns="http://www.w3.org/2000/svg"{after.partition(chr(34))[2]}>'
    return Chart(f'{named}<style>{asset("charts.css")}</style><rect class="ground" {box}/>{rest}')
