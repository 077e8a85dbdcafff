"""What an address opens to: one interface for every system, and the registry of systems by address scheme.

    parse_address   text -> Address; contacts nothing and looks at no disk
    open_endpoint   Address -> Endpoint, the one class that a system has; its module is imported on first use
    register        another system under its own scheme
    Endpoint        what commands and pipelines ask of a system; an ability it lacks is one error, `UnsupportedError`

A system is one package: `systems.files` (and `systems.folders`, its targets), `systems.kafka`, `systems.kinesis`. No
command and no pipeline asks for a system by its name: what differs between systems is a method or a trait of Endpoint.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NoReturn, TypeAlias
from urllib.parse import unquote

from keylane.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from keylane.aggregation.registry import QueryRegistry
    from keylane.contract.fields import FieldSpec
    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding
    from keylane.keyspace.layout import ShardLayout
    from keylane.keyspace.load import LoadUnit, MeasuredLoad
    from keylane.migration.cost import StreamMeasure
    from keylane.profile.scan import LocalScan, ScanRequest
    from keylane.router import Router
    from keylane.spark.context import RunContext
    from keylane.spark.messages import Fields
    from keylane.spark.scan import Scan
    from keylane.systems.delivery import BatchDelivery, DeliveredMessage
    from keylane.systems.flow import Followed, Origin, RouteTarget
    from keylane.systems.kafka.cluster import KafkaCluster
    from keylane.systems.migration_journal import MigrationJournal
    from keylane.systems.migrations import Migrator
    from keylane.systems.read_range import ReadRange
    from keylane.systems.resharding import Resharder
    from keylane.systems.shard_migrations import ShardLineage
    from keylane.systems.streams import Description, MessageFields, Stream

Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]
OnPoison: TypeAlias = Literal["dlq", "stop", "dlq-and-park-key"]
OnGrowth: TypeAlias = Literal["stop", "keep"]
#: The formats of files.
FileFormat: TypeAlias = Literal["parquet", "json", "csv"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
#: Who logs in, in an address that keylane does not take.
_LOGIN: Final = re.compile(r"//[^/@]*@")
#: An address without whom to contact: that is configured.
_SHORT: Final = re.compile(r"([a-z]+):(?:///)?([A-Za-z0-9._-]+)")
_BROKER: Final = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a stream is: the system, whom to contact there (brokers, a region, nothing for files), and its name.

    `query` is what else is needed to reach it, as written: the endpoint of a service that is not at its usual one.
    """

    system: str
    authority: str
    name: str
    query: str = ""

    @property
    def is_path(self) -> bool:
        """Whether it is a path on a file system that this machine sees."""
        return self.system == PATHS

    def __str__(self) -> str:
        more = f"?{self.query}" if self.query else ""
        return f"{self.system}://{self.authority}/{self.name}{more}" if self.authority else self.name


@dataclass(frozen=True, slots=True)
class ContractChange:
    """A change of contract that keylane has carried out, as a route into the changed stream goes on behind it.

    `plan` is the file of the saved plan, `old` and `new` are fingerprints, `old_file` the former contract where it is
    kept. The streams are names: two of them where records were copied into another one, and empty where no stream is
    named. `unfinished` says why nobody may go on under the new contract yet; nothing where they may.
    """

    plan: str
    old: str
    new: str
    old_file: str = ""
    old_stream: str = ""
    new_stream: str = ""
    old_address: str = ""
    unfinished: str = ""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What may be set about a stream beside its address; each system takes what it has a use for.

    Files: `kind` is parquet, json or csv, by the files' endings where it is not given; `schema` gives types to columns
    of JSON and CSV; a batch has at most `max_files` files. `csv_null` are the texts of a CSV cell without quotes that
    stand for null; the empty text for an empty cell. `delimiter` separates the cells of CSV.

    Messages: `properties` are client properties (`systems.kafka.access`); `state` is the folder of a route into them,
    and `second_route` lets a new one begin beside another of the same source and target; `after` is a change of
    contract that it goes on behind; `start` is where a new route begins to read; `max_records` bounds a batch.
    `dead_letters` is a topic, `<topic>.dlq` where it is not given. `value` is the format of values, where the contract
    needs a field of them, `value_schema` the file of its schema, and `message` the name in it; with `keys_sent` the
    record's own key is the only key field of the contract, as producers send it, and not a field `key`. `jars` and
    `packages` say where Spark's connector is.

    Of streams that are verified: whether `values` are read, to be compared. `read_range` is the part of a topic that is
    read, for commands that can answer from a part; None for all of it. `ends` are the offsets up to which the lanes
    of a stream are verified; None: up to where they end.
    """

    properties: tuple[tuple[str, str], ...] = ()
    state: str | None = None
    delivery: Delivery = "exactly-once"
    start: str = "earliest"
    max_records: int = 1_000_000
    writers: int | None = None
    dead_letters: str | None = None
    on_poison: OnPoison = "dlq"
    on_growth: OnGrowth = "stop"
    create: bool = False
    second_route: bool = False
    after: ContractChange | None = None
    try_seconds: float = 600.0
    value: str | None = None
    value_schema: str | None = None
    message: str | None = None
    keys_sent: bool = False
    jars: str | None = None
    packages: str | None = None
    kind: str | None = None
    schema: str | None = None
    max_files: int = 1000
    csv_null: tuple[str, ...] = ()
    delimiter: str = ","
    values: bool = True
    read_range: ReadRange | None = None
    ends: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class System:
    """A system as the registry knows it.

    `form` is how its addresses look, for errors and help. `rest` matches what follows `scheme://`, in two groups or
    three: authority, name and query. `endpoint` is `module:class`, imported when the first such address is opened.
    """

    scheme: str
    form: str
    rest: re.Pattern[str]
    endpoint: str


#: Paths have no scheme, or `file:///`.
PATHS: Final = "files"
_SYSTEMS: Final[dict[str, System]] = {}


def register(system: System) -> None:
    """Make a system known under its scheme; a scheme that is taken is refused."""
    if _SYSTEMS.setdefault(system.scheme, system) != system:
        raise UsageError.of("the scheme is registered for another system", got=system.scheme)


def unregister(scheme: str) -> None:
    """Forget a system that was registered."""
    _SYSTEMS.pop(scheme, None)


register(System(PATHS, "a path", re.compile(r"()(.*)", re.DOTALL), "keylane.systems.files.endpoint:FilesEndpoint"))
register(
    System(
        "kafka",
        "kafka://host:port/topic",
        re.compile(rf"({_BROKER}(?:,{_BROKER})*)/([A-Za-z0-9._-]{{1,249}})"),
        "keylane.systems.kafka.endpoint:KafkaEndpoint",
    )
)
register(
    System(
        "kinesis",
        "kinesis://region/stream",
        re.compile(r"([a-z]{2}(?:-[a-z]+){1,3}-[0-9]{1,2})/([A-Za-z0-9._-]{1,128})(?:\?([!-~]{1,300}))?"),
        "keylane.systems.kinesis.endpoint:KinesisEndpoint",
    )
)


#: The authority of each scheme that is configured, and the client properties that go with it and with no other.
_CONFIGURED: Final[dict[str, tuple[str, Callable[[], tuple[tuple[str, str], ...]]]]] = {}


def configure(scheme: str, authority: str, properties: Callable[[], tuple[tuple[str, str], ...]] = tuple) -> None:
    """Let `scheme:name` mean this authority, and let addresses there have these properties beside those given."""
    _CONFIGURED[scheme] = authority, properties


def unconfigure() -> None:
    """Forget what was configured."""
    _CONFIGURED.clear()


def configured_authority(scheme: str) -> str | None:
    """Whom short addresses of a scheme contact; None where nobody is configured."""
    return _CONFIGURED[scheme][0] if scheme in _CONFIGURED else None


def configured_properties(scheme: str, authority: str) -> tuple[tuple[str, str], ...]:
    """The client properties that go with an authority: those that are configured for it, and for no other."""
    known, properties = _CONFIGURED.get(scheme, ("", tuple))
    return properties() if known and known == authority else ()


def _at_configured(text: str) -> str:
    """`kafka:topic` and `kafka:///topic` as addresses of the configured brokers; any other text as it is."""
    short = _SHORT.fullmatch(text)
    if short is None or short[1] not in _SYSTEMS or short[1] == PATHS:
        return text
    if short[1] not in _CONFIGURED:
        hint = f"KEYLANE_KAFKA=host:port, or keylane.toml; otherwise {_SYSTEMS[short[1]].form}"
        raise UsageError.of("no broker is configured for a short address", got=text, hint=hint)
    return f"{short[1]}://{_CONFIGURED[short[1]][0]}/{short[2]}"


def parse_address(text: str) -> Address:
    """Read an address; `str` of the result gives it back. `kafka:topic` is one of the configured brokers.

    >>> parse_address("kafka://broker:9092/payments")
    Address(system='kafka', authority='broker:9092', name='payments', query='')
    >>> str(parse_address("data/day1"))
    'data/day1'
    """
    if not text:
        raise UsageError.of("an address is empty", allowed=forms())
    text = _at_configured(text)
    split = _SCHEME.fullmatch(text)
    if split is None:
        return Address(PATHS, "", text)
    scheme, rest = split[1].lower(), split[2]
    if scheme == "file":
        if not rest.startswith("/"):
            raise UsageError.of("a file address names another machine", got=text, allowed="file:///path, or a path")
        return Address(PATHS, "", unquote(rest))
    system = _SYSTEMS.get(scheme)
    if system is None or scheme == PATHS:
        hint = "a path to a file system that every machine sees, such as a mount"
        raise UsageError.of("not a system that keylane knows", got=without_login(text), allowed=forms(), hint=hint)
    parts = system.rest.fullmatch(rest)
    if parts is None:
        shown = without_login(text)
        hint = "" if shown == text else "an address holds no login: properties of the client do, by reference"
        if not hint and scheme in _CONFIGURED and "/" not in rest:
            hint = f"{scheme}:{rest} for a stream of the configured brokers"
        raise UsageError.of(f"not a {scheme} address", got=shown, allowed=system.form, hint=hint)
    return Address(scheme, *(part or "" for part in parts.groups()))


def resolved(text: str) -> str:
    """An address as a document keeps it: a short one names the broker that is configured now, and holds elsewhere, too.

    >>> resolved("kafka://broker:9092/payments"), resolved("data/day1")
    ('kafka://broker:9092/payments', 'data/day1')
    """
    address = parse_address(text)
    return text if address.is_path else str(address)


def without_login(text: str) -> str:
    """An address as it may be shown: a password in it would stay in the log of a build.

    >>> without_login("kafka://app:secret@host:9092/payments"), without_login("kafka://host/a@b")
    ('kafka://…@host:9092/payments', 'kafka://host/a@b')
    """
    return _LOGIN.sub("//…@", text)


def forms() -> str:
    """The forms of address there are, for help and errors."""
    return ", ".join(system.form for system in _SYSTEMS.values())


def path_of(address: Address, what: str) -> Path:
    """The path of an address of files, for what only files can be; any other system lacks it."""
    if not address.is_path:
        raise UnsupportedError.of(f"{what} must be a path; nothing was contacted", got=str(address), allowed="a path")
    return Path(address.name).absolute()


def is_contract_file(text: str) -> bool:
    """Whether an argument is the path of a contract; anything else is data.

    >>> [is_contract_file(one) for one in ("a.yaml", "b.yml", "c.csv", "kafka://b:1/d.yaml")]
    [True, True, False, False]
    """
    return text.endswith((".yaml", ".yml")) and parse_address(text).is_path


def open_endpoint(address: Address | str, options: StreamOptions | None = None) -> Endpoint:
    """The endpoint of an address. Contacts nothing: an endpoint does so when it is asked for something."""
    known = parse_address(address) if isinstance(address, str) else address
    module, _, name = _SYSTEMS[known.system].endpoint.partition(":")
    options, properties = options or StreamOptions(), configured_properties(known.system, known.authority)
    if properties:
        options = replace(options, properties=(*properties, *options.properties))
    endpoint: Endpoint = getattr(import_module(module), name)(known, options)
    return endpoint


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a route into a target would create and write, and where records without a lane would go.

    `router` decides as that of the route would: by the lanes that the target has, where the contract says `live`.
    """

    router: Router
    creates: tuple[str, ...]
    writes: tuple[str, ...]
    dead_letters: str


class Endpoint:
    """A stream at an address, as its system has it. A system overrides what it can do; the rest is refused.

    Nothing is contacted when an endpoint is made. Without Spark: `describe` (for `identify` and `check`), `as_source`
    and `as_target` (for `verify`), all of which give parts and how one is read. With a `RunContext`: `scan` (for
    `profile` and `geo table`), `follow` (a source of `route`) and `target` (where it writes).
    """

    #: Whether records are messages: bytes of key and value, a timestamp, headers. Otherwise they are rows of columns.
    messages: ClassVar[bool] = False

    #: What the key of a message is, where nobody says more: bytes, or text.
    key_encoding: ClassVar[Encoding] = "raw"

    #: Whether a stream has lanes of its own before a record is in it; otherwise a route makes them as it writes.
    own_lanes: ClassVar[bool] = False

    #: Whether lanes are ranges of a key space, changed by splits and merges that no producer has to stop for.
    splits_lanes: ClassVar[bool] = False

    #: Whether a route writes each record once, over kills too; otherwise at least once, and marks what it writes again.
    writes_once: ClassVar[bool] = True

    #: Whether there is a producer that follows a migration by itself.
    migrating_producers: ClassVar[bool] = False

    #: Whether a session of Spark needs a connector of the system's own.
    connector: ClassVar[bool] = False

    def __init__(self, address: Address, options: StreamOptions) -> None:
        self.address = address
        self.options = options

    def describe(self, fields: FieldSpec) -> Description:
        """The stream as it is now; `fields` are those that are going to be read, and what they hold."""
        self._lacks("be read without Spark")

    def as_source(self, target: Stream, contract: Contract | None) -> Stream:
        """The stream that this target took its records from, with their positions."""
        self._lacks("be verified")

    def as_target(self, source: Endpoint, contract: Contract | None) -> Stream:
        """The stream that the records of this source were put in, with their positions there and here."""
        self._lacks("be verified")

    def columns(self, kind: str | None = None) -> pa.Schema | None:
        """The columns of its records with their types, where records have such; of files of this kind, if given."""
        return None

    def has_cells(self, kind: str | None = None) -> bool:
        """Whether records are lines of CSV."""
        return False

    def message_fields(self, fields: FieldSpec) -> MessageFields:
        """How fields are read out of the stream's messages, wherever these were copied to."""
        self._lacks("have fields in messages")

    def scan(self, run: RunContext, wanted: ScanRequest) -> AbstractContextManager[Scan]:
        """The stream as a frame of keys that is ready to be counted, for as long as the context is open."""
        self._lacks("be scanned")

    def scan_local(self, wanted: ScanRequest) -> LocalScan:
        """The stream as batches of keys that are ready to be counted in this process."""
        self._lacks("be counted without Spark")

    def estimated_records(self) -> int | None:
        """About how many records there are, where they can be counted in this process; None where they cannot."""
        return None

    def check_scan(self, columns: Sequence[str]) -> None:
        """Refuse what can be known at once to be wrong with a scan of these columns: nothing is started yet."""

    def empty_cells(self, names: Sequence[str]) -> str:
        """That cells of these columns are empty, and how one says that they are null; nothing where none can be."""
        return ""

    def lane_column(self, taken: Collection[str], *, needed: bool = True) -> str | None:
        """The column that holds the lane, by its usual names, where the user names none; `taken` hold something else.

        None where the system has a lane for each record by itself. Where lanes are not `needed`, a column that holds
        none is not taken, and folders that are lanes are left to the scan.
        """
        return None

    def field_names(self) -> list[str]:
        """The fields that records have, as far as that is known without reading them; for errors."""
        return []

    def ranges(self) -> tuple[Sequence[tuple[int, int]], str]:
        """Of messages: the offsets of each lane that are read, from one up to another; and what is left out.

        All that there are now, or those in the range of the options.
        """
        self._lacks("be read by offsets")

    def between(self, spark: SparkSession, ranges: Sequence[tuple[int, int]]) -> DataFrame:
        """Of messages: those of these offsets of each lane, as Spark's connector reads them."""
        self._lacks("be read by offsets")

    def start_offsets(self) -> Sequence[int]:
        """Of messages: the offset of each lane at which a new query begins, as the options say."""
        self._lacks("be read by offsets")

    def blocks(self, spark: SparkSession, loader: object, packer: str, start: Sequence[int], tasks: int) -> DataFrame:
        """Of messages: a stream of blocks, packed where it is read (`spark.topic_blocks`)."""
        self._lacks("be read as blocks")

    def message_columns(self, fields: FieldSpec) -> Fields:
        """Fields as columns of a frame of the stream's messages, and which messages cannot be read."""
        self._lacks("have fields in messages")

    def connected(self) -> AbstractContextManager[KafkaCluster | None]:
        """The cluster that reports the ends of the lanes while they are read; None where there is no cluster."""
        return nullcontext(None)

    @property
    def dead_stream(self) -> str:
        """Where messages that have no lane go."""
        return f"{self.address.name}.dlq"

    def check_streams(self, names: Sequence[str], lanes: int) -> None:
        """Refuse to append to streams that are not there, unless the options let them be made."""
        self._lacks("be appended to")

    def append(self, frame: DataFrame, name: str) -> None:
        """Write messages, with key, value and maybe headers, to a stream beside this one, or to this, at least once."""
        self._lacks("be appended to")

    def lanes_there(self, names: Sequence[str]) -> dict[str, int]:
        """The lanes of streams beside this one, and of this; 0 for one that is not there."""
        self._lacks("be asked for the lanes of its streams")

    def layout(self) -> ShardLayout:
        """The shards of the stream, where lanes are ranges of a key space."""
        self._lacks("be asked for its shards")

    def read_load(self, unit: LoadUnit, last: float | None, hash_keys: Mapping[str, int]) -> MeasuredLoad:
        """What the stream carries a second over its key space, by reading its last so many seconds, or all of it.

        `hash_keys` are the explicit hash keys of accounts, which records do not always show.
        """
        self._lacks("be read by hash key")

    def reported_load(self, unit: LoadUnit, last: float) -> MeasuredLoad:
        """The same by shard, as the system's own monitoring counted it."""
        self._lacks("be asked what its shards carry")

    def resharder(self) -> Resharder:
        """What splits and merges the shards of the stream."""
        self._lacks("have its shards changed")

    def lineage(self) -> ShardLineage:
        """The shards of the stream with where each ended, and their records."""
        self._lacks("be asked where its shards ended")

    def migrator(self) -> AbstractContextManager[Migrator]:
        """What changes the lanes of the stream in place, for as long as the context is open."""
        self._lacks("have its lanes changed in place")

    def measured(self) -> StreamMeasure:
        """What the stream holds, and a bounded sample of its records, to say what a migration of it costs."""
        from keylane.migration.cost import StreamMeasure

        why = "keylane does not measure streams of this system"
        return StreamMeasure(None, None, why, (), why)

    def replicas_for(self, source: Endpoint) -> int | None:
        """How many replicas a stream's records get here, in the form that they have there; None: not known."""
        return None

    def migration_journal(self) -> MigrationJournal:
        """The stream, or folder, as the journal of a migration."""
        self._lacks("hold the journal of a migration")

    def create_stream(self, name: str, lanes: int) -> None:
        """Make a stream beside this one; one that is there is left as it is."""
        self._lacks("be created")

    def create_like(self, source: Endpoint, lanes: int) -> None:
        """Make this stream for copies of another one, with what was set for that where both are of one system.

        One that is there is left as it is. Where lanes are made by whoever writes, there is nothing to make.
        """

    def lane_ends(self) -> tuple[int, ...]:
        """The end offset of each lane now; none where the system has no offsets, or the stream is not there."""
        return ()

    def reader_starts(self, starts: Sequence[int]) -> list[tuple[str, str]]:
        """Where readers begin, by the system's own names, where ends of lanes are no offsets: lane's name and place."""
        return []

    def copied_from(self, checkpoint: Path) -> tuple[int, ...]:
        """How far a route that keeps this checkpoint has come in each lane of this stream."""
        self._lacks("be asked how far a copy of it is")

    def start_groups(self, groups: Sequence[str], starts: Sequence[int]) -> dict[str, bool]:
        """Let groups without an offset in a lane begin there; False for those that are active, and keep their own."""
        self._lacks("keep the offsets of groups")

    def lanes_known_to(self, group: str) -> tuple[int, frozenset[int]]:
        """How many lanes there are, and those that a reader group will not miss a record of.

        Those that a member owns, and those of which an offset is committed.
        """
        self._lacks("be asked for the lanes of a reader group")

    def query_registry(self, *, create: bool) -> AbstractContextManager[QueryRegistry]:
        """The stream as a registry of standing queries; `create` makes one where there is none."""
        self._lacks("hold a registry of queries")

    def follow_messages(self, spark: SparkSession, known: str) -> Followed:
        """Of messages: the stream as a source of batches, without the fields of a contract, while it has this id."""
        self._lacks("be followed as messages")

    def deliveries(self, name: str, streams: Sequence[str]) -> AbstractContextManager[BatchDelivery]:
        """Where the batches of a pipeline of this name go: this stream, and others beside it."""
        self._lacks("take the results of a pipeline")

    def delivered(self) -> Iterator[DeliveredMessage]:
        """The messages that are in the stream now, those of a key in their order."""
        self._lacks("be read back")

    def commands_for(self, lanes: Mapping[str, int]) -> dict[str, str]:
        """The system's own commands for what only people can do with streams that are to have so many lanes."""
        return {}

    def identity(self) -> str:
        """What the system knows the stream by, beside its name; nothing where it has no such id, or does not say it."""
        return ""

    def origin(self, known: Origin | None) -> Origin:
        """The stream as a target remembers its source; `known` is what the target remembers from runs before."""
        self._lacks("be the source of a route")

    def check_apart(self, source: Endpoint) -> None:
        """Refuse a source that is this target, or lies within it."""
        if self.address == source.address:
            raise UsageError.of("source and target are one stream", got=str(self.address))

    def check_source(self, contract: Contract, target: Endpoint) -> None:
        """Refuse a source that is not there, or whose records the target cannot hold; nothing is made yet."""

    def session(self, run: RunContext) -> AbstractContextManager[SparkSession]:
        """A session that can read and write this system, for as long as the context is open."""
        from keylane.spark.context import session_beside

        return nullcontext(session_beside(run.spark, run.master, run.conf, run.say))

    def follow(self, spark: SparkSession, contract: Contract, origin: Origin) -> Followed:
        """The stream as a source of batches."""
        self._lacks("be the source of a route")

    def target(
        self, run: RunContext, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None
    ) -> AbstractContextManager[RouteTarget]:
        """The stream as the target of a route, locked for as long as the context is open."""
        self._lacks("be the target of a route")

    def outlook(
        self, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None, say: Callable[[str], None]
    ) -> Outlook:
        """What a route into this target would create and write; nothing is made, what `target` refuses is refused."""
        self._lacks("be the target of a route")

    def _lacks(self, ability: str) -> NoReturn:
        """The one error for an ability that a system lacks."""
        raise UnsupportedError.of(
            f"{self.address.system} cannot {ability} in this version; nothing was contacted", got=str(self.address)
        )
