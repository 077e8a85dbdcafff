"""Between any two layouts: as many calls as boundaries differ, each allowed when it is made, and the target last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keylane.keyspace.layout import Shard, layout_of
from keylane.keyspace.reshard import difference, resharding

LAST = 2**128 - 1
#: Anywhere, and close together, where shards of one key threaten.
boundaries = st.lists(st.integers(2, LAST - 1) | st.integers(2, 40), max_size=12, unique=True)


def starts_of(found: list[int]) -> list[int]:
    """Starts that leave every shard two keys."""
    starts = [0]
    for at in sorted(found):
        if at - starts[-1] >= 2:
            starts.append(at)
    return starts


@given(boundaries, boundaries)
def test_the_calls_are_the_boundaries_that_differ_and_lead_there(old: list[int], new: list[int]) -> None:
    begin, wanted = starts_of(old), starts_of(new)
    ends = [*(start - 1 for start in begin[1:]), LAST]
    layout = layout_of(Shard(f"s-{n}", *one) for n, one in enumerate(zip(begin, ends, strict=True)))
    change = resharding(layout, wanted)
    assert len(change.calls) == difference(layout, wanted) == len(set(begin) ^ set(wanted))
    for call in change.calls:
        layout = layout.split(call.shards[0], call.at) if call.call == "SplitShard" else layout.merge(*call.shards)
        assert len(layout.open) == call.after <= change.peak
    assert layout.starts == wanted
    assert [shard.id for shard in layout.open] == [shard.id for shard in change.layout.open]
