"""The page of `shards plan`: every shard, call and hot key is on it, and what comes from a file is escaped."""

from __future__ import annotations

import re

from keylane.keyspace.layout import Shard, layout_of, new_layout
from keylane.keyspace.load import from_layout, from_points
from keylane.plan.shards import ShardGoal, ShardLoad, shards_plan
from keylane.report.shards_page import shards_page, space_drawing


def test_every_shard_is_drawn_once_on_its_side_and_every_call_as_a_stroke() -> None:
    shards = new_layout(4).open
    layout = layout_of(Shard(one.id, one.start, one.end, load) for one, load in zip(shards, (9, 1, 1, 1), strict=True))
    document = shards_plan("today.json", layout, ShardLoad(from_layout(layout), "layout", {}), ShardGoal(5, 3))
    drawn = space_drawing(document)
    before, after = drawn.partition('class="bars now"')[2].split('class="bars after"')
    after = after.partition('class="limit"')[0]
    assert (before.count("<rect"), after.count("<rect")) == (4, document.after.shards)
    assert (drawn.count('class="ring"'), drawn.count('class="removed"')) == (document.splits, document.merges)
    # Red is what is over the cap, before or after, and nothing else; nothing is without a cap.
    assert (before.count('class="mark over"'), after.count('class="mark over"')) == (1, 0)
    free = shards_plan("today.json", layout, ShardLoad(from_layout(layout), "layout", {}), ShardGoal(to=new_layout(3)))
    assert "mark over" not in space_drawing(free)
    # The cap is to the scale of the bars, and left out where they would be flat under it.
    drawn_cap = re.findall(r'class="limit"', space_drawing(document))
    far = shards_plan("a", layout, ShardLoad(from_layout(layout), "layout", {}), ShardGoal(100))
    assert (len(drawn_cap), space_drawing(far).count('class="limit"')) == (2, 0)
    # The hot shard is nine times as high as its neighbour, and all are equally wide.
    heights = [float(one) for one in re.findall(r'height="([\d.]+)"', before)]
    widths = set(re.findall(r'width="([\d.]+)"', before))
    assert (round(heights[0] / heights[1], 1), len(widths)) == (9.0, 1)
    page = shards_page(document)
    assert all(call.at in page for call in document.calls if call.call == "SplitShard")


def test_names_from_a_file_cannot_become_markup() -> None:
    layout = layout_of([Shard("<script>1", 0, 2**127 - 1), Shard("b2", 2**127, 2**128 - 1)])
    curve = from_points([(2**126, 9.0), (2**127, 1.0)])
    load = ShardLoad(curve, "keys", {2**126: "<img src=x>"})
    page = shards_page(shards_plan("<b>x.json", layout, load, ShardGoal(5)))
    assert all(name not in page for name in ("<script>1", "<img", "<b>x.json"))
    assert "&lt;img src=x&gt;" in page


def test_no_character_of_a_name_takes_effect_on_the_page() -> None:
    """Those that turn text around, and controls, are written out, in ids as in keys."""
    turned = "a\u202eb\x00\x1b[31m\u2066"
    layout = layout_of([Shard(turned, 0, 2**127 - 1), Shard("b2", 2**127, 2**128 - 1)])
    load = ShardLoad(from_points([(2**126, 9.0), (2**127, 1.0)]), "keys", {2**126: turned})
    page = shards_page(shards_plan(turned, layout, load, ShardGoal(5)))
    assert [repr(one) for one in turned if not one.isprintable() and one in page] == []
    assert r"a\u202eb\x00" in page


def test_without_loads_shards_are_bands() -> None:
    document = shards_plan("a", new_layout(2), ShardLoad(None, "none", {}), ShardGoal(to=new_layout(3)))
    assert (document.uniform, document.hot, document.before.max_over_mean) == ([], [], None)
    assert "load not known" in space_drawing(document)


def test_without_a_call_the_page_speaks_of_no_way_and_no_time() -> None:
    load = ShardLoad(from_layout(layout := layout_of([Shard("a1", 0, 2**128 - 1, 9.0)])), "layout", {})
    still, changed = (shards_page(shards_plan("a", layout, load, ShardGoal(cap))) for cap in (10, 5))
    assert "1 shard, none of them split or merged" in still
    assert ["on the way" in page for page in (still, changed)] == [False, True]
    assert ["The time is the least" in page for page in (still, changed)] == [False, True]
