"""`keylane check`: does this stream keep its contract? Made for CI."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from keylane.cli.options import reading_from, reading_options
from keylane.cli.output import Result, Section, output_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.contract.model import Contract
    from keylane.documents.check import CheckedFindings, CheckedRows, FindingRow
    from keylane.records import Finding
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.streams import Description


def columns_of(data: Description, *, key: str | None, lane: str | None) -> list[str]:
    """The columns of key and lane: as given, or as the system has them."""
    found = key or data.key, lane or data.lane
    if None in found:
        missing = "'--lane' / '-l'" if found[0] else "'--key' / '-k'"
        raise click.UsageError(f"Missing option {missing}: one of the columns {', '.join(data.columns)}.")
    return [str(name) for name in found]


CONTRACT_SUFFIXES = (".yaml", ".yml")
INVALID, BROKEN = 2, 4


@click.command(short_help="Does this stream keep its contract? Are these co-partitioned? Made for CI.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="CONTRACT | A B [C …]")
@click.option("--data", "-d", type=click.Path(), help="Check this data against the contract.")
@click.option("--key", "-k", metavar="COLUMN", help="The key column, when data sets are compared.")
@click.option("--lane", "-l", metavar="COLUMN", help="The lane column; default: `lane` where the data has it.")
@click.option("--lanes", "-n", type=int, help="The lane count, where the contract has `lanes: live`.")
@reading_options
@output_option
def check(
    paths: tuple[str, ...],
    data: str | None,
    key: str | None,
    lane: str | None,
    lanes: int | None,
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

    Data is a file, a folder or a topic. A topic is read at read_committed, up to where it ends when this begins; its
    partitions are the lanes, and its keys the contract's key, unless --value gives the format of values that have the
    fields.

    Exit codes: 0 kept, 2 not a contract, 4 a promise is broken.
    """
    from keylane.systems.endpoint import parse_address

    reading = reading_from(options)
    contracts = [path for path in paths if path.endswith(CONTRACT_SUFFIXES) and parse_address(path).is_path]
    if contracts and len(contracts) < len(paths):
        raise click.UsageError("contracts and data sets cannot be compared with each other; hint: --data")
    if not contracts:
        return _data_together(paths, key, lane, lanes, reading), output
    if len(paths) > 1 and data:
        raise click.UsageError("--data goes with one contract")
    if len(paths) > 1:
        return _contracts_together(paths), output
    return _one(paths[0], data, lane, lanes, reading), output


def _one(path: str, data: str | None, lane: str | None, lanes: int | None, options: StreamOptions) -> Result:
    from keylane.contract.answers import answers
    from keylane.contract.fields import FieldSpec
    from keylane.contract.parse import examine_file, located
    from keylane.documents.check import CheckedContract, CheckedData, RuleAnswers
    from keylane.measure.self_test import contract_findings
    from keylane.systems.endpoint import open_endpoint

    contract, findings = examine_file(path)
    if contract is None:
        return _invalid(findings)
    findings = located(contract_findings(contract), path)
    kept = [
        RuleAnswers(
            rule=one.rule,
            order_scope=one.order_scope,
            lanes_per_key=one.lanes_per_key,
            readers_merge=one.readers_merge,
        )
        for one in answers(contract)
    ]
    name, fingerprint = contract.metadata.name, contract.fingerprint
    if data is None:
        ok, rows = _judged(findings)
        return _result(CheckedContract(ok=ok, findings=rows, contract=name, fingerprint=fingerprint, answers=kept))
    # Without a word on values the contract's only key field is the message's key, as producers send it.
    fields = FieldSpec.of(contract)
    fields = fields.keyed_by(contract.spec.key) if options.value is None else fields
    counts, more = _against(contract, open_endpoint(data, options).describe(fields), lane, lanes)
    ok, rows = _judged([*findings, *located(more, path)])
    return _result(CheckedData(ok=ok, findings=rows, contract=name, fingerprint=fingerprint, answers=kept, data=counts))


def _against(
    contract: Contract, data: Description, lane: str | None, lanes: int | None
) -> tuple[CheckedRows, list[Finding]]:
    from keylane.cli.progress import counted
    from keylane.contract.fields import fields_of
    from keylane.documents.check import CheckedExpectation, CheckedLane, CheckedRows
    from keylane.measure.chance import ALPHA
    from keylane.measure.conformance import keeps
    from keylane.records import Finding
    from keylane.router import Router

    fields = fields_of(contract)
    column = lane or ("lane" if "lane" in data.columns else None)
    wanted = [*fields, *([column] if column and column not in fields else [])]
    if contract.spec.lanes == "live" and lanes is None:
        lanes = data.lanes
    kept, findings = keeps(Router(contract, lanes=lanes), counted(data.batches(wanted), "check"), column)
    if data.skipped.lines:
        findings.append(Finding("warning", "data", data.skipped.text))
    if column is None:
        text = "lanes were not compared: no column `lane`; hint: --lane COLUMN"
        findings.append(Finding("info", "data", text))
    counts = CheckedRows(
        rows=kept.rows,
        misplaced=kept.misplaced if column else None,
        unplaced=kept.unplaced,
        lanes=[CheckedLane(lane=i, records=int(n)) for i, n in enumerate(kept.per_lane)],
        level=1 - ALPHA,
        expectations=[
            CheckedExpectation(
                name=one.name,
                got=one.got,
                allowed=one.allowed,
                judgement=one.judgement,
                by_chance=round(one.by_chance, 6),
                usual=one.usual,
                chance=one.chance,
            )
            for one in kept.expectations
        ],
    )
    return counts, findings


def _contracts_together(paths: Sequence[str]) -> Result:
    from keylane.contract.parse import examine_file
    from keylane.documents.check import ComparedContracts
    from keylane.measure.copartition import compare_contracts
    from keylane.records import Finding

    examined = {path: examine_file(path) for path in paths}
    broken = [
        Finding(f.severity, f"{path}: {f.where}", f.message, f.line)
        for path, (contract, findings) in examined.items()
        if contract is None
        for f in findings
    ]
    if broken:
        return _invalid(broken)
    contracts = {path: contract for path, (contract, _) in examined.items() if contract is not None}
    ok, rows = _judged(compare_contracts(contracts))
    return _result(ComparedContracts(ok=ok, findings=rows, compared=list(paths)))


def _data_together(
    paths: Sequence[str], key: str | None, lane: str | None, lanes: int | None, options: StreamOptions
) -> Result:
    from keylane.contract.fields import FieldSpec
    from keylane.documents.check import ComparedData
    from keylane.measure.copartition import compare_data
    from keylane.records import Finding
    from keylane.systems.endpoint import open_endpoint

    endpoints = {path: open_endpoint(path, options) for path in paths}
    if len(paths) < 2 or (key is None and not all(endpoint.messages for endpoint in endpoints.values())):
        raise click.UsageError("two or more data sets are compared by --key COLUMN; one is checked by CONTRACT --data")
    fields = FieldSpec((key,) if key else ())
    described = {path: endpoint.describe(fields) for path, endpoint in endpoints.items()}
    readers = {
        path: partial(_reading, data, columns_of(data, key=key, lane=lane or "lane"))
        for path, data in described.items()
    }
    counts = {data.lanes for data in described.values()}
    if lanes is None and len(counts) == 1:
        lanes = counts.pop()
    found = compare_data(readers, lanes)
    skipped = [Finding("warning", path, data.skipped.text) for path, data in described.items() if data.skipped.lines]
    ok, rows = _judged([*found.findings, *skipped])
    document = ComparedData(
        ok=ok,
        findings=rows,
        compared=list(paths),
        shared_keys=found.shared_keys,
        disagreeing_keys=found.disagreeing_keys,
        at_most=found.at_most,
        writers={path: [w.partitioner for w in one.writers] for path, one in found.writers.items()},
    )
    lines = []
    if found.at_most is not None:
        sure = f"at most {found.at_most:.4%} of all keys differ (95 % confidence)"
        lines = [f"{found.shared_keys} shared keys, each in the same lane everywhere: {sure}"]
    return _result(document, lines)


def _reading(data: Description, columns: list[str]) -> Iterator[Any]:
    from keylane.cli.progress import counted

    return counted(data.batches(columns), "check")


def _judged(findings: list[Finding]) -> tuple[bool, list[FindingRow]]:
    """Whether no finding is an error, and all of them as rows."""
    from keylane.documents.check import FindingRow

    ok = not any(finding.severity == "error" for finding in findings)
    return ok, [FindingRow(severity=f.severity, where=f.where, line=f.line, message=f.message) for f in findings]


def _invalid(findings: list[Finding]) -> Result:
    from keylane.documents.check import CheckedFindings

    ok, rows = _judged(findings)
    return _result(CheckedFindings(ok=ok, findings=rows), broken=INVALID)


def _result(document: CheckedFindings, lines: Sequence[str] = (), *, broken: int = BROKEN) -> Result:
    errors, warnings = (sum(row.severity == kind for row in document.findings) for kind in ("error", "warning"))
    verdict = f"broken: {errors} error(s), {warnings} warning(s)"
    if document.ok:
        verdict = "ok" + (f", with {warnings} warning(s)" if warnings else "")
    section = Section(("severity", "where", "line", "message"), document.findings)
    return Result(document, [section], [*lines, verdict], 0 if document.ok else broken)
