"""Documents of `keylane profile` and `keylane plan` as a page gets them: those of drawn keys, by the real planner."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa

from keylane.contract.model import Key, Window
from keylane.contract.parse import parse_contract
from keylane.documents.model import Document
from keylane.plan.choose import Constraints
from keylane.plan.contract_text import Means
from keylane.plan.document import document
from keylane.plan.hashed_keys import ProfiledStream
from keylane.plan.planner import Question, assumed, heat_of, make_plan
from keylane.plan.sizing import Demand
from keylane.profile.document import overview
from keylane.profile.model import ObservedLanes, Profile, Windows, WithoutKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.plan import PlanDocument
    from keylane.documents.profile import ProfileDocument

__all__ = ["changed", "plan_document", "profile_document"]

D = TypeVar("D", bound=Document)
START = 1_384_214_400_000_000
TWO_DAYS = 2 * 86_400_000_000
TODAY = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [payments], lanes: LANES, key: {fields: [merchant]}, partitioner: kafka-java}
"""


def changed(document: D, change: Callable[[dict[str, Any]], object]) -> D:
    """The document after a change of what it prints; what no command could print is refused."""
    plain = document.as_json()
    change(plain)
    return type(document).model_validate(plain)


def drawn(keys: int, records: int, windows: int, flat: float, key: str, kind: Literal["time", "position"]) -> Profile:
    """Zipf-like keys through a day that has its quiet hours; the higher `flat`, the lighter the heaviest of them."""
    rng = np.random.default_rng(7)
    weights = (np.arange(keys) + flat) ** -1.05
    day = 1 + 0.6 * np.sin(np.linspace(-1.6, 4.7, windows))
    expected = np.outer(weights / weights.sum(), day / day.sum()) * records
    drawn = rng.poisson(expected * rng.gamma(8, 1 / 8, expected.shape))
    drawn = drawn[np.argsort(-drawn.sum(axis=1), kind="stable")]
    counts = drawn[drawn.sum(axis=1) > 0].astype(np.int32)
    names = [key, key.swapcase(), *(f"merchant-{row:05}" for row in range(2, len(counts)))][: len(counts)]
    edges = np.concatenate([[0], np.cumsum(counts.sum(axis=0))]).tolist()
    if kind == "time":
        edges = [START + TWO_DAYS * n // windows for n in range(windows + 1)]
    return Profile(
        "payments/",
        Key(fields=("merchant",)),
        Windows(kind, tuple(edges)),
        pa.table({"merchant": names}),
        counts,
        size=counts.sum(axis=1, dtype=np.int64) * 212,
        without_key=WithoutKey(38, 3),
        bytes_total=int(counts.sum()) * 212,
        facts=(("files", 3), ("time", "paid_at"), ("bytes", "size")),
        fingerprint="5d3c0a9be1d4f7a26b8a52f4a06fd0a1c1f2f4c9f4e1f86ee61a0b8f6c1a7d33",
    )


@cache
def profile_document(
    *,
    keys: int = 4_000,
    records: int = 180_000,
    windows: int = 24,
    lanes: int | None = 12,
    key: str = "merchant-of-most",
    kind: Literal["time", "position"] = "time",
    flat: float = 2,
) -> ProfileDocument:
    """A document of `keylane profile`; the heaviest key has the name that is given, and is shown whole."""
    return _profile(drawn(keys, records, windows, flat, key, kind), lanes)


def _profile(made: Profile, lanes: int | None) -> ProfileDocument:
    if lanes is None:
        return overview(made, salt=b"salt", show_keys=True, stored="payments.profile")
    loads = np.rint(ProfiledStream(made).hashed("kafka-java", lanes).loads).astype(np.int64)
    seen = replace(made, lanes=ObservedLanes(loads, misplaced=0))
    return overview(
        seen, salt=b"salt", show_keys=True, stored="payments.profile", hot=heat_of(seen, assumed(seen), 2026)
    )


@cache
def plan_document(
    *,
    counts: tuple[int, ...] = (12, 24, 48, 96),
    today: int | None = 12,
    key: str = "merchant-of-most",
    keys: int = 4_000,
    records: int = 180_000,
    windows: int = 24,
    kind: Literal["time", "position"] = "time",
    flat: float = 2,
) -> PlanDocument:
    """A document of `keylane plan` with the lanes of today's contract, or without one."""
    made = drawn(keys, records, windows, flat, key, kind)
    contract = parse_contract(TODAY.replace("LANES", str(today))) if today else None
    means = Means("payments", ("payments",), "order_id", Window(field="paid_at", size="1h"), contract)
    question = Question(counts, means, Constraints("per-key", 1.3), Demand(peak_mb_s=41, readers=12))
    return document(make_plan(made, question), _profile(made, today), show_keys=True)
