"""`keylane explain`: where keys go, under every client that might write them."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from keylane.cli.output import Result, Section, output_option
from keylane.contract.names import ENCODINGS, PARTITIONERS
from keylane.documents.explain import (
    ClientFix,
    ClientPlacement,
    ContractPlacement,
    ExplainedByClient,
    ExplainedByContract,
    ExplainedKeys,
    ExplainedUnplaced,
    LaneGroup,
)
from keylane.errors import UnplacedError, UsageError
from keylane.numbers import count
from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from keylane.contract.model import Contract
    from keylane.documents.explain import Explained
    from keylane.placement.partitioners import Partitioner
    from keylane.records import Placement
    from keylane.router import Router


SOUTHERN = re.compile(r"-[\d.]+,\s*-?[\d.]+")
#: Clients under the names that their users know them by.
KNOWN_AS: Final = {
    "librdkafka": "librdkafka (confluent-kafka, kcat, node-rdkafka, rust-rdkafka)",
    "Java": "Java",
    "sarama": "sarama (Go)",
    "kafka-go": "kafka-go (Go)",
    "kafkajs 1.x": "kafkajs 1.x (Node)",
    "kafkajs 2.x": "kafkajs 2.x (Node)",
}
#: Code of books and courses, which somebody may have deployed; of no concern to most.
TEACHING: Final = "teaching code"


class _WithPlaces(click.Command):
    """A command whose argument may be a location in the south: -33.87,151.21 is not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put such a location behind the marker that ends the options."""
        southern = [word for word in args if SOUTHERN.fullmatch(word)]
        if southern and "--" not in args:
            args = [*(word for word in args if word not in southern), "--", *southern]
        return super().parse_args(ctx, args)


def _known(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    """The partitioner of this name; of a client's, the hint is its default."""
    if name is None or name in PARTITIONERS:
        return name
    from keylane.contract.partitioners import FACTS
    from keylane.errors import did_you_mean

    usual = [one for one in PARTITIONERS if one.startswith(name) and FACTS[one].note.startswith("the default")]
    first = [*usual, *(one for one in PARTITIONERS if one.startswith(name))][:1]
    near = f"did you mean {first[0]!r}?" if first else did_you_mean(name, PARTITIONERS)
    raise UsageError.of("--like: no such partitioner", got=name, allowed=", ".join(PARTITIONERS), hint=near)


def _beginning(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    """The partitioners that a shell completes a name to."""
    return [name for name in PARTITIONERS if name.startswith(typed)]


@click.command(cls=_WithPlaces, short_help="Where does this key go, under every client that might write it?")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--lanes", "-n", type=int, help="The stream's lane (partition) count.")
@click.option("--contract", "-c", "path", type=click.Path(), help="Show the contract's decision, then every client's.")
@click.option("--field", "-f", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the record; repeatable.")
@click.option("--position", type=int, help="The record's position in its source, for rules that use it.")
@click.option(
    "--encoding",
    "-e",
    type=click.Choice(ENCODINGS),
    default="utf8",
    show_default=True,
    help="How KEY becomes bytes; raw: KEY is hex.",
)
@click.option("--null", is_flag=True, help="Explain the null key.")
@click.option("--keys-from", type=click.File("r", encoding="utf-8"), help="A file with one key a line; - for stdin.")
@click.option("--all", "everything", is_flag=True, help="Show every partitioner with its note, teaching code too.")
@click.option(
    "--like",
    callback=_known,
    shell_complete=_beginning,
    metavar="PARTITIONER",
    help="The placement the others should agree with; default: kafka-java, or the contract's.",
)
@output_option
def explain(
    keys: tuple[str, ...],
    keys_from: Any,
    path: str | None,
    encoding: str,
    null: bool,
    everything: bool,
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Show where each KEY goes, under every client that might write it.

    Shows where clients disagree, and the setting that would make each agree. Clients that do not let the key decide are
    left out: with --all they are there, with a lane of `-` and the reason.

    \b
    keylane explain TT0124 --lanes 15
    keylane explain TT0124 TT0125 TT0126 --lanes 15
    keylane explain --keys-from ticket.txt --lanes 15
    keylane explain TT0124 --contract payments.yaml
    keylane explain --contract hourly.yaml -f merchant=m-7 -f ts=1763185276000
    keylane explain --contract rides.yaml 33.4484,-112.0740
    """
    asked: list[str | None] = [*keys, *(line.rstrip("\r\n") for line in keys_from or ())]
    if null and asked:
        raise click.UsageError("KEY or --null is needed, not both")
    if not asked and (null or path is not None):
        asked = [None]
    one = _asker(path, encoding, null=null, **options)
    found = [one(key) for key in asked]
    if not found:
        raise click.UsageError("KEY is needed (or --null)")
    return (_shown(found[0], everything=everything) if len(found) == 1 else _many(found)), output


def _asker(
    path: str | None,
    encoding: str,
    *,
    null: bool,
    lanes: int | None,
    fields: tuple[str, ...],
    position: int | None,
    like: str | None,
) -> Callable[[str | None], KeyAnswer]:
    """What answers for one key, with everything that does not depend on it looked at once."""
    if path is not None:
        if click.get_current_context().get_parameter_source("encoding") is not ParameterSource.DEFAULT:
            raise click.UsageError("--encoding conflicts with the contract, which has the encoding")
        from keylane.contract.parse import load_contract
        from keylane.router import Router

        router = Router(load_contract(path), lanes=lanes)

        def by_contract(key: str | None) -> KeyAnswer:
            if key is None and not fields and not null:
                raise click.UsageError("KEY, --field or --null is needed")
            record = record_of(router.contract, key, fields, null=null)
            return explained_by(router, record, position, like, typed=_typed(key))

        return by_contract
    if fields:
        raise click.UsageError("--field goes with --contract")
    if lanes is None:
        raise click.UsageError("--lanes is needed: the lane count is never guessed. Or --contract FILE")

    def plainly(key: str | None) -> KeyAnswer:
        routing_key = None if key is None else key_bytes(key, encoding)
        return KeyAnswer(by_client(routing_key, lanes, encoding, like or "kafka-java", typed=_typed(key)))

    return plainly


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """The answer for one key; `own` are lines about the contract's decision, `needs` the fields that it lacks."""

    document: Explained
    own: list[str] = dataclass_field(default_factory=list)
    needs: tuple[str, ...] = ()


def _typed(key: str | None) -> str | None:
    """KEY as JSON can hold it: bytes of the command line that are no text are written out."""
    return key and key.encode("utf-8", "backslashreplace").decode()


def _shown(asked: KeyAnswer, *, everything: bool) -> Result:
    """One key: the answer, the lanes with their clients, and the settings that would agree."""
    document = asked.document
    code = 2 if asked.needs else 0
    mine = document.contract if isinstance(document, ExplainedByContract | ExplainedUnplaced) else None
    own = [_own(mine)] if mine else []
    if isinstance(document, ExplainedUnplaced):
        return Result(document, own, [], code, asked.own)
    every = Section(("partitioner", "lane", "client", "note"), document.placements, for_programs=not everything)
    groups = Section(("lane", "client", "partitioner"), list(_by_lane(document, everything=everything)))
    settings = [] if asked.needs else [*_settings(document, everything=everything)]
    hidden = sum(row.lane is None or row.client.startswith(TEACHING) for row in document.placements)
    more = [] if everything or not hidden else [f"{hidden} more place no key like this, or only in a book: --all"]
    answer = [*asked.own, *([""] if asked.own else []), _agreement(document, everything=everything)]
    return Result(document, [*own, every, groups, *settings], more, code, answer)


def _own(mine: ContractPlacement) -> Section:
    row = {**asdict(mine), "contract": mine.name, "why": "; ".join(mine.why)}
    return Section(("contract", "stream", "lane", "why"), [row], for_programs=True)


def _many(found: list[KeyAnswer]) -> Result:
    """Several keys: a row for each, with the lane that counts and those of clients that differ."""
    rows = []
    for asked in found:
        document = asked.document
        mine = getattr(document, "contract", None)
        like = next((row.lane for row in document.placements if row.partitioner == getattr(document, "like", "")), None)
        lane = mine.lane if mine else like
        others = sorted({*_lanes(document)} - {lane}) if isinstance(document, ExplainedByClient) else []
        rows.append({"key": document.key, "lane": lane, "agree": not others, "other_lanes": others or None})
    disagree = sum(not row["agree"] for row in rows)
    verdict = f"The clients disagree on {count(disagree)} of {count(len(rows))} keys."
    if not disagree:
        verdict = f"All clients that look at the key agree, on all {count(len(rows))} keys."
    needs = sorted({name for asked in found for name in asked.needs})
    lines = [_needed(tuple(needs))] if needs else []
    every = ExplainedKeys(keys=[asked.document for asked in found])
    section = Section(("key", "lane", "agree", "other_lanes"), rows, forms={"key": lambda key: key or "''"})
    return Result(every, [section], lines, 2 if needs else 0, [verdict])


def by_client(key: bytes | None, lanes: int, encoding: str, like: str, *, typed: str | None) -> ExplainedByClient:
    """The key under every partitioner; `typed` is the key as it was given."""
    from keylane.placement.fold import lane_count
    from keylane.placement.partitioners import partitioner

    lane_count(lanes)
    rows = [_row(partitioner(name, encoding), key, lanes, encoding) for name in PARTITIONERS]  # type: ignore[arg-type]
    groups = _groups(rows)
    return ExplainedByClient(
        key=typed,
        routing_key=None if key is None else key.hex(),
        lanes=lanes,
        placements=rows,
        like=like,
        agree=len(groups) <= 1,
        groups=groups,
        fixes=_fixes(rows, like),
    )


def _by_lane(document: ExplainedByClient, *, everything: bool) -> Iterator[dict[str, Any]]:
    """A row for each client in each lane; the lane stands in the first of its rows."""
    clients = {row.partitioner: row for row in document.placements}
    for group in document.groups:
        by: dict[str, list[str]] = {}
        for name in group.partitioners:
            row = clients[name]
            if everything or not row.client.startswith(TEACHING):
                mark = " (default)" if (row.note or "").startswith("the default") else ""
                by.setdefault(row.client, []).append(f"{name}{mark}")
        for n, (client, names) in enumerate(by.items()):
            yield {"lane": "" if n else group.lane, "client": KNOWN_AS.get(client, client), "partitioner": names}


def _settings(document: ExplainedByClient, *, everything: bool) -> Iterator[Section]:
    """One row for each client whose settings disagree, with the one that would not."""
    from keylane.contract.partitioners import FACTS

    clients = {FACTS[fix.partitioner].client: fix.set for fix in document.fixes}
    rows = [
        {"client": client, "set": text or "no setting does: pass the lane"}
        for client, text in clients.items()
        if everything or not client.startswith(TEACHING)
    ]
    if rows:
        yield Section(("client", "set"), rows, f"To place as {document.like} does:")


def _row(one: Partitioner, key: bytes | None, lanes: int, encoding: str) -> ClientPlacement:
    asked, note = _askable(one, key, encoding)
    lane = one.lane(asked, lanes) if note is None or asked != key else None
    hashed = one.hash and lane is not None and f"0x{one.hash.of(asked):0{one.hash.bits // 4}x}"
    note = note or (_without(one, key) if lane is None else None) or one.facts.note.partition(":")[0] or None
    return ClientPlacement(partitioner=one.name, lane=lane, hash=hashed or None, client=one.facts.client, note=note)


def _askable(one: Partitioner, key: bytes | None, encoding: str) -> tuple[bytes | None, str | None]:
    """The key as this client would hold it, with a note where that is not as given."""
    from keylane.keys.encode import h3_number

    if key is None or encoding in one.facts.encodings:
        return key, None
    if one.facts.hash != "java-long":
        return key, f"takes {', '.join(one.facts.encodings)} keys only"
    text = key.decode("utf-8", "replace")
    number = h3_number(text) or (int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None)
    if number is None or not -(2**63) <= number < 2**63:
        return key, "takes an 8-byte number: an H3 cell, or a whole number"
    return number.to_bytes(8, "big", signed=True), f"read as the number {number}; {one.facts.note.partition(':')[0]}"


def _without(one: Partitioner, key: bytes | None) -> str:
    if one.hash is None:
        return "ignores the key"
    rule = one.facts.on_null if key is None else one.facts.on_empty
    kind = "null" if key is None else "empty"
    return f"refuses {kind} keys" if rule == "reject" else f"places {kind} keys without the key: {rule}"


def _groups(rows: list[ClientPlacement]) -> list[LaneGroup]:
    """Partitioners by the lane they give, largest group first."""
    lanes: dict[int, list[str]] = {}
    for row in rows:
        if row.lane is not None:
            lanes.setdefault(row.lane, []).append(row.partitioner)
    return [
        LaneGroup(lane=lane, partitioners=names)
        for lane, names in sorted(lanes.items(), key=lambda g: (-len(g[1]), g[0]))
    ]


def _lanes(document: ExplainedByClient, *, everything: bool = False) -> list[int]:
    clients = {row.partitioner: row.client for row in document.placements}
    return [
        group.lane
        for group in document.groups
        if everything or not all(clients[name].startswith(TEACHING) for name in group.partitioners)
    ]


def _agreement(document: ExplainedByClient, *, everything: bool) -> str:
    """Whether clients agree, as one sentence; what only a book does is no disagreement unless it is asked for."""
    lanes = _lanes(document, everything=everything)
    if not lanes:
        return "No client lets this key decide its lane (partition)."
    if len(lanes) == 1:
        return f"All clients that look at the key agree: lane {lanes[0]} (partition {lanes[0]} of {document.lanes})."
    return f"The clients disagree: {len(lanes)} different lanes (partitions) of {document.lanes}."


def _fixes(rows: list[ClientPlacement], like: str) -> list[ClientFix]:
    """For each writer that differs from `like`, the setting that would make it agree, where its client has one."""
    from keylane.contract.partitioners import FACTS, setting_for

    wanted = next(row.lane for row in rows if row.partitioner == like)
    fixes = []
    for row in rows:
        facts = FACTS[row.partitioner]
        if row.lane != wanted and wanted is not None:
            # Within a family only null and empty keys differ, and only the client's own other setting fixes that.
            apart = facts.family != FACTS[like].family or facts.client == FACTS[like].client
            setting = setting_for(facts, FACTS[like]) if apart else None
            fixes.append(ClientFix(partitioner=row.partitioner, lane=row.lane, set=setting))
    return fixes


def explained_by(
    router: Router, record: Mapping[str, object], position: int | None, like: str | None, *, typed: str | None
) -> KeyAnswer:
    """A record under a contract, then its key under every client; `typed` is the key as it was given."""
    contract = router.contract
    placement = router.place(record, position)
    mine = ContractPlacement(
        name=contract.metadata.name,
        fingerprint=contract.fingerprint,
        stream=placement.stream,
        lane=placement.lane,
        reason=placement.reason,
        why=list(placement.why),
    )
    needs = _lacking(contract, record, placement)
    own = _decision(mine, needs)
    if placement.routing_key is None and placement.reason not in (None, Reason.NULL_KEY, Reason.NO_POSITION):
        return KeyAnswer(
            ExplainedUnplaced(key=typed, lanes=router.lane_count, placements=[], contract=mine), own, needs
        )
    like = like or contract.spec.partitioner
    shown = by_client(placement.routing_key, router.lane_count, _held_as(contract), like, typed=typed)
    document = ExplainedByContract(**{one.name: getattr(shown, one.name) for one in fields(shown)}, contract=mine)
    return KeyAnswer(document, [*own, *_in_leaf(router, placement, shown)], needs)


def _decision(mine: ContractPlacement, needs: tuple[str, ...]) -> list[str]:
    """What the contract decides, and each step to it on a line of its own."""
    steps = [f"  {step}" for step in mine.why]
    if needs:
        return [f"{mine.name}: no lane yet: {_needed(needs)}", *steps]
    if mine.lane is None:
        return [
            f"{mine.name}: no lane (partition) in {mine.stream}: {mine.reason or 'the key does not decide'}",
            *steps,
        ]
    return [f"{mine.name}: lane (partition) {mine.lane} of {mine.stream}", *steps]


def _needed(needs: tuple[str, ...]) -> str:
    return f"needs {', '.join(needs)}: " + " ".join(f"-f {name}=…" for name in needs)


def _lacking(contract: Contract, record: Mapping[str, object], placement: Placement) -> tuple[str, ...]:
    """Fields that this record's own rule needs, and that were not given."""
    if placement.lane is not None or placement.reason != Reason.MISSING_FIELD:
        return ()
    from keylane.contract.fields import fields_of

    return tuple(name for name in fields_of(contract) if name not in record)


def _in_leaf(router: Router, placement: Placement, document: ExplainedByClient) -> Iterator[str]:
    """A leaf's lane is no hash of the key, so no setting of a client comes to it, but by chance."""
    named = router.contract.spec.partitioner
    hashed = next(row.lane for row in document.placements if row.partitioner == named)
    if router.cells is not None and placement.lane not in (None, hashed):
        yield f"The lane is {placement.lane}, from the lane table: no client's own rule knows it. Pass the lane."


def _held_as(contract: Contract) -> str:
    """How the whole routing key reads to a client: as its one field, as text, or as bytes."""
    key = contract.spec.key
    if key.is_place:
        return "place"
    if len(key.fields) == 1 and key.window is None:
        return key.encodings[0]
    return "utf8" if set(key.encodings) == {"utf8"} else "raw"


# What was typed on a command line as the values that keys and records hold. Used by `explain`.


def key_bytes(text: str, encoding: str) -> bytes:
    """The bytes of a typed key; raw bytes are typed as hex digits."""
    from keylane.keys.encode import ENCODERS

    try:
        return ENCODERS[encoding](_value(text, encoding))
    except UnplacedError as error:
        raise UsageError(str(error)) from None


def _value(text: str, encoding: str) -> Any:
    read, wants = _TYPED.get(encoding, (str, ""))
    try:
        return read(text)
    except ValueError:
        raise UsageError.of(f"not a {encoding} key", got=text, allowed=wants) from None


def _place(text: str) -> Any:
    """LATITUDE,LONGITUDE, or the cell of the location."""
    return tuple(map(float, text.split(","))) if "," in text else text


_TYPED: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "raw": (bytes.fromhex, "hex digits"),
    "int32be": (int, "a whole number"),
    "int64be": (int, "a whole number"),
    "place": (_place, "LATITUDE,LONGITUDE, or an H3 cell"),
}


def _degrees(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError.of("not a latitude or longitude", got=text, allowed="a number") from None


def _two(text: str) -> list[str]:
    words = text.split(",")
    if len(words) != 2:
        raise UsageError.of("not a location", got=text, allowed="LATITUDE,LONGITUDE")
    return words


def record_of(contract: Contract, key: str | None, fields: Sequence[str], *, null: bool) -> dict[str, Any]:
    """The record as typed: KEY for a contract of one field, NAME=VALUE for the rest; or null for the whole key."""
    spec = contract.spec.key
    record: dict[str, Any] = dict(map(_pair, fields))
    if key is not None and spec.is_place:
        record |= dict(zip(spec.fields, _two(key), strict=True))
    elif key is not None:
        if len(spec.fields) != 1:
            wanted = " ".join(f"-f {name}=…" for name in spec.fields)
            raise click.UsageError(f"this contract's key has several fields: give {wanted}")
        record[spec.fields[0]] = key
    for name, encoding in zip(spec.fields, spec.encodings, strict=True):
        if name in record:
            record[name] = _degrees(record[name]) if encoding == "place" else _value(record[name], encoding)
    if spec.window and spec.window.field in record:
        record[spec.window.field] = _time(record[spec.window.field])
    return {**record, **dict.fromkeys(spec.fields)} if null else record


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"got {text!r}; allowed: NAME=VALUE", param_hint="--field")
    return name, value


def _time(text: str) -> Any:
    from datetime import datetime

    try:
        return int(text) if text.lstrip("-").isdigit() else datetime.fromisoformat(text)
    except ValueError:
        allowed = "a whole number, or an ISO time"
        raise click.BadParameter(f"got {text!r}; allowed: {allowed}", param_hint="--field") from None
