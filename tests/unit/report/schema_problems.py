"""What the published schemas have against a document."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator


def problems(document: dict[str, Any]) -> list[str]:
    """What the published schema has against a document."""
    name = document["schema"].partition(".")[2].partition("/")[0]
    schema = json.loads((files("keylane") / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]
