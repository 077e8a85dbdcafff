from __future__ import annotations

import pytest

from keylane.errors import UnknownNameError
from keylane.hashing import HASHES, hash_named


@pytest.mark.parametrize("name", HASHES)
def test_a_hash_is_found_by_its_name(name: str) -> None:
    assert hash_named(name) is HASHES[name]
    assert hash_named(name).name == name


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"got 'mumur2'.*'murmur2'"):
        hash_named("mumur2")
