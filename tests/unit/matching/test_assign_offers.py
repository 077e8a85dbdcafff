"""Offers hold a driver until they expire; telling one twice is harmless, and no driver is held by two."""

from __future__ import annotations

import pytest
from tests.unit.matching.example_tables import pairs, rows

from keylane.errors import UsageError
from keylane.matching.assign import claim, empty_ledger, offer_id, offers

ONE = offers(pairs(("r1", 5, "a", 10.0), ("r2", 5, "b", 20.0)), made=100, offer_for=15)
RIVAL = offers(pairs(("r3", 6, "a", 1.0)), made=105, offer_for=15)


def riders(table: object) -> list[str]:
    return [rider for (rider,) in rows(table, "rider")]


def test_an_offer_has_the_same_id_whenever_it_is_made() -> None:
    later = offers(pairs(("r1", 5, "a", 10.0)), made=900, offer_for=15)
    assert later.column("offer")[0].as_py() == ONE.column("offer")[0].as_py() == offer_id("r1", 5)


def test_ids_tell_rider_request_and_attempt_apart() -> None:
    ids = [
        offer_id("1", 5),
        offer_id("15", 5),
        offer_id("1", 55),
        offer_id("1", 5, 2),
        offer_id("5/1", 1),
        offer_id("1", 1, 5),
    ]
    assert len(set(ids)) == len(ids)


def test_free_drivers_are_granted_and_held() -> None:
    granted, refused, ledger = claim(empty_ledger(), ONE, 100)
    assert riders(granted) == ["r1", "r2"]
    assert riders(refused) == []
    assert rows(ledger, "driver", "rider", "expires") == [("a", "r1", 115), ("b", "r2", 115)]


def test_a_driver_that_is_held_is_refused_and_the_same_offer_granted_again() -> None:
    _, _, ledger = claim(empty_ledger(), ONE, 100)
    granted, refused, after = claim(ledger, RIVAL, 110)
    assert (riders(granted), riders(refused)) == ([], ["r3"])
    assert after.equals(ledger)
    granted, refused, after = claim(ledger, ONE, 110)
    assert (riders(granted), riders(refused)) == (["r1", "r2"], [])
    assert after.equals(ledger)


def test_a_driver_is_free_when_the_offer_expires() -> None:
    _, _, ledger = claim(empty_ledger(), ONE, 100)
    granted, _, after = claim(ledger, RIVAL, 115)
    assert riders(granted) == ["r3"]
    assert rows(after, "driver", "rider") == [("a", "r3")]


def test_an_offer_that_has_expired_is_refused() -> None:
    granted, refused, ledger = claim(empty_ledger(), ONE, 115)
    assert (riders(granted), riders(refused), len(ledger)) == ([], ["r1", "r2"], 0)


def test_of_two_for_one_driver_the_first_made_is_granted() -> None:
    both = offers(pairs(("r9", 4, "a", 1.0), ("r1", 4, "a", 9.0), ("r0", 5, "a", 1.0)), made=100, offer_for=15)
    granted, refused, ledger = claim(empty_ledger(), both, 101)
    assert (riders(granted), riders(refused)) == (["r1"], ["r9", "r0"])
    assert len(ledger) == 1


def test_an_offer_holds_one_driver_even_if_it_comes_back_with_another() -> None:
    _, _, ledger = claim(empty_ledger(), ONE, 100)
    other = offers(pairs(("r1", 5, "z", 1.0)), made=101, offer_for=15)
    granted, refused, after = claim(ledger, other, 102)
    assert (riders(granted), riders(refused)) == ([], ["r1"])
    assert after.equals(ledger)


def test_an_offer_that_lasts_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="1 microsecond or more"):
        offers(pairs(), made=1, offer_for=0)
