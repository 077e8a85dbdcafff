"""The documents of `keylane dev kafka`, `keylane dev jars` and `keylane doctor`. Made by `cli.dev` and `cli.doctor`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, Count, Digest, Document, PathText, Text

Loopback = Annotated[str, Field(pattern=r"^127\.0\.0\.1:[0-9]{1,5}(,127\.0\.0\.1:[0-9]{1,5})*$")]

_NO_CLUSTER: dict[str, Any] = {
    "if": {"properties": {"bootstrap": {"type": "null"}}},
    "then": {
        "properties": {
            "running": {"const": False},
            "new": {"const": False},
            "brokers": {"maxItems": 0},
            "tls": {"type": "null"},
        }
    },
    "else": {"properties": {"brokers": {"minItems": 1}}},
}
_ENDED_WITHOUT_PID: dict[str, Any] = {
    "if": {"properties": {"state": {"const": "ended"}}},
    "then": {"properties": {"pid": {"type": "null"}}},
    "else": {"properties": {"pid": {"type": "integer"}}},
}
_WELL_WITHOUT_FIX: dict[str, Any] = {
    "if": {"properties": {"state": {"const": "ok"}}},
    "then": {"properties": {"fix": {"type": "null"}}},
    "else": {"properties": {"fix": {"type": "string"}}},
}
_A_NEED_IS_MISSING: dict[str, Any] = {
    "contains": {"properties": {"state": {"enum": ["missing", "wrong"]}, "needed": {"const": True}}}
}
_OK_WITHOUT_NEEDS: dict[str, Any] = {
    "if": {"properties": {"ok": {"const": False}}},
    "then": {"properties": {"parts": _A_NEED_IS_MISSING}},
    "else": {"properties": {"parts": {"not": _A_NEED_IS_MISSING}}},
}


class DevBroker(Document):
    """One broker, and how it does."""

    model_config = ConfigDict(json_schema_extra=_ENDED_WITHOUT_PID)

    node: AtLeastOne
    state: Literal["answers", "silent", "ended"]
    port: Annotated[int, Field(ge=1, le=65535)]
    pid: AtLeastOne | None
    log: PathText


class DevTls(Document):
    """Where clients find what they need; the password itself is shown nowhere."""

    mechanism: Literal["SCRAM-SHA-512"]
    user: Text
    password_file: PathText
    ca: PathText
    mtls_bootstrap: Loopback
    client_certificate: PathText


class DevKafkaDocument(Document):
    """The Kafka of this machine: where it is, and how each broker does."""

    model_config = ConfigDict(title="keylane dev kafka up|down|status -o json", json_schema_extra=_NO_CLUSTER)

    schema_: Literal["keylane.dev-kafka/1"] = "keylane.dev-kafka/1"
    bootstrap: Loopback | None = Field(description="What clients are given; null where there is no cluster.")
    running: bool = Field(description="Whether every broker answers.")
    new: bool = Field(description="Whether this command started it.")
    folder: PathText
    brokers: list[DevBroker]
    tls: DevTls | None


class PinnedJar(Document):
    """One jar."""

    file: Annotated[str, Field(pattern=r"\.jar$")]
    coordinate: Annotated[str, Field(pattern="^[^:]+:[^:]+:[^:]+$")]
    sha256: Digest


class DevJarsDocument(Document):
    """The pinned jars of a kit, all there and whole."""

    model_config = ConfigDict(title="keylane dev jars -o json")

    schema_: Literal["keylane.dev-jars/1"] = "keylane.dev-jars/1"
    kit: Literal["connector", "broker", "tools", "geo", "zookeeper"]
    folder: PathText
    jars: list[PinnedJar] = Field(min_length=1)


class ExaminedPart(Document):
    """One thing that was looked at."""

    model_config = ConfigDict(json_schema_extra=_WELL_WITHOUT_FIX)

    part: Text
    state: Literal["ok", "missing", "wrong"]
    needed: bool
    used_for: Text
    found: PathText
    fix: PathText | None = Field(description="The one line that fixes it; null where nothing is to be done.")


class DevLoadDocument(Document):
    """A topic that was made from a file."""

    model_config = ConfigDict(title="keylane dev kafka load -o json")

    schema_: Literal["keylane.dev-kafka-load/1"] = "keylane.dev-kafka-load/1"
    topic: Text
    address: Text
    partitions: AtLeastOne
    records: Count
    null_keys: Count = Field(description="Records without a key, which are spread.")


class ConfiguredSetting(Document):
    """A setting that is in force, and where it comes from."""

    name: Text
    value: str
    source: Text = Field(description="A variable of the environment, or a file.")


class DoctorDocument(Document):
    """What keylane can use on this machine, and what to do about what is not there."""

    model_config = ConfigDict(title="keylane doctor -o json", json_schema_extra=_OK_WITHOUT_NEEDS)

    schema_: Literal["keylane.doctor/2"] = "keylane.doctor/2"
    ok: bool = Field(description="Whether everything that is needed is there.")
    parts: list[ExaminedPart] = Field(min_length=1)
    environment: Text | None = Field(description="The environment of keylane.toml that was chosen.")
    configuration: list[ConfiguredSetting] = Field(description="What is configured beside the command line.")
