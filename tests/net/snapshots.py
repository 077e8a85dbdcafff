"""Snapshots of what keylane prints and writes: how volatile values are taken out, how a snapshot is held and rewritten.

`snapshots/NAME.json` has field names, structure and values; `snapshots/NAME.text.txt` has words. A change of wording
shows in the latter only.

    pytest tests/net                              hold everything against the snapshots
    KEYLANE_NET_UPDATE=1 pytest tests/net         rewrite all snapshots; look at the diff before it is committed
    KEYLANE_NET_UPDATE=text pytest tests/net      rewrite words only, and hold the rest
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

__all__ = ["differences", "held", "held_text", "normalised", "normalised_text"]

FOLDER: Final = Path(__file__).parent / "snapshots"
UPDATE: Final = os.environ.get("KEYLANE_NET_UPDATE", "")
#: Fields whose values differ from run to run or from machine to machine: only the type of what they hold is kept.
VOLATILE: Final = frozenset(
    {"seconds", "made", "query", "staging", "token", "route", "modified", "taken_bytes", "pid", "port", "checksum"}
)
#: More of them, in documents of one schema: what a doctor finds, and what a demo was made by, are facts of the machine.
VOLATILE_IN: Final = {
    "keylane.doctor/2": frozenset({"state", "found", "fix"}),
    "keylane.demo/1": frozenset({"version", "spark"}),
    "keylane.demo-lesson/1": frozenset({"version"}),
    "keylane.demo-migrate/1": frozenset({"version"}),
    "keylane.verify/2": frozenset({"digests", "all"}),
}
#: Fields whose values are names or types, also with a space in them.
EXACT: Final = frozenset({"part", "schema"})
#: A key that is shown cut has a hash with a salt that is forgotten.
MASKED: Final = re.compile(r"…[0-9a-f]{6,}")
#: Random names: of attempts, of Spark's part files, of routes.
RANDOM: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?<=-)[0-9a-f]{12}(?=$|[./])")
#: Differences that a failure shows.
SHOWN: Final = 20
#: So many words of a list are on one line of a snapshot.
FEW: Final = 12
#: A number of a page or table that says how long something took.
TOOK: Final = re.compile(r"\b\d+\.\d+ s\b")
#: Which Spark was used.
USED: Final = re.compile(r"\bSpark \d+(?:\.\d+)+")


def normalised(document: Any, *places: Path, volatile: frozenset[str] = frozenset()) -> Any:
    """A document as it is held: without what differs from run to run, and without prose.

    - A value of a field in `VOLATILE` becomes `<its type>`; of one in `VOLATILE_IN` or `volatile`, `<fact>`.
    - `places`, temporary folders, become `<0>`, `<1>`, …
    - Random names and the hashes of masked keys become `<random>`.
    - Text with a space in it is prose, and becomes `<text>`: its wording may change, that it is there may not.
    - Fractions are cut to nine digits: the order of a sum on Spark may differ.

    Names of fields stay as they are, but for random names and places in them.
    """
    if isinstance(document, dict):
        facts = VOLATILE_IN.get(str(document.get("schema")), frozenset())
        return _fields(document, places, volatile | facts)
    if isinstance(document, list | tuple):
        return [normalised(one, *places, volatile=volatile) for one in document]
    if isinstance(document, float):
        return float(f"{document:.9g}")
    if isinstance(document, str):
        return "<text>" if re.search(r"\s", document) else _without(document, places)
    return document


def _fields(document: dict[Any, Any], places: tuple[Path, ...], volatile: frozenset[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in document.items():
        plain = not isinstance(value, dict | list | tuple)
        if plain and name in VOLATILE:
            held_as: Any = f"<{type(value).__name__}>"
        elif plain and name in volatile:
            held_as = "<fact>"
        elif name in EXACT and isinstance(value, str):
            held_as = _without(value, places)
        else:
            held_as = normalised(value, *places, volatile=volatile)
        found[_without(str(name), places)] = held_as
    return found


def normalised_text(text: str, *places: Path) -> str:
    """Words as they are held: without temporary folders, random names, durations and versions; spaces are single."""
    lines = [re.sub(r"[ \t]+", " ", line).rstrip() for line in _without(text, places).splitlines()]
    return USED.sub("Spark <version>", TOOK.sub("<n> s", "\n".join(lines))).strip() + "\n"


def _without(text: str, places: tuple[Path, ...]) -> str:
    for number, place in enumerate(places):
        text = text.replace(str(place), f"<{number}>")
    return MASKED.sub("…<random>", RANDOM.sub("<random>", text))


def held(name: str, document: Any) -> None:
    """Hold a normalised document against its snapshot."""
    path = FOLDER / f"{name}.json"
    if UPDATE == "1":
        path.write_text(_pretty(document) + "\n", encoding="utf-8")
    assert path.exists(), f"there is no snapshot {path.name}; hint: KEYLANE_NET_UPDATE=1"
    found = differences(json.loads(path.read_text(encoding="utf-8")), json.loads(json.dumps(document)))
    shown = "\n  ".join([f"{path.name}: {len(found)} difference(s)", *found[:SHOWN]])
    assert not found, shown


def held_text(name: str, text: str) -> None:
    """Hold normalised words against their snapshot."""
    path = FOLDER / f"{name}.text.txt"
    if UPDATE in {"1", "text"}:
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"there is no snapshot {path.name}; hint: KEYLANE_NET_UPDATE=text"
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines(), path.name


def differences(expected: Any, got: Any, where: str = "$") -> list[str]:
    """What differs, each with where it is; order of fields and type of numbers included."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return _of_fields(expected, got, where)
    if isinstance(expected, list) and isinstance(got, list):
        found = [] if len(expected) == len(got) else [f"{where}: {len(expected)} items, got {len(got)}"]
        pairs = enumerate(zip(expected, got, strict=False))
        return found + [line for i, (a, b) in pairs for line in differences(a, b, f"{where}[{i}]")]
    same = type(expected) is type(got) and expected == got
    return [] if same else [f"{where}: {expected!r}, got {got!r}"]


def _of_fields(expected: dict[str, Any], got: dict[str, Any], where: str) -> list[str]:
    found = [f"{where}: no field {name}" for name in expected if name not in got]
    found += [f"{where}: a new field {name}" for name in got if name not in expected]
    if not found and list(expected) != list(got):
        found.append(f"{where}: fields in another order, {list(expected)}, got {list(got)}")
    shared = (name for name in expected if name in got)
    return found + [line for name in shared for line in differences(expected[name], got[name], f"{where}.{name}")]


def _pretty(document: Any, indent: str = "") -> str:
    """JSON with a line for each field; a list of numbers or of a few words is on one line."""
    inner = indent + " "
    if isinstance(document, dict) and document:
        fields = (f"{inner}{json.dumps(name)}: {_pretty(value, inner)}" for name, value in document.items())
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}"
    if isinstance(document, list | tuple) and (
        any(isinstance(one, dict | list | tuple) for one in document)
        or (len(document) > FEW and any(isinstance(one, str) for one in document))
    ):
        return "[\n" + ",\n".join(f"{inner}{_pretty(one, inner)}" for one in document) + f"\n{indent}]"
    return json.dumps(document, ensure_ascii=False)
