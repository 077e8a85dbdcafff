"""The page of `migrate plan`: the timetable, the graph of the lanes, and hostile names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from keylane import migrate_plan
from keylane.documents.migrate import MigrationFigure
from keylane.report.migrate_page import MOST_DRAWN, drain_drawing, migrate_page

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.documents.migrate import MigratePlanDocument


def planned(folder: Path, lanes: int, name: str = "tx") -> MigratePlanDocument:
    for epoch, many in enumerate((12, lanes), 1):
        spec = f"{{streams: [{name}], lanes: {many}, key: {{fields: [k]}}, partitioner: kafka-java}}"
        head = f"metadata: {{name: payments, epoch: {epoch}}}"
        text = f"apiVersion: keylane/v1\nkind: RoutingContract\n{head}\nspec: {spec}\n"
        (folder / f"{epoch}.yaml").write_text(text)
    return migrate_plan(folder / "1.yaml", folder / "2.yaml")


def test_the_page_has_a_timetable_and_every_edge(tmp_path: Path) -> None:
    document = planned(tmp_path, 18)
    page = migrate_page(document)
    assert "12 lanes to 18" in page
    assert all(step.action.split(":")[0] in page for step in document.steps)
    drawn = drain_drawing(document)
    assert drawn.count("<line") == 36, "two parents for each of 18 lanes"
    assert "new lane 15\nwaits for 3, 9" in drawn


def test_many_lanes_are_squares_and_nothing_to_do_is_nothing(tmp_path: Path) -> None:
    many = migrate_page(planned(tmp_path, MOST_DRAWN + 12))
    assert "keylane-chart matrix" in many
    assert "keylane-chart loads" not in many
    idle = migrate_page(planned(tmp_path, 12))
    assert "Nothing to do" in idle
    assert 'id="waits"' not in idle


def test_numbers_of_lanes_stand_apart_on_a_narrow_page(tmp_path: Path) -> None:
    document = planned(tmp_path, 24)
    numbers = [re.findall(r">(\d+)</text>", drain_drawing(document, width)) for width in (1100, 340)]
    assert numbers[0] == [*map(str, range(12)), *map(str, range(24))]
    assert numbers[1] == [*map(str, range(12)), *map(str, range(0, 24, 2))]
    assert drain_drawing(document, 340).count("<line") == 24, "every lane is drawn and can be read, numbered or not"


def test_what_it_needs_is_shown_as_far_as_it_is_known(tmp_path: Path) -> None:
    document = planned(tmp_path, 18)
    page = migrate_page(document)
    assert "bytes to copy" in page
    assert "keys that change lane" not in page, "nobody was asked"
    assert "No stream was asked" not in page
    assert "Records, bytes and keys are not known: no stream was asked" in page
    assert document.cost is not None
    moved = MigrationFigure(value=1_234, known="sampled", basis="of some")
    asked = document.model_copy(update={"cost": document.cost.model_copy(update={"moved_keys": moved})})
    assert "1,234" in migrate_page(asked)
    assert 'id="cost"' not in migrate_page(planned(tmp_path, 12)), "nothing to do needs nothing"
