"""The contracts that the demo compares: some are files here, some are made from what is known before they are used.

Made from the morning: which keys are heavy is read from the records before noon, and shown to hold, or not, after it.
Made from population: the lanes a city needs, known on any day. What each of them did: `figures`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from keylane.contract.parse import parse_contract
from keylane.pipelines.demo.traffic import CITIES
from keylane.placement.accounts import concentrate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.contract.model import Contract

#: Where a contract's rules come from. Only `morning` has seen records of the day it is tried on.
Source: TypeAlias = Literal["fixed", "morning", "population"]
Volumes: TypeAlias = "Mapping[str, float]"

LANES: Final = 64
#: A key is heavy from this part of a mean lane on; below it, the hash evens keys out well enough.
HEAVY: Final = 0.05
#: How much of a mean lane one key may put on one lane before it is spread over several.
MOST_OF_A_LANE: Final = 0.5
#: Less for cities: no tail of small keys lies below them to even out their hours.
MOST_OF_A_LANE_FOR_A_CITY: Final = 0.35


@dataclass(frozen=True, slots=True)
class DemoContract:
    """A contract to try, and what it is in a few words."""

    name: str
    title: str
    source: Source
    text: str

    @property
    def contract(self) -> Contract:
        """The contract that the text is."""
        return parse_contract(self.text, self.name)


def payments_choices(morning: Volumes) -> list[DemoContract]:
    """The plain hash; heavy merchants in a table, order kept for all; the heaviest of them spread by order instead."""
    heavy = _heavy(morning)
    return [
        _fixed("payments-naive", "hash of the merchant"),
        _changed("payments-naive", "payments-table", "heavy merchants in a table", _whole(heavy)),
        _changed("payments-naive", "payments-spread", "heaviest spread by order", _spread(heavy, "order_id")),
    ]


def rides_choices() -> list[DemoContract]:
    """The hash of the city; city and minute; as many lanes as a city's people need, divided by ride."""
    millions = {city.name: city.millions for city in CITIES}
    table = concentrate(_in_lanes(millions), LANES, MOST_OF_A_LANE_FOR_A_CITY)
    note = f"# Lanes by population: no city puts more than {MOST_OF_A_LANE_FOR_A_CITY} mean lanes on one lane."
    text = _with_rules("rides-naive", [note, *_table_lines(table, by="ride_id")])
    return [
        _fixed("rides-naive", "hash of the city"),
        _fixed("rides-windowed", "city and minute"),
        DemoContract("rides-by-population", "lanes by population, by ride", "population", text),
    ]


def queries_choices(morning: Volumes) -> list[DemoContract]:
    """The plain hash; twice the lanes; heavy queries in a table, order kept for all."""
    return [
        _fixed("queries-naive", "hash of the query"),
        _fixed("queries-more-lanes", "twice the lanes"),
        _changed("queries-naive", "queries-table", "heavy queries in a table", _whole(_heavy(morning))),
    ]


def _in_lanes(volumes: Volumes) -> dict[str, float]:
    """Volumes in mean lanes: all of them together fill every lane once."""
    total = sum(volumes.values())
    return {key: volume * LANES / total for key, volume in volumes.items()}


def _heavy(volumes: Volumes) -> dict[str, float]:
    return {key: volume for key, volume in _in_lanes(volumes).items() if volume >= HEAVY}


def _whole(heavy: Volumes) -> list[str]:
    """Each heavy key whole on one lane, the heaviest first to the emptiest."""
    table = concentrate(heavy, LANES, max(heavy.values(), default=1.0))
    note = f"# Learned before noon: every key from {HEAVY} mean lanes on, the heaviest first to the emptiest lane."
    return [note, *_table_lines(table)]


def _spread(heavy: Volumes, by: str) -> list[str]:
    """Keys that fill more than their part of a lane over several, divided by a sub-key; the other heavy ones whole."""
    table = concentrate(heavy, LANES, MOST_OF_A_LANE)
    several = {key: lanes for key, lanes in table.items() if len(lanes) > 1}
    rules = [
        f"  - {{keys: [{_flow(key)}], spread: {{lanes: {_flow(lanes)}, by: {by}}}}}" for key, lanes in several.items()
    ]
    return [
        f"# Learned before noon: every key above {MOST_OF_A_LANE} mean lanes, in order per {by} only.",
        *(["hot_keys:", *rules] if rules else []),
        f"# Learned before noon: every other key from {HEAVY} mean lanes on, whole.",
        *_table_lines({key: lanes for key, lanes in table.items() if key not in several}),
    ]


def _table_lines(table: Mapping[str, tuple[int, ...]], by: str | None = None) -> list[str]:
    if not table:
        return []
    rows = [f"    {_flow(key)}: {_flow(lanes if len(lanes) > 1 else lanes[0])}" for key, lanes in table.items()]
    return ["table:", *([f"  by: {by}"] if by else []), "  values:", *rows]


def _flow(value: Any) -> str:
    """JSON is YAML too, and quotes whatever a key may hold."""
    return json.dumps(value, ensure_ascii=False)


def _fixed(name: str, title: str) -> DemoContract:
    return DemoContract(name, title, "fixed", _file(name))


def _changed(base: str, name: str, title: str, rules: list[str]) -> DemoContract:
    """A contract of the next epoch, with rules that the morning taught."""
    return DemoContract(name, title, "morning", _with_rules(base, rules))


def _with_rules(base: str, rules: list[str]) -> str:
    """The next epoch of a contract file: its first comment goes, the rules come at its end."""
    body = _file(base).partition("\n")[2].replace("epoch: 1", "epoch: 2")
    return body + "".join(f"  {line}\n" for line in rules)


def _file(name: str) -> str:
    return (files("keylane.pipelines.demo") / "contracts" / f"{name}.yaml").read_text(encoding="utf-8")
