"""`keylane check`: does this stream keep its contract? Made for CI."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keylane import numbers
from keylane.cli.options import (
    LANE_COUNT,
    RANGE,
    Applies,
    check_applies,
    check_sources,
    note_empty_cells,
    range_from,
    range_options,
    reading_applies,
    reading_from,
    reading_options,
)
from keylane.cli.output import Result, Section, as_json, output_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.documents.check import CheckedFindings, CheckedRows, ComparedContracts
    from keylane.systems.endpoint import StreamOptions


INVALID, BROKEN = 2, 4
MISPLACED = "Rows that are not where the contract puts their key:"


@click.command(short_help="Does this stream keep its contract? Are these co-partitioned? Made for CI.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="CONTRACT | A B [C …]")
@click.option("--data", "-d", type=click.Path(), help="Check this data against the contract.")
@click.option("--key", "-k", metavar="COLUMN", help="The key column, when data sets are compared.")
@click.option("--lane", "-l", metavar="COLUMN", help="The lane column; default: lane or partition.")
@click.option("--lanes", "-n", type=LANE_COUNT, help="The lane count, where the contract has `lanes: live`.")
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Read no record: does this reader group of --data have every lane of the contract?",
)
@click.option("--show-keys", is_flag=True, help="Show whole keys; otherwise they are cut and hashed.")
@range_options
@reading_options
@output_option
def check(
    paths: tuple[str, ...],
    data: str | None,
    key: str | None,
    lane: str | None,
    lanes: int | None,
    groups: tuple[str, ...],
    show_keys: bool,
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Check that a stream keeps its contract, or that several are co-partitioned.

    One CONTRACT: the file, its golden examples, keys chosen by hand; with --data also lanes as promised and the
    expectations, less what chance does to a sample of this size. Two or more contracts, or two or more data sets: are
    they co-partitioned, and which is the odd one?

    \b
    keylane check payments.yaml
    keylane check payments.yaml --data sample.parquet
    keylane check payments.yaml refunds.yaml
    keylane check payments.parquet refunds.parquet --key merchant_id
    keylane check payments.yaml --data kafka://broker:9092/payments
    keylane check payments.yaml --data kafka://broker:9092/payments --group ledger

    Data is a file, a folder, a topic or a Kinesis stream. A topic is read at read_committed, up to where it ends when
    this begins; its partitions are the lanes, and its keys the contract's key, unless --value gives the format of
    values that have the fields.

    Exit codes: 0 kept, 1 the data cannot be read, 2 not a contract, or data without anything to compare, 4 a
    promise is broken, or not shown to be kept: nothing was compared, or an expectation cannot be judged.
    """
    from keylane.systems.endpoint import is_contract_file, open_endpoint

    contracts = [path for path in paths if is_contract_file(path)]
    if contracts and len(contracts) < len(paths):
        other = next(path for path in paths if path not in contracts)
        what = f"contracts and data sets cannot be compared with each other: {contracts[0]} and {other}"
        raise click.UsageError(f"{what}; hint: --data {other}")
    if len(paths) > 1 and data:
        raise click.UsageError("--data goes with one contract")
    # One data set, or several without a key, are refused for that.
    check_sources(*([] if contracts or key is None or len(paths) < 2 else paths), data)
    read_from = (data,) if contracts else paths
    check_applies(
        Applies(("key",), not contracts, "data sets that are compared: A B"),
        Applies(("groups",), lambda: data is not None and open_endpoint(data).messages, "--data of a topic"),
        Applies(("lane", *RANGE, "show_keys"), not groups, "records: with --group none is read"),
        Applies(("lane", "lanes"), data is not None or not contracts, "--data"),
        Applies(("show_keys",), data is not None or len(paths) > 1, "--data, or several to compare"),
        *reading_applies(*read_from),
    )
    read_range = range_from(options, time.time())
    reading = replace(reading_from(options), read_range=read_range)
    from keylane.pipelines.check import check_contract, compare_contracts, compare_streams
    from keylane.systems.masks import salt_of

    # A contract alone shows no keys: its check leaves no secret behind.
    read = (data or (None if contracts else paths[0])) if not groups else None
    salt = None if show_keys or read is None else salt_of(read, secrets.token_bytes(16))
    if not contracts:
        compared = compare_streams(paths, key=key, lane=lane, lanes=lanes, options=reading, watch=_counted, salt=salt)
        return as_result(compared), output
    if len(paths) > 1:
        named = str if show_keys else partial(_masked, paths[0], secrets.token_bytes(16))
        return as_result(compare_contracts([Path(path) for path in paths], name_key=named)), output
    found = check_contract(
        Path(paths[0]), data, lane=lane, lanes=lanes, groups=groups, options=reading, watch=_counted, salt=salt
    )
    if data is not None and not groups:
        _note_empty_cells(paths[0], data, reading)
    return as_result(found), output


def _masked(source: str, fresh: bytes, key: str) -> str:
    """A key of a contract, cut and hashed; only where one is shown is there a secret to keep."""
    from keylane.profile.document import masked
    from keylane.systems.masks import salt_of

    return masked(key, salt_of(source, fresh))


def _note_empty_cells(contract: str, data: str, reading: StreamOptions) -> None:
    from keylane.contract.given import examined

    checked, _ = examined(Path(contract))
    if checked is not None:
        note_empty_cells(data, checked.spec.key.fields, reading)


def _counted(batches: Iterator[Any]) -> Iterator[Any]:
    from keylane.cli.progress import counted

    return counted(batches, "check")


def as_result(document: CheckedFindings) -> Result:
    """What came of it, in words; then the findings, with examples."""
    from keylane.documents.check import CheckedContract, ComparedContracts

    errors, warnings = (sum(row.severity == kind for row in document.findings) for kind in ("error", "warning"))
    verdict = f"broken: {_misplaced(document)}{numbers.plural(errors, 'error')}, {numbers.plural(warnings, 'warning')}"
    if document.verdict != "broken":
        with_warnings = f", with {numbers.plural(warnings, 'warning')}" if warnings else ""
        verdict = f"{document.verdict.replace('-', ' ')}{with_warnings}: {_tried(document)}"
    section = Section(("severity", "where", "line", "message"), document.findings)
    broken = BROKEN if isinstance(document, CheckedContract | ComparedContracts) else INVALID
    examples = _examples(document)
    cut = any("…" in (row["key"] or "") for one in examples for row in map(as_json, one.rows))
    cut = cut or (isinstance(document, ComparedContracts) and any("…" in row.message for row in document.findings))
    lines = ["Keys are cut and hashed; --show-keys shows them whole."] if cut else []
    return Result(document, [section, *examples], lines, 0 if document.ok else broken, answer=[verdict])


def _misplaced(document: CheckedFindings) -> str:
    """The answer to what was asked, where records are not where the contract puts them."""
    from keylane.documents.check import CheckedData

    if not isinstance(document, CheckedData) or not document.data.misplaced:
        return ""
    rows, odd = document.data.rows, document.data.misplaced
    verb = numbers.agree(odd, "is", "are")
    return f"{numbers.share(odd / rows)} of {numbers.plural(rows, 'row')} {verb} not in their lane; "


def _tried(document: CheckedFindings) -> str:
    """What was looked at and found to be well."""
    from keylane.documents.check import CheckedContract, CheckedData, ComparedContracts, ComparedData

    if isinstance(document, ComparedData) and not document.shared_keys:
        return "no key in common: nothing was compared"
    if isinstance(document, ComparedData):
        # Without an error none of them differs; keys of some lanes alone say nothing of the others.
        known = document.at_most is not None
        sure = (
            f"; at most {numbers.share(document.at_most or 0.0)} of all keys differ (95% confidence)" if known else ""
        )
        return f"{numbers.count(document.shared_keys)} shared keys, each in the same lane everywhere{sure}"
    if isinstance(document, ComparedContracts):
        return f"{len(document.compared)} contracts, which place every key alike{_but(document)}"
    if not isinstance(document, CheckedContract):
        return "nothing found"
    of_file = f"{_count(document.golden, 'golden example')}, {_count(document.hot_key_rules, 'hot-key rule')}"
    if not isinstance(document, CheckedData):
        return f"a valid contract; {of_file}; compared with no data (--data)"
    data = document.data
    kept = sum(one.judgement == "kept" for one in data.expectations)
    judged = (
        f"{kept} of {_count(len(data.expectations), 'expectation')} kept" if data.expectations else "no expectations"
    )
    return f"{of_file}; {_compared(data)}; {judged}"


def _but(document: ComparedContracts) -> str:
    """What the warnings leave open."""
    where = {row.where for row in document.findings if row.severity == "warning"}
    rules = [f"{name} keys" for name in ("null", "empty") if f"spec.key.on_{name}" in where]
    live = ["while the live lane counts are the same"] if "spec.lanes" in where else []
    return "".join(f", {part}" for part in [*([f"but for {' and '.join(rules)}"] if rules else []), *live])


def _compared(data: CheckedRows) -> str:
    """How many rows were compared, of how many."""
    rows = numbers.plural(data.rows, "row")
    if not data.rows:
        return "no rows: nothing was compared"
    if data.compared is None:
        return f"{rows}, lanes not compared"
    if data.compared == data.rows:
        return f"{rows}, each in its lane"
    if not data.compared:
        return f"none of {rows} could be compared"
    return f"{numbers.count(data.compared)} of {rows} compared, each in its lane"


def _count(number: int, what: str) -> str:
    return numbers.plural(number, what) if number else f"no {what}s"


def _examples(document: CheckedFindings) -> list[Section]:
    from keylane.documents.check import CheckedData, ComparedData

    if isinstance(document, CheckedData) and document.data.examples:
        examples = document.data.examples
        where = "row" if examples[0].offset is None else "offset"
        of_shards = examples[0].expected_shard is not None
        lanes = ("lane", "shard", "expected", "expected_shard") if of_shards else ("lane", "expected")
        return [Section(("key", *lanes, where), examples, MISPLACED, forms={"expected": str})]
    if isinstance(document, ComparedData) and document.examples:
        return [Section(("key", "data", "lanes"), document.examples, "Keys that are not in one lane:")]
    return []
