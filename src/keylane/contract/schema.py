"""The contract's JSON Schemas in the repository, and how they are written.

`python -m keylane.contract.schema` writes both; a test holds that they are current. Draft 2020-12 is pydantic's own;
draft-07 is for editors, whose language server reads no later one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keylane.contract.model import Contract

HERE = Path(__file__).parent.parent / "schemas"
FILES = {"2020-12": HERE / "contract-v1.2020-12.json", "draft-07": HERE / "contract-v1.draft-07.json"}
TITLE = "keylane routing contract, version 1"


def schema_2020_12() -> dict[str, Any]:
    """The schema as pydantic gives it."""
    schema = Contract.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": TITLE}


def schema_draft_07() -> dict[str, Any]:
    """The same in draft-07: `definitions` for `$defs`, a list of `items` for `prefixItems`."""
    older: dict[str, Any] = _older(schema_2020_12())
    return {**older, "$schema": "http://json-schema.org/draft-07/schema#"}


def _older(node: Any) -> Any:
    if isinstance(node, list):
        return [_older(one) for one in node]
    if isinstance(node, dict):
        renamed = {"$defs": "definitions", "prefixItems": "items"}
        return {renamed.get(name, name): _older(value) for name, value in node.items()}
    return node.replace("#/$defs/", "#/definitions/") if isinstance(node, str) else node


def write() -> None:
    """Write both files."""
    for draft, make in (("2020-12", schema_2020_12), ("draft-07", schema_draft_07)):
        FILES[draft].parent.mkdir(exist_ok=True)
        FILES[draft].write_text(json.dumps(make(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
