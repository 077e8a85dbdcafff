"""Documents of a journal: written with a checksum, numbered without a gap; every kind of damage is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from keylane.errors import TargetError
from keylane.systems.journal import (
    check_oldest,
    decoded,
    document_file,
    documents,
    hold_journal,
    last_document,
    numbers,
    read_document,
    write_document,
)

if TYPE_CHECKING:
    from pathlib import Path

KIND = "batches"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Five documents, of batches 3 to 7."""
    with hold_journal(tmp_path, KIND) as held:
        for batch in range(8):
            held.write(KIND, batch, {"batch": batch, "name": f"é{batch}", "next": [batch, 1.5]}, keep=5)
    return tmp_path


def test_what_is_written_is_read(journal: Path) -> None:
    assert numbers(journal, KIND) == [3, 4, 5, 6, 7]
    assert last_document(journal, KIND) == (7, {"batch": 7, "name": "é7", "next": [7, 1.5]})
    assert [document["batch"] for document in documents(journal, KIND)] == [3, 4, 5, 6, 7]
    assert (last_document(journal, "none"), documents(journal, "none")) == ((-1, None), [])


def test_every_single_bit_is_covered(journal: Path) -> None:
    """Flipped, each bit of a document is an error that names the file, or the same document."""
    file = document_file(journal, KIND, 7)
    whole, before = file.read_bytes(), read_document(file)
    for at in range(len(whole) * 8):
        changed = bytearray(whole)
        changed[at // 8] ^= 1 << at % 8
        file.write_bytes(changed)
        try:
            assert read_document(file) == before
        except TargetError as error:
            assert str(file) in str(error)  # noqa: PT017  either is right


@pytest.mark.parametrize("end", [0, 1, 10, -1])
def test_a_document_that_is_cut(journal: Path, end: int) -> None:
    file = document_file(journal, KIND, 7)
    file.write_bytes(file.read_bytes()[:end])
    with pytest.raises(TargetError, match=r"0000000007\.json, a file .* is damaged"):
        last_document(journal, KIND)


def test_twin_without_its_checksum_a_changed_digit_would_pass(journal: Path) -> None:
    """The fault itself: a digit of `next` changed, in a document that still parses."""
    file = document_file(journal, KIND, 7)
    document = json.loads(file.read_text())
    changed = {**document, "next": [8, 1.5]}
    file.write_text(json.dumps(changed))
    with pytest.raises(TargetError, match="does not match its checksum"):
        read_document(file)
    del changed["checksum"]
    write_document(file, changed)
    assert read_document(file)["next"] == [8, 1.5], "only the checksum told"


def test_a_document_of_another_batch(journal: Path) -> None:
    document_file(journal, KIND, 7).write_bytes(document_file(journal, KIND, 6).read_bytes())
    with pytest.raises(TargetError, match=r"0000000007\.json.*got 'it is of batch 6'"):
        last_document(journal, KIND)


def test_a_gap_names_the_file_that_is_missing(journal: Path) -> None:
    document_file(journal, KIND, 5).unlink()
    with pytest.raises(TargetError, match=r"0000000005\.json, a file .*, is missing"):
        documents(journal, KIND)


def test_the_oldest_is_missed_unless_so_many_are_kept(journal: Path) -> None:
    check_oldest(journal, KIND, 5)
    document_file(journal, KIND, 3).unlink()
    with pytest.raises(TargetError, match=r"0000000003\.json, a file .*, is missing"):
        check_oldest(journal, KIND, 5)


def test_a_document_that_lacks_a_field(tmp_path: Path) -> None:
    lacking: list[Any] = [{}, {"a": None}, {"a": []}]
    for document in lacking:
        with pytest.raises(TargetError, match=r"x\.json.* is damaged"):
            decoded(tmp_path / "x.json", document, lambda read: int(read["a"]))


def test_what_is_no_object(journal: Path) -> None:
    file = document_file(journal, KIND, 7)
    for text in ("[]", "null", "7", '"x"'):
        file.write_text(text)
        with pytest.raises(TargetError, match="not an object"):
            read_document(file)
