"""Clean histories from a seed, as lists of rows that a test may damage, and the damages themselves."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keylane.testing.history import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.testing.history import Rule

Row = dict[str, Any]
WRITERS, KEYS, LANES, RECORDS = 3, 12, 4, 240
TYPES = {name: SCHEMA.field(name).type for name in SCHEMA.names} | {"what": pa.string(), "outcome": pa.string()}


@dataclass
class World:
    """A history: what was sent, read, set aside, applied, owned, cut over."""

    rng: random.Random
    sends: list[Row] = field(default_factory=list)
    reads: list[Row] = field(default_factory=list)
    dead: list[Row] = field(default_factory=list)
    applies: list[Row] = field(default_factory=list)
    owns: list[Row] = field(default_factory=list)
    cutovers: list[Row] = field(default_factory=list)

    def batches(self) -> list[pa.RecordBatch]:
        """All rows, mixed, in batches of uneven sizes."""
        rows = [*self.sends, *self.reads, *self.dead, *self.applies, *self.owns, *self.cutovers]
        self.rng.shuffle(rows)
        cut = len(rows) // 3
        return [batch_of(part) for part in (rows[:cut], rows[cut:]) if part]

    def lane_of(self, key: bytes, generation: int) -> int:
        return (int(key[1:]) + generation) % LANES

    def number(self, *, gaps: bool) -> None:
        """Give the reads of every lane their offsets: with gaps, as transaction markers leave them; or as in files.

        Records in files have a place of their own, too.
        """
        offsets: dict[tuple[int, int], int] = {}
        for n, read in enumerate(self.reads):
            lane = (read["generation"], read["lane"])
            offsets[lane] = offsets.get(lane, -1) + (self.rng.choice([1, 1, 1, 2, 5]) if gaps else 1)
            read["offset"] = offsets[lane]
            if not gaps:
                read["place"] = 3 * n
        for letter in self.dead:
            lane = (letter["generation"], -1)
            offsets[lane] = offsets.get(lane, -1) + 1
            letter["offset"] = offsets[lane]
            if not gaps:
                letter["place"] = offsets[lane]

    def lane_rows(self, *, least: int = 6) -> list[Row]:
        """The reads of some lane that has several, in the order of the log."""
        lanes: dict[tuple[int, int], list[Row]] = {}
        for read in self.reads:
            lanes.setdefault((read["generation"], read["lane"]), []).append(read)
        return self.rng.choice([rows for rows in lanes.values() if len(rows) >= least])

    def writer_rows(self) -> list[Row]:
        """The records that some writer has in some lane, several of them, in the order of the log."""
        found: dict[Any, list[Row]] = {}
        for read in self.reads:
            if not read.get("replay"):
                found.setdefault((read["generation"], read["lane"], read["writer"]), []).append(read)
        return self.rng.choice([rows for rows in found.values() if len(rows) >= 6])

    def same_key(self) -> tuple[Row, Row]:
        """Two records of one key and writer in one lane, the earlier first."""
        found: dict[Any, list[Row]] = {}
        for read in self.reads:
            if not read.get("replay"):
                found.setdefault((read["generation"], read["key"], read["writer"]), []).append(read)
        rows = self.rng.choice([rows for rows in found.values() if len(rows) > 1])
        at = self.rng.randrange(len(rows) - 1)
        return rows[at], rows[at + 1]


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    names = [name for name in TYPES if any(name in row for row in rows)]
    return pa.RecordBatch.from_pydict({name: pa.array([row.get(name) for row in rows], TYPES[name]) for name in names})


def clean(seed: int, *, replays: bool = False, generations: int = 2, gaps: bool | None = None) -> World:
    """Nothing is wrong here: unknown sends are read or not, failed ones never, some records are dead letters.

    Logs with replays have gaps in their offsets, and those without have none, unless it is said otherwise.
    """
    world = World(random.Random(seed))
    rng, clock = world.rng, 0
    for generation in range(generations):
        batch = _sent(world, generation)
        _read(world, batch, generation)
    if replays:
        _replayed(world)
    world.number(gaps=replays if gaps is None else gaps)
    for generation in range(generations):
        world.cutovers.append({"what": "cutover", "generation": generation, "t0": clock})
        clock = _applied(world, generation, clock)
    for lane in range(LANES):
        _owned(world, lane)
    rng.shuffle(world.owns)
    return world


def _sent(world: World, generation: int) -> list[Row]:
    rng, per, clock = world.rng, RECORDS // 2, 1_000 * generation
    made: list[Row] = []
    for n in range(per):
        writer, key = f"w{rng.randrange(WRITERS)}", b"k%d" % rng.randrange(KEYS)
        outcome = rng.choices(["ok", "failed", "unknown"], [90, 4, 6])[0]
        record = {"writer": writer, "seq": generation * 10_000 + n * 3, "key": key if n % 20 else None, "keyed": True}
        content = {"digest": rng.getrandbits(63), "letter": rng.getrandbits(63) if n % 2 else None, "stamp": clock + n}
        made.append({"what": "send", "outcome": outcome, **record, **content})
    world.sends += made
    return made


def _read(world: World, batch: list[Row], generation: int) -> None:
    for send in batch:
        lands = send["outcome"] == "ok" or (send["outcome"] == "unknown" and world.rng.random() < 0.5)
        record = {name: send[name] for name in ("writer", "seq", "key", "keyed", "digest", "stamp")}
        record["generation"] = generation
        if lands and (send["key"] is None or world.rng.random() < 0.03):
            letter = send["digest"] if send["letter"] is None else send["letter"]
            world.dead.append({"what": "dead", **record, "digest": letter, "expected_lane": -1})
        elif lands:
            lane = world.lane_of(send["key"], generation)
            world.reads.append({"what": "read", **record, "lane": lane, "expected_lane": lane, "epoch": generation + 1})


def _replayed(world: World) -> None:
    """Some lanes are rewound by a few records, one or two times over, and go on."""
    for generation in sorted({read["generation"] for read in world.reads}):
        for lane in range(LANES):
            rows = [r for r in world.reads if (r["generation"], r["lane"]) == (generation, lane)]
            if len(rows) < 8:
                continue
            back = world.rng.randrange(2, 5)
            at = world.rng.randrange(back, len(rows) - 1)
            again = [{**row, "replay": True} for row in rows[at - back : at]]
            place = next(n for n, row in enumerate(world.reads) if row is rows[at - 1]) + 1
            world.reads[place:place] = [dict(row) for row in again * world.rng.choice([1, 2])]
    for read in world.reads:
        read.setdefault("replay", False)


def _applied(world: World, generation: int, clock: int) -> int:
    for read in [row for row in world.reads if row["generation"] == generation]:
        start = clock + world.rng.randrange(3)
        clock = start + world.rng.randrange(1, 4)
        place = {name: read[name] for name in ("generation", "lane", "offset", "key")}
        world.applies.append({"what": "apply", **place, "who": f"c{read['lane']}", "t0": start, "t1": clock})
    return clock


def _owned(world: World, lane: int) -> None:
    """Owners in turn, with renewals that overlap themselves; the last one still owns."""
    clock = 0
    for epoch in range(1, 5):
        owner = f"c{world.rng.randrange(3)}-{epoch}"
        for _ in range(world.rng.randrange(1, 4)):
            end = clock + world.rng.randrange(5, 30)
            world.owns.append(_own(lane, owner, epoch, clock, end))
            clock = end - world.rng.randrange(4)
        clock = end
    world.owns.append(_own(lane, "c-last", 9, clock, None))


def _own(lane: int, owner: str, epoch: int, t0: int, t1: int | None) -> Row:
    return {"what": "own", "generation": 0, "lane": lane, "who": owner, "epoch": epoch, "t0": t0, "t1": t1}


# --- the damages: each takes a clean world and makes one thing wrong ---


def lose(world: World) -> None:
    """An acknowledged record is nowhere."""
    ok = {(s["writer"], s["seq"]) for s in world.sends if s["outcome"] == "ok"}
    gone = world.rng.choice([r for r in world.reads if (r["writer"], r["seq"]) in ok])
    _drop(world, gone)


def _drop(world: World, gone: Row) -> None:
    world.reads = [r for r in world.reads if (r["writer"], r["seq"]) != (gone["writer"], gone["seq"])]
    there = {(r["generation"], r["lane"], r["offset"]) for r in world.reads}
    world.applies = [a for a in world.applies if (a["generation"], a["lane"], a["offset"]) in there]


def lose_a_dead_letter(world: World) -> None:
    """A record that was set aside is not there either."""
    world.sends.append({"what": "send", "writer": "w9", "seq": 1, "key": b"k1", "outcome": "ok"})


def invent(world: World) -> None:
    """A record that nobody sent."""
    read = world.rng.choice(world.reads)
    world.reads.append({**read, "writer": "w9", "seq": 77, "offset": 100_000, "replay": None})


def read_an_aborted_one(world: World) -> None:
    """A record whose send is known to have failed."""
    read = world.rng.choice(world.reads)
    next(s for s in world.sends if (s["writer"], s["seq"]) == (read["writer"], read["seq"]))["outcome"] = "failed"


def change_a_key(world: World) -> None:
    """A record that comes out with another key of the same lane."""
    read = world.rng.choice(world.reads)
    for one in world.reads:
        if (one["writer"], one["seq"]) == (read["writer"], read["seq"]):
            one["key"] = b"k9%d" % world.lane_of(read["key"], 0)


def duplicate_at_the_end(world: World) -> None:
    """A record is there again at the end of its lane."""
    rows = world.lane_rows()
    read = world.rng.choice(rows[:-3])
    world.reads.append({**read, "offset": rows[-1]["offset"] + 1, "replay": True})


def duplicate_elsewhere(world: World) -> None:
    """A record is there again in another lane."""
    read = world.rng.choice(world.reads)
    lane = (read["lane"] + 1) % LANES
    world.reads.append({**read, "lane": lane, "expected_lane": lane, "offset": 100_000, "replay": True})


def duplicate_a_file(world: World) -> None:
    """A stretch of a lane is there twice with the same offsets, as a file that was copied."""
    rows = world.lane_rows()
    world.reads += [dict(row) for row in rows[2:5]]


def set_aside_and_keep(world: World) -> None:
    """A record is a dead letter and in its lane."""
    read = world.rng.choice(world.reads)
    at = {"generation": 0, "offset": len(world.dead), "place": len(world.dead)}
    world.dead.append({"what": "dead", "writer": read["writer"], "seq": read["seq"], **at})


def swap_in_a_lane(world: World) -> None:
    """Two records of a key change places."""
    one, other = world.same_key()
    world.reads = [r for r in world.reads if r is one or r is other or (not _same(r, one) and not _same(r, other))]
    one["offset"], other["offset"] = other["offset"], one["offset"]


def _same(one: Row, other: Row) -> bool:
    return (one["writer"], one["seq"]) == (other["writer"], other["seq"])


def swap_across_generations(world: World) -> None:
    """A later record of a key is in the older generation, an earlier one in the newer."""
    pairs = [
        (old, new)
        for old in world.reads
        for new in world.reads
        if (old["generation"], new["generation"]) == (0, 1)
        and (old["key"], old["writer"]) == (new["key"], new["writer"])
    ]
    old, new = world.rng.choice(pairs)
    world.reads = [r for r in world.reads if r is old or r is new or (not _same(r, old) and not _same(r, new))]
    old["seq"], new["seq"] = new["seq"], old["seq"]


def split_a_key(world: World) -> None:
    """The last record of a key is in another lane of its generation."""
    _, read = world.same_key()
    at = next(n for n, row in enumerate(world.reads) if row is read)
    read["lane"] = read["expected_lane"] = (read["lane"] + 1) % LANES
    read["offset"] = 100_000 + at


def misroute(world: World) -> None:
    """A whole key is in a lane that the contract does not give it."""
    key, generation = world.rng.choice(world.reads)["key"], 1
    for read in world.reads:
        if (read["key"], read["generation"]) == (key, generation):
            read["expected_lane"] = (read["lane"] + 1) % LANES


def write_as_a_zombie(world: World) -> None:
    """A record of an older epoch in the middle of a lane's log."""
    rows = world.lane_rows()
    world.rng.choice(rows[1:])["epoch"] = 0


def show_two_at_an_offset(world: World) -> None:
    """One offset of a lane shows two records."""
    rows = world.lane_rows()
    at = world.rng.randrange(1, len(rows))
    rows[at]["offset"] = rows[at - 1]["offset"]


def own_twice(world: World) -> None:
    """A second owner begins before the first has ended."""
    own = world.rng.choice([o for o in world.owns if o["t1"] is not None and o["t1"] - o["t0"] > 1])
    world.owns.append({**own, "who": "intruder", "t0": own["t1"] - 1, "t1": own["t1"] + 1})


def own_for_ever(world: World) -> None:
    """An owner never gave up a lane that others owned after it."""
    first = min((o for o in world.owns if o["lane"] == 1), key=lambda o: o["t0"])
    first["t1"] = None


def own_with_an_old_epoch(world: World) -> None:
    """An ownership of an epoch that is gone by."""
    next(o for o in world.owns if o["who"] == "c-last")["epoch"] = 0


def apply_early(world: World) -> None:
    """A record of the newer generation is applied while one of the older still is."""
    old, new = _moved(world)
    new["t0"], new["t1"] = old["t0"], old["t1"]


def apply_late(world: World) -> None:
    """A record of the older generation is applied after the newer one has begun."""
    old, new = _moved(world)
    old["t0"], old["t1"] = new["t1"] + 1, new["t1"] + 2


def _moved(world: World) -> tuple[Row, Row]:
    old = {a["key"]: a for a in world.applies if a["generation"] == 0}
    new = {a["key"]: a for a in world.applies if a["generation"] == 1}
    key = world.rng.choice(sorted(set(old) & set(new)))
    return old[key], new[key]


def never_drain(world: World) -> None:
    """A record of the older generation is never applied, and the newer generation goes on without it."""
    old, _ = _moved(world)
    read = next(r for r in world.reads if _place(r) == _place(old))
    twins = [_place(r) for r in world.reads if _same(r, read)]
    world.applies = [a for a in world.applies if _place(a) not in twins]


def _place(row: Row) -> tuple[int, int, int]:
    return row["generation"], row["lane"], row["offset"]


def cut_over_too_soon(world: World) -> None:
    """The older generation is applied after the moment that was said to be the cut-over."""
    last = max(a["t1"] for a in world.applies if a["generation"] == 0)
    world.cutovers.append({"what": "cutover", "generation": 1, "t0": last - 1})


def repeat_in_the_middle(world: World) -> None:
    """At-least-once: one record is there again, and what comes next is not what came next the first time."""
    rows = world.writer_rows()
    rows[-2]["offset"] += 100_000
    rows[-1]["offset"] += 100_000
    world.reads.append({**rows[1], "offset": rows[-2]["offset"] - 1, "replay": True})


def leave_a_gap_in_a_rewind(world: World) -> None:
    """At-least-once: a rewind leaves out a record that it should go over again."""
    rows = world.writer_rows()
    again = [{**row, "replay": True, "offset": 100_000 + n} for n, row in enumerate((rows[-4], rows[-2], rows[-1]))]
    world.reads += again


def hide_a_replay(world: World) -> None:
    """At-least-once: a rewind that nobody marked, where others are marked."""
    rows = world.lane_rows()
    world.reads.append({**rows[-1], "offset": rows[-1]["offset"] + 1, "replay": False})


def change_a_value(world: World) -> None:
    """A record comes out with another content."""
    read = world.rng.choice(world.reads)
    for one in world.reads:
        if _same(one, read):
            one["digest"] ^= 1 << world.rng.randrange(63)


def change_a_letter(world: World) -> None:
    """A dead letter is not what was sent."""
    world.rng.choice(world.dead)["digest"] ^= 1


def change_a_time(world: World) -> None:
    """A record comes out at another time."""
    world.rng.choice(world.reads)["stamp"] += 1


def null_a_key(world: World) -> None:
    """A record comes out without the key that it was sent with."""
    world.rng.choice(world.reads)["key"] = None


def null_the_keys_of_a_lane(world: World) -> None:
    """No record of a lane has its key."""
    for read in world.lane_rows():
        read["key"] = None


def give_a_key(world: World) -> None:
    """A record that was sent without a key has one."""
    next(one for one in world.dead if one["key"] is None)["key"] = b"k1"


def leave_a_gap(world: World) -> None:
    """Files only: the offsets of a lane jump."""
    for row in world.lane_rows()[3:]:
        row["offset"] += 7


def begin_later(world: World) -> None:
    """Files only: a lane begins at another offset than 0."""
    for row in world.lane_rows():
        row["offset"] += 1_000


def begin_earlier(world: World) -> None:
    """Files only: a lane begins below 0."""
    for row in world.lane_rows():
        row["offset"] -= 50


def miss_a_letter(world: World) -> None:
    """Files only: the offsets of the dead letters jump."""
    world.dead[-1]["offset"] += 1


def reverse_a_file(world: World) -> None:
    """Files only: the records of a lane stand in reverse, each with its right offset."""
    rows = world.lane_rows()
    for row, place in zip(rows, [row["place"] for row in rows][::-1], strict=True):
        row["place"] = place


def swap_two_places(world: World) -> None:
    """Files only: two records of a lane stand in each other's place, with their right offsets."""
    one, other, *_ = world.lane_rows()
    one["place"], other["place"] = other["place"], one["place"]


def reverse_the_letters(world: World) -> None:
    """Files only: the dead letters stand in reverse."""
    for letter in world.dead:
        letter["place"] = -letter["place"] + 1_000


#: Each damage, and the rule that must report it.
BOTH_MODES: dict[Callable[[World], None], Rule] = {
    lose: "lost",
    lose_a_dead_letter: "lost",
    invent: "invented",
    read_an_aborted_one: "invented",
    change_a_key: "invented",
    null_a_key: "invented",
    null_the_keys_of_a_lane: "invented",
    give_a_key: "invented",
    change_a_value: "changed",
    change_a_letter: "changed",
    change_a_time: "changed",
    duplicate_elsewhere: "duplicated",
    set_aside_and_keep: "duplicated",
    swap_in_a_lane: "reordered",
    swap_across_generations: "reordered",
    split_a_key: "split_keys",
    misroute: "misrouted",
    write_as_a_zombie: "stale_epochs",
    show_two_at_an_offset: "inconsistent_offsets",
    own_twice: "two_owners",
    own_for_ever: "two_owners",
    own_with_an_old_epoch: "stale_epochs",
    apply_early: "early_applies",
    apply_late: "early_applies",
    never_drain: "early_applies",
    cut_over_too_soon: "early_applies",
}
ONCE: dict[Callable[[World], None], Rule] = {
    **BOTH_MODES,
    duplicate_at_the_end: "duplicated",
    duplicate_a_file: "duplicated",
    leave_a_gap: "offset_gaps",
    begin_later: "offset_gaps",
    begin_earlier: "offset_gaps",
    miss_a_letter: "offset_gaps",
    reverse_a_file: "unsorted",
    swap_two_places: "unsorted",
    reverse_the_letters: "unsorted",
}
REPEATED: dict[Callable[[World], None], Rule] = {
    **BOTH_MODES,
    repeat_in_the_middle: "duplicated",
    leave_a_gap_in_a_rewind: "duplicated",
    hide_a_replay: "duplicated",
}
