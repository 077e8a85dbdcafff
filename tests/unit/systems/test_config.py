from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.errors import KeylaneError, UsageError
from keylane.systems.config import Configuration, configuration, properties_of
from keylane.systems.endpoint import configure, open_endpoint, parse_address, unconfigure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = """
output = "json"
[kafka]
brokers = "a:1"
[kafka.properties]
"sasl.username" = "app"
"sasl.password" = "${env:PW}"
[spark.conf]
"spark.sql.shuffle.partitions" = 7
[env.prod.kafka]
brokers = "p:1"
"""


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    yield
    unconfigure()


def test_a_file_that_an_editor_marked_as_utf_8_is_read(tmp_path: Path) -> None:
    (tmp_path / "keylane.toml").write_text(TEXT, "utf-8-sig")
    assert configuration({}, tmp_path).get("kafka.brokers") == "a:1"


def test_brackets_without_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "keylane.toml").write_text("a = " + "[" * 20_000, "utf-8")
    with pytest.raises(UsageError, match=r"keylane\.toml cannot be read: got 'maximum recursion"):
        configuration({}, tmp_path)


def test_the_nearest_file_counts_and_the_environment_before_it(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "keylane.toml").write_text(TEXT, "utf-8")
    own = tmp_path / "config" / "keylane"
    own.mkdir(parents=True)
    (own / "keylane.toml").write_text('[kafka]\nbrokers = "x:1"\n[spark]\nmaster = "local[2]"\n', "utf-8")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    found = configuration(environ, deep)
    assert (found.get("kafka.brokers"), found.get("spark.master"), found.get("output")) == ("a:1", "local[2]", "json")
    assert found.table("spark.conf") == (("spark.sql.shuffle.partitions", "7"),)
    sources = {one.name: one.source for one in found.values}
    assert sources["kafka.brokers"] == str(tmp_path / "keylane.toml")
    assert sources["spark.master"] == str(own / "keylane.toml")
    assert configuration({**environ, "KEYLANE_KAFKA": "e:1"}, deep).get("kafka.brokers") == "e:1"
    assert configuration({}, tmp_path / "config") == configuration({}, tmp_path)
    assert configuration({}, own.parent.parent.parent.parent).values == ()


def test_environments_are_chosen_by_name(tmp_path: Path) -> None:
    (tmp_path / "keylane.toml").write_text(TEXT, "utf-8")
    assert configuration({}, tmp_path, "prod").get("kafka.brokers") == "p:1"
    assert configuration({"KEYLANE_ENV": "prod"}, tmp_path).get("output") == "json"
    with pytest.raises(KeylaneError, match="did you mean 'prod'"):
        configuration({}, tmp_path, "prd")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[kafka.properties]\n"sasl.password" = "hunter2"', "must not be there in plain text"),
        ('[kafka]\nbroker = "a:1"', "did you mean 'kafka.brokers'"),
        ('output = "xml"', "output"),
        ("[kafka", "cannot be read"),
        ("env = 3", "env is a number; allowed: a table"),
        ('[kafka]\nbrokers = ["a:1"]', "kafka.brokers is an array; allowed: text.*commas"),
        ('[kafka.properties]\n"sasl.password" = ["hunter2"]', "is an array"),
        ("[spark]\nmaster = 2026-01-01", "is a date"),
    ],
)
def test_what_is_wrong_in_a_file_is_refused_and_no_secret_shown(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "keylane.toml").write_text(text, "utf-8")
    with pytest.raises(KeylaneError, match=message) as caught:
        configuration({}, tmp_path)
    assert "hunter2" not in str(caught.value)


def test_a_file_of_properties_lies_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "keylane.toml").write_text('[kafka]\nproperties-file = "c.properties"\n', "utf-8")
    (tmp_path / "c.properties").write_text("client.id=k\n", "utf-8")
    (tmp_path / "below").mkdir()
    assert properties_of(configuration({}, tmp_path / "below")) == (("client.id", "k"),)


@pytest.mark.parametrize("text", ["kafka:payments.tx", "kafka:///payments.tx"])
def test_a_short_address_is_one_of_the_configured_brokers(text: str) -> None:
    with pytest.raises(UsageError, match="no broker is configured"):
        parse_address(text)
    configure("kafka", "b:9092", lambda: (("client.id", "k"),))
    assert str(parse_address(text)) == "kafka://b:9092/payments.tx"
    assert open_endpoint(text).options.properties == (("client.id", "k"),)


def test_a_topic_in_the_place_of_a_broker_gets_the_short_form_where_brokers_are_configured() -> None:
    with pytest.raises(UsageError, match="not a kafka address") as alone:
        parse_address("kafka://payments")
    configure("kafka", "b:9092")
    with pytest.raises(UsageError, match="hint: kafka:payments for") as caught:
        parse_address("kafka://payments")
    assert "kafka:payments" not in str(alone.value)
    assert str(parse_address("kafka:payments")) == "kafka://b:9092/payments"
    with pytest.raises(UsageError, match="not a kafka address") as login:
        parse_address("kafka://app:secret@payments")
    assert "secret" not in f"{caught.value} {login.value}"


def test_properties_go_to_no_other_brokers() -> None:
    configure("kafka", "b:9092", lambda: (("sasl.username", "app"),))
    assert open_endpoint("kafka://other:9092/t").options.properties == ()
    assert open_endpoint("kafka://b:9092/t").options.properties == (("sasl.username", "app"),)


def test_nothing_is_configured_by_default(tmp_path: Path) -> None:
    assert configuration({}, tmp_path) in (Configuration(), configuration({}, tmp_path.parent))
