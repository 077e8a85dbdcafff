"""`check`: does a stream keep its contract, or are several co-partitioned? The rules are those of `keylane.measure`.

    check_contract     one contract: the file, its golden examples, and data that is compared with it
    compare_contracts  several contracts: are they co-partitioned?
    compare_streams    several data sets: the same, as they were written

Data is read batch by batch, in this process.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from keylane.contract.answers import answers
from keylane.contract.fields import FieldSpec, fields_of
from keylane.contract.given import examined, located_in, names_of
from keylane.contract.model import Expect
from keylane.documents.check import (
    CheckedContract,
    CheckedData,
    CheckedExpectation,
    CheckedFindings,
    CheckedLane,
    CheckedRows,
    ComparedContracts,
    ComparedData,
    FindingRow,
    HeaviestKey,
    KeyLanes,
    MisplacedRow,
    RuleAnswers,
)
from keylane.errors import DataError, UsageError, listed_names
from keylane.measure import copartition
from keylane.measure.chance import ALPHA
from keylane.measure.conformance import Misplaced, keeps
from keylane.measure.self_test import contract_findings
from keylane.profile.document import masked, shown
from keylane.records import Finding
from keylane.router import Router
from keylane.systems.endpoint import StreamOptions, open_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from keylane.contract.given import GivenContract
    from keylane.contract.model import Contract
    from keylane.pipelines.engine import Watch
    from keylane.placement.ranges import KeySpace
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.streams import Description

__all__ = ["check_contract", "columns_of", "compare_contracts", "compare_streams"]


def columns_of(data: Description, *, key: str | None, lane: str | None) -> list[str]:
    """The columns of key and lane: as given or found, or as the system has them."""
    found = key or data.key, lane or data.lane
    if None in found:
        missing = "lane" if found[0] else "key"
        allowed = listed_names(data.columns)
        raise data.misread or UsageError.of(
            f"which column holds the {missing} is not given", allowed=allowed, hint=f"--{missing} COLUMN"
        )
    return [str(name) for name in found]


def check_contract(
    given: GivenContract,
    data: str | None = None,
    *,
    lane: str | None = None,
    lanes: int | None = None,
    groups: Sequence[str] = (),
    options: StreamOptions | None = None,
    watch: Watch = iter,
    salt: bytes | None = None,
) -> CheckedFindings:
    """One contract: its text, its golden read, keys chosen by hand; and data, where it is given.

    With `groups` no record is read: it is asked whether each of these reader groups has every lane of the contract. A
    contract with problems gives them as `CheckedFindings`. `watch` sees the batches of the data go by; with a `salt`
    keys of the data are shown cut, with a hash that it goes into.
    """
    if data is None and (idle := [name for name, value in {"lane": lane, "lanes": lanes}.items() if value is not None]):
        raise UsageError.of(
            "without data there are no lanes to compare", got=", ".join(idle), hint="give data, or leave it out"
        )
    contract, findings = examined(given)
    if contract is None:
        return _invalid(findings)
    findings = located_in(contract_findings(contract), given)
    kept = [
        RuleAnswers(
            rule=one.rule,
            order_scope=one.order_scope,
            lanes_per_key=one.lanes_per_key,
            readers_merge=one.readers_merge,
        )
        for one in answers(contract)
    ]
    checked: dict[str, Any] = {
        "contract": contract.metadata.name,
        "fingerprint": contract.fingerprint,
        "golden": len(contract.spec.golden),
        "hot_key_rules": len(contract.spec.hot_keys),
        "answers": kept,
    }
    if groups:
        findings = [*findings, *_of_groups(contract, data, lanes, groups, options)]
    if data is None or groups:
        return CheckedContract(**_judged(findings), **checked)
    options = options or StreamOptions()
    # Without a word on values the contract's only key field is the message's key, as producers send it.
    fields = FieldSpec.of(contract)
    fields = fields.keyed_by(contract.spec.key) if options.value is None else fields
    endpoint = open_endpoint(data, options)
    described = endpoint.describe(fields)
    asked = options.read_range.partitions if options.read_range else ()
    read = () if len(asked) == described.lanes else asked
    lane = lane or described.lane or endpoint.lane_column(fields_of(contract))
    counts, more, is_shown = _against(contract, described, lane, lanes, watch, salt, read)
    return CheckedData(**_judged([*findings, *located_in(more, given)], shown=is_shown), **checked, data=counts)


def _of_groups(
    contract: Contract, data: str | None, lanes: int | None, groups: Sequence[str], options: StreamOptions | None
) -> Iterator[Finding]:
    """Lanes that a reader group does not have yet: what is written there now it may never read."""
    if data is None:
        raise UsageError.of("the groups of which stream is not given", got=groups[0], hint="--data ADDRESS")
    endpoint = open_endpoint(data, options)
    for group in groups:
        there, known = endpoint.lanes_known_to(group)
        wanted = lanes or (there if contract.spec.lanes == "live" else contract.spec.lanes)
        if there != wanted:
            yield Finding("error", "spec.lanes", f"{endpoint.address} has {there} lanes, and {wanted} by the contract")
        missing = sorted(set(range(max(there, wanted))) - known)
        if missing:
            named = listed_names([str(lane) for lane in missing])
            yield Finding(
                "error",
                f"group {group}",
                f"has {len(known)} of {wanted} lanes, and not {named}: what is written there before it does, it misses "
                "by auto.offset.reset=latest; wait for it (metadata.max.age.ms), or restart its members, or set "
                "earliest or by_duration",
            )


def _against(
    contract: Contract,
    data: Description,
    column: str | None,
    lanes: int | None,
    watch: Watch,
    salt: bytes | None,
    read: tuple[int, ...],
) -> tuple[CheckedRows, list[Finding], bool]:
    fields = fields_of(contract)
    offset = "offset" if data.lane is not None and column and "offset" not in fields else None
    wanted = [*fields, *(name for name in (column, offset) if name and name not in fields)]
    if column is None and contract.spec.expect == Expect():
        raise data.misread or UsageError.of(
            f"there is nothing to compare {data.address} with: it has no column of lanes, and the contract no `expect`",
            allowed=f"a column `lane` or `partition`, or one of {', '.join(data.columns)}",
            hint="--lane COLUMN, or `expect` in the contract; without --data the contract alone is checked",
        )
    live, space = contract.spec.lanes == "live", None
    if live and lanes is None:
        lanes, space = data.lanes, data.key_space
    kept, findings = keeps(
        Router(contract, lanes=lanes, key_space=space),
        watch(data.batches(wanted)),
        column,
        partial(_named, salt=salt),
        read,
        offset,
    )
    if data.skipped.lines and not kept.rows:
        raise DataError.of(f"no record of {data.address} can be read", got=data.skipped.text, hint="--value")
    if data.skipped.lines:
        findings.append(Finding("warning", "data", data.skipped.text))
    elsewhere = "" if kept.rows else data.unjudged()
    if elsewhere:
        # The stream is not empty, and nothing of it was found to be wrong.
        findings = [one for one in findings if one.where != "data"] + [Finding("warning", "data", elsewhere)]
    findings += [Finding("warning", "data", text) for text in data.noticed()]
    if data.sampled:
        findings.append(Finding("info", "data", f"read {data.sampled}"))
    if column is None:
        text = "lanes were not compared: no column `lane` or `partition`; hint: --lane COLUMN"
        findings.append(Finding("info", "data", text))
    heaviest = kept.heaviest()
    counts = CheckedRows(
        rows=kept.rows,
        compared=kept.compared if column else None,
        misplaced=kept.misplaced if column else None,
        laneless=kept.laneless,
        examples=[_misplaced(one, salt, data.key_space) for one in kept.examples],
        heaviest=HeaviestKey(key=_named(heaviest[0], salt), records=heaviest[1]) if heaviest else None,
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
    return counts, findings, kept.shown


def _misplaced(one: Misplaced, salt: bytes | None, space: KeySpace | None) -> MisplacedRow:
    key, ids = None if one.key is None else _named(one.key, salt), space.ids if space else ()
    there, wanted = (None if n is None or n >= len(ids) else ids[n] for n in (one.lane, one.expected))
    shards = {"shard": there, "expected_shard": wanted}
    return MisplacedRow(key=key, lane=one.lane, expected=one.expected, **shards, row=one.row, offset=one.offset)


def _named(key: bytes, salt: bytes | None) -> str:
    text = shown((key,))
    return text if salt is None else masked(text, salt)


def compare_contracts(several: Sequence[GivenContract], *, name_key: Callable[[str], str] = str) -> CheckedFindings:
    """Several contracts: every way in which they would place one key differently. `name_key` gives keys as shown."""
    names = names_of(several)
    read = {name: examined(given) for name, given in zip(names, several, strict=True)}
    broken = [
        Finding(f.severity, f"{name}: {f.where}", f.message, f.line)
        for name, (contract, findings) in read.items()
        if contract is None
        for f in findings
    ]
    if broken:
        return _invalid(broken)
    contracts = {name: contract for name, (contract, _) in read.items() if contract is not None}
    return ComparedContracts(**_judged(copartition.compare_contracts(contracts, name_key)), compared=names)


def compare_streams(
    several: Sequence[str],
    *,
    key: str | None = None,
    lane: str | None = None,
    lanes: int | None = None,
    options: StreamOptions | None = None,
    watch: Watch = iter,
    salt: bytes | None = None,
) -> ComparedData:
    """Several data sets: whether each key is in the same lane in all of them, and which is the odd one."""
    endpoints = {path: open_endpoint(path, options or StreamOptions()) for path in several}
    if len(several) < 2 or (key is None and not all(endpoint.messages for endpoint in endpoints.values())):
        what = "two or more data sets are compared by --key COLUMN; one is checked by CONTRACT --data"
        raise UsageError.of(what, got=", ".join(several), hint="keylane check --help")
    fields = FieldSpec((key,) if key else ())
    described = {path: endpoint.describe(fields) for path, endpoint in endpoints.items()}
    readers = {
        path: partial(_reading, data, columns_of(data, key=key, lane=lane or _lane_in(endpoints[path], key)), watch)
        for path, data in described.items()
    }
    counts = {data.lanes for data in described.values()}
    if lanes is None and len(counts) == 1:
        lanes = counts.pop()
    found = copartition.compare_data(readers, lanes)
    # Of a part of a stream only the keys of some lanes were compared.
    settled = all(one.rival_lanes is None for one in found.writers.values())
    skipped = [Finding("warning", path, data.skipped.text) for path, data in described.items() if data.skipped.lines]
    parts = [Finding("info", path, f"read {data.sampled}") for path, data in described.items() if data.sampled]
    return ComparedData(
        **_judged([*found.findings, *skipped, *parts], shown=found.shared_keys > 0 and settled),
        compared=list(several),
        shared_keys=found.shared_keys,
        disagreeing_keys=found.disagreeing_keys,
        at_most=found.at_most if settled else None,
        examples=[KeyLanes(key=_named(key, salt), data=path, lanes=at) for key, path, at in found.examples],
        writers={path: [w.partitioner for w in one.writers] for path, one in found.writers.items()},
    )


def _lane_in(endpoint: Endpoint, key: str | None) -> str | None:
    return endpoint.lane_column((key,) if key else ())


def _reading(data: Description, columns: list[str], watch: Watch) -> Iterator[Any]:
    return watch(data.batches(columns))


def _judged(findings: list[Finding], *, shown: bool = True) -> dict[str, Any]:
    """The verdict on findings, and all of them as rows; `shown` where something was compared and nothing left open."""
    wrong = any(finding.severity == "error" for finding in findings)
    rows = [FindingRow(severity=f.severity, where=f.where, line=f.line, message=f.message) for f in findings]
    verdict = "broken" if wrong else "ok" if shown else "not-shown"
    return {"ok": verdict == "ok", "verdict": verdict, "findings": rows}


def _invalid(findings: list[Finding]) -> CheckedFindings:
    return CheckedFindings(**_judged(findings))
