"""The first contract of a stream, as text for a person to go on with. Contracts of a plan: `plan.contract_text`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.contract.names import MAX_LANES
from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Iterable

    from keylane.contract.names import Encoding


#: The schema for editors, whose language server reads no later draft than this.
_SCHEMA: Final = Path(__file__).parent.parent / "schemas" / "contract-v1.draft-07.json"
#: Its copy beside contracts: a path within this installation would mean nothing to whoever clones the repository.
SCHEMA_FILE: Final = "keylane-contract.schema.json"
#: By this line an editor finds the schema; the path is taken from the folder of the contract.
MODELINE: Final = f"# yaml-language-server: $schema=./{SCHEMA_FILE}"


@dataclass(frozen=True, slots=True)
class FirstContract:
    """What is known of a stream: how many lanes it has, what its key is, and who places by it."""

    stream: str
    lanes: int
    key: str
    encoding: Encoding
    partitioner: str
    registry_header: bool = False

    @property
    def name(self) -> str:
        """The contract's name: that of the stream, in the letters that a name may have."""
        return stream_name(self.stream)

    def text(self, remarks: Iterable[str] = ()) -> str:
        """The contract as YAML, with remarks as comments; parsed once, so that no text leaves that cannot be read."""
        key = f"{{fields: [{json.dumps(self.key)}], encoding: {self.encoding}"
        lines = [
            MODELINE,
            *(f"# {' '.join(remark.split())}" for remark in remarks),
            "apiVersion: keylane/v1",
            "kind: RoutingContract",
            f"metadata: {{name: {json.dumps(self.name)}}}",
            "spec:",
            f"  streams: [{json.dumps(self.stream)}]",
            f"  lanes: {min(self.lanes, MAX_LANES)}",
            f"  key: {key}{', registry_header: strip' if self.registry_header else ''}}}",
            f"  partitioner: {self.partitioner}",
        ]
        text = "\n".join(lines) + "\n"
        parse_contract(text, self.stream)
        return text


def schema_text() -> str:
    """The JSON Schema of contracts, for the file that the first line of a contract names."""
    return _SCHEMA.read_text(encoding="utf-8")


def with_modeline(text: str, former: str) -> str:
    """A contract that takes the place of another, with the line for editors where that one has it."""
    first = former.partition("\n")[0]
    return f"{first}\n{text}" if first.startswith("# yaml-language-server:") else text


def stream_name(text: str) -> str:
    """A name for a stream or a contract, of the last part of a path: letters, digits, dots, dashes and underscores.

    >>> stream_name("exports/pay ments.csv.gz"), stream_name("payments.tx"), stream_name("???")
    ('pay-ments', 'payments.tx', 'stream')
    """
    last = text.rstrip("/").rpartition("/")[2]
    bare = re.sub(r"(\.(csv|tsv|jsonl|json|ndjson|parquet|gz|bz2|zst))+$", "", last)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", bare).strip("-.") or "stream"
