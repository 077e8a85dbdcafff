"""Ways to corrupt a good folder of lanes, each with what `verify` must name: a rule, the account, or an error."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from keylane.systems.journal import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Rows = list[dict[str, Any]]
    Mutation = Callable[[Path], None]

#: Instead of a rule: the target's own account, what is not proven, and errors.
ACCOUNT, ERROR = "miscounted", "an error"


def lane_files(target: Path) -> list[Path]:
    return sorted(target.glob("stream=t/lane=*/*.parquet"))


def letters(target: Path) -> list[Path]:
    return sorted((target / "_dead").iterdir())


def edited(file: Path, edit: Callable[[Rows], Rows | None]) -> None:
    """Write a file anew with other rows."""
    table = pq.ParquetFile(file).read()
    rows = table.to_pylist()
    changed = edit(rows)
    pq.write_table(pa.Table.from_pylist(rows if changed is None else changed, table.schema), file)


def of_lane(target: Path, batch: int = 1) -> Path:
    """A file of a lane with several records, of a batch in the middle."""
    files = [file for file in lane_files(target) if file.name == f"part-{batch:010d}.parquet"]
    return max(files, key=lambda file: pq.read_metadata(file).num_rows)


def manifest(target: Path, edit: Callable[[dict[str, Any]], None], which: int = -1) -> None:
    """Change a manifest, with the checksum that belongs to what it says then."""
    file = sorted((target / "_keylane" / "batches").iterdir())[which]
    document = read_document(file)
    assert document is not None
    edit(document)
    write_document(file, document)


def head(target: Path, **changes: Any) -> None:
    file = target / "_keylane" / "target.json"
    document = read_document(file)
    assert document is not None
    write_document(file, {**document, **changes})


def lasting(rows: Rows, at: int, **changes: Any) -> None:
    rows[at] |= changes


def renumbered(rows: Rows) -> Rows:
    """With dense offsets again, as somebody who covers the traces would write them."""
    first = min(row["keylane_offset"] for row in rows)
    return [{**row, "keylane_offset": first + n} for n, row in enumerate(rows)]


def drop_first(target: Path) -> None:
    edited(of_lane(target, 0), lambda rows: rows[1:])


def drop_middle(target: Path) -> None:
    edited(of_lane(target), lambda rows: rows[:3] + rows[4:])


def drop_last(target: Path) -> None:
    edited(of_lane(target, 2), lambda rows: rows[:-1])


def drop_and_renumber(target: Path) -> None:
    edited(of_lane(target, 2), lambda rows: renumbered(rows[:3] + rows[4:]))


def drop_a_file(target: Path) -> None:
    of_lane(target).unlink()


def drop_the_last_file(target: Path) -> None:
    of_lane(target, 2).unlink()


def drop_a_lane(target: Path) -> None:
    shutil.rmtree(of_lane(target).parent)


def empty_a_file(target: Path) -> None:
    edited(of_lane(target), lambda _: [])


def truncate_a_file(target: Path) -> None:
    file = of_lane(target)
    file.write_bytes(file.read_bytes()[:-40])


def flip_a_bit(target: Path) -> None:
    """Of a page, in a file whose pages carry checksums, as Spark writes them."""
    file = of_lane(target)
    table = pq.ParquetFile(file).read()
    pq.write_table(table, file, write_page_checksum=True, use_dictionary=False)
    data, column = bytearray(file.read_bytes()), pq.read_metadata(file).row_group(0).column(4)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    file.write_bytes(bytes(data))


def duplicate_a_record(target: Path) -> None:
    edited(of_lane(target, 2), lambda rows: [*rows, {**rows[0], "keylane_offset": rows[-1]["keylane_offset"] + 1}])


def duplicate_with_its_offset(target: Path) -> None:
    edited(of_lane(target), lambda rows: [*rows, rows[-1]])


def duplicate_a_file(target: Path) -> None:
    file = of_lane(target)
    shutil.copy(file, file.with_name("part-0000000009.parquet"))


def swap_two_of_a_key(target: Path) -> None:
    def edit(rows: Rows) -> None:
        one, other = [n for n, row in enumerate(rows) if row["k"] == "hot"][:2]
        swapped(rows, one, other)

    hot = next(f for f in lane_files(target) if "hot" in pq.ParquetFile(f).read()["k"].to_pylist())
    edited(hot, edit)


def swapped(rows: Rows, one: int, other: int) -> None:
    """Exchange two records; offsets stay where they were."""
    at = [rows[n]["keylane_offset"] for n in (one, other)]
    rows[one], rows[other] = rows[other] | {"keylane_offset": at[0]}, rows[one] | {"keylane_offset": at[1]}


def swap_two_with_their_offsets(target: Path) -> None:
    def edit(rows: Rows) -> None:
        rows[1], rows[2] = rows[2], rows[1]

    edited(of_lane(target), edit)


def swap_two_contents(target: Path) -> None:
    """Each keeps its position in the source and its key."""

    def edit(rows: Rows) -> None:
        rows[0]["n"], rows[1]["n"] = rows[1]["n"], rows[0]["n"]

    edited(of_lane(target), edit)


def swap_two_files(target: Path) -> None:
    one, other, *_ = sorted(of_lane(target).parent.iterdir())
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def reverse_a_file(target: Path) -> None:
    edited(of_lane(target), lambda rows: rows[::-1])


def reverse_with_new_offsets(target: Path) -> None:
    def edit(rows: Rows) -> Rows:
        first = rows[0]["keylane_offset"]
        return [{**row, "keylane_offset": first + n} for n, row in enumerate(rows[::-1])]

    edited(of_lane(target), edit)


def move_a_record(target: Path) -> None:
    """To the end of another lane, with dense offsets on both sides."""
    source, *others = sorted({file.parent for file in lane_files(target)})
    last, end = max(source.iterdir()), max(others[0].iterdir())
    moved = pq.ParquetFile(last).read().to_pylist()[-1]
    edited(last, lambda rows: rows[:-1])
    edited(end, lambda rows: [*rows, {**moved, "keylane_offset": rows[-1]["keylane_offset"] + 1}])


def move_a_lane(target: Path) -> None:
    folder = of_lane(target).parent
    folder.rename(folder.with_name("lane=99"))


def exchange_two_lanes(target: Path) -> None:
    one, other, *_ = sorted({file.parent for file in lane_files(target)})
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def move_to_another_stream(target: Path) -> None:
    (target / "stream=t").rename(target / "stream=other")


def null_a_key(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 2, k=None))


def null_every_key(target: Path) -> None:
    for file in lane_files(target):
        edited(file, lambda rows: [{**row, "k": None} for row in rows])


def another_key_of_the_same_lane(target: Path) -> None:
    def edit(rows: Rows) -> None:
        other = next(row["k"] for row in rows if row["k"] != rows[0]["k"])
        rows[0]["k"] = other

    file = next(f for f in lane_files(target) if len(set(pq.ParquetFile(f).read()["k"].to_pylist())) > 1)
    edited(file, edit)


def null_a_value(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 2, note=None))


def change_one_byte(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 2, note=rows[2]["note"][:-1] + "!"))


def change_a_number(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 2, n=rows[2]["n"] + 1))


def change_a_time(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 2, ts=rows[2]["ts"] + 1))


def change_the_last_bit_of_a_fraction(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 2, amount=rows[2]["amount"] * (1 + 2**-52)))


def fill_a_null(target: Path) -> None:
    def edit(rows: Rows) -> None:
        next(row for row in rows if row["maybe"] is None)["maybe"] = 0

    edited(of_lane(target), edit)


def reorder_a_list(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 2, tags=rows[2]["tags"][::-1]))


def change_a_type(target: Path) -> None:
    file = of_lane(target)
    table = pq.ParquetFile(file).read()
    at = table.schema.get_field_index("n")
    pq.write_table(table.set_column(at, "n", table["n"].cast(pa.string())), file)


def drop_a_column(target: Path) -> None:
    file = of_lane(target)
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["note"]), file)


def add_a_column(target: Path) -> None:
    file = of_lane(target)
    table = pq.ParquetFile(file).read()
    pq.write_table(table.append_column("more", pa.array(range(len(table)))), file)


def rename_a_column(target: Path) -> None:
    file = of_lane(target)
    table = pq.ParquetFile(file).read()
    pq.write_table(table.rename_columns(["remark" if n == "note" else n for n in table.column_names]), file)


def shift_positions(target: Path) -> None:
    """Every record of a file says that it is the next one of its source."""

    def edit(rows: Rows) -> None:
        for row in rows:
            row["keylane_source"] = {**row["keylane_source"], "row": row["keylane_source"]["row"] + 1}

    edited(of_lane(target), edit)


def exchange_positions(target: Path) -> None:
    def edit(rows: Rows) -> None:
        one, other = rows[0]["keylane_source"], rows[1]["keylane_source"]
        rows[0]["keylane_source"], rows[1]["keylane_source"] = other, one

    edited(of_lane(target), edit)


def another_source_file(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 0, keylane_source={"file": "other.parquet", "row": 1}))


def shift_offsets(target: Path) -> None:
    for file in lane_files(target):
        edited(file, lambda rows: [{**row, "keylane_offset": row["keylane_offset"] + 1000} for row in rows])


def negative_offsets(target: Path) -> None:
    for file in of_lane(target).parent.iterdir():
        edited(file, lambda rows: [{**row, "keylane_offset": row["keylane_offset"] - 50} for row in rows])


def hole_in_offsets(target: Path) -> None:
    edited(of_lane(target, 2), lambda rows: [{**row, "keylane_offset": row["keylane_offset"] + 7} for row in rows])


def spread_offsets(target: Path) -> None:
    edited(of_lane(target, 0), lambda rows: [{**row, "keylane_offset": row["keylane_offset"] * 7} for row in rows])


def two_records_at_an_offset(target: Path) -> None:
    edited(of_lane(target), lambda rows: lasting(rows, 1, keylane_offset=rows[0]["keylane_offset"]))


def drop_a_letter(target: Path) -> None:
    edited(letters(target)[0], lambda rows: rows[1:])


def drop_the_letters(target: Path) -> None:
    shutil.rmtree(target / "_dead")


def duplicate_a_letter(target: Path) -> None:
    edited(letters(target)[-1], lambda rows: [*rows, {**rows[0], "keylane_offset": rows[-1]["keylane_offset"] + 1}])


def change_a_letter(target: Path) -> None:
    edited(
        letters(target)[0], lambda rows: lasting(rows, 0, original=rows[0]["original"].replace(b"order-", b"Order-"))
    )


def cut_a_letter(target: Path) -> None:
    edited(letters(target)[0], lambda rows: lasting(rows, 0, original=rows[0]["original"][:-5]))


def empty_a_letter(target: Path) -> None:
    edited(letters(target)[0], lambda rows: lasting(rows, 0, original=None))


def reverse_the_letters(target: Path) -> None:
    edited(letters(target)[0], lambda rows: rows[::-1])


def set_a_good_record_aside(target: Path) -> None:
    """The last record of a lane becomes a dead letter, with everything that belongs to one."""
    file, dead = max(lane_files(target), key=lambda one: (one.name, one)), letters(target)[-1]
    record = pq.ParquetFile(file).read().to_pylist()[-1]
    edited(file, lambda rows: rows[:-1])
    own = json.dumps({name: value for name, value in record.items() if not name.startswith("keylane_")}).encode()
    letter = {"keylane_source": record["keylane_source"], "reason": "null-key", "original": own}
    edited(dead, lambda rows: [*rows, {**rows[-1], **letter, "keylane_offset": rows[-1]["keylane_offset"] + 1}])


def give_a_letter_a_lane(target: Path) -> None:
    """A dead letter is in a lane, too."""
    source = pq.ParquetFile(letters(target)[0]).read()["keylane_source"][0].as_py()
    edited(
        of_lane(target, 2),
        lambda rows: [
            *rows,
            {**rows[-1], "keylane_source": source, "keylane_offset": rows[-1]["keylane_offset"] + 1},
        ],
    )


def a_letter_of_another_contract(target: Path) -> None:
    edited(letters(target)[0], lambda rows: lasting(rows, 0, fingerprint="sha256:" + "0" * 64))


def another_contract(target: Path) -> None:
    head(target, fingerprint="sha256:" + "0" * 64)


def more_claimed(target: Path) -> None:
    def edit(document: dict[str, Any]) -> None:
        document["total"]["out"] += 1
        document["total"]["in"] += 1

    manifest(target, edit)


def sum_claimed(target: Path) -> None:
    manifest(target, lambda document: document["total"].update({"in": document["total"]["in"] + 5}))


def filtered_claimed(target: Path) -> None:
    def edit(document: dict[str, Any]) -> None:
        document["total"]["filtered"] += 2
        document["total"]["in"] += 2

    manifest(target, edit)


def next_claimed(target: Path) -> None:
    def edit(document: dict[str, Any]) -> None:
        document["next"]["t"][0] += 5

    manifest(target, edit)


def a_digit_of_a_manifest(target: Path) -> None:
    """Without a new checksum: damage, not forgery."""
    file = max((target / "_keylane" / "batches").iterdir())
    text = file.read_text()
    file.write_text(text.replace('"batch": 2', '"batch": 3') if '"batch": 2' in text else text.replace("2", "3", 1))


def a_manifest_gone(target: Path) -> None:
    min((target / "_keylane" / "batches").iterdir()).unlink()


def no_metadata(target: Path) -> None:
    shutil.rmtree(target / "_keylane")


def hide_a_file(target: Path) -> None:
    file = of_lane(target)
    file.rename(file.with_name(f".{file.name}"))


def hide_a_file_as_a_marker(target: Path) -> None:
    file = of_lane(target)
    file.rename(file.with_name(f"_{file.name}"))


def hide_the_letters(target: Path) -> None:
    file = letters(target)[0]
    file.rename(file.with_name(f".{file.name}"))


def copied(*names: str) -> list[Mutation]:
    """A copy of a file of lane 0 under each of these names, where readers that list files find it."""

    def of(name: str) -> Mutation:
        def copy(target: Path) -> None:
            to = target / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(min((target / "stream=t" / "lane=0").iterdir()), to)

        copy.__name__ = f"copy_as_{name}"
        return copy

    return [of(name) for name in names]


STRAYS = copied(
    "stream=t/lane=0/sub/part-0000000000.parquet",
    "stream=t/lane=0/part-0000000009.parquet/part-0000000009.parquet",
    "stream=t/lane=0/x",
    "stream=t/lane=0/x.csv",
    "stream=t/lane=0/x.PARQUET",
    "stream=t/lane=0/.part-0000000000.parquet.crc",
    "stream=t/lane=00/part-0000000000.parquet",
    "stream=t/lane=²/part-0000000000.parquet",
    "stream=t/lane=-1/part-0000000000.parquet",
    "stream=t/lane=99999999999/part-0000000000.parquet",
    "stream=t/x.parquet",
    "topic=t/lane=0/part-0000000000.parquet",
    "x.parquet",
    "_dead/sub/part-0000000000.dead",
)


#: What must be named: one of these rules as broken or, after a colon, as not proven.
MUTATIONS: dict[Mutation, set[str]] = {
    drop_first: {"lost", "offset_gaps"},
    drop_middle: {"lost", "offset_gaps"},
    drop_last: {"lost", ACCOUNT},
    drop_and_renumber: {"lost", ACCOUNT},
    drop_a_file: {"lost", "offset_gaps"},
    drop_the_last_file: {"lost", ACCOUNT},
    drop_a_lane: {"lost", ACCOUNT},
    empty_a_file: {"lost"},
    truncate_a_file: {ERROR},
    flip_a_bit: {ERROR},
    duplicate_a_record: {"duplicated", ACCOUNT},
    duplicate_with_its_offset: {"duplicated"},
    duplicate_a_file: {"duplicated"},
    swap_two_of_a_key: {"reordered"},
    swap_two_with_their_offsets: {"unsorted"},
    swap_two_contents: {"changed"},
    swap_two_files: {"unsorted"},
    reverse_a_file: {"unsorted"},
    reverse_with_new_offsets: {"reordered"},
    move_a_record: {"misrouted"},
    move_a_lane: {"misrouted", ACCOUNT},
    exchange_two_lanes: {"misrouted"},
    move_to_another_stream: {"misrouted", ACCOUNT},
    null_a_key: {"invented", "changed"},
    null_every_key: {"invented", "changed"},
    another_key_of_the_same_lane: {"invented", "changed"},
    null_a_value: {"changed"},
    change_one_byte: {"changed"},
    change_a_number: {"changed"},
    change_a_time: {"changed"},
    change_the_last_bit_of_a_fraction: {"changed"},
    fill_a_null: {"changed"},
    reorder_a_list: {"changed"},
    change_a_type: {"changed"},
    drop_a_column: {"changed"},
    add_a_column: {"changed"},
    rename_a_column: {"changed"},
    shift_positions: {"changed"},
    exchange_positions: {"changed"},
    another_source_file: {"invented", "lost"},
    shift_offsets: {"offset_gaps"},
    negative_offsets: {"offset_gaps"},
    hole_in_offsets: {"offset_gaps"},
    spread_offsets: {"offset_gaps"},
    two_records_at_an_offset: {"inconsistent_offsets"},
    drop_a_letter: {"lost", "offset_gaps"},
    drop_the_letters: {"lost", ACCOUNT},
    duplicate_a_letter: {"duplicated", ACCOUNT},
    change_a_letter: {"changed"},
    cut_a_letter: {"changed"},
    empty_a_letter: {"changed"},
    reverse_the_letters: {"unsorted"},
    set_a_good_record_aside: {"misrouted"},
    give_a_letter_a_lane: {"duplicated"},
    a_letter_of_another_contract: {":misrouted"},
    another_contract: {ERROR},
    more_claimed: {ACCOUNT},
    sum_claimed: {ACCOUNT},
    filtered_claimed: {ACCOUNT},
    next_claimed: {ACCOUNT},
    a_digit_of_a_manifest: {ERROR},
    a_manifest_gone: {":reordered"},
    no_metadata: {":lost", ":reordered"},
    hide_a_file: {"lost", ACCOUNT},
    hide_a_file_as_a_marker: {"lost", ACCOUNT},
    hide_the_letters: {"lost", ACCOUNT},
    **{stray: {ACCOUNT} for stray in STRAYS},
}
