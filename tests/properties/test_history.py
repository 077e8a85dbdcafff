"""The checker on generated histories: silent on what is clean, and never swayed by the order or size of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.history.generated_histories import ONCE, batch_of, clean

from keylane.testing.history import Settings, check, rows

if TYPE_CHECKING:
    import random

    import pyarrow as pa

AT_LEAST = Settings(mode="at-least-once")
sends = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["ok", "unknown", "failed"])), max_size=40)


def history(given_sends: list[tuple[int, str]], chance: random.Random) -> list[pa.RecordBatch]:
    """Each record with its key; an ok one in the key's lane, an unknown one maybe."""
    out, offsets = [], [0, 0]
    for seq, (key, outcome) in enumerate(given_sends):
        name = b"k%d" % key
        out.append(rows("send", writer="w", key=name, seq=[seq], outcome=outcome))
        if outcome == "ok" or (outcome == "unknown" and chance.random() < 0.5):
            lane = key % 2
            out.append(rows("read", writer="w", key=name, seq=[seq], lane=lane, offset=[offsets[lane]]))
            offsets[lane] += chance.choice([1, 3])
    return out


@given(sends, st.randoms(use_true_random=False))
def test_a_clean_history_is_clean_in_any_order_and_mode(
    given_sends: list[tuple[int, str]], chance: random.Random
) -> None:
    batches = history(given_sends, chance)
    chance.shuffle(batches)
    assert check(batches).ok
    assert check(batches, AT_LEAST).ok


@given(sends.filter(lambda found: any(outcome == "ok" for _, outcome in found)), st.randoms(use_true_random=False))
def test_a_record_taken_out_is_lost_and_one_put_in_is_a_duplicate(
    given_sends: list[tuple[int, str]], chance: random.Random
) -> None:
    batches = history(given_sends, chance)
    sent = {b.column("seq")[0].as_py(): b.column("outcome")[0].as_py() for b in batches if "outcome" in b.schema.names}
    sure = [b for b in batches if "lane" in b.schema.names and sent[b.column("seq")[0].as_py()] == "ok"]
    one = chance.choice(sure)
    assert check([b for b in batches if b is not one]).counts["lost"] == 1
    assert check([*batches, one]).counts["duplicated"] == 1


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from(list(ONCE)), st.integers(50, 500), st.randoms(use_true_random=False))
def test_the_verdict_does_not_depend_on_how_the_rows_come(
    seed: int, damage: object, size: int, chance: random.Random
) -> None:
    world = clean(seed)
    damage(world)  # type: ignore[operator]  # a function of a world
    found = [*world.sends, *world.reads, *world.dead, *world.applies, *world.owns, *world.cutovers]
    dense = Settings(dense=True)
    whole = check([batch_of(found)], dense)
    chance.shuffle(found)
    parts = [batch_of(found[at : at + size]) for at in range(0, len(found), size)]
    assert check(parts, dense) == whole
    assert whole.counts[ONCE[damage]] > 0  # type: ignore[index]  # the same function
