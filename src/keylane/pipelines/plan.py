"""`plan`: what is asked of a profile, as a `Question`; and the document of the answer. The plan: `plan.planner`.

    PlanRequest   what was asked for: today's contract, lane counts, constraints, what the stream must carry
    question_of   the same as a question about one profile
    document_of   the answer as it is printed

Where the profile comes from: `pipelines.profile`. Nothing here needs Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.first import stream_name
from keylane.contract.model import Window
from keylane.contract.names import MAX_LANES
from keylane.errors import UsageError
from keylane.numbers import lanes
from keylane.pipelines.profile import SEED, mask_salt
from keylane.plan.choose import Constraints, lane_counts
from keylane.plan.contract_text import Means
from keylane.plan.document import document
from keylane.plan.planner import Question, heat_under, plainly_hashed
from keylane.plan.sizing import Demand, lanes_for
from keylane.profile.document import overview

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.contract.answers import OrderScope
    from keylane.contract.model import Contract
    from keylane.documents.plan import PlanDocument
    from keylane.plan.planner import Plan
    from keylane.profile.model import Profile

#: Where more throughput is needed, counts up to so many times today's, or the fewest that could carry it, are compared.
TIMES: Final = 4
#: Window sizes that a contract may have, in seconds.
_SIZES: Final = {"1m": 60, "5m": 300, "15m": 900, "1h": 3_600, "6h": 21_600, "1d": 86_400, "7d": 604_800}
#: What a stream must carry: the fields of `plan.sizing.Demand` that a caller may give.
DEMANDS: Final = (
    *("growth", "headroom", "lane_mb_s", "lane_records_s", "reader_mb_s", "reader_records_s"),
    *("readers", "service", "brokers"),
)
#: What can be asked of a profile that counted records and no bytes.
_WITHOUT_BYTES: Final = frozenset({"readers", "reader_records_s", "lane_records_s", "growth", "headroom"})


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What was asked for.

    `today` is today's contract and `today_text` its file as it is written, `lanes` the lowest and the highest count to
    compare, `joined_with` contracts of streams that are joined with this one, `demands` what the stream must carry, by
    the names in `DEMANDS`. `radius` is the metres that locations are matched within. Without `keep_order` a new
    contract keeps order per key.
    """

    today: Contract | None = None
    lanes: tuple[int, int] | None = None
    keep_order: Any = None
    max_over_mean: float | None = None
    sub_key: str | None = None
    today_lanes: int | None = None
    joined_with: tuple[Contract, ...] = ()
    demands: Mapping[str, Any] = field(default_factory=dict)
    radius: float | None = None
    today_text: str = ""


def question_of(made: Profile, asked: PlanRequest) -> Question:
    """What was asked for, as a question about a profile; refused where that has the keys of some lanes only."""
    if read := made.known.get("partitions"):
        raise UsageError.of(
            "a plan needs keys of all partitions: those of some are there because their hash put them there",
            got=f"partitions {lanes(read)}",
            hint="leave --partitions out; --last and --max-records take less of every partition",
        )
    if asked.max_over_mean is not None and asked.max_over_mean < 1:
        raise UsageError.of("no lane is below the mean of all", got=asked.max_over_mean, allowed="1 or more")
    demand, binding = _demand(made, asked.demands)
    now = _lanes_now(made, asked)
    counts = None if asked.lanes is None else lane_counts(*asked.lanes)
    usual = counts or _usual_counts(now, demand if binding else None)
    # Who names a field that may divide a key has said which order is enough.
    order: OrderScope | None = asked.keep_order or ("per-sub-key" if asked.sub_key else None)
    return Question(
        usual,
        _means(made, asked),
        Constraints(order, asked.max_over_mean, keep_lanes=None if counts else now or usual[0]),
        demand,
        binding,
        asked.joined_with,
        asked.today_lanes or (len(made.lanes.by_window) if made.lanes else None),
        SEED,
        asked.radius,
    )


def _lanes_now(made: Profile, asked: PlanRequest) -> int | None:
    """Today's lane count: the contract's, what was given for it, or that of the source."""
    if asked.today is not None and asked.today.spec.lanes != "live":
        return asked.today.spec.lanes
    return asked.today_lanes or (len(made.lanes.by_window) if made.lanes else None)


def _usual_counts(now: int | None, needed: Demand | None) -> tuple[int, ...]:
    """Today's count alone, unless something needs more; without any, from the fewest that could carry what is needed.

    Without a count and without a need nothing says how many lanes a stream should have, and none is made up.
    """
    if needed is None:
        if now is None:
            raise UsageError.of(
                "the number of lanes is not known",
                got="no contract, and a source without lanes (partitions)",
                allowed="--lanes N or LOW..HIGH; --contract FILE with today's count; or a need such as --readers N",
                hint="--lanes 12, or as many partitions as the topic has",
            )
        return lane_counts(now, now)
    even = lanes_for(needed, lambda _: 1.0).lanes or MAX_LANES
    low = now or even
    return lane_counts(low, min(MAX_LANES, TIMES * max(low, even)))


def _means(made: Profile, asked: PlanRequest) -> Means:
    if asked.sub_key in made.key.fields:
        hint = "a field that differs within one key"
        raise UsageError.of("the key itself divides nothing", got=f"--sub-key {asked.sub_key}", hint=hint)
    if asked.today is not None:
        named = (asked.today.metadata.name, asked.today.spec.streams)
        return Means(*named, asked.sub_key, _window(made), asked.today, asked.today_text)
    name = stream_name(made.source.removesuffix(".profile"))
    return Means(name, (name,), asked.sub_key, _window(made))


def _window(made: Profile) -> Window | None:
    """The window that a key may have: the longest usual size that is no longer than the profile's own windows."""
    time, unit = made.known.get("time"), made.known.get("unit")
    # A contract counts integer times in s, ms or us: those in ns rule out the strategy, and nothing else.
    if made.windows.kind != "time" or not time or unit == "ns" or "time_format" in made.known:
        return None
    seconds = (made.windows.edges[-1] - made.windows.edges[0]) / 1e6 / len(made.windows)
    size = max((one for one in _SIZES if _SIZES[one] <= seconds), key=_SIZES.__getitem__, default="1m")
    return Window(field=time, size=size, **({"unit": unit} if unit else {}))


def _demand(made: Profile, given: Mapping[str, Any]) -> tuple[Demand | None, bool]:
    """The peak window of the profile as a demand; whether the user gave what it has to fit."""
    timed = made.windows.kind == "time"
    if (not timed and set(given) - {"readers"}) or (made.size is None and set(given) - _WITHOUT_BYTES):
        lacking = {} if timed else {"times": "--time COLUMN"}
        if made.size is None:
            lacking["sizes of records"] = "--bytes COLUMN"
        raise UsageError.of(
            "lanes for a throughput need times and sizes of records",
            got=f"a profile without {' and '.join(lacking)}",
            hint=f"profile it with {' and '.join(lacking.values())}",
        )
    if not given and (not timed or made.size is None):
        return None, False
    if idle := _without_effect(made, given):
        raise UsageError.of(
            "nothing says what one lane takes",
            got=", ".join(f"--{name} {given[name]:g}" for name in idle),
            allowed="beside --lane-records-s or --reader-records-s; or with a profile that has the sizes of records",
            hint="--lane-records-s N, or profile it with --bytes COLUMN",
        )
    seconds = max(1e-6, (made.windows.edges[1] - made.windows.edges[0]) / 1e6) if timed else 0.0
    records = float(made.by_window.sum(axis=0).max()) / seconds if timed else 0.0
    each = None if made.size is None else float(made.size.sum()) / max(1, int(made.by_window.sum()))
    return Demand(None if each is None else records * each / 1e6, records, **given), bool(given)


def _without_effect(made: Profile, given: Mapping[str, Any]) -> list[str]:
    """What changes a rate where no rate is compared: neither bytes were counted, nor a rate in records given."""
    if made.size is not None or {"lane_records_s", "reader_records_s"} & set(given):
        return []
    return [name for name in ("growth", "headroom") if name in given]


def document_of(
    made: Profile, found: Plan, *, show_keys: bool, stored: str | None, path: str | None = None
) -> PlanDocument:
    """The document of a plan; `stored` is where the profile is saved, if it is, `path` the file of the contract."""
    hot = found.heat if found.today else heat_under(found.stream, plainly_hashed(found), SEED)
    profile = overview(made, salt=mask_salt(made.source, stored), show_keys=show_keys, stored=stored, hot=hot)
    return document(found, profile, show_keys=show_keys, path=path)
