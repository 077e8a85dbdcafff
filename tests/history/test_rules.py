"""The checker in small: what a history must have, what cannot be said, ties, limits, buckets that change nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.history.generated_histories import ONCE, REPEATED, clean

from keylane.errors import DataError
from keylane.history.rows import running_max, shown_key
from keylane.history.verdict import BucketResult, added
from keylane.testing.history import RULES, Settings, check, rows

REREADS = Settings(rereads=True)


def sent(*seqs: int, outcome: str = "ok") -> pa.RecordBatch:
    return rows("send", writer="w", key=[b"a"] * len(seqs), seq=list(seqs), outcome=outcome)


def read(*seqs: int, lane: int = 0, first: int = 0, **more: object) -> pa.RecordBatch:
    offsets = list(range(first, first + len(seqs)))
    return rows("read", writer="w", key=[b"a"] * len(seqs), seq=list(seqs), lane=lane, offset=offsets, **more)


def own(owner: str, t0: int, t1: int | None, epoch: int = 1) -> pa.RecordBatch:
    return rows("own", lane=0, who=owner, epoch=epoch, t0=[t0], t1=t1)


def broken(*batches: pa.RecordBatch, settings: Settings | None = None) -> dict[str, int]:
    return {rule: count for rule, count in check(batches, settings).counts.items() if count}


def test_the_worked_example_of_records() -> None:
    history = [sent(1), sent(2, outcome="unknown"), sent(3, outcome="failed"), read(2, 3, 3)]
    assert broken(*history) == {"lost": 1, "invented": 2, "duplicated": 1}


@pytest.mark.parametrize(("seqs", "strays"), [((1, 4, 7, 4, 7, 9), 0), ((1, 4, 7, 9, 4, 11), 1), ((1, 4, 7, 1, 7), 1)])
def test_the_worked_example_of_rewinds(seqs: tuple[int, ...], strays: int) -> None:
    found = broken(sent(*set(seqs)), read(*seqs), settings=Settings(mode="at-least-once"))
    assert found == ({"duplicated": strays} if strays else {})


@pytest.mark.parametrize(
    ("writers", "stamps", "found"),
    [
        ("vv", (5, 3), {}),
        ("vw", (3, 5), {"several": 1, "several_records": 2}),
        ("vw", (5, 3), {"several": 1, "several_records": 2, "backward": 1}),
    ],
)
def test_a_key_of_several_writers_is_counted(writers: str, stamps: tuple[int, int], found: dict[str, int]) -> None:
    """Offsets order the records of one writer; between two nothing does, and only their times show it."""
    reads = [
        rows("read", writer=writer, key=[b"a"], scope=[b"a"], seq=[seq], lane=0, offset=[seq], stamp=[stamp])
        for seq, (writer, stamp) in enumerate(zip(writers, stamps, strict=True))
    ]
    facts = check(reads).facts
    assert {name: facts[name] for name in ("several", "several_records", "backward") if facts.get(name)} == found


def test_a_surer_outcome_counts() -> None:
    assert broken(sent(1, outcome="unknown"), sent(1), read(2), sent(2, outcome="failed"), sent(2)) == {"lost": 1}


def test_where_all_sends_are_there_and_none_is_every_read_is_invented() -> None:
    complete = Settings(sends_complete=True)
    assert broken(read(1, 2), settings=complete) == {"invented": 2}
    assert broken(settings=complete) == {}


def test_without_sends_nothing_is_lost_or_invented() -> None:
    found = check([read(1, 2, 3)])
    assert found.ok
    assert {"lost", "invented", "misrouted", "two_owners"} <= set(found.unchecked)


def test_an_empty_history_says_nothing() -> None:
    found = check([])
    assert found.ok
    assert set(found.unchecked) == set(RULES)


def test_an_offset_may_be_read_again_where_rereads_are_allowed() -> None:
    history = [sent(1, 2), read(1, 2), read(1, 2)]
    assert broken(*history) == {"duplicated": 2}
    assert broken(*history, settings=REREADS) == {}
    assert broken(*history, read(2, first=9), settings=REREADS) == {"duplicated": 1}


def test_owners_may_touch_and_renew() -> None:
    assert broken(own("a", 0, 5), own("a", 3, 9), own("b", 9, None, epoch=2)) == {}
    assert broken(own("a", 0, 5), own("a", 3, 9), own("b", 8, None, epoch=2)) == {"two_owners": 1}


def test_scopes_in_place_of_keys() -> None:
    lanes = [read(1, 3, scope=b"a/x"), read(2, 4, lane=1, scope=b"a/y")]
    assert broken(sent(1, 2, 3, 4), *lanes) == {}
    whole = [read(1, 3, scope=b"a"), read(2, 4, lane=1, scope=b"a")]
    assert broken(sent(1, 2, 3, 4), *whole) == {"split_keys": 1}
    assert broken(sent(1, 2, 3, 4), read(4, 3, scope=None), read(1, 2, lane=1, scope=None)) == {}


def test_a_record_that_has_no_lane_by_contract_is_misrouted() -> None:
    found = check([sent(1), read(1, expected_lane=-1)])
    (violation,) = found.violations
    assert "no lane" in violation.detail


def test_a_key_that_is_null_is_not_a_key_that_is_unknown() -> None:
    unknown = rows("send", writer="w", seq=[1, 2], outcome="ok")
    assert broken(unknown, read(1, 2)) == {}
    known = rows("send", writer="w", key=pa.nulls(2, pa.binary()), keyed=True, seq=[1, 2], outcome="ok")
    assert broken(known, read(1, 2)) == {"invented": 2}
    assert broken(sent(1, 2), rows("read", writer="w", seq=[1, 2], lane=0, offset=[0, 1])) == {}
    gone = rows("read", writer="w", key=pa.nulls(2, pa.binary()), keyed=True, seq=[1, 2], lane=0, offset=[0, 1])
    assert broken(sent(1, 2), gone) == {"invented": 2}
    assert broken(known, gone) == {}


def test_contents_are_compared_where_both_sides_have_a_digest() -> None:
    one = rows("send", writer="w", seq=[1, 2, 3], outcome="ok", digest=[7, 8, 9], letter=[None, None, 5])
    aside = rows("dead", writer="w", seq=[3], digest=[5])
    found = check([one, rows("read", writer="w", seq=[1, 2], lane=0, offset=[0, 1], digest=[7, None]), aside])
    assert (found.counts["changed"], found.facts["compared"], found.facts["uncompared"]) == (0, 2, 1)
    wrong = rows("dead", writer="w", seq=[3], digest=[9])
    assert broken(one, rows("read", writer="w", seq=[1, 2], lane=0, offset=[0, 1], digest=[7, 9]), wrong) == {
        "changed": 2
    }


def test_the_first_violations_are_kept_and_all_are_counted() -> None:
    found = check([sent(*range(100))], Settings(keep=3))
    assert found.counts["lost"] == 100
    assert [violation.seq for violation in found.violations] == [0, 1, 2]


@pytest.mark.parametrize(
    ("seqs", "awaited"),
    [((1, 2, 3), 0), ((1, 2, 3, 1, 2, 3), 0), ((1, 2, 3, 1), 2), ((1, 2, 3, 1, 2), 1), ((1, 2, 1, 2, 3), 0)],
)
def test_a_rewind_that_the_log_ends_in_leaves_records_to_be_repeated(seqs: tuple[int, ...], awaited: int) -> None:
    found = check([sent(*set(seqs)), read(*seqs)], Settings(mode="at-least-once"))
    assert (found.ok, found.facts["awaited"]) == (True, awaited)


@pytest.mark.parametrize("budget", [0, 20_000])
def test_buckets_in_files_come_to_the_same_verdict(budget: int) -> None:
    for settings, damages in ((Settings(dense=True), ONCE), (Settings(mode="at-least-once"), REPEATED)):
        world = clean(5, replays=damages is REPEATED)
        for damage in damages:
            damage(world)
        batches = world.batches()
        found = check(batches, settings)
        assert check(batches, settings, budget=budget) == found
        of_files = set() if damages is ONCE else {"offset_gaps", "unsorted"}
        assert {rule for rule, count in found.counts.items() if count} == set(RULES) - of_files


def test_what_cannot_be_divided_is_judged_in_one_piece() -> None:
    count = 30_000
    keys, seqs = pa.repeat(pa.scalar(b"one key", pa.binary()), count), np.arange(count)
    history = [
        rows("send", writer="w", key=keys, seq=seqs, outcome="ok"),
        rows("read", writer="w", key=keys, seq=seqs[::-1].copy(), lane=0, offset=seqs),
    ]
    assert check(history, budget=10_000).counts["reordered"] == count - 1


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (pa.record_batch({"lane": [1]}), "no column `what`"),
        (pa.record_batch({"what": ["read"], "colour": [1]}), "colour"),
        (pa.record_batch({"what": ["seen"]}), "'seen'; allowed: send"),
        (pa.record_batch({"what": ["send"], "writer": ["w"], "seq": [1], "outcome": ["good"]}), "allowed: failed"),
        (pa.record_batch({"what": ["send"], "writer": ["w"], "seq": [1]}), "lacks its 'outcome'"),
        (pa.record_batch({"what": ["read"], "writer": ["w"], "seq": ["x"]}), "column 'seq'"),
        (pa.record_batch({"what": pa.array([None], pa.string())}), "has no kind"),
    ],
)
def test_rows_that_are_no_history_are_refused(batch: pa.RecordBatch, words: str) -> None:
    with pytest.raises(DataError, match=words):
        check([batch])


def test_a_column_that_no_row_has_is_refused() -> None:
    with pytest.raises(DataError, match="not a column of a history"):
        rows("send", colour=1)


def test_what_is_found_survives_as_text() -> None:
    world = clean(1)
    for damage in ONCE:
        damage(world)
    from keylane.history.check import JUDGEMENTS
    from keylane.history.rows import normal

    for judgement in JUDGEMENTS:
        table = pa.Table.from_batches([normal(batch) for batch in world.batches()])
        mine = table.filter(pa.array(np.isin(table["what"].to_numpy(), judgement.kinds)))
        found = judgement.judge(mine.select(list(judgement.columns)).combine_chunks(), Settings())
        assert BucketResult.from_text(found.as_text()) == found
        assert added([found, BucketResult()], 10).counts == found.counts


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"abc", "abc"),
        ("é".encode(), "é"),
        (b"\xff\x00", "0xff00"),
        (b"\n", "0x0a"),
        (None, ""),
        (b"a" * 81, "a" * 80 + "…"),
    ],
)
def test_keys_are_shown_as_text_or_hex(key: bytes | None, shown: str) -> None:
    assert shown_key(key) == shown


def test_a_running_maximum_restarts_with_each_group() -> None:
    values, first = np.array([3, 1, 5, 2, -4, 0]), np.array([True, False, False, True, True, False])
    assert running_max(values, first).tolist() == [3, 3, 5, 2, -4, 0]
