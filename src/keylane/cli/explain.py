"""`keylane explain`: where keys go, under every client that might write them."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from keylane.cli.options import LANE_COUNT, Applies, check_applies
from keylane.cli.output import Result, Section, output_option
from keylane.cli.terminal import note
from keylane.contract.names import ENCODINGS, PARTITIONERS
from keylane.documents.explain import (
    ContractPlacement,
    ExplainedByClient,
    ExplainedByContract,
    ExplainedKeys,
    ExplainedUnplaced,
    LaneGroup,
    ShardOfKey,
    ShardPlacement,
)
from keylane.errors import DataError, LaneCountError, UnplacedError, UsageError
from keylane.numbers import count, plural, share
from keylane.pipelines.explain import KeyAnswer, by_client, explained_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from keylane.contract.model import Contract
    from keylane.placement.ranges import KeySpace
    from keylane.router import Router


SOUTHERN = re.compile(r"-[\d.]+,\s*-?[\d.]+")
#: Clients under the names that their users know them by.
KNOWN_AS: Final = {
    "librdkafka": "librdkafka (confluent-kafka, kcat, node-rdkafka, rust-rdkafka)",
    "sarama": "sarama (Go)",
    "kafka-go": "kafka-go (Go)",
    "kafkajs 1.x": "kafkajs 1.x (Node)",
    "kafkajs 2.x": "kafkajs 2.x (Node)",
}
#: Code of books and courses, which somebody may have deployed; of no concern to most.
TEACHING: Final = "teaching code"
#: Letters of the line that stands for the key space, and shards up to which their boundaries are in it.
DRAWN, FEW_SHARDS = 66, 33
#: Under a contract of shards.
_NOT_COMPARED: Final = "clients of Kafka do not write to shards, and are not compared; --all does"
#: Characters of a key in a table of several.
LONG_KEY: Final = 120
encoding_option = click.option(
    "--encoding",
    "-e",
    type=click.Choice(ENCODINGS),
    default="utf8",
    show_default=True,
    help="How KEY becomes bytes; raw: KEY is hex.",
)


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
    first = [*usual, *(one for one in PARTITIONERS if one.startswith(name) or name in one.split("-"))][:1]
    near = f"did you mean {first[0]!r}?" if first else did_you_mean(name, PARTITIONERS)
    raise UsageError.of("--like: no such partitioner", got=name, allowed=", ".join(PARTITIONERS), hint=near)


def _beginning(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    """The partitioners that a shell completes a name to."""
    return [name for name in PARTITIONERS if name.startswith(typed)]


@click.command(cls=_WithPlaces, short_help="Where does this key go, under every client that might write it?")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--lanes", "-n", type=LANE_COUNT, help="The stream's lane (partition) count.")
@click.option("--layout", metavar="FILE", help="The stream's shards, with a contract of live lanes: a file or address.")
@click.option("--contract", "-c", "path", type=click.Path(), help="Show the contract's decision, then every client's.")
@click.option("--field", "-f", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the record; repeatable.")
@click.option("--position", type=click.IntRange(min=0), help="The record's position, for rules that use it.")
@encoding_option
@click.option("--null", is_flag=True, help="Explain the null key.")
@click.option(
    "--keys-from", type=click.File("r", encoding="utf-8-sig"), help="A file with one key a line; - for stdin."
)
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
    keylane explain acme --contract accounts.yaml --layout kinesis://eu-west-1/accounts
    """
    asked: list[str | None] = [*keys, *_lines_of(keys_from)]
    if "-" in keys:
        note("explain: '-' is taken as a key; --keys-from - reads keys from stdin")
    if null and asked:
        raise click.UsageError("KEY or --null is needed, not both")
    if keys_from is not None and not asked:
        raise DataError.of(f"{keys_from.name} has no keys", got="an empty file", allowed="one key a line, in UTF-8")
    if not asked and (null or path is not None):
        asked = [None]
    one = _asker(path, encoding, null=null, **options)
    found = [one(key) for key in asked]
    if not found:
        raise click.UsageError("KEY is needed (or --null)")
    # Of shards the clients of Kafka are compared only where that is asked for.
    if found[0].ranges and not everything and options["like"] is None:
        return (_of_shards(found[0]) if len(found) == 1 else _many_of_shards(found)), output
    return (_shown(found[0], everything=everything) if len(found) == 1 else _many(found)), output


def _shards_at(layout: str) -> KeySpace:
    """The shards of a file, or of the stream at an address."""
    from keylane.pipelines.shards import layout_at

    return layout_at(layout)[0].key_space


def _lines_of(file: Any) -> Iterator[str]:
    """The keys of a file, one a line; a file of records is not one of keys."""
    try:
        yield from (line.rstrip("\r\n") for line in file or ())
    except UnicodeDecodeError as error:
        what, allowed = f"{file.name} is not a text of keys", "one key a line, in UTF-8"
        hint = "the keys of a data file: keylane profile FILE --key COLUMN --show-keys -o csv"
        raise DataError.of(what, got=f"byte {error.object[error.start]:#04x}", allowed=allowed, hint=hint) from error


def _asker(
    path: str | None,
    encoding: str,
    *,
    null: bool,
    lanes: int | None,
    layout: str | None,
    fields: tuple[str, ...],
    position: int | None,
    like: str | None,
) -> Callable[[str | None], KeyAnswer]:
    """What answers for one key, with everything that does not depend on it looked at once."""
    if path is not None:
        from keylane.contract.parse import load_contract

        router = _router(load_contract(path), lanes, layout)
        if click.get_current_context().get_parameter_source("encoding") is not ParameterSource.DEFAULT:
            _check_encoding(encoding, router.contract, router.lane_count)

        def by_contract(key: str | None) -> KeyAnswer:
            if key is None and not fields and not null:
                raise click.UsageError("KEY, --field or --null is needed")
            record = record_of(router.contract, key, fields, null=null)
            return explained_by(router, record, position, like, typed=_typed(key))

        return by_contract
    check_applies(Applies(("fields", "layout", "position"), False, "--contract"))
    if lanes is None:
        raise click.UsageError("--lanes is needed: the lane count is never guessed. Or --contract FILE")

    def plainly(key: str | None) -> KeyAnswer:
        routing_key = None if key is None else key_bytes(key, encoding)
        return KeyAnswer(by_client(routing_key, lanes, encoding, like or "kafka-java", typed=_typed(key)))

    return plainly


def _router(contract: Contract, lanes: int | None, layout: str | None) -> Router:
    """A router over the shards or lanes that were given; an error names the option that is missing, or disagrees."""
    from keylane.contract.partitioners import FACTS
    from keylane.placement.ranges import KeySpace
    from keylane.router import Router

    space, spec, name = _shards_at(layout) if layout else None, contract.spec, contract.metadata.name
    if space is not None and spec.lanes != "live" and len(space) != spec.lanes:
        what = f"{layout} has {plural(len(space), 'open shard')}, contract {name} has {plural(spec.lanes, 'lane')}"
        hint = "`lanes: live` in the contract places by the shards that there are"
        raise LaneCountError.of(what, got=len(space), allowed=str(spec.lanes), hint=hint)
    if spec.lanes == "live" and lanes is None and space is None and KeySpace.of_contract(contract) is None:
        of_shards = "--layout ADDRESS of the stream, or FILE of its shards; --lanes N for N equal ones"
        hint = of_shards if FACTS[spec.partitioner].fold == "ranges" else "--lanes N"
        raise LaneCountError.of(f"contract {name} leaves the lanes to the stream", got="lanes: live", hint=hint)
    return Router(contract, lanes=lanes, key_space=space)


def _check_encoding(given: str, contract: Contract, lanes: int) -> None:
    """The encoding that was given is the contract's, or an error with the command that takes the bytes as they are."""
    allowed = [str(encoding) for encoding in contract.spec.key.encodings]
    if allowed == [given]:
        return
    hint = "leave --encoding out: KEY is what the field holds"
    if given == "raw":
        same = f"keylane explain HEX --encoding raw --lanes {lanes} --like {contract.spec.partitioner}"
        hint += f". For the bytes of a key as a topic has them: {same}"
    what = "--encoding is not that of the contract"
    raise UsageError.of(what, got=given, allowed=", ".join(allowed), hint=hint)


def _typed(key: str | None) -> str | None:
    """KEY as JSON can hold it: bytes of the command line that are no text are written out."""
    return key and key.encode("utf-8", "backslashreplace").decode()


def _shown(asked: KeyAnswer, *, everything: bool) -> Result:
    """One key: the answer, the lanes with their clients, and the settings that would agree."""
    document = asked.document
    code = 2 if asked.needs else 0
    mine = document.contract if isinstance(document, ExplainedByContract | ExplainedUnplaced) else None
    own, decision = ([_own(mine)], _decision(mine, asked)) if mine else ([], [])
    if isinstance(document, ExplainedUnplaced):
        return Result(document, own, [], code, decision)
    every = Section(("partitioner", "lane", "client", "note"), document.placements, for_programs=not everything)
    groups = Section(("lane", "client", "partitioner"), list(_by_lane(document, everything=everything)))
    settings = [] if asked.needs else [*_settings(document, everything=everything)]
    hidden = sum(row.lane is None or row.client.startswith(TEACHING) for row in document.placements)
    more = [] if everything or not hidden else [_hidden(hidden)]
    answer = [*decision, *([""] if decision else []), _agreement(document, asked.rule, everything=everything)]
    return Result(document, [*own, every, groups, *settings], more, code, answer)


def _of_shards(asked: KeyAnswer) -> Result:
    """One key under a contract of shards: the decision with its shard."""
    document = asked.document
    assert isinstance(document, ExplainedByContract | ExplainedUnplaced)
    sections = [_own(document.contract)]
    if isinstance(document, ExplainedByContract):
        every = Section(("partitioner", "lane", "client", "note"), document.placements, for_programs=True)
        sections.append(every)
    decided = _decision(document.contract, asked)
    return Result(document, sections, [_NOT_COMPARED], 2 if asked.needs else 0, decided)


def _many_of_shards(found: list[KeyAnswer]) -> Result:
    """Several keys under a contract of shards: a row for each, with its MD5 and its shard."""
    rows = []
    for asked in found:
        mine = asked.document.contract  # type: ignore[union-attr]  # a contract decided
        shard = mine.shard if isinstance(mine, ShardPlacement) else None
        by = None if shard is None else "explicit hash key" if shard.explicit else "MD5"
        known = {"shard": shard and shard.id, "md5": shard and shard.md5, "placed_by": by or mine.reason or "a rule"}
        rows.append({"key": asked.document.key, "lane": mine.lane, **known})
    lanes = {row["lane"] for row in rows if row["lane"] is not None}
    of = count(found[0].document.lanes)
    verdict = f"{plural(len(rows), 'key')} on {count(len(lanes))} of {of} shards"
    needs = sorted({name for asked in found for name in asked.needs})
    lines = [*([_needed(tuple(needs))] if needs else []), _NOT_COMPARED]
    every = ExplainedKeys(keys=[asked.document for asked in found])
    section = Section(("key", "lane", "shard", "md5", "placed_by"), rows, forms={"key": _key_cell}, unbroken=("shard",))
    return Result(every, [section], lines, 2 if needs else 0, [verdict])


def _hidden(number: int) -> str:
    one = number == 1
    what = "ignores this key, or is" if one else "ignore this key, or are"
    return f"{plural(number, 'more partitioner')} {what} textbook code; --all shows {'it' if one else 'them'}"


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
        stream = mine.stream if mine else None
        row = {"key": document.key, "stream": stream, "lane": lane, "agree": not others, "other_lanes": others or None}
        rows.append(row)
    disagree = sum(not row["agree"] for row in rows)
    verdict = f"The clients disagree on {count(disagree)} of {count(len(rows))} keys."
    if not disagree:
        verdict = f"All clients that look at the key agree, on all {count(len(rows))} keys."
    needs = sorted({name for asked in found for name in asked.needs})
    lines = [_needed(tuple(needs))] if needs else []
    every = ExplainedKeys(keys=[asked.document for asked in found])
    # A lane of a tier is one of another stream: without that the number says little.
    tiers = ("stream",) if len({row["stream"] for row in rows}) > 1 else ()
    section = Section(("key", *tiers, "lane", "agree", "other_lanes"), rows, forms={"key": _key_cell})
    return Result(every, [section], lines, 2 if needs else 0, [verdict])


def _key_cell(key: str) -> str:
    """A key as a table shows it: a long one would make every row as long as itself; documents have it whole."""
    if len(key) <= LONG_KEY:
        return key or "''"
    return f"{key[:LONG_KEY]}… ({count(len(key))} characters)"


def _by_lane(document: ExplainedByClient, *, everything: bool) -> Iterator[dict[str, Any]]:
    """A row for each client in each lane; the lane stands in the first of its rows."""
    clients = {row.partitioner: row for row in document.placements}
    for group in _in_order(document):
        by: dict[str, list[str]] = {}
        for name in group.partitioners:
            row = clients[name]
            if everything or not row.client.startswith(TEACHING):
                mark = " (default)" if (row.note or "").startswith("the default") else ""
                by.setdefault(row.client, []).append(f"{name}{mark}")
        for n, (client, names) in enumerate(by.items()):
            yield {"lane": "" if n else group.lane, "client": KNOWN_AS.get(client, client), "partitioner": names}


def _in_order(document: ExplainedByClient) -> list[LaneGroup]:
    """The lane to agree with first, then those with the most partitioners that people use."""
    clients = {row.partitioner: row.client for row in document.placements}

    def used(group: LaneGroup) -> int:
        return sum(not clients[name].startswith(TEACHING) for name in group.partitioners)

    return sorted(document.groups, key=lambda one: (document.like not in one.partitioners, -used(one), one.lane))


def _settings(document: ExplainedByClient, *, everything: bool) -> Iterator[Section]:
    """One row for each client whose settings disagree, with the one that would not."""
    from keylane.contract.partitioners import FACTS

    passed = {FACTS["kinesis-md5"].client: "an explicit hash key"}
    clients = {FACTS[fix.partitioner].client: fix.set for fix in document.fixes}
    rows = [
        {"client": client, "set": text or f"no setting does: pass {passed.get(client, 'the lane')}"}
        for client, text in clients.items()
        if everything or not client.startswith(TEACHING)
    ]
    if rows:
        yield Section(("client", "set"), rows, f"To place as {document.like} does:")


def _lanes(document: ExplainedByClient, *, everything: bool = False) -> list[int]:
    clients = {row.partitioner: row.client for row in document.placements}
    return [
        group.lane
        for group in document.groups
        if everything or not all(clients[name].startswith(TEACHING) for name in group.partitioners)
    ]


def _agreement(document: ExplainedByClient, rule: str | None = None, *, everything: bool) -> str:
    """Whether clients agree, as one sentence; what only a book does is no disagreement unless it is asked for."""
    lanes = _lanes(document, everything=everything)
    if not lanes:
        return "No client lets this key decide its lane (partition)."
    if rule is not None:
        found = f"lane {lanes[0]}" if len(lanes) == 1 else f"{len(lanes)} different lanes (partitions)"
        return f"By their own rules clients would put it in {found} of {document.lanes}."
    if len(lanes) == 1:
        return f"All clients that look at the key agree: lane {lanes[0]} (partition {lanes[0]} of {document.lanes})."
    return f"The clients disagree: {len(lanes)} different lanes (partitions) of {document.lanes}."


def _decision(mine: ContractPlacement, asked: KeyAnswer) -> list[str]:
    """What the contract decides, and each step to it on a line of its own."""
    steps = [f"  {step}" for step in mine.why]
    if isinstance(mine, ShardPlacement):
        steps += _key_space(mine.shard)
    if asked.rule is not None and asked.rule.startswith("explicit hash key"):
        steps.append("  send it with every record, as the explicit hash key: no setting of a client does that")
    elif asked.rule is not None:
        steps.append(
            f"  {asked.rule} decides, so no setting of a client leads there: pass the lane, as Router gives it"
        )
    if asked.needs:
        return [f"{mine.name}: no lane yet: {_needed(asked.needs)}", *steps]
    if mine.lane is None:
        why = mine.reason or "the key does not decide"
        if mine.reason == "no-position":
            return [f"{mine.name}: no lane yet: it goes by the record's position: --position N", *steps]
        return [f"{mine.name}: no lane (partition) in {mine.stream}: {why}", *steps]
    return [f"{mine.name}: lane (partition) {mine.lane} of {mine.stream}", *steps]


def _key_space(shard: ShardOfKey) -> list[str]:
    """Key, MD5, range and shard, and the key space as a line with the shard and the key in it."""
    from keylane.contract.shards import SPACE

    cell = min(DRAWN - 1, int(shard.at * DRAWN))
    ends = [int(int(one) * DRAWN / SPACE) for one in (shard.start, shard.end)]
    line = ["=" if ends[0] <= n <= ends[1] else "-" for n in range(DRAWN)]
    for at in shard.boundaries if len(shard.boundaries) <= FEW_SHARDS else ():
        line[min(DRAWN - 1, int(at * DRAWN))] = "|"
    wide = share((int(shard.end) - int(shard.start) + 1) / SPACE)
    return [
        f"  md5:      {shard.md5}",
        f"  hash key: {shard.hash_key} ({'explicit' if shard.explicit else 'the MD5'})",
        f"  shard:    {shard.id}, {wide} of the key space",
        f"            from {shard.start}",
        f"            to   {shard.end}",
        f"  0 {''.join(line)} 2**128",
        f"    {' ' * cell}^ {share(shard.at)}" if cell < DRAWN - 8 else f"    {' ' * (cell - 7)}{share(shard.at):>6} ^",
        *([f"  warning: {shard.warning}"] if shard.warning else []),
    ]


def _needed(needs: tuple[str, ...]) -> str:
    return f"needs {', '.join(needs)}: " + " ".join(f"-f {name}=…" for name in needs)


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
    record: dict[str, Any] = {}
    for name, value in map(_pair, fields):
        if name in record or (key is not None and name in spec.fields):
            before = "-f" if name in record else "KEY"
            raise UsageError.of(
                f"{before} has a value for {name!r} already", got=f"-f {name}={value}", hint="leave one out"
            )
        record[name] = value
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
