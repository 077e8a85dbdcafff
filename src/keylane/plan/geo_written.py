"""A lane table as a contract: the text that is reviewed and routed by, a line for the cells of each lane.

What the contract was before stays: name, streams, key, expectations, with the next epoch. Golden examples do not, since
their lanes are of the table before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.leaves import leaves_checksum
from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.contract.model import Contract
    from keylane.plan.lane_tables import Wish

__all__ = ["geo_contract_text", "geo_lines", "next_epoch"]

NAME: Final = "places"
STREAMS: Final = ("driver-locations", "rider-requests")
#: As wide as a line of cells gets.
WIDTH: Final = 110


def next_epoch(before: Contract | None) -> int:
    """The epoch of the contract that is written."""
    return 1 if before is None else before.metadata.epoch + 1


def geo_contract_text(
    leaves: Sequence[str],
    wish: Wish,
    fields: Sequence[str],
    before: Contract | None = None,
    name: str = NAME,
    streams: Sequence[str] = STREAMS,
) -> str:
    """The contract as YAML; it is parsed once here, so that no text leaves that cannot be read back.

    Without leaves it tells, before anything is counted, whether there can be a table for the contract before.
    """
    metadata, spec = _new(fields, name, streams, wish) if before is None else _kept(before, wish)
    lines = [
        "apiVersion: keylane/v1",
        "kind: RoutingContract",
        f"metadata: {_flow({**metadata, 'epoch': next_epoch(before)})}",
        "spec:",
        *(f"  {key}: {_flow(value)}" for key, value in spec.items()),
        *geo_lines(leaves, wish.resolution, before),
    ]
    text = "\n".join(lines) + "\n"
    parse_contract(text, f"{metadata['name']} with lanes by place")
    return text


def _new(fields: Sequence[str], name: str, streams: Sequence[str], wish: Wish) -> tuple[dict[str, Any], ...]:
    key = {"fields": list(fields), "encoding": "place"}
    spec = {"streams": list(streams), "lanes": wish.lanes, "key": key, "partitioner": wish.partitioner}
    return {"name": name}, spec


def _kept(before: Contract, wish: Wish) -> tuple[dict[str, Any], ...]:
    metadata = before.metadata.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    spec = before.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    for gone in ("geo", "golden"):
        spec.pop(gone, None)
    return metadata, {**spec, "lanes": wish.lanes}


def geo_lines(leaves: Sequence[str], resolution: int, before: Contract | None) -> Iterator[str]:
    """The `geo` part of a contract; without leaves, cells are hashed. The region is the contract's before."""
    known = before.spec.geo if before else None
    yield "  geo:"
    yield f"    resolution: {resolution}"
    if known is not None and known.region is not None:
        yield f"    region: {_flow(list(known.region))}"
    if not any(leaves):
        return
    yield f"    checksum: {leaves_checksum(leaves)}"
    yield "    leaves:"
    for cells in leaves:
        yield from _lane(cells)


def _lane(cells: str) -> Iterator[str]:
    """The cells of a lane between quotes, as many on a line as fit; YAML reads a line's end there as a space."""
    lines, line = [], ""
    for word in cells.split():
        if line and len(line) + len(word) >= WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {word}".lstrip()
    first, *more = [*lines, line]
    yield f'      - "{first}' + ("" if more else '"')
    yield from (f"        {one}" + ('"' if n == len(more) else "") for n, one in enumerate(more, 1))


def _flow(value: Any) -> str:
    """JSON is YAML too; what does not print is written out."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)
