from __future__ import annotations

import subprocess
import sys

import pytest

import keylane

HEAVY = {"numpy", "pyarrow", "pydantic", "yaml", "pyspark", "confluent_kafka", "boto3"}


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded once it ran the statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", keylane.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(keylane, name) is not None


def test_public_names_are_what_dir_shows_and_are_sorted() -> None:
    assert dir(keylane) == sorted(keylane.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Rooter'"):
        _ = keylane.Rooter


@pytest.mark.parametrize(
    "statement",
    ["import keylane", "from keylane import partitioner; partitioner('kafka-java').lane(b'TT0124', 15)"],
    ids=["import", "one lane"],
)
def test_nothing_heavy_is_loaded_for(statement: str) -> None:
    assert loaded_after(statement) & HEAVY == set()


def test_the_check_for_heavy_imports_would_see_one() -> None:
    assert "pyarrow" in loaded_after("import keylane.batch_router")
