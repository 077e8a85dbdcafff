"""Names that two rooms spell, because neither may ask the other."""

from __future__ import annotations

from keylane.spark.writable import DEAD_PREFIX
from keylane.systems.messages.headers import REASON


def test_the_reason_of_a_dead_letter_is_read_where_it_is_written() -> None:
    assert f"{DEAD_PREFIX}reason" == REASON
