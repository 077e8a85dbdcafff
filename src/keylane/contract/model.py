"""The contract as frozen models. The field descriptions here are the JSON Schema's and the documentation's.

Reading a file into it, with every problem at once: `parse`. What one field requires of another: `validate`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from keylane.contract.names import FIXED_WIDTH, MAX_EPOCH, MAX_LANES, Encoding, KeyRule, PartitionerName
from keylane.contract.shards import HASH_KEY_PATTERN, MAX_HASH_KEYS
from keylane.errors import UsageError

__all__ = [
    "Contract",
    "Expect",
    "Geo",
    "Golden",
    "HotKeys",
    "Key",
    "KeyValue",
    "Metadata",
    "Pin",
    "PinnedKey",
    "ShardRange",
    "Shards",
    "Spec",
    "Spread",
    "Table",
    "TableRange",
    "Tier",
    "Window",
]

LaneCount: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=MAX_LANES)]
Lane: TypeAlias = Annotated[int, Field(strict=True, ge=0, lt=MAX_LANES)]
Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,248}$")]
FieldName: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Scalar: TypeAlias = (
    Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
    | Annotated[str, StringConstraints(strict=True, max_length=65_536)]
)
Degrees: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Scale: TypeAlias = Annotated[float, Field(strict=True, ge=100, le=1e12)]
HashKeyText: TypeAlias = Annotated[str, StringConstraints(strict=True, pattern=HASH_KEY_PATTERN)]
#: A file in the folder of the contract or below it.
FileName: TypeAlias = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=1_000)]
#: One logical key: a value, or a list of values when the key has several fields.
KeyValue: TypeAlias = Scalar | Annotated[tuple[Scalar, ...], Field(min_length=1, max_length=16)]
Duration: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^([1-9][0-9]{0,8}(ms|s)|[1-9][0-9]{0,6}m|[1-9][0-9]{0,5}h|[1-9][0-9]{0,4}d)$"),
]


_MICROS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Metadata(_Model):
    """Who the contract is. Only name and epoch are part of the fingerprint."""

    name: Name = Field(description="The contract's name, the same in every epoch.")
    epoch: int = Field(1, strict=True, ge=1, le=MAX_EPOCH, description="Raised by one with each change of placement.")
    owner: str | None = Field(None, max_length=255, description="The person or team to contact.")
    labels: dict[str, str] = Field(default_factory=dict, max_length=64, description="Free-form labels.")


class Window(_Model):
    """A time window that becomes the last part of the key: `(merchant, hour)`, `(query, window start)`."""

    field: FieldName = Field(description="The field that holds the record's time.")
    size: Duration = Field(description="Length of a window: 500ms, 30s, 5m, 1h, 1d. Windows start at 1970-01-01 UTC.")
    unit: Literal["s", "ms", "us"] = Field("ms", description="Unit of integer times; timestamps do not need it.")
    as_: Literal["start_ms", "start_s", "index"] = Field(
        "start_ms", alias="as", description="How the window is written: its start, or its number."
    )

    @property
    def micros(self) -> int:
        """The size in microseconds."""
        digits = self.size.rstrip("smhd")
        return int(digits) * _MICROS[self.size[len(digits) :]]


class Key(_Model):
    """Which fields a record is ordered by, and their exact bytes."""

    fields: Annotated[tuple[FieldName, ...], Field(min_length=1, max_length=16)] = Field(
        description="The fields of the key, in order. A null in any of them makes the key null."
    )
    encoding: Encoding | Annotated[tuple[Encoding, ...], Field(min_length=1, max_length=16)] = Field(
        "utf8", description="How a value becomes bytes; one for all fields, or one for each."
    )
    join: Annotated[str, StringConstraints(max_length=16)] | None = Field(
        None,
        description="Separator of the parts. Default: `|`, or empty when every part has a fixed width.",
    )
    window: Window | None = Field(None, description="A time window as the last part of the key.")
    on_null: KeyRule = Field("client", description="How a null key is handled. `client`: as the named client does.")
    on_empty: KeyRule = Field("client", description="How an empty key is handled.")
    registry_header: Literal["keep", "strip"] = Field(
        "keep",
        description="The five bytes a schema registry puts before a key: part of it, or not (raw keys only).",
    )

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One encoding for each field."""
        return (self.encoding,) * len(self.fields) if isinstance(self.encoding, str) else self.encoding

    @property
    def is_place(self) -> bool:
        """Whether the two fields are a latitude and a longitude, which make one key: the cell there."""
        return "place" in self.encodings

    @property
    def fixed_width(self) -> bool:
        """Whether every part always takes the same number of bytes."""
        return all(encoding in FIXED_WIDTH for encoding in self.encodings)

    @property
    def joined_by(self) -> bytes:
        """What stands between the parts: as written, or the default of such parts."""
        return (b"" if self.fixed_width else b"|") if self.join is None else self.join.encode()


class Spread(_Model):
    """Several lanes for one key: order is kept per sub-key, or given up."""

    over: Annotated[int, Field(strict=True, ge=2, le=256)] | None = Field(
        None, description="Number of lanes, counted upwards from the key's own."
    )
    lanes: Annotated[tuple[Lane, ...], Field(min_length=2, max_length=256)] | None = Field(
        None, description="The lane numbers."
    )
    by: FieldName | None = Field(None, description="The sub-key: records that share it share a lane, in order.")
    by_position: bool = Field(False, strict=True, description="By position in the source: even, but no order is kept.")


class Pin(_Model):
    """A lane of its own choosing for each of the keys; per-key order is kept."""

    lanes: Annotated[tuple[Lane, ...], Field(min_length=1, max_length=10_000)] = Field(
        description="As many lanes as keys: the first key goes to the first lane."
    )


class PinnedKey(_Model):
    """A key and its lane, side by side: for review, one a line."""

    key: KeyValue = Field(description="The key, as a value; a list of values when the key has several fields.")
    lane: Lane = Field(description="Its lane.")


class Tier(_Model):
    """Another stream for these keys."""

    stream: Name = Field(description="The stream that receives them.")
    lanes: LaneCount = Field(description="How many lanes that stream has.")
    spread: Spread | None = Field(None, description="Spread each key inside the tier.")


class HotKeys(_Model):
    """What some heavy keys do instead. Every other key stays where it was."""

    keys: Annotated[tuple[KeyValue, ...], Field(max_length=10_000)] = Field(
        (),
        description="The keys, as values; a list for each when the key has several fields. Without the window. "
        "Required, but for `pins`, which names its own.",
    )
    pins: Annotated[tuple[PinnedKey, ...], Field(max_length=10_000)] = Field(
        (), description="Keys with their lanes; the same as `keys` with `pin`, in a form that can be reviewed."
    )
    pin: Pin | None = None
    spread: Spread | None = None
    tier: Tier | None = None

    @property
    def named(self) -> tuple[KeyValue, ...]:
        """The keys of this rule, in whichever form they are written."""
        return tuple(one.key for one in self.pins) or self.keys

    @property
    def pinned(self) -> tuple[int, ...] | None:
        """The lane of each of them, where they are pinned."""
        if self.pins:
            return tuple(one.lane for one in self.pins)
        return self.pin.lanes if self.pin else None


class TableRange(_Model):
    """Keys from one value up to, not including, another: integers by number, text by its bytes."""

    from_: Scalar | None = Field(None, alias="from", description="The first key; open below when left out.")
    below: Scalar | None = Field(None, description="The first key after; open above when left out.")
    lane: Lane


class Table(_Model):
    """Lanes from a list instead of a hash: the shards of a database, or accounts packed by volume."""

    values: dict[Scalar, Lane | Annotated[tuple[Lane, ...], Field(min_length=1, max_length=256)]] = Field(
        default_factory=dict,
        max_length=100_000,
        description="A key and its lane, or its few lanes (then with `by`).",
    )
    ranges: Annotated[tuple[TableRange, ...], Field(max_length=10_000)] = ()
    by: FieldName | None = Field(None, description="The sub-key that divides a key among its few lanes.")
    otherwise: Literal["hash", "reject"] = Field("hash", description="How a key outside the table is handled.")


class Geo(_Model):
    """Lanes by location: of a cell's ancestors, from a lane table of cells, or from a hash of the ancestor."""

    resolution: int = Field(
        strict=True, ge=0, le=9, description="A cell in no leaf has the lane of the hash of its ancestor here."
    )
    leaves: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=4_000_000)], ...], Field(max_length=MAX_LANES)
    ] = Field(
        (),
        description="The lane table: for each lane its cells, hexadecimal with spaces between; a cell stands for "
        "all its descendants, and its trailing f may be left out.",
    )
    checksum: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None,
        description="SHA-256 of the lane table; `keylane geo table` writes it, and a table that differs is refused.",
    )
    region: tuple[Degrees, Degrees, Degrees, Degrees] | None = Field(
        None, description="South, west, north, east: locations outside go to the dead letters. West may be above east."
    )
    scale: Scale | None = Field(
        None,
        description="For locations in whole numbers: how many make a degree, as 10000000 where 407637000 is 40.7637.",
    )


class ShardRange(_Model):
    """A shard: a range of the key space, both ends included."""

    id: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=255)] = Field(
        description="The id that the service gave it."
    )
    start: HashKeyText = Field(description="The first hash key of it, as decimal text in quotes.")
    end: HashKeyText = Field(description="The last hash key of it.")


class Shards(_Model):
    """Shards of unequal width, and accounts with explicit hash keys; for a partitioner with ranges."""

    layout: Annotated[tuple[ShardRange, ...], Field(min_length=1, max_length=MAX_LANES)] | FileName | None = Field(
        None,
        description="The open shards, or the JSON file that has them, as `keylane shards plan --write` makes it; in "
        "the folder of the contract or below it. Default: shards of equal width.",
    )
    hash_keys: Annotated[dict[str, HashKeyText], Field(max_length=MAX_HASH_KEYS)] | FileName = Field(
        default_factory=dict,
        description="Accounts with their explicit hash keys, or the CSV file that has them, as `keylane shards keys "
        "list -o csv` prints it. Every other key lies at its MD5.",
    )

    @property
    def ranges(self) -> tuple[ShardRange, ...] | None:
        """The shards in the order of their ranges; None where they are of equal width, or asked for."""
        if isinstance(self.layout, str):
            raise _unread("layout", self.layout)
        return self.layout and tuple(sorted(self.layout, key=lambda one: int(one.start)))

    @property
    def accounts(self) -> dict[str, str]:
        """The hash key of each account that has one."""
        if isinstance(self.hash_keys, str):
            raise _unread("hash_keys", self.hash_keys)
        return self.hash_keys


def _unread(what: str, name: str) -> UsageError:
    hint = "load_contract(path) reads it"
    return UsageError.of(f"the contract names a file of {what} that was not read", got=name, hint=hint)


class Expect(_Model):
    """What the traffic must look like; `check --data` ends with 4 when it does not."""

    max_over_mean: float | None = Field(
        None, strict=True, ge=1, le=1e6, description="Records in the fullest lane over the mean."
    )
    max_key_share: float | None = Field(None, strict=True, gt=0, le=1, description="Share of the heaviest key.")
    min_distinct_keys: int | None = Field(None, strict=True, ge=1, le=10**12, description="Fewest different keys.")
    max_null_share: float | None = Field(None, strict=True, ge=0, le=1, description="Share of null and empty keys.")


class Golden(_Model):
    """An example that must hold, for every program in every language that claims this contract."""

    key: KeyValue | None = Field(None, description="The key, for contracts whose lane depends on it alone.")
    record: dict[FieldName, Scalar | Degrees] | None = Field(
        None, description="Or all fields that the lane depends on; a location is given in degrees."
    )
    lane: Lane
    lanes: LaneCount | None = Field(None, description="The lane count it holds for; default: the contract's.")
    stream: Name | None = Field(None, description="The stream, where a tier takes the key.")


class Spec(_Model):
    """How a key becomes a lane."""

    streams: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)] = Field(
        description="Streams that keep this contract; they are co-partitioned by construction."
    )
    lanes: LaneCount | Literal["live"] = Field(description="The lane count, or `live`: ask the cluster.")
    key: Key
    partitioner: PartitionerName = Field(description="The partitioner, named after the client that uses it.")
    hot_keys: Annotated[tuple[HotKeys, ...], Field(max_length=1000)] = ()
    table: Table | None = None
    geo: Geo | None = Field(None, description="Lanes by location; for keys that are locations or H3 cells.")
    shards: Shards | None = Field(None, description="Shards of unequal width, and explicit hash keys.")
    expect: Expect = Expect()
    golden: Annotated[tuple[Golden, ...], Field(max_length=10_000)] = ()


class Contract(_Model):
    """The file that defines how a key becomes a lane. Immutable; a change is a new epoch."""

    api_version: Literal["keylane/v1"] = Field(alias="apiVersion")
    kind: Literal["RoutingContract"]
    metadata: Metadata
    spec: Spec

    @property
    def fingerprint(self) -> str:
        """One number for the promise; see `contract.fingerprint`."""
        from keylane.contract.fingerprint import fingerprint

        return fingerprint(self)

    @property
    def tiers(self) -> dict[str, int]:
        """The streams that hot keys are moved to, and their lanes."""
        return {rule.tier.stream: rule.tier.lanes for rule in self.spec.hot_keys if rule.tier}
