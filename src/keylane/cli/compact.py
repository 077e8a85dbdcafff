"""`keylane compact`: many small files of a lane become few large ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from keylane.cli.output import Result, Section, output_option
from keylane.numbers import count, plural

if TYPE_CHECKING:
    from keylane.systems.folders.compaction import Compacted

UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@click.command(short_help="Merge the small files of a target's lanes; readers are not disturbed.")
@click.argument("target", metavar="DST")
@click.option("--size", default="128m", show_default=True, help="Merge up to about this size: 64m, 1g.")
@output_option
def compact(target: str, size: str, output: str) -> tuple[Result, str]:
    """Merge the small files of each lane of DST. Records, offsets and order stay as they are.

    A lane's folder is exchanged in one step: a reader that lists it sees all old files or all new ones. No route may be
    writing to DST meanwhile. Needs Linux and a file system that can exchange folders: ext4, XFS, Btrfs, tmpfs.

    \b
    keylane compact lanes/
    keylane compact lanes/ --size 512m
    """
    from keylane.systems.endpoint import parse_address, path_of
    from keylane.systems.folders.compaction import compact as merge

    return as_result(merge(path_of(parse_address(target), "the target"), size=_bytes(size))), output


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([kmg]?)", text.strip().lower())
    if found is None or not int(found[1]):
        raise click.UsageError(f"--size takes a number with k, m or g, got {text!r}")
    return int(found[1]) * UNITS[found[2]]


def as_result(done: list[Compacted]) -> Result:
    """Lanes that had something to merge."""
    from keylane.documents.route import CompactDocument, CompactedFolder

    before, after = sum(one.files_before for one in done), sum(one.files_after for one in done)
    rows = [
        CompactedFolder(
            folder=one.folder, files_before=one.files_before, files_after=one.files_after, records=one.records
        )
        for one in done
    ]
    document = CompactDocument(files_before=before, files_after=after, lanes=rows)
    columns = ("folder", "files_before", "files_after", "records")
    text = (
        f"{count(before)} files are {count(after)} now, in {plural(len(done), 'lane')}" if done else "nothing to merge"
    )
    return Result(document, [Section(columns, rows)], answer=[text])
