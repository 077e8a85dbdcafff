"""What a router takes as contract, record, key and batch; and what it says of anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from keylane import KeylaneError, Router, parse_contract
from keylane.batch_router import plainly_laid
from keylane.errors import ArgumentError, UnreadableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [tx], lanes: 15, key: {fields: [merchant]}, partitioner: kafka-java}
"""
PAIRS = TEXT.replace("[merchant]", "[merchant, country]")
KEYS = ["TT0124", None, "", "b"]
TABLE = pa.table({"other": [1, 2, 3, 4], "merchant": KEYS})
LANES = [10, None, 6, 11]
PLACED = [10, 5, 6, 11]
POSITIONS = [1, 7, 3, 4]


class Capsules:
    """A frame of a library that is not known here: all it has is the Arrow PyCapsule interface, with text as views."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class OneBatch:
    """The same, of one batch."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.combine_chunks().to_batches()[0].__arrow_c_array__(requested_schema)


VIEWS = pa.table({"merchant": pa.array(KEYS, pa.string_view())})
BATCHES: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(max_chunksize=3),
    "pandas": TABLE.to_pandas,
    "capsules": lambda: Capsules(VIEWS),
    "one batch": OneBatch,
    "records": TABLE.to_pylist,
}
COLUMNS: dict[str, Any] = {
    "array": TABLE["merchant"].combine_chunks(),
    "chunked": TABLE["merchant"],
    "pandas": pd.Series(KEYS),
    "numpy": np.array(KEYS, object),
    "list": KEYS,
    "views": VIEWS["merchant"].combine_chunks(),
}


@pytest.fixture(scope="module")
def router() -> Router:
    return Router(TEXT)


def test_a_contract_is_taken_as_text_as_path_and_as_itself(tmp_path: Path) -> None:
    path = tmp_path / "payments.yaml"
    path.write_text(TEXT)
    prints = {Router(given).contract.fingerprint for given in (TEXT, str(path), path, parse_contract(TEXT))}
    assert len(prints) == 1


def test_what_is_no_contract_is_refused_by_errors_that_python_knows() -> None:
    with pytest.raises(ArgumentError, match="got 3; allowed: a Contract, the path of its file, or its text"):
        Router(3)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(UnreadableError, match=r"no such file or directory: nowhere\.yaml"):
        Router("nowhere.yaml")
    assert issubclass(ArgumentError, TypeError)
    assert issubclass(ArgumentError, UsageError)
    assert issubclass(UnreadableError, OSError)
    assert issubclass(UnreadableError, KeylaneError)


@pytest.mark.parametrize("kind", BATCHES)
def test_every_kind_of_batch_gives_the_same_lanes(kind: str, router: Router) -> None:
    assert router.lanes(BATCHES[kind]()).to_pylist() == LANES
    assert router.lanes(BATCHES[kind](), POSITIONS).to_pylist() == PLACED
    placed = router.placements(BATCHES[kind](), POSITIONS)
    assert placed.schema == router.placements(TABLE).schema
    assert placed.to_pylist() == router.placements(TABLE, POSITIONS).to_pylist()


def test_positions_count_through_the_batches_of_a_reader(router: Router) -> None:
    nulls = pa.table({"merchant": pa.array([None] * 5, pa.string())})
    numbers = [0, 255, 256, 512, 768]
    assert router.lanes(nulls.to_reader(max_chunksize=2), numbers) == router.lanes(nulls, numbers)
    with pytest.raises(KeylaneError, match="the positions do not match"):
        router.lanes(nulls.to_reader(max_chunksize=2), [*numbers, 1024])


@pytest.mark.parametrize("batch", [TABLE, TABLE.to_batches()[0], [{"merchant": "b"}]], ids=["table", "batch", "list"])
@pytest.mark.parametrize("positions", ["ab", 3, [[1], [2]]], ids=repr)
def test_positions_that_are_no_column_are_refused(batch: Any, positions: Any, router: Router) -> None:
    with pytest.raises(ArgumentError, match="not positions of rows"):
        router.lanes(batch, positions)


def test_records_are_placed_as_one_record_is(router: Router) -> None:
    records: list[dict[str, Any]] = [{"merchant": "b"}, {}, {"merchant": "b", "x": object()}, {"merchant": b"b"}]
    assert router.lanes(records).to_pylist() == [router.place(one).lane for one in records]
    reasons = router.placements(records).column("reason").to_pylist()
    assert reasons == [one.reason and str(one.reason) for one in [router.place(record) for record in records]]
    assert reasons[1] == "missing-field"


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_keys_is_placed_as_a_batch_of_it(kind: str, router: Router) -> None:
    assert router.lanes_of_keys(COLUMNS[kind]).to_pylist() == LANES
    assert router.lanes_of_keys(COLUMNS[kind], POSITIONS).to_pylist() == PLACED


def test_a_key_alone_is_taken_where_the_key_is_one_field(router: Router) -> None:
    assert [router.lane(key) for key in KEYS] == LANES
    assert router.place("b") == router.place({"merchant": "b"})
    of_two = Router(PAIRS)
    for ask in (lambda: of_two.lane("b"), lambda: of_two.place("b"), lambda: of_two.lanes_of_keys(["b"])):
        with pytest.raises(UsageError, match=r"more than one value.*merchant, country"):
            ask()


def test_nothing_at_all_is_a_batch_too(router: Router) -> None:
    empty = TABLE.slice(0, 0)
    nothing: tuple[Any, ...] = (empty, empty.to_reader(), [], empty.to_pandas())
    for none in nothing:
        assert router.lanes(none).type == pa.int32()
    assert len(router.placements(empty.to_reader())) == len(router.lanes_of_keys([])) == 0


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.lanes({"merchant": ["b"]}), "got 'dict'; allowed: an Arrow table.*hint: lane"),
        (lambda r: r.lanes("payments.parquet"), "got 'str'; allowed: an Arrow table"),
        (lambda r: r.placements(7), "not a batch of records: got 'int'"),
        (lambda r: r.lanes(TABLE["merchant"]), "got 'pyarrow.lib.ChunkedArray'.*lanes_of_keys takes one column"),
        (lambda r: r.lane([{"merchant": "b"}]), "not a record.*hint: lanes.batch. for many"),
        (lambda r: r.lane(TABLE), "not a record.*hint: lanes.batch. for many"),
        (lambda r: r.lanes([{"merchant": "b"}, ["b"]]), "not a record"),
        (lambda r: r.lane_of_key("b"), "not a key in bytes: got 'b'.*hint: lane.key."),
        (lambda r: r.lanes_of_keys(7), "not a column of keys: got 'int'"),
    ],
)
def test_what_is_not_taken_is_a_type_error_that_says_what_is(
    ask: Callable[[Router], object], message: str, router: Router
) -> None:
    with pytest.raises(ArgumentError, match=message):
        ask(router)


def test_a_router_shows_what_it_is(router: Router) -> None:
    assert repr(router).startswith("Router('payments': stream 'tx', 15 lanes, by merchant, kafka-java; fingerprint ")


def test_views_become_text_and_nothing_else_is_copied() -> None:
    plain, views = TABLE.to_batches()[0], VIEWS.to_batches()[0]
    assert plainly_laid(plain) is plain
    assert plainly_laid(views).schema.field("merchant").type == pa.large_string()
