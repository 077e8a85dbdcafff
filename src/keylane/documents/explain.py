"""The documents of `keylane explain`: dataclasses, because `explain` without a contract answers without pydantic.

Made by `pipelines.explain`; `documents.schemas` makes the JSON Schema of them. `Rules` says what a type does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from keylane.documents.notebook import InNotebook
from keylane.records import Reason  # noqa: TC001  pydantic reads the annotations


class Rules:
    """JSON Schema beside a type: its limits and its description. Pydantic asks for it, and is not imported here."""

    def __init__(self, **rules: object) -> None:
        self.rules = rules

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """What pydantic makes of the type, with the rules."""
        return {**handler(schema), **self.rules}


_CLOSED: Final = {"extra": "forbid"}
SCHEMA: Final = "keylane.explain/1"
Name: TypeAlias = Annotated[str, Rules(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Lane: TypeAlias = Annotated[int, Rules(minimum=0, maximum=99_999)]
Hash: TypeAlias = Annotated[str, Rules(pattern="^0x[0-9a-f]{8,32}$")]
HashKey: TypeAlias = Annotated[str, Rules(pattern="^(0|[1-9][0-9]{0,38})$")]
Hex: TypeAlias = Annotated[str, Rules(pattern="^([0-9a-f]{2})*$")]
Fingerprint: TypeAlias = Annotated[str, Rules(pattern="^[0-9a-f]{64}$")]
LaneCount: TypeAlias = Annotated[int, Rules(minimum=1, maximum=100_000, description="The lane count.")]
Key: TypeAlias = Annotated[
    str | None, Rules(description="The key; null for the null key, and for a record that has none.")
]
Text: TypeAlias = Annotated[str, Rules(minLength=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlacement:
    """Where one client puts the key."""

    __pydantic_config__: ClassVar = _CLOSED

    partitioner: Name
    lane: Annotated[Lane | None, Rules(description="Null where the key does not decide the lane under this client.")]
    hash: Hash | None
    client: Text
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneGroup:
    """The partitioners that give one lane."""

    __pydantic_config__: ClassVar = _CLOSED

    lane: Lane
    partitioners: Annotated[list[Name], Rules(minItems=1, uniqueItems=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFix:
    """A client that differs, and the setting that would make it agree."""

    __pydantic_config__: ClassVar = _CLOSED

    partitioner: Name
    lane: Lane | None
    set: Annotated[str | None, Rules(description="Null where its client has none.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractPlacement:
    """Where the contract puts the record."""

    __pydantic_config__: ClassVar = _CLOSED

    name: Text
    fingerprint: Fingerprint
    stream: Text
    lane: Lane | None
    reason: Annotated[Reason | None, Rules(description="Why there is no lane; null where there is one.")]
    why: Annotated[list[str], Rules(minItems=1, description="Every step of the decision.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOfKey:
    """Where a key lies in the key space, and the shard whose range holds it."""

    __pydantic_config__: ClassVar = _CLOSED

    md5: Annotated[Hash, Rules(description="The MD5 of the partition key.")]
    hash_key: Annotated[HashKey, Rules(description="What decides: the explicit hash key of the account, or the MD5.")]
    explicit: bool
    id: Annotated[Text, Rules(description="The id of the shard; its lane number where the contract has no ids.")]
    start: HashKey
    end: HashKey
    at: Annotated[float, Rules(minimum=0, maximum=1, description="How far along the key space the hash key lies.")]
    boundaries: Annotated[list[float], Rules(description="How far along the shards begin, at most 1,000 of them.")]
    warning: Annotated[str | None, Rules(description="What is odd about the explicit hash keys of the contract.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlacement(ContractPlacement):
    """Where a contract whose lanes are ranges puts the record."""

    shard: ShardOfKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedByClient(InNotebook):
    """A key under every client that might write it."""

    __pydantic_config__: ClassVar = _CLOSED

    schema: Literal["keylane.explain/1"] = SCHEMA
    key: Key
    routing_key: Annotated[Hex | None, Rules(description="Its bytes in hex; null for the null key.")]
    lanes: LaneCount
    placements: Annotated[list[ClientPlacement], Rules(minItems=1, description="One entry for each named partitioner.")]
    like: Annotated[Name, Rules(description="The partitioner the others should agree with.")]
    agree: Annotated[bool, Rules(description="Whether all clients that look at the key give one lane.")]
    groups: Annotated[
        list[LaneGroup], Rules(description="The partitioners by the lane they give, largest group first.")
    ]
    fixes: Annotated[
        list[ClientFix],
        Rules(
            description="Who differs from `like`, and the setting that would make it agree; none where a rule of the "
            "contract decides for this key, because no setting leads there."
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedByContract(ExplainedByClient):
    """A record under a contract, then its key under every client."""

    contract: Annotated[
        ShardPlacement | ContractPlacement, Rules(description="What the contract says; only with --contract.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedUnplaced(InNotebook):
    """A record without a key that a client could be asked about."""

    __pydantic_config__: ClassVar = _CLOSED

    schema: Literal["keylane.explain/1"] = SCHEMA
    key: Key
    lanes: LaneCount
    placements: Annotated[list[ClientPlacement], Rules(maxItems=0)]
    contract: Annotated[ContractPlacement, Rules(description="What the contract says: why there is no lane.")]


Explained: TypeAlias = ExplainedByClient | ExplainedByContract | ExplainedUnplaced


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedKeys:
    """Several keys, each as it is explained alone."""

    __pydantic_config__: ClassVar = _CLOSED

    schema: Literal["keylane.explain-keys/1"] = "keylane.explain-keys/1"
    keys: Annotated[list[Explained], Rules(minItems=2)]
