from __future__ import annotations

from pathlib import Path

import pytest

from keylane.errors import UnsupportedError, UsageError
from keylane.systems.endpoint import Address, parse_address, path_of


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("data/day1", Address("files", "", "data/day1")),
        ("/a b/c=1", Address("files", "", "/a b/c=1")),
        ("file:///a%20b/c", Address("files", "", "/a b/c")),
        ("FILE:///x", Address("files", "", "/x")),
        ("kafka://h:9092/t", Address("kafka", "h:9092", "t")),
        ("kafka://a.b:1,[::1]:2/t-1_x.y", Address("kafka", "a.b:1,[::1]:2", "t-1_x.y")),
        ("kinesis://eu-west-1/s", Address("kinesis", "eu-west-1", "s")),
        ("kinesis://us-gov-west-1/s", Address("kinesis", "us-gov-west-1", "s")),
        ("a:b", Address("files", "", "a:b")),
    ],
)
def test_an_address_and_its_parts(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "an address is empty"),
        ("file://host/x", "names another machine"),
        ("file://", "names another machine"),
        ("kafka://h/t", "not a kafka address"),
        ("kafka://h:1", "not a kafka address"),
        ("kafka://h:1/", "not a kafka address"),
        ("kafka://h:1/a/b", "not a kafka address"),
        ("kafka://h:1/t?security=none", "not a kafka address"),
        ("kafka://u:p@h:1/t", "not a kafka address"),
        (f"kafka://h:1/{'t' * 250}", "not a kafka address"),
        ("kinesis://mars/s", "not a kinesis address"),
        ("s3://bucket/x", "not a system"),
        ("hdfs://h/x", "not a system"),
    ],
)
def test_what_is_no_address(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_address(text)


def test_only_files_have_a_path() -> None:
    assert path_of(parse_address("x"), "the source") == Path.cwd() / "x"
    with pytest.raises(UnsupportedError, match=r"the source .*got 'kafka://h:1/t'"):
        path_of(parse_address("kafka://h:1/t"), "the source")


@pytest.mark.parametrize("text", ["kafka://app:canary@h:9092/t", "https://app:canary@h/t", "kafka://canary@h:9092/t"])
def test_a_login_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert "canary" not in str(caught.value)
    assert "h" in str(caught.value)
    # The twin: what is wrong elsewhere is shown.
    with pytest.raises(UsageError, match="canary"):
        parse_address("kafka://h:9092/t/canary")
