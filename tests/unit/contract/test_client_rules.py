"""The rules of clients without a name: each has a source, known parts, and no name that it denies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keylane.contract.client_rules import CLIENT_RULES, UNNAMED_HASHES, ClientRule, rules_of
from keylane.contract.names import HASHES
from keylane.contract.partitioners import FACTS
from keylane.placement.fold import FOLDS

FAMILIES = {facts.family: name for name, facts in FACTS.items()}
#: Whose placements the names promise: (client, family).
PROMISED = {(client, facts.family) for facts in FACTS.values() for client in facts.client.split(", ")}
PLATFORMATIC = rules_of("murmur2", None, "unsigned")[0]


def fault(rule: ClientRule) -> str | None:
    """What is wrong with an entry, or None."""
    name = FAMILIES.get(rule.family) if rule.seed is None else None
    wrong = {
        "source": not any(part.isdigit() for part in rule.source) or "://" in rule.source,
        "setting": not (rule.client and rule.setting),
        "fold": rule.fold not in {*FOLDS, "multiply-shift"},
        "hash": rule.hash not in {*HASHES, *UNNAMED_HASHES},
        "named": bool(rule.named) != bool(name) or (rule.named != "" and FACTS[rule.named].family != rule.family),
        "agrees": any(family not in FAMILIES or not setting for family, setting in rule.agrees),
        "promised": (rule.client, rule.family) in PROMISED,
        "seed": rule not in rules_of(rule.hash, rule.seed, rule.fold),
    }
    return next((what for what, it_is in wrong.items() if it_is), None)


@pytest.mark.parametrize("rule", CLIENT_RULES, ids=lambda rule: f"{rule.client} {rule.family}")
def test_an_entry_is_whole(rule: ClientRule) -> None:
    assert fault(rule) is None


@pytest.mark.parametrize(
    ("what", "broken"),
    [
        ("source", replace(PLATFORMATIC, source="")),
        ("source", replace(PLATFORMATIC, source="https://example.org/v1")),
        ("setting", replace(PLATFORMATIC, setting="")),
        ("fold", replace(PLATFORMATIC, fold="modulo")),
        ("hash", replace(PLATFORMATIC, hash="murmur4")),
        ("named", replace(PLATFORMATIC, fold="masked")),
        ("named", replace(PLATFORMATIC, named="kafka-java")),
        ("agrees", replace(PLATFORMATIC, agrees=(("murmur2/unsigned", "none has this name"),))),
        ("promised", replace(PLATFORMATIC, client="aiokafka", fold="masked", named="kafka-java")),
        ("seed", replace(PLATFORMATIC, seed=0x9747B28C)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_entry_is_caught(what: str, broken: ClientRule) -> None:
    assert fault(broken) == what


def test_a_setting_of_a_client_has_one_rule() -> None:
    assert len({(rule.client, rule.setting) for rule in CLIENT_RULES}) == len(CLIENT_RULES)


def test_the_usual_seed_may_be_given_as_a_number() -> None:
    assert rules_of("murmur2", 0x9747B28C, "unsigned") == rules_of("murmur2", None, "unsigned") != ()
    assert rules_of("murmur3-32", 0, "unsigned") == rules_of("murmur3-32", None, "unsigned") != ()
    assert {rule.client for rule in rules_of("murmur2", 0, "unsigned")} == {"node-sinek 6.12"}


def test_another_seed_is_another_rule() -> None:
    clients = {rule.client for rule in rules_of("murmur3-32", 104_729, "unsigned")}
    assert clients
    assert clients.isdisjoint(rule.client for rule in rules_of("murmur3-32", None, "unsigned"))


def test_a_default_stands_before_a_setting() -> None:
    found = ["the default" in rule.setting for rule in rules_of("murmur2", None, "unsigned")]
    assert found == sorted(found, reverse=True)
    assert set(found) == {True, False}


def test_a_rule_of_nobody_names_nobody() -> None:
    assert rules_of("murmur2", None, "multiply-shift") == ()


def test_every_hash_that_is_described_is_used() -> None:
    assert set(UNNAMED_HASHES) <= {rule.hash for rule in CLIENT_RULES}
