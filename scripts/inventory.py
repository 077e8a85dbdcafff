"""What keylane is made of and what it fetches: a bill of materials (CycloneDX), licences, and sizes on disk.

    python scripts/inventory.py --sbom FILE          `make sbom`
    python scripts/inventory.py --write-licences     `make licences`: THIRD-PARTY.md
    python scripts/inventory.py --sizes              `make sizes`: what each extra adds to an installation

Read from requirements.lock, systems/jars.lock, the installed packages and the jars that PySpark carries. Nothing is
asked of a network, and the same input gives the same bytes. Licences that a package does not state in a form that
can be read are in `scripts/licences.toml`; one that is in neither is an error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tomllib
import uuid
import zipfile
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, files, metadata, requires
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).parents[1]
LICENCES: Final = ROOT / "THIRD-PARTY.md"
#: SPDX identifiers that packages use; anything else has to be in the file of licences.
KNOWN: Final = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "PSF-2.0", "Zlib"}
    # SPDX has no identifier for it.
    | {"LicenseRef-Public-Domain"}
)
#: Data of others in the package: the file under the assets of the pages, and what it is made of.
DATA: Final = {
    "land.txt": ("world-atlas", "2.0.2", "ISC"),
    "towns.txt": ("natural-earth-populated-places", "2.0", "LicenseRef-Public-Domain"),
}
_PIN: Final = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)\s*(?:;\s*([^\\\n]*?))?\s*\\?$", re.MULTILINE)
_JAR: Final = re.compile(r"(.+?)-(\d[\w.+-]*)\.jar")


@dataclass(frozen=True, slots=True)
class Part:
    """One part: a Python package, a Java archive (`jar`) or data; by whom it is used, and under which condition."""

    kind: str
    name: str
    version: str
    licence: str
    used_for: str
    group: str = ""
    hashes: tuple[str, ...] = field(default=())
    only_if: str = ""

    @property
    def purl(self) -> str:
        """Its name among all packages of the world."""
        if self.kind == "python":
            return f"pkg:pypi/{self.name}@{self.version}"
        if self.kind == "jar" and self.group:
            return f"pkg:maven/{self.group}/{self.name}@{self.version}?type=jar"
        return f"pkg:generic/{self.name}@{self.version}"


def pins(lock: str) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Name, version, condition and checksums of every package of a lock file."""
    out = []
    starts = list(_PIN.finditer(lock))
    for this, after in zip(starts, [*starts[1:], None], strict=True):
        text = lock[this.end() : after.start() if after else len(lock)]
        out.append((this[1], this[2], (this[3] or "").strip(), tuple(re.findall(r"sha256:([0-9a-f]{64})", text))))
    return out


def jar_pins(lock: str) -> list[tuple[str, str, str, str, str]]:
    """Group, name, version, checksum and kits of every archive of jars.lock."""
    rows = [line.split() for line in lock.splitlines() if line and not line.startswith("#")]
    return [(*_coordinate(row[0]), row[1], row[2]) for row in rows]


def _coordinate(text: str) -> tuple[str, str, str]:
    group, name, version = text.split(":")
    return group, name, version


@cache
def stated() -> dict[str, dict[str, str]]:
    """The licences that are written down here."""
    return tomllib.loads((ROOT / "scripts" / "licences.toml").read_text(encoding="utf-8"))


def python_licence(name: str) -> str:
    """The SPDX expression of a package: as it states it, or as it is written down here."""
    if name in stated()["python"]:
        return stated()["python"][name]
    try:
        about = metadata(name)
    except PackageNotFoundError:
        raise SystemExit(f"inventory: {name} is not installed; its licence belongs in scripts/licences.toml") from None
    found = next((about[field].strip() for field in ("License-Expression", "License") if field in about), "")
    if not is_expression(found):
        raise SystemExit(f"inventory: {name} states no licence that can be read; it belongs in scripts/licences.toml")
    return found


def is_expression(text: str) -> bool:
    """Whether a text is an SPDX expression of identifiers that are known here."""
    return bool(text) and all(word in KNOWN for word in re.split(r" (?:AND|OR) ", text.strip("()")))


def jar_licence(group: str, name: str) -> str:
    """The licence of an archive, by its coordinate or its group."""
    table = stated()["jars"]
    found = table.get(f"{group}:{name}") or table.get(group)
    if found is None:
        raise SystemExit(f"inventory: the licence of {group}:{name} belongs in scripts/licences.toml")
    return found


def used_at_run_time() -> set[str]:
    """The packages that keylane and its extras bring along, not only its development."""
    return set().union(*(brought_by(wanted) for wanted in _asked_for().values()))


def _asked_for() -> dict[str, list[str]]:
    """The requirements of pyproject.toml: of keylane alone (no name), and of each extra that names packages."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"].items()
    return {"": project["dependencies"]} | {name: many for name, many in extras if not many[0].startswith("keylane[")}


def brought_by(requirements: list[str]) -> set[str]:
    """The packages that these requirements install, and those that they require in turn."""
    waiting = list(requirements)
    seen: set[str] = set()
    while waiting:
        wanted = Requirement(waiting.pop())
        name = canonical(wanted.name)
        if name in seen:
            continue
        seen.add(name)
        try:
            needed = [Requirement(text) for text in requires(name) or []]
        except PackageNotFoundError:
            continue
        extras = [{"extra": extra} for extra in ("", *wanted.extras)]
        waiting += [str(one) for one in needed if one.marker is None or any(map(one.marker.evaluate, extras))]
    return seen


def sizes() -> dict[str, int]:
    """Bytes on disk of keylane's packages (no name), and of what each extra adds to them; as installed here."""
    asked = _asked_for()
    always = brought_by(asked[""])
    added = {extra: brought_by(wanted) - (always if extra else set()) for extra, wanted in asked.items()}
    return {extra: sum(map(_bytes_of, packages)) for extra, packages in added.items()}


def _bytes_of(package: str) -> int:
    try:
        there = (Path(one.locate()) for one in files(package) or [])
        return sum(path.stat().st_size for path in there if path.is_file())
    except PackageNotFoundError:
        raise SystemExit(f"inventory: {package} is not installed; `make venv` installs it") from None


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parts() -> list[Part]:
    """Everything that is pinned, in the order of the locks, and the data that is in the package."""
    running = used_at_run_time()
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    jars = (ROOT / "src/keylane/systems/jars.lock").read_text(encoding="utf-8")
    python = [
        Part(
            *("python", canonical(name), version, python_licence(canonical(name))),
            "keylane and its extras" if canonical(name) in running else "development",
            hashes=hashes,
            only_if=condition,
        )
        for name, version, condition, hashes in pins(lock)
    ]
    java = [
        Part("jar", name, version, jar_licence(group, name), f"kit {kits}", group=group, hashes=(sha,))
        for group, name, version, sha, kits in jar_pins(jars)
    ]
    assets = ROOT / "src/keylane/report/assets"
    data = [
        Part("data", *made_of, "keylane and its extras", hashes=(digest_of(assets / name),))
        for name, made_of in DATA.items()
    ]
    return [*python, *java, *data]


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def carried() -> list[Part]:
    """The jars that the installed PySpark carries: named by their files, and by Maven's own note where there is one."""
    import pyspark

    out = []
    for path in sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar")):
        named = _JAR.fullmatch(path.name)
        name, version = (named[1], named[2]) if named else (path.stem, "unknown")
        with zipfile.ZipFile(path) as jar:
            notes = [one for one in jar.namelist() if one.endswith(f"/{name}/pom.properties")]
            group = notes[0].split("/")[2] if notes else ""
        out.append(Part("jar", name, version, "", "carried by pyspark", group=group, hashes=(digest_of(path),)))
    return out


def sbom(found: list[Part], inside: list[Part], version: str) -> dict[str, Any]:
    """A CycloneDX document: keylane, what it is made of, and what PySpark carries."""
    components = [_component(part) for part in found]
    spark = next(one for one in components if one["name"] == "pyspark")
    spark["components"] = [_component(part) for part in inside]
    own = {"type": "application", "bom-ref": "keylane", "name": "keylane", "version": version}
    body = {
        "metadata": {"component": {**own, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": components,
        "dependencies": [{"ref": "keylane", "dependsOn": sorted(one["bom-ref"] for one in components)}],
    }
    # Made of the content, so that the same content is the same document.
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(body, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", "version": 1}
    return {**head, **body}


def _component(part: Part) -> dict[str, Any]:
    notes = {"keylane:used-for": part.used_for, "keylane:only-if": part.only_if}
    out: dict[str, Any] = {
        "type": "data" if part.kind == "data" else "library",
        "bom-ref": f"{part.purl}#{part.used_for}" if part.used_for == "carried by pyspark" else part.purl,
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
    }
    out |= {"group": part.group} if part.group else {}
    out |= {"licenses": [{"expression": part.licence}]} if part.licence else {}
    if part.kind == "python":
        # One for each file of the release: CycloneDX has a field for those of one file only.
        notes |= {f"keylane:sha256:{number}": one for number, one in enumerate(part.hashes)}
    else:
        out["hashes"] = [{"alg": "SHA-256", "content": one} for one in part.hashes]
    out["properties"] = [{"name": name, "value": value} for name, value in notes.items() if value]
    return out


HEAD: Final = """# Third parties

What keylane is installed with, fetches or is developed with, and under which licence. Written by `make licences` from
requirements.lock and jars.lock; do not edit. Checksums and more: `make sbom`. Data of others that is in the package is
in [NOTICE](NOTICE) with its licence.

None of these is part of keylane's own files: packages come from the index of your pip, and jars from the repository of
your Ivy, at first use. PySpark carries jars of its own; their licences are in its folder `licenses`.
"""


def licences(found: list[Part]) -> str:
    """The page of all parts and their licences."""
    titles = {
        "Python, with keylane or one of its extras": ("python", "keylane and its extras"),
        "Java, fetched at first use": ("jar", None),
        "Data in the package": ("data", None),
        "Python, for development only": ("python", "development"),
    }
    lines = [HEAD]
    for title, (kind, used_for) in titles.items():
        own = [part for part in found if part.kind == kind and used_for in (None, part.used_for)]
        lines += [f"## {title}\n", "| part | version | licence | note |", "|---|---|---|---|"]
        for part in own:
            name = f"{part.group}:{part.name}" if part.group else part.name
            note = part.only_if or (part.used_for if part.kind == "jar" else "")
            lines.append(f"| {name} | {part.version} | {part.licence} | {note} |".replace("|  |", "| |"))
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Write what is asked for."""
    parser = argparse.ArgumentParser(description="What keylane is made of.")
    parser.add_argument("--sbom", metavar="FILE", type=Path)
    parser.add_argument("--write-licences", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    options = parser.parse_args()
    if options.sizes:
        named = {f"more with [{extra}]" if extra else "keylane alone": size for extra, size in sizes().items()}
        named["of keylane alone is Arrow"] = _bytes_of("pyarrow")
        sys.stdout.writelines(f"{size / 1e6:4.0f} MB  {name}\n" for name, size in named.items())
        return
    found = parts()
    if options.write_licences:
        LICENCES.write_text(licences(found), encoding="utf-8")
    if options.sbom:
        sys.path.insert(0, str(ROOT / "src"))
        from keylane import __version__

        options.sbom.parent.mkdir(parents=True, exist_ok=True)
        document = sbom(found, carried(), __version__)
        options.sbom.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
