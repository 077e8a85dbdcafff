"""Client properties: what passes, what is refused and why, and that no secret shows itself."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

from keylane.errors import UnknownNameError, UsageError
from keylane.systems.kafka.access import ALLOWED, Secret, is_reference, kafka_access, read_properties, reveal

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = [
    ("security.protocol", "sasl_ssl"),
    ("sasl.mechanism", "SCRAM-SHA-512"),
    ("sasl.username", "app"),
    ("sasl.password", "${env:KAFKA_PASSWORD}"),
]


@pytest.fixture
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", 'can"ary\\1')


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("minPartitions", "order"),
        ("maxRecordsPerPartition", "order"),
        ("sasl.jaas.config", "names Java classes"),
        ("interceptor.classes", "loads code"),
        ("key.serializer", "loads code"),
        ("value.deserializer", "loads code"),
        ("sasl.login.callback.handler.class", "loads code"),
        ("metric.reporters", "loads code"),
        ("security.providers", "loads code"),
        ("plugin.library.paths", "loads code"),
        ("ssl.engine.factory.class", "loads code"),
        ("config.providers", "reads files"),
        ("sasl.oauthbearer.token.endpoint.url", "dial"),
        ("sasl.oauthbearer.jwks.endpoint.url", "dial"),
        ("sasl.kerberos.kinit.cmd", "dial"),
        ("bootstrap.servers", "it is part of the address"),
        ("transactional.id", "keylane sets it"),
        ("enable.idempotence", "keylane sets it"),
        ("acks", "keylane sets it"),
        ("group.id", "keylane sets it"),
        ("ssl.key.password", "Spark's options"),
    ],
)
def test_what_loads_code_or_dials_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        kafka_access("b:9092", [(name, "canary")])
    assert "canary" not in str(caught.value)


def test_an_unknown_property_is_refused_and_the_nearest_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'linger\.ms'"):
        kafka_access("b:9092", [("linger.mss", "5")])


@pytest.mark.usefixtures("_password")
def test_both_clients_get_their_own_words(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("x")
    given = [("ssl.ca.location", str(ca)), ("message.max.bytes", "2000000"), ("fetch.max.bytes", "9")]
    found = kafka_access("b:9092", [*LOGIN, *given])
    assert found.librdkafka() == {
        "bootstrap.servers": "b:9092",
        "log_level": 0,
        "message.max.bytes": "2000000",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.password": 'can"ary\\1',
        "sasl.username": "app",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(ca),
    }
    reached = {
        "bootstrap.servers": "b:9092",
        "sasl.mechanism": "SCRAM-SHA-512",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(ca),
        "ssl.truststore.type": "PEM",
    }
    assert found.java_client() == reached
    assert found.java_producer() == {**reached, "max.request.size": "2000000"}
    connector = {f"kafka.{name}": text for name, text in {**reached, "fetch.max.bytes": "9"}.items()}
    assert found.java() == connector
    own = {"kafka.isolation.level": "read_committed", "kafka.fetch.max.wait.ms": "5"}
    assert found.java_reader() == {**connector, **own}
    assert found.jaas() == (
        "KafkaClient { org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="app" password="can\\"ary\\\\1"; };'
    )


@pytest.mark.usefixtures("_password")
def test_an_access_can_be_shown_and_sent_because_it_holds_the_reference_only() -> None:
    found = kafka_access("b:9092", LOGIN)
    java = (found.java(), found.java_producer(), found.java_client())
    for text in (repr(found), str(java), json.dumps(found.properties)):
        assert "can" not in text
    assert b"ary" not in pickle.dumps(found)


@pytest.mark.parametrize("text", ["canary", "${env:}", "x${env:A}", "${url:http://a}", "${file:/a}b"])
def test_a_password_in_the_open_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(UsageError, match="must not be given in plain text") as caught:
        kafka_access("b:9092", [*LOGIN[:3], ("sasl.password", text)])
    assert "canary" not in str(caught.value)


def test_half_a_login_is_refused() -> None:
    with pytest.raises(UsageError, match=r"needs more properties.*sasl\.password"):
        kafka_access("b:9092", LOGIN[:3])
    with pytest.raises(UsageError, match="is not SASL_"):
        kafka_access("b:9092", LOGIN[1:])


def test_a_file_that_is_not_there_is_reported_before_anything_is_dialled() -> None:
    with pytest.raises(UsageError, match="no such file"):
        kafka_access("b:9092", [("ssl.ca.location", "/nowhere/ca.pem")])


def test_properties_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# comment\n\nlinger.ms = 5\ncompression.type=lz4\n")
    assert read_properties(str(file)) == [("linger.ms", "5"), ("compression.type", "lz4")]
    file.write_bytes(b"\xef\xbb\xbflinger.ms=5\r\n")
    assert read_properties(str(file)) == [("linger.ms", "5")]
    file.write_bytes(b"\xff\xfel\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_properties(str(file))
    with pytest.raises(UsageError, match="not UTF-8"):
        reveal(f"${{file:{file}}}")
    file.write_text("canary\n")
    with pytest.raises(UsageError, match="line 1") as caught:
        read_properties(str(file))
    assert "canary" not in str(caught.value)


def test_a_secret_hides_in_every_way_there_is() -> None:
    secret = Secret("canary")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>20}", json.dumps({"a": secret}, default=str)]
    assert not any("canary" in text for text in shown)
    assert b"canary" not in pickle.dumps(secret)
    assert secret.reveal() == "canary"


def test_a_reference_is_read_where_it_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pw").write_text("canary\n")
    assert is_reference("${file:/a/b}")
    assert reveal(f"${{file:{tmp_path}/pw}}").reveal() == "canary"
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(UsageError, match="NOT_SET"):
        reveal("${env:NOT_SET}")
    with pytest.raises(UsageError, match="cannot be read"):
        reveal("${file:/nowhere}")


def test_every_property_is_for_some_client() -> None:
    assert all(one.java or one.librdkafka for one in ALLOWED.values())
