"""Certificates and passwords of a cluster that asks for them, and the settings of clients that have them.

Everything is created for each cluster by the `openssl` command, lives for 30 days, and is readable by its owner
alone. `ca.pem` is what clients trust, `client.pem` is the certificate of one, `other-ca.pem` is trusted by
no client: tests need a wrong one. Passwords are in files of their own and never in arguments.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from typing import TYPE_CHECKING, Final

from keylane.errors import BrokerError, MissingExtraError
from keylane.systems.broker.layout import ADMIN, SCRAM

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.systems.broker.layout import Cluster

#: The user of clients.
USER: Final = "app"
MECHANISM: Final = "SCRAM-SHA-512"
KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
DAYS: Final = ("-days", "30")
CONFIG: Final = """
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
[server]
subjectAltName = DNS:localhost, IP:127.0.0.1
extendedKeyUsage = serverAuth, clientAuth
[client]
extendedKeyUsage = clientAuth
"""


def password_file(cluster: Cluster, user: str = USER) -> Path:
    """The file of a user's password."""
    return cluster.folder / "tls" / f"{user}.password"


def client_file(cluster: Cluster) -> Path:
    """The file of properties that clients of keylane take, as `--kafka-file`."""
    return cluster.folder / "tls" / "client.properties"


def client_properties(cluster: Cluster) -> str:
    """What is in it: the password by reference."""
    known = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password": f"${{file:{password_file(cluster)}}}",
        "ssl.ca.location": cluster.folder / "tls" / "ca.pem",
    }
    return "".join(f"{name}={value}\n" for name, value in known.items())


def scram_users(cluster: Cluster) -> list[str]:
    """The users as the format of a node takes them."""
    users = {user: password_file(cluster, user).read_text(encoding="ascii") for user in (ADMIN, USER)}
    return [f"{MECHANISM}=[name={user},password={password}]" for user, password in users.items()]


def librdkafka_settings(cluster: Cluster, *, mtls: bool = False) -> dict[str, str]:
    """Settings of confluent-kafka for a cluster: its address, and TLS or login."""
    if not cluster.tls:
        return {"bootstrap.servers": cluster.bootstrap}
    ca = {"ssl.ca.location": str(cluster.folder / "tls" / "ca.pem")}
    if mtls:
        own = str(cluster.folder / "tls" / "client.pem")
        there = {"bootstrap.servers": str(cluster.mtls_bootstrap), "security.protocol": "SSL"}
        return {**there, **ca, "ssl.certificate.location": own, "ssl.key.location": own}
    password = password_file(cluster).read_text(encoding="ascii")
    there = {"bootstrap.servers": cluster.bootstrap, "security.protocol": "SASL_SSL", "sasl.mechanism": MECHANISM}
    return {**there, **ca, "sasl.username": USER, "sasl.password": password}


def java_settings(cluster: Cluster, *, mtls: bool = False) -> dict[str, str]:
    """The same for Java clients, and for Spark's connector behind `kafka.`."""
    if not cluster.tls:
        return {"bootstrap.servers": cluster.bootstrap}
    ca = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(cluster.folder / "tls" / "ca.pem")}
    if mtls:
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(cluster.folder / "tls" / "client.pem")}
        return {"bootstrap.servers": str(cluster.mtls_bootstrap), "security.protocol": "SSL", **ca, **own}
    password = password_file(cluster).read_text(encoding="ascii")
    login = f'{SCRAM} required username="{USER}" password="{password}";'
    there = {"bootstrap.servers": cluster.bootstrap, "security.protocol": "SASL_SSL", "sasl.mechanism": MECHANISM}
    return {**there, **ca, "sasl.jaas.config": login}


def make_tls(cluster: Cluster) -> None:
    """Write certificates and passwords."""
    folder = cluster.folder / "tls"
    folder.mkdir(mode=0o700)
    (folder / "openssl.cnf").write_text(CONFIG, encoding="ascii")
    for name in ("ca", "other-ca"):
        _authority(folder, name)
    for name, subject in (("server", "localhost"), ("client", "client")):
        _certificate(folder, name, subject)
    for user in (ADMIN, USER):
        write_private(password_file(cluster, user), secrets.token_hex(16))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def _authority(folder: Path, name: str) -> None:
    made = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN=keylane dev {name}"]
    _openssl(folder, "req", "-x509", "-config", "openssl.cnf", "-extensions", "ca", *KEY, *DAYS, *made)


def _certificate(folder: Path, name: str, subject: str) -> None:
    """One file with the key and then the certificates, as Kafka reads it; `req` writes the key as PKCS #8."""
    made = ["-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={subject}"]
    _openssl(folder, "req", "-config", "openssl.cnf", *KEY, *made)
    signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    form = ["-extfile", "openssl.cnf", "-extensions", name]
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signer, *form, *DAYS)
    parts = (folder / part for part in (f"{name}.key", f"{name}.crt", "ca.pem"))
    write_private(folder / f"{name}.pem", "".join(part.read_text(encoding="ascii") for part in parts))


def _openssl(folder: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - arguments of our own
            ["openssl", *arguments],  # noqa: S607 - the user's own openssl
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except FileNotFoundError:
        raise MissingExtraError.of(
            "certificates are created by openssl, which is not installed", hint="apt-get install openssl"
        ) from None
    if done.returncode:
        raise BrokerError.of("openssl failed to create a certificate", got=done.stderr.strip()[-300:])
