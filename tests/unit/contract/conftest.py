"""What the contract tests share: the design's example, and a contract from a few lines of its `spec`.

`document("lanes: 24")` is the text of a whole, small and valid contract in which those lines stand instead of the
defaults. `contract` parses it, `findings` lists what is wrong with it.
"""

from __future__ import annotations

import re
from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest

from keylane.contract.parse import examine, parse_contract

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract
    from keylane.records import Finding

DESIGN_EXAMPLE = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec:
  streams: [payments.tx_events]
  lanes: 64                        # or `live`: ask the cluster, never a guess
  key: {fields: [merchant_id], encoding: utf8, on_null: sticky, on_empty: hash}
  partitioner: kafka-java          # named after the client whose placement it is
  hot_keys:
    - {keys: [merchant_000042], spread: {over: 8, by: order_id}}      # order scope: merchant + order
    - {keys: [merchant_000007], tier: {stream: payments.tx_events.vip, lanes: 16}}
  expect: {max_over_mean: 1.3, max_key_share: 0.02, min_distinct_keys: 100000}
"""

DEFAULTS = {
    "streams": "[payments]",
    "lanes": "12",
    "key": "{fields: [merchant]}",
    "partitioner": "kafka-java",
}


def _document(spec: str = "", metadata: str = "{name: payments}") -> str:
    given = dedent(spec).strip("\n")
    kept = [f"{name}: {value}" for name, value in DEFAULTS.items() if not re.search(rf"^{name}:", given, re.MULTILINE)]
    head = f"apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {metadata}\nspec:\n"
    return head + indent("\n".join([*kept, given]), "  ") + "\n"


@pytest.fixture
def design_example() -> str:
    return DESIGN_EXAMPLE


@pytest.fixture
def document() -> Callable[..., str]:
    return _document


@pytest.fixture
def contract() -> Callable[..., Contract]:
    def make(spec: str = "", metadata: str = "{name: payments}") -> Contract:
        return parse_contract(_document(spec, metadata))

    return make


@pytest.fixture
def findings() -> Callable[..., list[Finding]]:
    def look(spec: str = "", metadata: str = "{name: payments}") -> list[Finding]:
        return examine(_document(spec, metadata))[1]

    return look
