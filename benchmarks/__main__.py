"""Run the benchmarks that are named, or all; print a table, and keep the figures with machine and commit."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import answered

if TYPE_CHECKING:
    from benchmarks.timing import Figure

QUESTIONS = (
    "startup",
    "first_answer",
    "router_batch",
    "router_record",
    "hashes",
    "identify",
    "spark_startup",
    "spark_columns",
    "shards",
    "assign",
    "simulation",
    "cells",
    "route",
    "kafka",
    "follow",
    "verify",
    "migrate",
    "profile",
    "promise",
    "geo_balance",
    "match",
    "aggregate",
    "geo_recall",
)
RESULTS = Path(__file__).parent / "results"


def main(names: list[str]) -> int:
    """Run, print, keep; 1 when a figure falls short of its target."""
    figures: list[Figure] = []
    for name in names or QUESTIONS:
        # Each in a process of its own: Java takes its jars when it starts, and one question is not to warm up another.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            answer = process.submit(answered, name).result()
        _keep(name, answer)
        figures += answer
    short = [figure.name for figure in figures if figure.short]
    print(f"\n{len(figures)} figures, {len(short)} short of their target{': ' if short else ''}{', '.join(short)}")
    return 1 if short else 0


def _keep(name: str, figures: list[Figure]) -> None:
    """One file for each question, so that running some leaves the figures of the others."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"python": platform.python_version(), "processor": platform.machine(), "system": platform.system()}
    RESULTS.mkdir(exist_ok=True)
    document = {"commit": commit.stdout.strip(), "machine": machine, "figures": [asdict(f) for f in figures]}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
