"""The four steps in a row: record -> routing key -> hash -> lane -> overrides. Batches: `batch_router`.

`Router(contract).lane(record)` for producers, `.place(record)` with every reason, `.lanes(batch)` and
`.placements(batch)` for batches. All four are equal on the same records, which `tests/parity` holds.
"""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from keylane.contract.given import contract_from
from keylane.contract.partitioners import FACTS, key_rule
from keylane.errors import ArgumentError, LaneCountError, UnknownNameError, UnplacedError, UsageError
from keylane.geo.bits import cell_name
from keylane.hashing.murmur2 import murmur2
from keylane.keys.cells import cell_in, routing_key_of
from keylane.keys.encode import encode, strip_registry_header
from keylane.keys.read import encode_key_value, record_reader, value_at
from keylane.keyspace.hash_keys import hash_key
from keylane.numbers import plural
from keylane.placement.fold import agreed_count, lanes_exist
from keylane.placement.keyless import RULES
from keylane.placement.overrides import HotRule, compile_overrides, named_lanes
from keylane.placement.partitioners import partitioner
from keylane.placement.ranges import KeySpace
from keylane.placement.spread import by_position, by_sub_key, lane_set
from keylane.records import Placement, Position, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from keylane.contract.given import GivenContract
    from keylane.contract.model import Contract, Key, Spread
    from keylane.contract.names import Encoding
    from keylane.placement.cell_lanes import CellLanes
    from keylane.placement.overrides import Overrides

    #: A value of a key's field.
    KeyValue: TypeAlias = str | bytes | bytearray | int | float | UUID | None
    #: What `batch_router.batches_of` takes; a frame of another library by the Arrow PyCapsule interface.
    Batch: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Sequence[Mapping[str, Any]] | Any

_VALUES: Final = (str, bytes, bytearray, int, float, UUID, type(None))


class Router:
    """A contract, ready to decide: a `Contract`, the path of its file, or its text.

    `lanes` is needed when the contract has `live`, and refused when it contradicts the contract. `stream` is
    needed when the contract has several and the placements should name another than the first.

    Shards of unequal width, and explicit hash keys, are in the contract (`spec.shards`) or given here. `key_space` is
    the layout of the stream's shards; a lane is then a number in its order. One that contradicts the contract's is
    refused. `hash_keys` are the explicit hash keys of accounts beside the contract's, numbers or decimal text, by the
    value of the key: such a key is on the lane that holds its hash key, unless the contract has a rule of its own for
    it. With a table they are refused, and so is another hash key than the contract's for an account.

    >>> router = Router('''
    ... apiVersion: keylane/v1
    ... kind: RoutingContract
    ... metadata: {name: payments}
    ... spec: {streams: [tx], lanes: 15, key: {fields: [merchant]}, partitioner: kafka-java}
    ... ''')
    >>> router.lane({"merchant": "TT0124"})
    10
    >>> router
    Router('payments': stream 'tx', 15 lanes, by merchant, kafka-java; fingerprint 7c47b4e5817e)
    """

    def __init__(
        self,
        contract: GivenContract,
        *,
        lanes: int | None = None,
        stream: str | None = None,
        key_space: KeySpace | None = None,
        hash_keys: Mapping[Any, int | str] | None = None,
    ) -> None:
        contract = contract_from(contract)
        spec = contract.spec
        self.contract = contract
        key_space = _agreed_space(KeySpace.of_contract(contract), key_space)
        self.lane_count = agreed_count(spec.lanes, len(key_space) if lanes is None and key_space else lanes)
        self.key_space = key_space or KeySpace.equal(self.lane_count)
        if len(self.key_space) != self.lane_count:
            got = f"a key space of {len(self.key_space)} lanes"
            raise LaneCountError.of("contradicts the contract", got=got, allowed=str(self.lane_count))
        self.stream = _agreed_stream(spec.streams, stream)
        self.facts = FACTS[spec.partitioner]
        self.on_null = key_rule(spec.partitioner, spec.key.on_null, "on_null")
        self.on_empty = key_rule(spec.partitioner, spec.key.on_empty, "on_empty")
        self.partitioner = partitioner(spec.partitioner, _held_as(spec.key))
        self.hash_keys = _agreed_hash_keys(spec.shards.accounts if spec.shards else {}, hash_keys or {})
        self.overrides, self._explicit = self._with_explicit(compile_overrides(contract))
        self._tier_lanes = {rule.stream: rule.lanes for rule in self.overrides.hot.values()}
        lanes_exist(max(named_lanes(contract), default=0), self.lane_count)
        self.cells = _cell_lanes(contract, self.lane_count)
        encoding = spec.key.encodings[0]
        self._routing = routing_key_of(spec.geo, others=encoding == "raw") if spec.geo else None
        self._read = record_reader(spec.key, spec.geo)
        self._hash = self.partitioner.hash.one if self.partitioner.hash else None
        self._fold = self.partitioner.fold if self._hash else None
        self._over = self.partitioner.over(self.key_space)
        self._plain = self._hash is not None and not self.overrides.any and self.cells is None

    def _with_explicit(self, overrides: Overrides) -> tuple[Overrides, dict[bytes, int]]:
        """The overrides with a pin for every explicit hash key, and these keys by base key."""
        if not self.hash_keys:
            return overrides, {}
        if self.facts.fold != "ranges":
            hint = "partitioner: kinesis-md5"
            raise UsageError.of("hash keys need lanes that are ranges", got=self.facts.name, hint=hint)
        if overrides.table is not None:
            hint = "leave hash_keys out, or the table"
            raise UsageError.of("a table gives every key its lane, and hash keys would give some another", hint=hint)
        given = {encode_key_value(value, self.contract.spec.key): number for value, number in self.hash_keys.items()}
        explicit = {base: number for base, number in given.items() if base not in overrides.hot}
        pins = {
            base: HotRule(f"explicit hash key {number}", pin=self.key_space.lane_of(number))
            for base, number in explicit.items()
        }
        return replace(overrides, hot={**overrides.hot, **pins}), explicit

    @property
    def explicit_hash_keys(self) -> Mapping[bytes, int]:
        """The explicit hash keys that decide, by base key."""
        return self._explicit

    def explicit_hash_key(self, record: Mapping[str, Any] | KeyValue) -> int | None:
        """The explicit hash key of a record's key; None where it has none, or the contract has a rule for the key."""
        base, _ = self._read(self._record(record))
        return None if base is None else self._explicit.get(base)

    def rule_of(self, record: Mapping[str, Any] | KeyValue) -> str | None:
        """What decides for a key, not its hash: `hot_keys[0]` or `table`; None where the contract has no rule."""
        try:
            base, _ = self._read(self._record(record))
        except UnplacedError:
            return None
        if base is None:
            return None
        if base in self.overrides.hot:
            return self.overrides.hot[base].where
        table = self.overrides.table
        return "table" if table is not None and table.lanes_of(base) is not None else None

    def __repr__(self) -> str:
        spec = self.contract.spec
        count = len(self.overrides.hot) - len(self._explicit)
        hot = f", {plural(count, 'hot key')}" if count else ""
        by = ", ".join(spec.key.fields) + (f" and window of {spec.key.window.field}" if spec.key.window else "")
        what = f"stream {self.stream!r}, {self.lane_count} lanes, by {by}, {spec.partitioner}{hot}"
        return f"Router({self.contract.metadata.name!r}: {what}; fingerprint {self.contract.fingerprint[:12]})"

    def lane(self, record: Mapping[str, Any] | KeyValue, position: Position | None = None) -> int | None:
        """The lane of one record; under a contract whose key is one field, the value of that field will do.

        None when its key does not decide it and no source position is given: leave the choice to the client then.
        Raises UnplacedError, with a reason of the closed list, when the record has no lane under this contract.
        """
        known: Any = record if type(record) is dict else self._record(record)
        base, key = self._read(known)
        if base and key and self._plain:
            return self._fold(self._hash(key), self._over)  # type: ignore[misc]  # both are set when _plain is
        return _placed(self._place(known, base, key, position)).lane

    def lane_of_key(self, key: bytes | None, position: Position | None = None) -> int | None:
        """The lane of a key that is bytes already, as the client sends it: for producers that have only the bytes.

        A contract with a window or a sub-key needs the record; use `lane`. Under `geo` the key is a cell, as fine as
        the finest leaf; a contract of `raw` keys hashes any other.
        """
        given: Any = key
        if given is not None and not isinstance(given, bytes):
            allowed, hint = "bytes, as the client sends them, or None", "lane(key) takes the value of a key field"
            raise ArgumentError.of("not a key in bytes", got=given, allowed=allowed, hint=hint)
        if key and self.contract.spec.key.registry_header == "strip":
            key = strip_registry_header(key)
        return _placed(self.place_of_key(key, position)).lane

    def place_of_key(self, key: bytes | None, position: Position | None = None) -> Placement:
        """As `place`, for a base key that is bytes already; raises UnplacedError for bytes that are no key."""
        if self.contract.spec.key.window is not None:
            raise UsageError.of("the lane depends on the record's time too", got="a key alone", hint="lane(record)")
        routing = self._routing(key) if key and self._routing else key
        return self._place({}, key, routing, position)

    def home_of_key(self, key: bytes, tier: int | None = None) -> int:
        """The lane of a base key by its hash alone, whatever rule the contract has for it; in a tier of so many lanes.

        Where a spread begins, and where a key of a tier is.
        """
        return self._home(self._routing(key) if self._routing else key, [], tier)

    def placed(self, record: Mapping[str, Any] | KeyValue, position: Position | None = None) -> Placement:
        """As `place`, but raises UnplacedError, as `lane` does, when the record has no lane."""
        return _placed(self.place(record, position))

    def place(self, record: Mapping[str, Any] | KeyValue, position: Position | None = None) -> Placement:
        """The placement of one record with every step explained; a record without a lane has its reason instead."""
        known = self._record(record)
        try:
            base, key = self._read(known)
        except UnplacedError as error:
            return Placement(self.stream, None, None, error.reason, (str(error),))
        return self._place(known, base, key, position)

    def lanes(self, batch: Batch, positions: Any = None) -> pa.Array:
        """The lane of every row as int32; null where `lane` gives None or raises. `placements` gives which and why.

        A batch is an Arrow table, record batch or reader, a frame of pandas or polars, whatever else has the Arrow
        PyCapsule interface, or a list of records. `positions` are the rows' positions in the source, as integers: what
        keyless rules and position spreads read.
        """
        from keylane.batch_router import lanes_of

        return lanes_of(self, batch, positions)

    def lanes_of_keys(self, keys: Any, positions: Any = None) -> pa.Array:
        """As `lanes`, for one column: the values of the key's field, under a contract whose key is one field.

        An Arrow array, a series of pandas or polars, an array of NumPy, or a list.
        """
        from keylane.batch_router import lanes_of_keys

        return lanes_of_keys(self, keys, positions)

    def placements(self, batch: Batch, positions: Any = None) -> pa.RecordBatch:
        """Columns `stream`, `lane`, `routing_key` and `reason` (null where a lane was found) for every row."""
        from keylane.batch_router import placements_of

        return placements_of(self, batch, positions)

    def only_field(self) -> str:
        """The field that is the whole key; UsageError where a key takes more."""
        key = self.contract.spec.key
        needed = (*key.fields, *([key.window.field] if key.window else []))
        if len(needed) != 1:
            hint = f"a record, or a batch, with {', '.join(needed)}"
            raise UsageError.of("the key of this contract is more than one value", got="one value", hint=hint)
        return needed[0]

    def _record(self, given: Any) -> Any:
        """A record, or the value of a key's only field as one."""
        if isinstance(given, _VALUES):
            return {self.only_field(): given}
        if not hasattr(given, "keys") and not hasattr(given, "asDict"):
            hint = "lanes(batch) for many" if hasattr(given, "__len__") or hasattr(given, "schema") else ""
            raise ArgumentError.of("not a record", got=given, allowed="a mapping, or one key's value", hint=hint)
        return given

    def key_space_of(self, tier: int | None) -> KeySpace:
        """The key space of the stream (None), or of a tier of this many lanes, whose ranges are equal."""
        return self.key_space if tier is None else KeySpace.equal(tier)

    def key_space_in(self, stream: str) -> KeySpace:
        """The same by the name of the stream."""
        return self.key_space_of(self._tier_lanes.get(stream))

    def _place(
        self, record: Mapping[str, Any], base: bytes | None, key: bytes | None, position: Position | None
    ) -> Placement:
        why = [_key_step(self.contract, key)]
        if base is None or key is None:
            return self._without_key(None, self.on_null, Reason.NULL_KEY, position, why)
        if not base and self.on_empty != "hash":
            return self._without_key(key, self.on_empty, Reason.EMPTY_KEY, position, why)
        if self._hash is None:
            return self._keyless(self.facts.on_null, key, position, why)
        if base in self.overrides.hot:
            return self._hot(self.overrides.hot[base], record, key, position, why)
        if self.overrides.table is not None:
            return self._from_table(record, base, key, why)
        lane = self._by_place(self.cells, base, key, why) if self.cells else self._home(key, why)
        return Placement(self.stream, lane, key, None, tuple(why))

    def _without_key(
        self, key: bytes | None, rule: str, reason: Reason, position: Position | None, why: list[str]
    ) -> Placement:
        """A null key (None), or one whose fields are empty."""
        if rule == "reject":
            return Placement(
                self.stream, None, key, reason, (*why, f"{reason.replace('-', ' ')}: the contract rejects it")
            )
        if rule == "hash":
            return Placement(self.stream, self._home(key, why), key, None, tuple(why))
        return self._keyless(rule, key, position, why)

    def _keyless(self, rule: str, key: bytes | None, position: Position | None, why: list[str]) -> Placement:
        if position is None:
            text = f"{rule}: the key does not decide the lane, and no position was given"
            return Placement(self.stream, None, key, Reason.NO_POSITION, (*why, text))
        lane = RULES[rule](_whole(position), self.lane_count)
        return Placement(self.stream, lane, key, None, (*why, f"{rule}: position {position} -> lane {lane}"))

    def _home(self, key: bytes | None, why: list[str], tier: int | None = None) -> int:
        """The lane of the hash alone; `tier` is the lane count of another stream."""
        assert self.partitioner.hash is not None
        space = self.key_space_of(tier)
        number = self.partitioner.hash.of(key)
        lane = self.partitioner.fold(number, self.partitioner.over(space))
        width = self.partitioner.hash.bits // 4
        why.append(f"hash: {self.partitioner.hash.name} -> 0x{number:0{width}x}")
        named = f" ({space.names[lane]})" if space.names else ""
        why.append(f"placement: {self.facts.fold} over {len(space)} lanes -> lane {lane}{named}")
        return lane

    def _by_place(self, cells: CellLanes, base: bytes, key: bytes, why: list[str]) -> int:
        """The lane of the leaf that holds the cell, or of the hash of its ancestor; other keys by their own hash."""
        cell = cell_in(base)
        leaf = None if cell is None else cells.leaf_of(cell)
        if cell is not None:
            why.append(f"cell: {cell_name(cell)}")
        if leaf is not None:
            why.append(f"geo: in leaf {cell_name(leaf[0])} -> lane {leaf[1]}")
            return leaf[1]
        if cell is not None:
            why.append(f"geo: in no leaf; its ancestor at resolution {cells.resolution} is {key.hex()[1:]}")
        return self._home(key, why)

    def _hot(
        self, rule: HotRule, record: Mapping[str, Any], key: bytes, position: Position | None, why: list[str]
    ) -> Placement:
        stream = rule.stream or self.stream
        if rule.pin is not None:
            return Placement(stream, rule.pin, key, None, (*why, f"override: {rule.where} pins it to lane {rule.pin}"))
        home = self._home(key, why, rule.lanes)
        if rule.stream:
            why.append(f"override: {rule.where} moves it to {stream}")
        if rule.spread is None:
            return Placement(stream, home, key, None, tuple(why))
        among = lane_set(rule.spread, home, rule.lanes or self.lane_count)
        return self._spread(rule, rule.spread, among, record, key, position, why)

    def _spread(
        self,
        rule: HotRule,
        spread: Spread,
        among: Sequence[int],
        record: Mapping[str, Any],
        key: bytes,
        position: Position | None,
        why: list[str],
    ) -> Placement:
        stream = rule.stream or self.stream
        why.append(f"override: {rule.where} spreads it over lanes {list(among)}")
        if spread.by is not None:
            try:
                lane = by_sub_key(sub_key_hash(record, spread.by), among)
            except UnplacedError as error:
                return Placement(stream, None, key, error.reason, (*why, str(error)))
            return Placement(stream, lane, key, None, (*why, f"by {spread.by} -> lane {lane}"))
        if position is None:
            return Placement(stream, None, key, Reason.NO_POSITION, (*why, "by position, but no position was given"))
        lane = by_position(_whole(position), among)
        return Placement(stream, lane, key, None, (*why, f"by position {position} -> lane {lane}"))

    def _from_table(self, record: Mapping[str, Any], base: bytes, key: bytes, why: list[str]) -> Placement:
        assert self.overrides.table is not None
        among = self.overrides.table.lanes_of(base)
        if among is None and self.overrides.table_rejects:
            return Placement(self.stream, None, key, Reason.NOT_IN_TABLE, (*why, "the key is not in the table"))
        if among is None:
            return Placement(self.stream, self._home(key, why), key, None, tuple(why))
        if len(among) == 1:
            return Placement(self.stream, among[0], key, None, (*why, f"table -> lane {among[0]}"))
        try:
            lane = by_sub_key(sub_key_hash(record, self.overrides.table_by or ""), among)
        except UnplacedError as error:
            return Placement(self.stream, None, key, error.reason, (*why, str(error)))
        return Placement(self.stream, lane, key, None, (*why, f"table: lanes {list(among)} -> lane {lane}"))


def _placed(placement: Placement) -> Placement:
    if placement.reason is None or placement.reason is Reason.NO_POSITION:
        return placement
    raise UnplacedError(f"no lane: {placement.why[-1]}", placement.reason)


def _whole(position: Any) -> int:
    try:
        return index(position)
    except TypeError:
        raise UsageError.of("not a source position", got=position, allowed="a whole number") from None


def sub_key_hash(record: Mapping[str, Any], field: str) -> int:
    """murmur2 of a sub-key's text; a null sub-key counts as the empty text."""
    value = value_at(record, field)
    return murmur2(b"" if value is None else encode(value, "utf8"))


def _key_step(contract: Contract, key: bytes | None) -> str:
    fields = ", ".join(contract.spec.key.fields)
    shown = "null" if key is None else f"{key[:64]!r}{'…' if len(key) > 64 else ''} ({len(key)} bytes)"
    held = "place" if contract.spec.key.is_place else "+".join(contract.spec.key.encodings)
    return f"key: {fields} as {held} -> {shown}"


def _held_as(key: Key) -> Encoding:
    """How a hash that knows types sees the routing key: as its one field, as a cell, or as bytes."""
    return "h3" if key.is_place else key.encodings[0] if len(key.fields) == 1 and not key.window else "raw"


def _cell_lanes(contract: Contract, lanes: int) -> CellLanes | None:
    """Only a contract with lanes by location pays for arrays."""
    if contract.spec.geo is None:
        return None
    from keylane.placement.cell_lanes import cell_lanes

    return cell_lanes(contract, lanes)


def _agreed_space(own: KeySpace | None, given: KeySpace | None) -> KeySpace | None:
    """The key space of the contract, or that which was given; of both the given one, which knows the ids of today."""
    if own is None or given is None or tuple(own.starts) == tuple(given.starts):
        return given or own
    differ = sorted(set(own.starts) ^ set(given.starts))
    got = f"{len(given)} shards, of which boundaries differ: {differ[0]}{', …' if differ[1:] else ''}"
    hint = "the layout of today in the contract, as a new epoch, or lanes: live"
    raise LaneCountError.of("not the shards of the contract", got=got, allowed=f"{len(own)} shards", hint=hint)


def _agreed_hash_keys(own: Mapping[str, str], given: Mapping[Any, int | str]) -> dict[Any, int]:
    """The hash keys of the contract and those given; an account has one."""
    known: dict[Any, int] = {account: hash_key(text) for account, text in own.items()}
    for account, number in given.items():
        key = hash_key(number) if isinstance(number, str) else number
        if known.setdefault(account, key) != key:
            got = f"{account!r}: {key}, and {known[account]} in the contract"
            raise UsageError.of("an account has two hash keys", got=got, hint="leave one of them out")
    return known


def _agreed_stream(streams: Sequence[str], given: str | None) -> str:
    if given is not None and given not in streams:
        raise UnknownNameError.among("stream of this contract", given, streams)
    return given or streams[0]
