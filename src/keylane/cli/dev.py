"""`keylane dev`: what development needs on one machine: a real Kafka, and the jars for sites without a network."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from keylane import numbers
from keylane.cli.options import csv_options, time_option
from keylane.cli.output import Result, Section, output_option
from keylane.cli.progress import counting
from keylane.cli.terminal import note

if TYPE_CHECKING:
    from keylane.documents.dev import DevBroker, DevTls
    from keylane.systems.broker import Cluster
    from keylane.systems.jars import Jar, Kit

KIT_NAMES = ("connector", "broker", "tools", "geo", "zookeeper")
_folder = click.option(
    "--dir", "folder", metavar="DIR", type=click.Path(), help="Its folder; default: in the user's cache."
)


@click.group(short_help="A real Kafka on this machine, and the jars it is made of.")
def dev() -> None:
    """What development needs on one machine."""


@dev.group(short_help="A real Kafka on loopback: up, down, status, env, load.")
def kafka() -> None:
    """A real Kafka on loopback, made of pinned jars that are fetched once. Its data is temporary; its logs are kept."""


@kafka.command(short_help="Start it, and return when it answers.")
@click.option("--brokers", type=click.Choice(["1", "3"]), default="1", show_default=True, help="Number of brokers.")
@click.option("--tls", is_flag=True, help="TLS on every listener; clients log in by password or certificate.")
@click.option(
    "--port",
    type=click.IntRange(1024, 65_000),
    help="The port of the first broker, the others come after it; default: free ports.",
)
@_folder
@output_option
def up(brokers: str, tls: bool, port: int | None, folder: str | None, output: str) -> tuple[Result, str]:
    """Start Kafka on loopback, on free ports or from --port on, and return when every broker answers.

    It keeps running when this command has ended: `keylane dev kafka down` stops it. One that runs already is reported.

    \b
    keylane dev kafka up
    keylane dev kafka up --port 9092
    keylane dev kafka up --brokers 3 -o json
    """
    from keylane.systems.broker import up as start

    cluster, is_new = start(_place(folder), int(brokers), tls=tls, port=port, tell=note)
    text = "Kafka answers" if is_new else "Kafka was already running"
    return as_result(cluster.folder, cluster, f"{text} at {cluster.bootstrap}", is_new=is_new), output


@kafka.command(short_help="Stop it, and remove its data.")
@_folder
@output_option
def down(folder: str | None, output: str) -> tuple[Result, str]:
    """Stop the Kafka that `up` started, all of it, and remove its data. The logs stay. Fine when nothing runs."""
    from keylane.systems.broker import down as stop

    place = _place(folder)
    there = stop(place)
    text = f"stopped; logs are in {place / 'logs'}" if there else f"nothing ran in {place}"
    return as_result(place, None, text), output


@kafka.command(short_help="Report whether it runs, and where.")
@_folder
@output_option
def status(folder: str | None, output: str) -> tuple[Result, str]:
    """Report whether Kafka runs and answers, and where. Exit codes: 0 every broker answers, 1 it does not."""
    from keylane.systems.broker import find

    place = _place(folder)
    there = find(place)
    text = f"Kafka is at {there.bootstrap}" if there else f"no Kafka in {place}; start one: keylane dev kafka up"
    return as_result(place, there, text, silent_code=1), output


@kafka.command(short_help="Print what to export, for keylane to find it.")
@_folder
@output_option
def env(folder: str | None, output: str) -> tuple[Result, str]:
    """Print the variables by which keylane finds this Kafka, as a shell takes them. Exit codes: 0, 1 none is running.

    \b
    eval "$(keylane dev kafka env)"
    keylane identify kafka:payments
    """
    return replace(
        as_result(_place(folder), _running(folder), ""), sections=[], lines=exports(_running(folder))
    ), output


def exports(cluster: Cluster) -> list[str]:
    """Lines that a shell takes: the brokers, and with TLS the file of client properties, which holds no secret."""
    from keylane.systems.broker.tls import client_file

    lines = [f"export KEYLANE_KAFKA={cluster.bootstrap}"]
    return [*lines, f"export KEYLANE_KAFKA_FILE={shlex.quote(str(client_file(cluster)))}"] if cluster.tls else lines


def _running(folder: str | None) -> Cluster:
    from keylane.errors import BrokerError
    from keylane.systems.broker import find

    there = find(_place(folder))
    if there is None:
        raise BrokerError.of("no Kafka is running here", got=str(_place(folder)), hint="keylane dev kafka up")
    return there


@kafka.command(short_help="Make a topic from a file, placed as Java's client does.")
@click.argument("file", type=click.Path())
@click.option("--topic", "-t", help="Its name; default: the file's.")
@click.option("--key", "-k", required=True, metavar="COLUMN", help="The column that becomes the key of the records.")
@click.option("--partitions", "-n", type=click.IntRange(1, 10_000), default=12, show_default=True, help="Their number.")
@time_option("The column that becomes the time of the records; default: all have that of the load.")
@csv_options
@_folder
@output_option
def load(
    file: str,
    topic: str | None,
    key: str,
    partitions: int,
    time: str | None,
    folder: str | None,
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Make a topic from FILE: a record for each row, with the row as JSON in its value.

    FILE is a file or folder of Parquet, CSV or JSON lines. Keys are text and placed as the Java client places them;
    rows without a key are spread. With --time a record has the time of its row, whatever year that is: the topic keeps
    records for ever. A topic that exists is not written to, and one that is not filled to its end, as after Ctrl-C, is
    removed.

    \b
    keylane dev kafka load payments.csv --topic payments --key merchant_id --partitions 12
    keylane dev kafka load payments.csv --key merchant_id --time created_at
    """
    from keylane.contract.first import stream_name
    from keylane.documents.dev import DevLoadDocument
    from keylane.keys.times import TimeField
    from keylane.systems.broker.fill import fill
    from keylane.systems.endpoint import StreamOptions

    name, cluster = topic or stream_name(file), _running(folder)
    with counting("load") as sent:
        given = None if time is None else TimeField.of(time)
        records, nulls = fill(cluster, file, name, key, partitions, StreamOptions(**options), time=given, sent=sent)
    address = f"kafka://{cluster.bootstrap}/{name}"
    document = DevLoadDocument(topic=name, address=address, partitions=partitions, records=records, null_keys=nulls)
    keyless = f", {numbers.count(nulls)} of them without a key" if nulls else ""
    lines = [f"{numbers.plural(records, 'record')} in {address}{keyless}", f"look at it: keylane identify {address}"]
    return Result(document, [Section(("topic", "partitions", "records", "null_keys"), [document])], lines), output


def as_result(
    folder: Path, cluster: Cluster | None, text: str, *, is_new: bool = False, silent_code: int = 0
) -> Result:
    """A cluster, or that there is none; `silent_code` is the exit code where not every broker answers."""
    from keylane.documents.dev import DevKafkaDocument

    rows = [_broker(cluster, node.number) for node in cluster.nodes] if cluster else []
    tls = _tls(cluster) if cluster and cluster.tls else None
    document = DevKafkaDocument(
        bootstrap=cluster.bootstrap if cluster else None,
        running=bool(rows) and all(row.state == "answers" for row in rows),
        new=is_new,
        folder=str(folder),
        brokers=rows,
        tls=tls,
    )
    lines = [text]
    if tls:
        secret = f"user {tls.user}, password in {tls.password_file}"
        lines.append(f"SASL_SSL, {tls.mechanism}, {secret}, trust {tls.ca}")
        lines.append(f"by certificate: {tls.mtls_bootstrap}, with {tls.client_certificate}")
    lines += [f"stop it: keylane dev kafka down{_dir_option(folder)}"] if is_new else []
    code = 0 if document.running else silent_code
    return Result(document, [Section(("node", "state", "port", "pid", "log"), rows)], lines, code)


def _broker(cluster: Cluster, number: int) -> DevBroker:
    from keylane.documents.dev import DevBroker
    from keylane.systems.broker.cluster import answers
    from keylane.systems.broker.nodes import process_of

    pid = process_of(cluster, number)
    state: Literal["answers", "silent", "ended"] = (
        "ended" if pid is None else "answers" if answers(cluster, number) else "silent"
    )
    return DevBroker(node=number, state=state, port=cluster.node(number).port, pid=pid, log=str(cluster.log(number)))


def _tls(cluster: Cluster) -> DevTls:
    """Where clients find what they need; the password itself is shown nowhere."""
    from keylane.documents.dev import DevTls
    from keylane.systems.broker.tls import MECHANISM, USER, password_file

    folder = cluster.folder / "tls"
    return DevTls(
        mechanism=MECHANISM,
        user=USER,
        password_file=str(password_file(cluster)),
        ca=str(folder / "ca.pem"),
        mtls_bootstrap=cluster.mtls_bootstrap or "",
        client_certificate=str(folder / "client.pem"),
    )


@dev.command(short_help="Fetch the pinned jars, or copy them for a site without a network.")
@click.argument("kit", type=click.Choice(KIT_NAMES), default="connector")
@click.option("--to", "folder", metavar="DIR", type=click.Path(), help="Into this folder; default: the user's cache.")
@output_option
def jars(kit: Any, folder: str | None, output: str) -> tuple[Result, str]:
    """Fetch the jars of KIT, each pinned by version and SHA-256; those that are there and whole are not fetched again.

    KIT is connector (Spark's Kafka connector, the default), broker (Kafka itself), tools (its command-line tools),
    geo (H3 for Java, with which Spark finds cells twice as fast) or zookeeper (a server, to try leases with).
    For a site without a network: fetch with --to, carry the folder there, and give it as --spark-jars.

    \b
    keylane dev jars
    keylane dev jars --to jars/
    """
    from keylane.systems.jars import fetched
    from keylane.systems.jars import kit as kit_of

    paths = fetched(kit, Path(folder) if folder else None, tell=note)
    return jars_result(kit, paths[0].parent.absolute(), kit_of(kit)), output


def jars_result(name: Kit, folder: Path, found: tuple[Jar, ...]) -> Result:
    """The jars of a kit, all there."""
    from keylane.documents.dev import DevJarsDocument, PinnedJar

    rows = [PinnedJar(file=jar.file, coordinate=jar.coordinate, sha256=jar.sha256) for jar in found]
    document = DevJarsDocument(kit=name, folder=str(folder), jars=rows)
    text = f"{numbers.plural(len(rows), 'jar')} of the kit {name} in {folder}, checksums as pinned"
    return Result(document, [Section(("file", "coordinate", "sha256"), rows)], [text])


def _place(folder: str | None) -> Path:
    from keylane.systems.broker import default_folder

    return Path(folder).absolute() if folder else default_folder().absolute()


def _dir_option(folder: Path) -> str:
    from keylane.systems.broker import default_folder

    try:
        usual = folder == default_folder().absolute()
    except OSError:
        usual = False
    return "" if usual else f" --dir {shlex.quote(str(folder))}"
