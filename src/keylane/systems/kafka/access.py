"""How a Kafka cluster is reached: an allow-list of client properties, for Java's client, librdkafka and kafka-python.

A client's properties are code: some load classes or libraries, some dial addresses of their own. So only what is in
`ALLOWED` passes; others are refused with a reason (`REFUSED`), before anything is contacted. A password is given as a
reference, and is read where a client of librdkafka is made, and for the file that Java's login reads. It is never an
option of Spark, so in no plan, log, page or checkpoint, and is sent to no writer.

What a cluster reports, and its errors: `cluster`.
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


# Secrets: given as a reference, read at the last moment, and never shown.

HIDDEN: Final = "[hidden]"
_REFERENCE = re.compile(r"\$\{(env|file):([^{}\s]+)\}")
FORMS: Final = "${env:NAME}, ${file:/path}"


class Secret:
    """A text that is always shown as `[hidden]`, also when it is pickled.

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
        """The text itself, for the one call that needs it."""
        return self._text


def is_reference(text: str) -> bool:
    """Whether a text is a reference to a secret, not the secret."""
    return _REFERENCE.fullmatch(text) is not None


def reveal(reference: str) -> Secret:
    """Read the secret of a reference."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise UsageError.of("a secret must not be given in plain text", allowed=FORMS)
    kind, name = match.groups()
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
    except UnicodeDecodeError:
        raise UsageError.of("the file of a secret is not UTF-8 text", got=name) from None


@dataclass(frozen=True, slots=True)
class Property:
    """A property by the name that keylane takes: its name in each client (empty: none) and its values."""

    java: str = ""
    librdkafka: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False


#: Records are read and written by Java's clients; metadata is read through librdkafka.
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
#: How long a broker holds back the answer to a fetch that finds nothing, where Spark reads; Kafka's default is 500.
#: Spark's consumer asks for the ends of a partition behind each poll, on the connection on which its next fetch already
#: waits: that is half a second for each partition of each batch. Where there are records a fetch never waits.
LONG_POLL_MS: Final = "5"
#: The names in kafka-python of those that are about the connection.
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
#: Properties of producers only, and of consumers only.
OF_WRITERS: Final = frozenset(
    {"compression.type", "linger.ms", "batch.size", "message.max.bytes", "transaction.timeout.ms"}
)
OF_READERS: Final = frozenset({"isolation.level", "fetch.max.bytes", "max.partition.fetch.bytes", "client.rack"})
#: Other names in common use.
ALIASES: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.truststore.location": "ssl.ca.location",
    "compression.codec": "compression.type",
    "max.request.size": "message.max.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}
_LOADS: Final = "it loads code into the process"
_DIALS: Final = "it makes the client dial an address of its own, or run a command"
_OWN: Final = "keylane sets it, because delivery depends on it"
_TWO_READERS: Final = "several tasks would read one partition at once, and the order of its keys would be lost"
#: A part of a name, and why a property with it is refused. The first match counts.
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
    ("bootstrap", "it is part of the address"),
    ("metadata.broker.list", "it is part of the address"),
    (
        "key.password",
        "Spark's options would show it; use a key without one, in a file that only you can read",
    ),
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
    """Brokers and properties, with references for secrets: safe to show, to store and to send."""

    brokers: str
    properties: tuple[tuple[str, str], ...] = ()

    def at(self, brokers: str) -> KafkaAccess:
        """The same properties for other brokers."""
        return KafkaAccess(brokers, self.properties)

    def librdkafka(self, **more: Any) -> dict[str, Any]:
        """Settings of a librdkafka client, secrets revealed: only for the call that makes the client."""
        settings = {ALLOWED[name].librdkafka: self._value(name, text) for name, text in self.properties}
        if "ssl.certificate.location" in settings:
            settings["ssl.key.location"] = settings["ssl.certificate.location"]
        settings.pop("", None)
        return {"bootstrap.servers": self.brokers, "log_level": 0, **settings, **more}

    def kafka_python(self) -> dict[str, Any]:
        """Settings of kafka-python's admin client, secrets revealed: only for the call that makes it."""
        settings: dict[str, Any] = {
            KAFKA_PYTHON[name]: self._value(name, text) for name, text in self.properties if name in KAFKA_PYTHON
        }
        if "ssl_certfile" in settings:
            settings["ssl_keyfile"] = settings["ssl_certfile"]
        if "ssl_check_hostname" in settings:
            settings["ssl_check_hostname"] = settings["ssl_check_hostname"] != "none"
        if "request_timeout_ms" in settings:
            settings["request_timeout_ms"] = int(settings["request_timeout_ms"])
        return {"bootstrap_servers": self.brokers.split(","), **settings}

    def java(self) -> dict[str, str]:
        """Options of Spark's connector. Without secrets: see `jaas`."""
        return {f"kafka.{name}": text for name, text in self._java(OF_WRITERS).items()}

    def java_reader(self) -> dict[str, str]:
        """Options of Spark's connector where it reads: as committed, and without long polls."""
        return {"kafka.isolation.level": "read_committed", "kafka.fetch.max.wait.ms": LONG_POLL_MS, **self.java()}

    def java_producer(self) -> dict[str, str]:
        """Settings of Java's producer, without secrets too."""
        return self._java(OF_READERS)

    def java_client(self) -> dict[str, str]:
        """Settings of any Java client: how to reach the cluster, and nothing else."""
        return self._java(OF_READERS | OF_WRITERS)

    def _java(self, without: frozenset[str]) -> dict[str, str]:
        known = {name: ALLOWED[name].java for name, _ in self.properties if name not in without}
        settings = {known[name]: text for name, text in self.properties if known.get(name)}
        stores = [name for name in ("truststore", "keystore") if f"ssl.{name}.location" in settings]
        if settings.get("ssl.endpoint.identification.algorithm") == "none":
            settings["ssl.endpoint.identification.algorithm"] = ""
        return {"bootstrap.servers": self.brokers, **settings, **{f"ssl.{name}.type": "PEM" for name in stores}}

    def jaas(self) -> str | None:
        """The JAAS configuration, secrets revealed; None without a login."""
        properties = dict(self.properties)
        if "sasl.username" not in properties:
            return None
        scram = properties.get("sasl.mechanism", "").startswith("SCRAM")
        module = "scram.ScramLoginModule" if scram else "plain.PlainLoginModule"
        user, password = (_quoted(self._value(name, properties[name])) for name in ("sasl.username", "sasl.password"))
        login = f"org.apache.kafka.common.security.{module} required username={user} password={password};"
        return f"KafkaClient {{ {login} }};"

    def _value(self, name: str, text: str) -> str:
        return reveal(text).reveal() if is_reference(text) and name.startswith("sasl.") else text


def kafka_access(brokers: str, properties: Iterable[tuple[str, str]] = ()) -> KafkaAccess:
    """Check properties against the list. Errors show no values: one may be a secret under a wrong name."""
    checked = dict(_checked(name, text) for name, text in properties)
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
        hint = "command lines and settings files can be read by others"
        raise UsageError.of(f"{name} must not be given in plain text", allowed=FORMS, hint=hint)
    if known.choices and _cased(text, known.choices) not in known.choices:
        raise UsageError.of(f"invalid {name}", allowed=", ".join(known.choices))
    return name, _cased(text, known.choices)


def _cased(text: str, choices: Sequence[str]) -> str:
    """The choice that differs at most in case; otherwise the text itself."""
    return next((choice for choice in choices if choice.lower() == text.lower()), text)


def _check_login(given: dict[str, str]) -> None:
    logs_in = given.get("security.protocol", "").startswith("SASL")
    wanted = ("sasl.mechanism", "sasl.username", "sasl.password")
    missing = [name for name in wanted if name not in given]
    if logs_in and missing:
        raise UsageError.of(f"{given['security.protocol']} needs more properties", allowed=", ".join(missing))
    if not logs_in and len(missing) < len(wanted):
        allowed = "security.protocol=SASL_SSL, or SASL_PLAINTEXT"
        raise UsageError.of("sasl.* given, but security.protocol is not SASL_*", allowed=allowed)


def read_properties(path: str) -> list[tuple[str, str]]:
    """The pairs of a file of properties: NAME=VALUE on a line, `#` before a comment."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError.of("the file of Kafka properties cannot be read", got=path, hint=str(error.strerror)) from None
    except UnicodeDecodeError:
        what = "the file of Kafka properties is not UTF-8 text"
        raise UsageError.of(what, got=path, allowed="NAME=VALUE on each line") from None
    shown = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    return [_pair(line, f"{path}, line {number}") for number, line in shown if line and line[0] not in "#!"]


def _pair(text: str, where: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError.of(f"{where}: not a property", allowed="NAME=VALUE")
    return name.strip(), value.strip()


def _quoted(text: str) -> str:
    """As Java's reader of logins takes a text: a quote or the end of a line would end it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
