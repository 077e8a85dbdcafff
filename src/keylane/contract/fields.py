"""Which fields of a record a contract looks at, and what each holds: the question every reader of records asks.

    fields_of   the names, key fields first
    FieldSpec   names with what they hold, for a reader: a column of a file, or a part of a message
    steps_of    a name as a path: `payload.merchant.id` is a field of a field of a field

The rule for a name with dots: a field whose own name it is, at the top, comes first; otherwise the name is a path.
Where records have a schema the schema decides, otherwise each record does. A parent that is null makes the field null;
a parent that is not there makes it missing.

The same spec has two executions that are held equal: Arrow columns (`systems.messages.values`) and Spark expressions
(`spark.messages`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from keylane.errors import NoSuchFieldError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.contract.model import Contract, Key
    from keylane.contract.names import Encoding

#: `text` is that of a key: written as text, or as a whole number. `written` is the text of anything, as it is written.
FieldKind: TypeAlias = Literal["text", "written", "integer", "degrees", "flag"]
#: The field of a message that is its own time, whatever other field has that name.
TIME: Final = "timestamp"
#: Bytes of a key that spells a number.
_WIDTHS: Final[dict[str, int]] = {"int32be": 4, "int64be": 8, "h3": 8}

#: More names than these would bury the rest of an error.
_SHOWN: Final = 40


def steps_of(name: str) -> tuple[str, ...]:
    """The names on the way to a nested field; only the name itself where it has no dots, or an empty part.

    >>> steps_of("payload.merchant.id"), steps_of("id"), steps_of("a..b")
    (('payload', 'merchant', 'id'), ('id',), ('a..b',))
    """
    steps = tuple(name.split("."))
    return steps if all(steps) else (name,)


def absent_name(name: str) -> str:
    """The boolean column by which a reader that can tell marks the records that do not have a field.

    Where there is no such column, every record has the field, and null is a value of it.
    """
    return f"keylane_absent:{name}"


def resolved_name(name: str) -> str:
    """The column of a field's values in records without a schema, where no column of the source can hold them."""
    return f"keylane_field:{name}"


def paths_in(tree: Mapping[str, Any]) -> list[str]:
    """The names of all fields, those within others by their paths; `tree` has a mapping where a field has fields.

    >>> paths_in({"id": None, "payload": {"merchant": {"id": None}}})
    ['id', 'payload.merchant.id']
    """
    return list(_paths(tree))


def _paths(tree: Mapping[str, Any]) -> Iterator[str]:
    for name, inner in tree.items():
        if inner:
            yield from (f"{name}.{path}" for path in _paths(inner))
        else:
            yield str(name)


def in_tree(tree: Mapping[str, Any], name: str) -> bool:
    """Whether a field is among those of a tree, by its name or by its path.

    >>> in_tree({"payload": {"id": {}}}, "payload.id"), in_tree({"payload.id": {}}, "payload.id"), in_tree({}, "id")
    (True, True, False)
    """
    if name in tree:
        return True
    for step in steps_of(name):
        if step not in tree:
            return False
        tree = tree[step]
    return True


def no_such_field(what: str, name: str, known: Sequence[str], hint: str = "") -> NoSuchFieldError:
    """The error for a field that no record has: names the fields that there are, and the nearest of them."""
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    near = did_you_mean(name, known) or _same_end(name, known)
    got = None if repr(name) in what else name
    made = NoSuchFieldError.of(what, got=got, allowed=", ".join(known[:_SHOWN]) + more, hint=hint or near)
    made.got = name
    return made


def lacking_text(batch: int, names: Sequence[str]) -> str:
    """What is said of a batch none of whose records has a field that earlier ones had."""
    return f"no record of batch {batch} has {', '.join(names)}: those that depend on it become dead letters"


def _same_end(name: str, known: Sequence[str]) -> str:
    """A nested field that was asked for by its own name alone."""
    inner = [path for path in known if path.rpartition(".")[2] == name.rpartition(".")[2]]
    return f"did you mean {inner[0]!r}?" if inner else ""


def fields_of(contract: Contract) -> list[str]:
    """Every field the contract looks at, key fields first."""
    spec = contract.spec
    spreads = [rule.spread or (rule.tier.spread if rule.tier else None) for rule in spec.hot_keys]
    names = [
        *spec.key.fields,
        spec.key.window.field if spec.key.window else None,
        *(spread.by for spread in spreads if spread),
        spec.table.by if spec.table else None,
    ]
    return list(dict.fromkeys(name for name in names if name))


def kind_of_encoding(encoding: Encoding) -> FieldKind:
    """What a field of the key holds, where its source has no types."""
    return "degrees" if encoding == "place" else "integer" if encoding.startswith("int") else "text"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """Fields to read, in this order, and what they hold; text where `kinds` has no entry.

    Of messages: `key` is the name by which the message's own key is asked for, `key_encoding` how its bytes were made,
    `timestamp` the message's time; every other field is in the value.
    """

    names: tuple[str, ...] = ()
    kinds: Mapping[str, FieldKind] = field(default_factory=dict)
    key: str = "key"
    key_encoding: Encoding = "raw"

    @classmethod
    def of(cls, contract: Contract | None, names: Sequence[str] | None = None) -> FieldSpec:
        """These fields, or all that the contract looks at; the contract decides which are numbers."""
        if contract is None:
            return cls(tuple(names or ()))
        wanted = fields_of(contract) if names is None else names
        return cls.of_key(contract.spec.key, wanted)

    @classmethod
    def of_key(cls, key: Key, names: Sequence[str] | None = None) -> FieldSpec:
        """The fields of a key, or these; the key decides which are numbers."""
        encodings = dict(zip(key.fields, key.encodings, strict=True))
        kinds = {name: kind_of_encoding(encoding) for name, encoding in encodings.items()}
        if key.window is not None:
            kinds[key.window.field] = "integer"
        wanted = key.fields if names is None else names
        return cls(tuple(wanted), kinds, "key", encodings.get("key", "raw"))

    @classmethod
    def of_scan(
        cls, key: Key, names: Sequence[str], written: Sequence[str] = (), whole: Sequence[str] = ()
    ) -> FieldSpec:
        """The same, where only fields of the key have to be written as one; `written` are exempt, such as degrees.

        `whole` are whole numbers, such as lanes.
        """
        spec = cls.of_key(key, names)
        free = [name for name in names if name not in key.fields or name in written]
        kinds: dict[str, FieldKind] = {name: "written" for name in free if spec.kind(name) == "text"}
        numbers: dict[str, FieldKind] = dict.fromkeys(whole, "integer")
        return replace(spec, kinds={**spec.kinds, **kinds, **numbers})

    def keyed_by(self, key: Key) -> FieldSpec:
        """The same, with the message's own key asked for by the name of the only key field, as producers send it.

        Not where the key has several fields, or a field is called `key`.
        """
        if len(key.fields) != 1 or "key" in {*self.names, *key.fields}:
            return self
        return replace(self, key=key.fields[0], key_encoding=key.encodings[0])

    @classmethod
    def sent(cls, contract: Contract | None, *, keys_sent: bool) -> FieldSpec:
        """All that the contract looks at; with `keys_sent` the message's own key is its only key field."""
        spec = cls.of(contract)
        return spec.keyed_by(contract.spec.key) if keys_sent and contract is not None else spec

    def kind(self, name: str) -> FieldKind:
        """What a field holds."""
        return self.kinds.get(name, "text")

    @property
    def text(self) -> list[str]:
        """The fields that are text, whatever they look like."""
        return [name for name in self.names if self.kind(name) == "text"]

    @property
    def of_value(self) -> tuple[str, ...]:
        """The fields of a message that are in its value."""
        return tuple(name for name in self.names if name not in {self.key, TIME})

    @property
    def of_time(self) -> bool:
        """Whether a message's time is asked for."""
        return TIME in self.names

    @property
    def key_width(self) -> int | None:
        """The bytes of a message's key that spells a number; None where it does not, or is not asked for."""
        return _WIDTHS.get(self.key_encoding) if self.key in self.names else None
