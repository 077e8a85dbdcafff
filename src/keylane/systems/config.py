"""What is configured beside the command line: `keylane.toml` and `KEYLANE_*`, and where each value comes from.

    first    KEYLANE_KAFKA, KEYLANE_KAFKA_FILE, KEYLANE_SPARK_MASTER, KEYLANE_OUTPUT
    then     keylane.toml of the working directory, or of the nearest folder above it
    last     keylane.toml in $XDG_CONFIG_HOME/keylane, by default ~/.config/keylane

In each file the part of a named environment, `[env.NAME]`, comes before the rest; the name is that of `--env`, or
KEYLANE_ENV. Secrets are references, never in the file. What is typed comes before all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE: Final = "keylane.toml"
#: The settings there are: where each is in a file, and its variable.
SETTINGS: Final = {
    "kafka.brokers": "KEYLANE_KAFKA",
    "kafka.properties-file": "KEYLANE_KAFKA_FILE",
    "spark.master": "KEYLANE_SPARK_MASTER",
    "output": "KEYLANE_OUTPUT",
}
#: Tables of names that keylane only passes on.
TABLES: Final = ("kafka.properties", "spark.conf")
OUTPUTS: Final = ("table", "wide", "md", "json", "jsonl", "csv")


@dataclass(frozen=True, slots=True)
class ConfiguredValue:
    """A setting that is in force, and where it comes from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that is in force, by name; those of tables as `kafka.properties.sasl.username`."""

    values: tuple[ConfiguredValue, ...] = ()
    environment: str | None = None

    def get(self, name: str) -> str | None:
        """One setting; None where it is not configured."""
        return next((one.value for one in self.values if one.name == name), None)

    def table(self, name: str) -> tuple[tuple[str, str], ...]:
        """The names and values of a table."""
        before = f"{name}."
        return tuple((one.name.removeprefix(before), one.value) for one in self.values if one.name.startswith(before))


def configuration(environ: Mapping[str, str], here: Path, environment: str | None = None) -> Configuration:
    """What is in force in this folder, with these variables."""
    name = environment or environ.get("KEYLANE_ENV") or None
    found: dict[str, ConfiguredValue] = {}
    for setting, variable in SETTINGS.items():
        if environ.get(variable):
            found[setting] = ConfiguredValue(setting, environ[variable], variable)
    known: set[str] = set()
    for path in files(environ, here):
        tree = _read(path)
        environments = _table(tree.pop("env", {}), "env", path)
        known |= set(environments)
        named = _table(environments.get(name, {}), f"env.{name}", path) if name else {}
        for part, source in ((named, f"{path}, [env.{name}]"), (tree, str(path))):
            for one in _values(part, path, source):
                found.setdefault(one.name, one)
    if name and name not in known:
        raise UnknownNameError.among("environment", name, sorted(known) or ["none is configured"])
    for one in found.values():
        _check(one)
    return Configuration(tuple(sorted(found.values(), key=lambda one: one.name)), name)


def files(environ: Mapping[str, str], here: Path) -> Iterator[Path]:
    """The files that count, the nearest first."""
    near = next((folder / FILE for folder in (here, *here.parents) if (folder / FILE).is_file()), None)
    if near is not None:
        yield near
    home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else None)
    own = Path(home) / "keylane" / FILE if home else None
    if own is not None and own != near and own.is_file():
        yield own


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError.of(f"{path} cannot be read", got=str(error)) from None


def _values(tree: Mapping[str, Any], path: Path, source: str) -> Iterator[ConfiguredValue]:
    for name, value in _leaves(tree, "", path):
        text = str(path.parent / value) if name == "kafka.properties-file" else str(value)
        yield ConfiguredValue(name, text, source)


def _leaves(tree: Mapping[str, Any], before: str, path: Path) -> Iterator[tuple[str, Any]]:
    """Names of settings with their values; a name that is none is refused."""
    for key, value in tree.items():
        name = f"{before}{key}"
        passed_on = any(name.startswith(f"{table}.") for table in TABLES)
        if isinstance(value, dict) and (
            passed_on or any(f"{one}.".startswith(f"{name}.") for one in (*SETTINGS, *TABLES))
        ):
            yield from _leaves(value, f"{name}.", path)
        elif name in SETTINGS or passed_on:
            if not isinstance(value, str | int | float | bool):
                several = "; hint: several are one text, with commas between" if isinstance(value, list) else ""
                raise UsageError(f"{path}: {name} is {_kind(value)}; allowed: text, a number, true or false{several}")
            yield name, str(value).lower() if isinstance(value, bool) else value
        else:
            raise UnknownNameError.among(f"setting in {path}", name, [*SETTINGS, *(f"{one}.NAME" for one in TABLES)])


def _table(value: Any, name: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {name} is {_kind(value)}; allowed: a table; hint: [{name}], its settings below it")
    return value


def _kind(value: object) -> str:
    """What a value is in the words of TOML; not the value itself, which may be a secret in the wrong place."""
    named = {list: "an array", dict: "a table", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return named.get(type(value), "a date or time")


def _check(one: ConfiguredValue) -> None:
    """Refuse a secret in plain text, and an output that there is not."""
    if one.name == "output" and one.value not in OUTPUTS:
        raise UnknownNameError.among(f"output in {one.source}", one.value, OUTPUTS)
    if one.name.startswith("kafka.properties."):
        from keylane.systems.kafka.access import ALLOWED, FORMS, is_reference

        name = one.name.removeprefix("kafka.properties.")
        if name in ALLOWED and ALLOWED[name].secret and not is_reference(one.value):
            raise UsageError.of(f"{one.source}: {name} must not be there in plain text", allowed=FORMS)


def properties_of(found: Configuration) -> tuple[tuple[str, str], ...]:
    """The client properties of the configured brokers: those of the file, then those of the table."""
    from keylane.systems.kafka.access import read_properties

    file = found.get("kafka.properties-file")
    return (*(read_properties(file) if file else ()), *found.table("kafka.properties"))
