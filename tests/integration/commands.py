"""`keylane` in a process of its own, and its `dev kafka` over one folder."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import keylane

SCHEMAS = Path(keylane.__file__).with_name("schemas")


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        schema = document["schema"].removeprefix("keylane.").partition("/")[0]
        Draft202012Validator(json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8"))).validate(document)
        return document


def run(*arguments: str) -> Ended:
    command = [sys.executable, "-m", "keylane", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return Ended(done.returncode, done.stdout, done.stderr)


def dev_kafka(verb: str, folder: Path, *options: str) -> Ended:
    return run("dev", "kafka", verb, "--dir", str(folder), *options)
