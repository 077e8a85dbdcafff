"""A group as text: the options and files of `keylane assign`, with one clear error for each thing that is wrong.

What is made of it: `assign`. A live group: `systems.kafka.group`.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import LaneCountError, UsageError, shorten
from keylane.groups.model import MOST_OF_TOPIC, Lanes, Member, check_members
from keylane.numbers import count
from keylane.pipelines.shards_files import text_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from keylane.groups.model import Lane

#: Members that a number may stand for.
MOST_MEMBERS: Final = 100_000
PREVIOUS_FORM: Final = '{"assignment": {"A": [["topic-0", 0], …], …}}, as keylane assign -o json prints it'
LOADS_FORM: Final = '{"topic-0": [12.5, 3.0, …], …}, or [["topic-0", 0, 12.5], …]'
GROUP_FORM: Final = '{"topics": {"orders": 6}, "members": ["A", {"id": "B", "topics": ["orders"], "rack": "r1"}], …}'


@dataclass(frozen=True, slots=True)
class GivenGroup:
    """What is known of a group before anything is decided. `previous` has the lanes that members had, by name."""

    lanes: Lanes | None = None
    members: tuple[Member, ...] = ()
    previous: Mapping[str, Sequence[Lane]] | None = None
    loads: Mapping[Lane, float] | None = None


def lanes_of(text: str) -> dict[str, int]:
    """Lane counts of topics, by name or in a row.

    >>> lanes_of("6,12"), lanes_of("orders=6,payments=12")
    ({'topic-0': 6, 'topic-1': 12}, {'orders': 6, 'payments': 12})
    """
    found: dict[str, int] = {}
    for number, part in enumerate(text.split(",")):
        name, sign, lanes = part.strip().rpartition("=")
        topic = name if sign else f"topic-{number}"
        if not lanes.isdecimal() or not topic or _number(lanes) < 1:
            allowed = "lane counts from 1 on, as 6 or 6,12, or with topics as orders=6,payments=12"
            raise LaneCountError.of("--lanes", got=text, allowed=allowed)
        if topic in found:
            raise UsageError.of("a topic is named twice in --lanes", got=topic)
        found[topic] = _number(lanes)
    return found


def _number(digits: str) -> int:
    """A whole number of any length; one that is beyond every limit is cut, since Python refuses very long ones."""
    return int(digits.lstrip("0")[:12] or "0")


def members_of(given: str | Sequence[str]) -> list[str]:
    """Names of members; a number stands for so many of them, and a list for the names in it.

    >>> members_of("A,B"), members_of("2")
    (['A', 'B'], ['member-0', 'member-1'])
    """
    text = given if isinstance(given, str) else ""
    if text.strip().isdecimal():
        many = _number(text.strip())
        if not 1 <= many <= MOST_MEMBERS:
            raise UsageError.of("a group needs a member", got=many, allowed=f"1 to {count(MOST_MEMBERS)}")
        return [f"member-{number}" for number in range(many)]
    names = [name.strip() for name in text.split(",")] if isinstance(given, str) else list(given)
    if not any(names):
        raise UsageError.of("--members names nobody: a group needs a member", got=given, allowed="A,B,C, or a number")
    check_members([Member(name) for name in names])
    return names


def described(
    names: Iterable[str], reads: Sequence[str] = (), racks: Sequence[str] = (), topics: Iterable[str] = ()
) -> tuple[Member, ...]:
    """Members with their subscriptions (`A=orders,payments`) and racks (`A=eu-1`)."""
    members = list(names)
    subscribed = {name: frozenset(text.split(",")) for name, text in _pairs(reads, "--reads", members)}
    placed = dict(_pairs(racks, "--rack", members))
    known = set(topics)
    for name, wanted in subscribed.items():
        if unknown := sorted(wanted - known):
            raise UsageError.of(f"{name!r} reads a topic that is not there", got=unknown[0], allowed=", ".join(known))
    return tuple(Member(name, subscribed.get(name), None, placed.get(name)) for name in members)


def _pairs(texts: Sequence[str], option: str, members: Sequence[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not value:
            raise UsageError.of(f"{option} takes MEMBER=VALUE", got=text)
        if name not in members:
            raise UsageError.of(f"{option} speaks of a member that is not there", got=name, allowed=", ".join(members))
        if any(name == other for other, _ in found):
            form = "A=orders,payments" if option == "--reads" else "A=RACK"
            raise UsageError.of(f"{option} names a member twice", got=name, allowed=f"each member once, as {form}")
        found.append((name, value))
    return found


def previous_in(path: Path) -> GivenGroup:
    """The lanes that members had, from a document of this command or a bare map; a lane with two owners is refused."""
    given = _json(path, PREVIOUS_FORM)
    return _previous(given, str(path))


def _previous(given: Any, where: str) -> GivenGroup:
    owned = given.get("assignment", given) if isinstance(given, dict) else None
    if not isinstance(owned, dict) or (owned is given and "schema" in given):
        raise UsageError.of(f"{where} is no assignment", got=given, allowed=PREVIOUS_FORM)
    found: dict[str, list[Lane]] = {}
    owner: dict[Lane, str] = {}
    for name, lanes in owned.items():
        if not isinstance(lanes, list):
            raise UsageError.of(f"{where}: the lanes of {name!r} are no list", got=lanes, allowed=PREVIOUS_FORM)
        found[name] = [_lane(lane, where) for lane in lanes]
        for lane in found[name]:
            if lane in owner:
                twice = f"has two owners: {owner[lane]!r} and {name!r}"
                twice = f"is listed twice for {name!r}" if owner[lane] == name else twice
                raise UsageError.of(f"{where}: lane {lane[1]} of {lane[0]!r} {twice}")
            owner[lane] = name
    if "" in found:
        raise UsageError.of(f"{where}: a member needs a name", got="")
    topics = given.get("topics") if owned is not given else None
    return GivenGroup(None if topics is None else Lanes.of(_counts(topics, where)), previous=found)


def _lane(given: Any, where: str) -> Lane:
    is_lane = (
        isinstance(given, list)
        and len(given) == 2
        and isinstance(given[0], str)
        and isinstance(given[1], int)
        and not isinstance(given[1], bool)
        and 0 <= given[1] < MOST_OF_TOPIC
    )
    if not is_lane or not given[0]:
        allowed = f'["topic-0", 0]: a topic and an index from 0 to {count(MOST_OF_TOPIC - 1)}'
        raise UsageError.of(f"{where}: not a lane", got=given, allowed=allowed)
    return given[0], given[1]


def loads_in(path: Path) -> dict[Lane, float]:
    """What lanes carry."""
    return _loads(_json(path, LOADS_FORM), str(path))


def _loads(given: Any, where: str) -> dict[Lane, float]:
    found: dict[Lane, float] = {}
    for place, load in _load_rows(given, where):
        lane = _lane(place, where)
        what = f"{where}: the load of lane {lane[1]} of {lane[0]!r}"
        if isinstance(load, bool) or not isinstance(load, int | float) or not 0 <= load <= sys.float_info.max:
            raise UsageError.of(what, got=load, allowed="a number from 0 on")
        if lane in found:
            raise UsageError.of(f"{what} is given twice", got=load)
        found[lane] = float(load)
    if not math.isfinite(sum(found.values())):
        raise UsageError.of(f"{where}: the loads add up to more than a number holds", allowed="loads in a larger unit")
    return found


def _load_rows(given: Any, where: str) -> list[tuple[Any, Any]]:
    """Lanes with their loads, from either form."""
    if not isinstance(given, dict):
        rows = _list(given, where)
        return [(row[:2], row[2]) if isinstance(row, list) and len(row) == 3 else (row, None) for row in rows]
    found: list[tuple[Any, Any]] = []
    for topic, loads in given.items():
        numbered = _indexed(loads.items(), where) if isinstance(loads, dict) else enumerate(_list(loads, where))
        found += [([topic, index], load) for index, load in numbered]
    return found


def _indexed(items: Iterable[tuple[str, Any]], where: str) -> list[tuple[int, Any]]:
    found = []
    for index, load in items:
        if not index.isdecimal():
            raise UsageError.of(f"{where}: not the index of a lane", got=index, allowed=LOADS_FORM)
        found.append((_number(index), load))
    return found


def _list(given: Any, where: str) -> list[Any]:
    if not isinstance(given, list):
        raise UsageError.of(f"{where} has no loads", got=given, allowed=LOADS_FORM)
    return given


def group_in(path: Path) -> GivenGroup:
    """A whole group in a file: topics and members, and where known the assignment, loads and racks of copies."""
    given = _json(path, GROUP_FORM)
    where = str(path)
    if not isinstance(given, dict) or "topics" not in given or "members" not in given:
        raise UsageError.of(f"{where} is no group: topics and members are needed", got=given, allowed=GROUP_FORM)
    lanes = Lanes.of(_counts(given["topics"], where), _racks(given.get("racks"), where))
    if not isinstance(given["members"], list):
        raise UsageError.of(f"{where}: members are a list", got=given["members"], allowed=GROUP_FORM)
    members = tuple(_member(one, where) for one in given["members"])
    check_members(members)
    _check_described(members, lanes, where)
    previous = _previous(given, where).previous if given.get("assignment") is not None else None
    loads = None if given.get("loads") is None else _loads(given["loads"], where)
    return GivenGroup(lanes, members, previous, loads)


def _member(given: Any, where: str) -> Member:
    if isinstance(given, str):
        return Member(given)
    name = given.get("id", given.get("member")) if isinstance(given, dict) else None
    topics = given.get("topics") if isinstance(given, dict) else None
    is_list = topics is None or (isinstance(topics, list) and all(isinstance(topic, str) for topic in topics))
    texts = [name, *(given.get(key) or "x" for key in ("rack", "instance"))] if isinstance(given, dict) else [None]
    if not is_list or not all(isinstance(text, str) and text for text in texts):
        raise UsageError.of(f"{where}: not a member", got=given, allowed=GROUP_FORM)
    subscribed = None if topics is None else frozenset(topics)
    return Member(str(name), subscribed, given.get("instance"), given.get("rack"))


def _check_described(members: Sequence[Member], lanes: Lanes, where: str) -> None:
    """Refuse what no group has: a subscription to a topic that is not there, and one instance of two members."""
    owner: dict[str, str] = {}
    for member in members:
        if unknown := sorted((member.topics or frozenset()) - set(lanes.topics)):
            what = f"{where}: {member.id!r} reads a topic that is not there"
            raise UsageError.of(what, got=unknown[0], allowed=", ".join(lanes.topics))
        if member.instance is None:
            continue
        if (other := owner.setdefault(member.instance, member.id)) != member.id:
            what = f"{where}: {other!r} and {member.id!r} are the same instance"
            raise UsageError.of(what, got=member.instance, hint="brokers let one member have a group.instance.id")


def _counts(given: Any, where: str) -> dict[str, int]:
    if not isinstance(given, dict) or not given:
        raise UsageError.of(f"{where}: topics are names with lane counts", got=given, allowed='{"orders": 6}')
    for topic, lanes in given.items():
        if not topic or isinstance(lanes, bool) or not isinstance(lanes, int):
            what = f"{where}: the lanes of topic {shorten(topic)}"
            raise UsageError.of(what, got=lanes, allowed="a whole number from 1 on")
    return given


def _racks(given: Any, where: str) -> dict[Lane, frozenset[str]]:
    """Racks with a copy of each lane: a list of them for each lane of a topic, in order."""
    if given is None:
        return {}
    found: dict[Lane, frozenset[str]] = {}
    for topic, lanes in given.items() if isinstance(given, dict) else [("", given)]:
        # A text is a row of letters to Python: "r1" would be the racks "r" and "1".
        rows = lanes if isinstance(lanes, list) else [None]
        copies: list[list[Any]] = [racks if isinstance(racks, list) else [None] for racks in rows]
        named = all(isinstance(rack, str) for racks in copies for rack in racks)
        if not isinstance(given, dict) or not named:
            allowed = '{"orders": [["r1", "r2"], ["r2"]]}'
            raise UsageError.of(f"{where}: racks are a list for each lane", got=given, allowed=allowed)
        found |= {(topic, index): frozenset(racks) for index, racks in enumerate(copies)}
    return found


def _json(path: Path, allowed: str) -> Any:
    text = text_in(path)
    try:
        found = json.loads(text, object_pairs_hook=partial(_object, str(path)))
        if "\\u" in text:
            # An escape may be half of a surrogate pair, which no output can have.
            json.dumps(found, ensure_ascii=False).encode()
    except UsageError:
        raise
    except (ValueError, RecursionError) as error:
        raise UsageError.of(f"{path} is not JSON", got=str(error), allowed=allowed) from None
    return found


def _object(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. A name given twice is refused: `json` keeps the last silently, and lanes would be lost."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError.of(f"{where} gives a name twice", got=name, hint="give each member and each topic once")
        found[name] = value
    return found
