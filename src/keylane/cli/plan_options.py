"""The options of `plan`: what is asked of a profile, and what the stream must carry. Turned into a `Question` here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract, Window
    from keylane.measure.profile import Profile
    from keylane.plan.make import Question
    from keylane.plan.sizing import Demand

__all__ = ["demand_options", "plan_options", "question_of"]

#: Lane counts that are compared where nothing is said: these, or today's count and up to four times it.
USUAL: Final = (8, 128)
TIMES_TODAY: Final = 4
_COUNT: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?")
#: Window sizes that a contract may have, in seconds.
_SIZES: Final = {"1m": 60, "5m": 300, "15m": 900, "1h": 3_600, "6h": 21_600, "1d": 86_400, "7d": 604_800}
_DEMAND: Final = {
    "lane_mb_s": "What one lane takes, in MB/s; default: 10, an assumption.",
    "reader_mb_s": "What one reader takes, in MB/s.",
    "reader_records_s": "What one reader takes, in records a second.",
    "growth": "How many times today's peak is planned for; default: 1.",
    "headroom": "What is left free of a lane, as a share; default: 0.3.",
}

plan_choices: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--lanes", "-n", metavar="N|LOW..HIGH", help="Lane counts to compare; default: today's to 4 times."),
    click.option(
        "--keep-order",
        type=click.Choice(["per-key", "per-key-and-window", "per-sub-key", "none"]),
        default="per-key",
        show_default=True,
        help="The least order that readers need.",
    ),
    click.option(
        "--max-over-mean", type=click.FloatRange(min=1), help="The fullest lane that is allowed, over the mean."
    ),
    click.option(
        "--sub-key", metavar="FIELD", help="The field that may divide a hot key: order is kept per value of it."
    ),
    click.option("--today-lanes", type=click.IntRange(min=1), help="The lane count, where today's contract says live."),
    click.option("--with", "others", multiple=True, type=click.Path(), help="A contract of a stream joined with this."),
)


def plan_options(command: Any) -> Any:
    """Give a command the options that ask."""
    for option in reversed(plan_choices):
        command = option(command)
    return command


def demand_options(command: Any) -> Any:
    """Give a command the options that say what a stream must carry."""
    for option in reversed(_demands()):
        command = option(command)
    return command


def _demands() -> list[Callable[[Any], Any]]:
    rates = [click.option(f"--{name.replace('_', '-')}", type=float, help=text) for name, text in _DEMAND.items()]
    return [
        *rates,
        click.option("--readers", type=click.IntRange(min=1), help="Readers that are wanted side by side."),
        click.option("--service", help="Hold the lanes against a service's limits: kafka, msk-large, kinesis, ..."),
        click.option("--brokers", type=click.IntRange(min=1), help="How many brokers it has."),
    ]


def question_of(made: Profile, options: dict[str, Any]) -> Question:
    """What the options ask of a profile."""
    from keylane.contract.parse import load_contract
    from keylane.plan.choose import Constraints
    from keylane.plan.make import Question

    today = load_contract(options["contract"]) if options["contract"] else None
    demand, binding = _demand(made, options)
    return Question(
        _counts(options["lanes"], today, options["today_lanes"], made),
        _means(made, today, options),
        Constraints(options["keep_order"], options["max_over_mean"]),
        demand,
        binding,
        tuple(load_contract(path) for path in options["others"]),
        options["today_lanes"] or (len(made.lanes.by_window) if made.lanes else None),
    )


def _counts(text: str | None, today: Contract | None, today_lanes: int | None, made: Profile) -> tuple[int, ...]:
    from keylane.contract.names import MAX_LANES
    from keylane.plan.choose import lane_counts

    if text is not None:
        found = _COUNT.fullmatch(text)
        if found is None:
            raise click.UsageError(f"--lanes takes a count or a range, 12 or 12..128, got {text!r}")
        return lane_counts(int(found[1]), int(found[2] or found[1]))
    seen = len(made.lanes.by_window) if made.lanes else None
    now = today_lanes or seen if today is None or today.spec.lanes == "live" else today.spec.lanes
    return lane_counts(now, max(now, min(MAX_LANES, now * TIMES_TODAY))) if now else lane_counts(*USUAL)


def _means(made: Profile, today: Contract | None, options: dict[str, Any]) -> Any:
    from keylane.errors import UsageError
    from keylane.plan.written import Means

    if options["sub_key"] in made.key.fields:
        hint = "a field that differs within one key"
        raise UsageError.of("the key itself divides nothing", got=f"--sub-key {options['sub_key']}", hint=hint)
    if today is not None:
        return Means(today.metadata.name, today.spec.streams, options["sub_key"], _window(made), today)
    name = _name(made.source)
    return Means(name, (name,), options["sub_key"], _window(made))


def _name(source: str) -> str:
    """A stream's name from its address: the last part, with nothing that a name may not have."""
    last = source.rstrip("/").rpartition("/")[2].removesuffix(".profile").split(".parquet")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.") or "stream"


def _window(made: Profile) -> Window | None:
    """The window that a key may have: the longest usual size that is no longer than the profile's own windows."""
    from keylane.contract.model import Window

    told = dict(made.facts)
    field, unit = told.get("time"), told.get("unit")
    if made.windows.kind != "time" or not field:
        return None
    seconds = (made.windows.edges[-1] - made.windows.edges[0]) / 1e6 / len(made.windows)
    size = max((one for one in _SIZES if _SIZES[one] <= seconds), key=_SIZES.__getitem__, default="1m")
    return Window(field=field, size=size, **({"unit": unit} if unit else {}))


def _demand(made: Profile, options: dict[str, Any]) -> tuple[Demand | None, bool]:
    """The peak window of the profile as a demand; whether the user said what it has to fit."""
    from keylane.plan.sizing import Demand

    names = (*_DEMAND, "readers", "service", "brokers")
    said = {name: options[name] for name in names if options[name] is not None}
    if made.windows.kind != "time" or made.size is None:
        if said:
            raise click.UsageError("lanes for a throughput need times and bytes: profile with --time and --bytes")
        return None, False
    seconds = max(1e-6, (made.windows.edges[1] - made.windows.edges[0]) / 1e6)
    records = float(made.by_window.sum(axis=0).max()) / seconds
    each = float(made.size.sum()) / max(1, int(made.by_window.sum()))
    return Demand(peak_mb_s=records * each / 1e6, peak_records_s=records, **said), bool(said)
