"""The first hour, recorded: runs the four walks of tests/integration/test_first_hour.py, and prints what was shown.

python scripts/first_hour.py            run them, print each with its commands, what they showed, and the seconds
python scripts/first_hour.py --write    and write docs/first-hour.md from it

Nothing on the page is typed by hand but what is here: commands, screens and figures are those of the run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "first-hour.md"
TESTS = "tests/integration/test_first_hour.py"
RECORD = "KEYLANE_FIRST_HOUR"
#: Title -> what is there when it begins, and the page that goes on from it.
WALKS = {
    "two writers on my topic": (
        "Payments come from a service with kafka-python. An hour ago one with confluent-kafka, as it comes, was added.",
        "[Two services disagree](how-to/two-services.md)",
    ),
    "one hot partition": (
        "One partition of `shop-orders` lags. Six of the larger shops share it by their hash, which nobody knows yet.",
        "[Lag on one partition](how-to/lag.md)",
    ),
    "first contract for a CSV export": (
        "A day of payments from a spreadsheet: semicolons, commas in the amounts, some cells without a merchant.",
        "[`keylane init`](commands/init.md)",
    ),
    "drivers and riders in one city": (
        "Half an hour of pings of 300 drivers, and 200 riders, every tenth of whom is far outside the city.",
        "[Drivers and riders](how-to/drivers-and-riders.md)",
    ),
}
OPENING = """\
# The first hour

Four problems of a new user, each from nothing to an answer in at most four commands: what was typed on a terminal, and
what was shown. The walks are tests, on a real broker and on files. `make first-hour` runs them, and prints the same
with the seconds that they take on your machine; this page is written by `make first-hour-page`.
"""


def recorded() -> dict[str, str]:
    """Run the walks; the transcript of each by its title."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, RECORD: folder}
        command = [sys.executable, "-m", "pytest", TESTS, "-m", "faults or not faults", "-k", "not twin"]
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)  # noqa: S603  ours
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return {title: (Path(folder) / f"{title.replace(' ', '-')}.txt").read_text("utf-8") for title in WALKS}


def tidy(text: str) -> str:
    """Without the port that only this run's broker had."""
    return re.sub(r"127\.0\.0\.1:\d+", "broker:9092", text)


def page(walks: dict[str, str]) -> str:
    """The page, whole."""
    parts = [OPENING]
    for title, (there, onward) in WALKS.items():
        *shown, summary = walks[title].rstrip("\n").split("\n")
        took = summary.removeprefix(f"walk: {title}: ").partition(",")[0]
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n{there}\n")
        screens = "\n".join(shown).rstrip()
        parts.append(f"```text\n{tidy(screens)}\n```\n\n{took}. More: {onward}.\n")
    return "\n".join(parts)


def main() -> None:
    """Run, print, and write where that is asked for."""
    walks = recorded()
    for text in walks.values():
        sys.stdout.write(f"{text}\n")
    sys.stdout.write("".join(f"{text.rstrip().rpartition(chr(10))[2]}\n" for text in walks.values()))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(walks), "utf-8")


if __name__ == "__main__":
    main()
