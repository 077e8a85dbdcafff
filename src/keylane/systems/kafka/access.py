"""How a Kafka cluster is reached: an allow-list of client properties, for Java's client, librdkafka and kafka-python.

A client's properties are code: some load classes or libraries, some dial addresses of their own. So only what is in
`ALLOWED` passes; what is refused is refused with its reason (`REFUSED`), before anything is contacted. A password is
given as a reference, and is read where a client of librdkafka is made, and for the file that Java's login
reads. It is in no option of Spark's, so in no plan, log, page or checkpoint, and is sent to no writer.

What a cluster answers, and its errors in words: `cluster`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Values that nobody may see: given as a reference, read at the last moment, and never shown.

HIDDEN: Final = "[hidden]"
_REFERENCE = re.compile(r"\$\{(env|file):([^{}\s]+)\}")
FORMS: Final = "${env:NAME}, ${file:/path}"


class Secret:
    """A text that shows itself as `[hidden]` in every way there is, also when it is pickled.

    >>> f"{Secret('pw')} {Secret('pw')!r}"
    '[hidden] [hidden]'
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, _spec: str) -> str:
        return HIDDEN

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (HIDDEN,)

    def reveal(self) -> str:
        """The text itself: for the one call that needs it."""
        return self._text


def is_reference(text: str) -> bool:
    """Whether a text says where a secret is, and not what it is."""
    return _REFERENCE.fullmatch(text) is not None


def reveal(reference: str) -> Secret:
    """Read what a reference stands for."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise UsageError.of("a secret stands in the open", got=HIDDEN, allowed=FORMS)
    kind, name = found.groups()
    return Secret(_from_environment(name) if kind == "env" else _from_file(name))


def _from_environment(name: str) -> str:
    if name not in os.environ:
        raise UsageError.of("a secret is not in the environment", got=name, hint=f"export {name}=…")
    return os.environ[name]


def _from_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise UsageError.of("the file of a secret cannot be read", got=name, hint=str(error.strerror)) from None


@dataclass(frozen=True, slots=True)
class Property:
    """A property by the name that keylane takes: its name in each client (none: not said to it) and what it may be."""

    java: str = ""
    librdkafka: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False


#: Records are read and written by Java's clients; what a cluster has is asked through librdkafka.
ALLOWED: Final[dict[str, Property]] = {
    "security.protocol": Property(
        "security.protocol", "security.protocol", ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    ),
    "sasl.mechanism": Property("sasl.mechanism", "sasl.mechanism", ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    "sasl.username": Property("", "sasl.username"),
    "sasl.password": Property("", "sasl.password", secret=True),
    "ssl.ca.location": Property("ssl.truststore.location", "ssl.ca.location"),
    "ssl.keystore.location": Property("ssl.keystore.location", "ssl.certificate.location"),
    "ssl.endpoint.identification.algorithm": Property(
        "ssl.endpoint.identification.algorithm", "ssl.endpoint.identification.algorithm", ("https", "none")
    ),
    "client.id": Property("client.id", "client.id"),
    "client.rack": Property("client.rack", "client.rack"),
    "socket.timeout.ms": Property("request.timeout.ms", "socket.timeout.ms"),
    "isolation.level": Property("isolation.level", "", ("read_committed", "read_uncommitted")),
    "fetch.max.bytes": Property("fetch.max.bytes"),
    "max.partition.fetch.bytes": Property("max.partition.fetch.bytes"),
    "compression.type": Property("compression.type", "compression.type", ("none", "gzip", "snappy", "lz4", "zstd")),
    "linger.ms": Property("linger.ms", "linger.ms"),
    "batch.size": Property("batch.size", "batch.size"),
    "message.max.bytes": Property("max.request.size", "message.max.bytes"),
    "transaction.timeout.ms": Property("transaction.timeout.ms"),
}
#: What kafka-python calls those that say how a cluster is reached.
KAFKA_PYTHON: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    "client.id": "client_id",
    "socket.timeout.ms": "request_timeout_ms",
}
#: Properties that only one side knows.
OF_WRITERS: Final = frozenset(
    {"compression.type", "linger.ms", "batch.size", "message.max.bytes", "transaction.timeout.ms"}
)
OF_READERS: Final = frozenset({"isolation.level", "fetch.max.bytes", "max.partition.fetch.bytes", "client.rack"})
#: What people know under another name.
ALIASES: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.truststore.location": "ssl.ca.location",
    "compression.codec": "compression.type",
    "max.request.size": "message.max.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}
_LOADS: Final = "it loads code into the process"
_DIALS: Final = "it makes the client dial an address of its own, or run a command"
_OWN: Final = "delivery depends on it: keylane sets it"
_TWO_READERS: Final = "several tasks would read one partition at once, and the order of its keys would be lost"
#: A part of a name, and why a property with it is refused. The first that fits is said.
REFUSED: Final[tuple[tuple[str, str], ...]] = (
    ("minPartitions", _TWO_READERS),
    ("maxRecordsPerPartition", _TWO_READERS),
    ("jaas", "it names Java classes to load; give sasl.username and sasl.password"),
    ("config.providers", "it reads files and addresses that a value names"),
    ("class", _LOADS),
    ("interceptor", _LOADS),
    ("serializer", _LOADS),
    ("reporters", _LOADS),
    ("providers", _LOADS),
    ("plugin.library", _LOADS),
    ("engine", _LOADS),
    ("oauthbearer", _DIALS),
    ("url", _DIALS),
    ("kinit", _DIALS),
    ("bootstrap", "the address says it"),
    ("metadata.broker.list", "the address says it"),
    ("key.password", "it would stand in Spark's options; give a key without one, in a file that only you can read"),
    ("keystore.password", "give a PEM file, which has none"),
    ("truststore.password", "give a PEM file, which has none"),
    ("acks", _OWN),
    ("idempotence", _OWN),
    ("transactional.id", _OWN),
    ("group", _OWN),
    ("auto", _OWN),
    ("in.flight", _OWN),
    ("retries", _OWN),
)


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """Brokers and properties, with references for secrets: it may be shown, written down and sent anywhere."""

    brokers: str
    properties: tuple[tuple[str, str], ...] = ()

    def at(self, brokers: str) -> KafkaAccess:
        """The same properties for other brokers."""
        return KafkaAccess(brokers, self.properties)

    def librdkafka(self, **more: Any) -> dict[str, Any]:
        """Settings of a librdkafka client, secrets revealed: for the call that makes the client, and nobody else."""
        told = {ALLOWED[name].librdkafka: self._value(name, text) for name, text in self.properties}
        if "ssl.certificate.location" in told:
            told["ssl.key.location"] = told["ssl.certificate.location"]
        told.pop("", None)
        return {"bootstrap.servers": self.brokers, "log_level": 0, **told, **more}

    def kafka_python(self) -> dict[str, Any]:
        """Settings of kafka-python's admin client, secrets revealed: for the call that makes it, and nobody else."""
        told: dict[str, Any] = {
            KAFKA_PYTHON[name]: self._value(name, text) for name, text in self.properties if name in KAFKA_PYTHON
        }
        if "ssl_certfile" in told:
            told["ssl_keyfile"] = told["ssl_certfile"]
        if "ssl_check_hostname" in told:
            told["ssl_check_hostname"] = told["ssl_check_hostname"] != "none"
        if "request_timeout_ms" in told:
            told["request_timeout_ms"] = int(told["request_timeout_ms"])
        return {"bootstrap_servers": self.brokers.split(","), **told}

    def java(self) -> dict[str, str]:
        """Options of Spark's connector, which reads. No secret is among them: see `jaas`."""
        told = self._java(OF_WRITERS)
        return {f"kafka.{name}": text for name, text in told.items()}

    def java_producer(self) -> dict[str, str]:
        """Settings of Java's producer, without secrets too."""
        return self._java(OF_READERS)

    def java_client(self) -> dict[str, str]:
        """Settings of any client of Java's: how to reach the cluster, and nothing else."""
        return self._java(OF_READERS | OF_WRITERS)

    def _java(self, without: frozenset[str]) -> dict[str, str]:
        known = {name: ALLOWED[name].java for name, _ in self.properties if name not in without}
        told = {known[name]: text for name, text in self.properties if known.get(name)}
        stores = [name for name in ("truststore", "keystore") if f"ssl.{name}.location" in told]
        if told.get("ssl.endpoint.identification.algorithm") == "none":
            told["ssl.endpoint.identification.algorithm"] = ""
        return {"bootstrap.servers": self.brokers, **told, **{f"ssl.{name}.type": "PEM" for name in stores}}

    def jaas(self) -> str | None:
        """What Java's login reads, secrets revealed; None when nobody logs in."""
        given = dict(self.properties)
        if "sasl.username" not in given:
            return None
        scram = given.get("sasl.mechanism", "").startswith("SCRAM")
        module = "scram.ScramLoginModule" if scram else "plain.PlainLoginModule"
        user, password = (_quoted(self._value(name, given[name])) for name in ("sasl.username", "sasl.password"))
        login = f"org.apache.kafka.common.security.{module} required username={user} password={password};"
        return f"KafkaClient {{ {login} }};"

    def _value(self, name: str, text: str) -> str:
        return reveal(text).reveal() if is_reference(text) and name.startswith("sasl.") else text


def kafka_access(brokers: str, given: Iterable[tuple[str, str]] = ()) -> KafkaAccess:
    """Check properties against the list. A value is shown in no error, for it may be a secret in the wrong place."""
    checked = dict(_checked(name, text) for name, text in given)
    _check_login(checked)
    for name in ("ssl.ca.location", "ssl.keystore.location"):
        if name in checked and not Path(checked[name]).is_file():
            raise UsageError.of(f"{name}: no such file", got=checked[name], allowed="a PEM file")
    return KafkaAccess(brokers, tuple(sorted(checked.items())))


def _checked(given: str, text: str) -> tuple[str, str]:
    name = ALIASES.get(given, given)
    if name not in ALLOWED:
        reason = next((why for part, why in REFUSED if part in name), None)
        if reason is None:
            raise UnknownNameError.among("Kafka property", given, list(ALLOWED))
        raise UsageError.of(f"the Kafka property {given} is refused", hint=reason)
    known = ALLOWED[name]
    if known.secret and not is_reference(text):
        hint = "on a command line or in a file of settings everybody can read it"
        raise UsageError.of(f"{name} stands in the open", got=HIDDEN, allowed=FORMS, hint=hint)
    if known.choices and _cased(text, known.choices) not in known.choices:
        raise UsageError.of(f"no such {name}", allowed=", ".join(known.choices))
    return name, _cased(text, known.choices)


def _cased(text: str, choices: Sequence[str]) -> str:
    """The choice that differs at most in its case; the text itself where there is none."""
    return next((choice for choice in choices if choice.lower() == text.lower()), text)


def _check_login(given: dict[str, str]) -> None:
    logs_in = given.get("security.protocol", "").startswith("SASL")
    wanted = ("sasl.mechanism", "sasl.username", "sasl.password")
    missing = [name for name in wanted if name not in given]
    if logs_in and missing:
        raise UsageError.of("a login needs more properties", got=given["security.protocol"], allowed=", ".join(missing))
    if not logs_in and len(missing) < len(wanted):
        allowed = "security.protocol=SASL_SSL, or SASL_PLAINTEXT"
        raise UsageError.of("properties of a login, and none is asked for", allowed=allowed)


def read_properties(path: str) -> list[tuple[str, str]]:
    """The pairs of a file of properties: NAME=VALUE on a line, `#` before a comment."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError.of("the file of Kafka properties cannot be read", got=path, hint=str(error.strerror)) from None
    shown = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    return [_pair(line, f"{path}, line {number}") for number, line in shown if line and line[0] not in "#!"]


def _pair(text: str, where: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError.of(f"{where}: not a property", allowed="NAME=VALUE")
    return name.strip(), value.strip()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
