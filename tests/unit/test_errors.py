from __future__ import annotations

import pytest

from keylane import errors
from keylane.errors import (
    ContractError,
    DataError,
    KeylaneError,
    LaneCountError,
    MissingExtraError,
    UnknownNameError,
    UnplacedError,
    UsageError,
    did_you_mean,
    shorten,
)
from keylane.extras import install_command
from keylane.records import Finding, Reason

LEAVES = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error") and name != "KeylaneError"]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)
def test_every_error_is_keylanes_and_also_a_builtin(leaf: type[KeylaneError]) -> None:
    assert issubclass(leaf, KeylaneError)
    assert any(base.__module__ == "builtins" and base is not Exception for base in leaf.__mro__[1:-3])


@pytest.mark.parametrize(
    ("leaf", "builtin", "exit_code"),
    [
        (UsageError, ValueError, 2),
        (LaneCountError, ValueError, 2),
        (UnknownNameError, LookupError, 2),
        (ContractError, ValueError, 2),
        (UnplacedError, ValueError, 1),
        (DataError, ValueError, 1),
        (MissingExtraError, ImportError, 1),
    ],
)
def test_what_an_error_is_and_how_a_command_ends_with_it(
    leaf: type[KeylaneError], builtin: type[Exception], exit_code: int
) -> None:
    assert issubclass(leaf, builtin)
    assert leaf.exit_code == exit_code


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "what"),
        ({"got": 0}, "what: got 0"),
        ({"allowed": "a, b"}, "what: allowed: a, b"),
        ({"got": "x", "allowed": "a", "hint": "try a"}, "what: got 'x'; allowed: a; hint: try a"),
    ],
    ids=["nothing else", "got", "allowed", "all"],
)
def test_a_message_says_what_got_allowed_and_hint_in_this_order(parts: dict[str, str], message: str) -> None:
    assert str(KeylaneError.of("what", **parts)) == message


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a", "'a'"), (7, "7"), (None, "None"), ("x" * 120, repr("x" * 120)), (float("nan"), "nan")],
    ids=["text", "number", "null", "just short enough", "nan"],
)
def test_a_short_value_is_shown_whole(value: object, shown: str) -> None:
    assert shorten(value) == shown


@pytest.mark.parametrize(
    "value", ["x" * 2**20, b"x" * 2**20, ["x"] * 2**10, 10**500], ids=["text", "bytes", "list", "int"]
)
def test_a_long_value_is_cut_and_marked(value: object) -> None:
    assert len(shorten(value)) <= 124
    assert shorten(value).endswith("…")


def test_the_nearest_word_is_suggested_and_no_far_one() -> None:
    assert did_you_mean("encodng", ["encoding", "join"]) == "did you mean 'encoding'?"
    assert did_you_mean("zzz", ["encoding", "join"]) == ""


def test_an_unknown_name_lists_what_there_is() -> None:
    error = UnknownNameError.among("hash", "crc", ["crc32", "md5"])
    assert str(error) == "unknown hash: got 'crc'; allowed: crc32, md5; hint: did you mean 'crc32'?"


def test_a_missing_extra_says_the_line_that_fixes_it() -> None:
    assert install_command("kafka") in str(MissingExtraError.named("kafka", "confluent-kafka"))


def test_errors_carry_what_a_program_needs() -> None:
    finding = Finding("error", "spec.lanes", "got 0", 7)
    assert ContractError("bad", [finding]).findings == (finding,)
    assert UnplacedError("none", Reason.NULL_KEY).reason is Reason.NULL_KEY
