"""Options that several commands share: declared once, and turned into what the packages below take.

Options of one command are in its own module; `-o`, `-q` and `--color`: `output` and `terminal`. Errors of click's own:
`failures`.
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import click

from keylane.contract.names import MAX_LANES
from keylane.errors import DataError, NoSuchFieldError, UnknownNameError, UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from keylane.systems.endpoint import Endpoint, StreamOptions
    from keylane.systems.read_range import ReadRange

#: What click parsed of a command line, by the name of the parameter.
Arguments: TypeAlias = dict[str, Any]
Option: TypeAlias = "Callable[[Any], Any]"


#: What commands read, for errors.
SOURCES: Final = "a file or folder of Parquet, JSON lines or CSV, or a topic"
#: A lane count.
LANE_COUNT: Final = click.IntRange(1, MAX_LANES)
_LENGTH: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_PARTITIONS: Final = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def length_of_time(_context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """A length of time in seconds, as the callback of an option."""
    if text is None:
        return None
    found = _LENGTH.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise click.UsageError(f"{option.opts[0]} takes a length of time as 500ms, 30s, 10m, 1h, 1d, got {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def bytes_in(text: str, option: str, allowed: str) -> int:
    """A size above 0 as a number of bytes.

    >>> bytes_in("20MB", "--throttle", ""), bytes_in("500kB", "--throttle", "")
    (20000000, 500000)
    """
    found = re.fullmatch(r"(\d{1,12})\s*([kmgt]?)b?", text.strip().lower())
    if found is None or not int(found[1]):
        raise click.UsageError(f"{option} takes {allowed}; got {text!r}")
    return int(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}[found[2]]


def delimiter_of(text: str) -> str:
    """One character, or a word for it.

    >>> delimiter_of("tab"), delimiter_of(";")
    ('\\t', ';')
    """
    sign = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(sign) != 1 or sign in '"\r\n' or ord(sign) > 127:
        raise click.UsageError(f"--delimiter takes one character, as ; or tab, got {text!r}")
    return sign


def grouped(*several: Option) -> Option:
    """Several options as one decorator, in the order that the help shows them."""

    def decorated(command: Any) -> Any:
        for option in reversed(several):
            command = option(command)
        return command

    return decorated


def scale_of(_context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """A scale of whole-number degrees, as the callback of an option."""
    if text is None:
        return None
    from keylane.geo.coordinates import checked_scale

    try:
        number = float(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise click.UsageError(f"{option.opts[0]} takes a number, as 1e7 or 10000000, got {text!r}") from None
    try:
        return checked_scale(number)
    except UsageError as error:
        raise click.UsageError(f"{option.opts[0]}: {error}") from None


def check_sources(*sources: str | None, allowed: str = SOURCES) -> None:
    """Refuse a file or folder that is not there, before anything large is imported; names the one nearby."""
    from keylane.systems.endpoint import parse_address

    for source in filter(None, sources):
        address = parse_address(source)
        path = Path(address.name)
        if address.is_path and not path.exists():
            # By their names without the ending, which all files of a folder may have in common.
            beside = {one.stem: one.name for one in path.parent.iterdir()} if path.parent.is_dir() else {}
            near = [f"did you mean {beside[one]!r}?" for one in get_close_matches(path.stem, beside, n=1)]
            raise DataError.of("no such file or folder", got=source, allowed=allowed, hint="".join(near))


def two_columns(text: str | None) -> tuple[str, ...]:
    """The columns of --place; a name with a comma in it cannot be given."""
    if text is None:
        return ()
    fields = tuple(text.split(","))
    if len(fields) != 2 or not all(fields) or fields[0] == fields[1]:
        raise click.UsageError(f"--place takes two columns, as lat,lng, got {text!r}")
    return fields


def scale_option(side: str | None = None) -> Option:
    """`--scale`: how many of a source's numbers make a degree; or the same of one side only."""
    text = "Locations are whole numbers, this many to a degree: 1e7 where 407637000 is 40.7637."
    return click.option(
        f"--{side}-scale" if side else "--scale",
        metavar="N",
        callback=scale_of,
        help=f"The same, of {side}s only; 1: degrees." if side else text,
    )


#: How an option shows a column of times, which may say how it is written.
TIME_COLUMN: Final = "COLUMN[:FORMAT]"


def time_of(_context: click.Context, option: click.Parameter, text: Any) -> Any:
    """The text of such an option, or all of several, each checked before anything is read."""
    if not text:
        return text
    from keylane.errors import UsageError
    from keylane.keys.time_forms import split_time

    for one in (text,) if isinstance(text, str) else text:
        try:
            split_time(one)
        except UsageError as error:
            raise click.BadParameter(str(error), param=option) from None
    return text


def time_option(text: str, *short: str) -> Option:
    """`--time`: a column, and how it is written: `ts`, `ts:ms`, `ts:%d/%m/%Y %H:%M:%S`."""
    return click.option("--time", *short, metavar=TIME_COLUMN, callback=time_of, help=text)


format_option: Final = click.option(
    "--format", "kind", type=click.Choice(["parquet", "json", "csv"]), help="Default: by the files' endings."
)
engine_option: Final = click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Count in this process, or on Spark; auto: up to about 20 million records in this process.",
)
master_option: Final = click.option("--master", help="A Spark master; default: this machine's cores.")


def conf_option(*short: str) -> Option:
    """`--conf`; a command that has no contract to name may give it a short name."""
    return click.option(
        "--conf", *short, "settings", multiple=True, metavar="KEY=VALUE", help="A Spark setting; repeatable."
    )


#: What a CSV cell means.
csv_null_option: Final = click.option(
    "--csv-null",
    "csv_null",
    multiple=True,
    metavar="TEXT",
    help="Read unquoted CSV cells with this text as null; '' for empty cells. Repeatable.",
)


def note_empty_cells(source: str, fields: Sequence[str], options: StreamOptions) -> None:
    """Say that keys of CSV are empty where an option would make them null: an export writes null so."""
    from keylane.cli.terminal import note
    from keylane.errors import KeylaneError
    from keylane.systems.endpoint import open_endpoint

    # What cannot be read is an error of the command itself.
    with suppress(KeylaneError):
        if text := open_endpoint(source, options).empty_cells(fields):
            note(f"note: {text}")


#: What is between the cells of CSV.
delimiter_option: Final = click.option(
    "--delimiter",
    metavar="CHAR",
    default=",",
    show_default=True,
    callback=lambda _context, _option, text: delimiter_of(text),
    help="The delimiter of CSV: one character, or tab.",
)
csv_options: Final = grouped(csv_null_option, delimiter_option)

#: What a command on Spark reads, where it runs, and how.
spark_options: Final = grouped(format_option, master_option, conf_option())
#: The same for a command that needs Spark only for much.
counting_options: Final = grouped(engine_option, spark_options)

#: How a cluster is reached.
client_options: Final = grouped(
    click.option("--kafka", "pairs", multiple=True, metavar="KEY=VALUE", help="A Kafka client property; repeatable."),
    click.option("--kafka-file", "file", type=click.Path(), help="A file of Kafka client properties."),
)
_values: Final = grouped(
    click.option("--value", type=click.Choice(["json", "avro", "protobuf", "utf8"]), help="Format of the values."),
    click.option(
        "--value-schema", type=click.Path(), help="Their schema: an .avsc file, or a Protobuf descriptor set."
    ),
    click.option("--message", help="The message of the descriptor set, when it has several."),
)
_connector: Final = grouped(
    click.option("--spark-jars", "jars", type=click.Path(), help="A folder with Spark's Kafka connector."),
    click.option("--spark-packages", "packages", help="The connector by its coordinates, for Spark to fetch."),
)
#: Where a new run begins to read a topic, and how much of it is in a batch.
batch_options: Final = grouped(
    click.option(
        "--start", default="earliest", show_default=True, help="earliest, latest, a time, or offsets as JSON."
    ),
    click.option(
        "--max-records",
        type=click.IntRange(min=1),
        default=1_000_000,
        show_default=True,
        help="Records of a topic in one batch.",
    ),
)
#: How an aggregation reads and writes topics.
streaming_options: Final = grouped(client_options, batch_options, csv_options, _values, _connector)
#: How a route reads and writes topics.
kafka_options: Final = grouped(
    client_options,
    click.option(
        "--state",
        type=click.Path(),
        help="Where a route into Kafka keeps its state; default: a folder in ~/.local/state/keylane/routes.",
    ),
    click.option(
        "--second-route",
        is_flag=True,
        help="Begin with a new state although another one has routed the same source into the same target.",
    ),
    click.option(
        "--delivery",
        type=click.Choice(["exactly-once", "at-least-once"]),
        default="exactly-once",
        show_default=True,
        help="Into Kafka: with transactions, or without.",
    ),
    batch_options,
    click.option(
        "--writers",
        type=click.IntRange(1, 1000),
        help="Number of writer tasks (shuffled by lane). Default: one per source partition, no shuffle.",
    ),
    click.option("--dead-letters", metavar="TOPIC", help="Where records without a lane go; default: <topic>.dlq."),
    click.option(
        "--on-poison",
        type=click.Choice(["dlq", "stop", "dlq-and-park-key"]),
        default="dlq",
        show_default=True,
        help="What to do with a record that has no lane.",
    ),
    click.option(
        "--on-growth",
        type=click.Choice(["stop", "keep"]),
        default="stop",
        show_default=True,
        help="What to do when a topic has gained lanes.",
    ),
    click.option(
        "--retry-for",
        "try_seconds",
        metavar="TIME",
        default="10m",
        show_default=True,
        callback=length_of_time,
        help="Into Kafka: how long a batch is retried while brokers or workers fail.",
    ),
    click.option("--create", is_flag=True, help="Create missing topics."),
    csv_options,
    _values,
    _connector,
)
#: Which part of a topic is read.
range_options: Final = grouped(
    click.option("--last", metavar="TIME", callback=length_of_time, help="For topics: only the last 10m, 6h, 2d."),
    click.option("--since", metavar="TIME", help="For topics: from this time on: 2026-11-16T08:00 (UTC), or 2h ago."),
    click.option("--until", metavar="TIME", help="For topics: up to this time."),
    click.option("--max-records", "most", type=click.IntRange(min=1), help="For topics: at most this many records."),
    click.option("--partitions", metavar="LIST", help="For topics: only these partitions, such as 0,3,8-11."),
)
#: How topics are read, and how streams of any kind.
topic_options: Final = grouped(client_options, _values)
reading_options: Final = grouped(csv_options, topic_options)
#: How streams are read on Spark.
profiling_options: Final = grouped(reading_options, _connector)
_READING: Final = ("value", "value_schema", "message", "csv_null", "delimiter")
_CONNECTING: Final = ("jars", "packages")
_ROUTING: Final = (
    *("state", "delivery", "start", "max_records", "writers", "dead_letters", "on_poison", "on_growth", "create"),
    *("second_route", "try_seconds"),
)


def reading_from(arguments: Arguments) -> StreamOptions:
    """Take the options that say how streams are read out of a command's; the rest stays."""
    return _stream_options(arguments, *_READING, "dead_letters", "state")


def profiling_from(arguments: Arguments) -> StreamOptions:
    """Take the options that say how streams are read on Spark out of a command's; the rest stays."""
    return _stream_options(arguments, *_READING, *_CONNECTING)


def streaming_from(arguments: Arguments) -> StreamOptions:
    """Take the options that say how an aggregation reads and writes streams out of a command's; the rest stays."""
    names = ("kind", "start", "max_records", "max_files", "create", *_READING, *_CONNECTING)
    return _stream_options(arguments, *names)


def routing_from(arguments: Arguments) -> StreamOptions:
    """Take the options that say how streams are read and written out of a command's; the rest stays."""
    return _stream_options(arguments, *_READING, *_CONNECTING, *_ROUTING)


def _stream_options(arguments: Arguments, *names: str) -> StreamOptions:
    from keylane.systems.endpoint import StreamOptions

    given = {name: arguments.pop(name) for name in names if name in arguments}
    return StreamOptions(properties_from(arguments), **given)


#: The parameters of `range_options`.
RANGE: Final = ("last", "since", "until", "most", "partitions")
#: The text that stands for null in CSV may be none.
_MAY_BE_EMPTY: Final = "--csv-null"


def checked(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that refuses, before it does anything, values that no option takes; every command is one.

    An empty text is what a variable of a script that is not set leaves behind, and would be taken for an option that
    was not given; text that is no UTF-8 can be written nowhere; and no number is without an end. The error
    for an unknown name has the option that it was given to.
    """

    @wraps(command)
    def run(*args: Any, **named: Any) -> Any:
        if (context := click.get_current_context(silent=True)) is None:
            return command(*args, **named)
        params = context.params
        options = [one for one in typed_among(tuple(params)) if isinstance(one, click.Option)]
        given = {max(one.opts, key=len): params[one.name or ""] for one in options}
        given = {name: value if isinstance(value, tuple) else (value,) for name, value in given.items()}
        for name, values in given.items():
            for one in values:
                _check_value(name, one)
        try:
            return command(*args, **named)
        except (UnknownNameError, NoSuchFieldError) as error:
            meant = [name for name, values in given.items() if error.got in values]
            if not meant or any(name in str(error) for name in meant):
                raise
            raise type(error)(f"{' and '.join(meant)}: {error}") from error

    return run


def _check_value(name: str, value: Any) -> None:
    what = ""
    if isinstance(value, float) and not isfinite(value):
        what = "a number"
    elif isinstance(value, str) and not value and name != _MAY_BE_EMPTY:
        what = "a text that is not empty"
    elif isinstance(value, str | Path) and any("\ud800" <= sign <= "\udfff" for sign in str(value)):
        what = "text in UTF-8"
    if what:
        raise click.UsageError(f"{name}: got {shorten(str(value))}; allowed: {what}")


class Applies(NamedTuple):
    """Options, by the names of their parameters, that have an effect only `where` something holds, and what that is."""

    names: tuple[str, ...]
    where: bool | Callable[[], bool]
    needs: str


def check_applies(*rules: Applies) -> None:
    """Refuse an option that was typed and would have no effect: it says what the user believes to be in force.

    Each command has a table of such rules, and checks it before anything is read. What holds is asked only for options
    that were typed. What is configured is a default, and may go unused.
    """
    for names, where, needs in rules:
        typed = [max(one.opts, key=len) for one in typed_among(names)]
        if typed and not (where() if callable(where) else where):
            have, leave = ("have", "leave them out") if typed[1:] else ("has", "leave it out")
            raise click.UsageError(f"{', '.join(typed)} {have} no effect here; allowed: with {needs}; hint: {leave}")


def reading_applies(
    *sources: str | None, into: Sequence[str | None] = (), kind: str | None = None
) -> Iterator[Applies]:
    """The rules of how these sources are read, for all options that commands share; `kind` is that of `--format`.

    Where `into` is written, or compared with, clients and values may be those of that.
    """
    values: dict[str, Any] = click.get_current_context().params

    def some(what: Callable[[Endpoint], bool], *more: str | None) -> bool:
        from keylane.systems.endpoint import open_endpoint

        return any(what(open_endpoint(one)) for one in (*sources, *more) if one is not None)

    yield Applies((*RANGE, "seconds"), lambda: some(lambda one: one.messages), "a topic or a stream")
    yield Applies(("csv_null", "delimiter"), lambda: some(lambda one: one.has_cells(kind)), "CSV")
    yield Applies(("kind", "max_files"), lambda: some(lambda one: one.address.is_path), "files")
    clients = ("pairs", "file", "jars", "packages")
    yield Applies(clients, lambda: some(lambda one: one.connector, *into), "a topic of Kafka")
    yield Applies(("value",), lambda: some(lambda one: one.messages, *into), "a topic or a stream")
    yield Applies(("value_schema",), values.get("value") in {"avro", "protobuf"}, "--value avro or protobuf")
    yield Applies(("message",), values.get("value") == "protobuf", "--value protobuf")


def spark_applies(engine: str = "spark") -> Iterator[Applies]:
    """The rules of where Spark runs."""
    yield Applies(("master", "settings", "jars", "packages"), engine != "local", "--engine spark or auto")


def written_applies(*files: str | None, options: str) -> Applies:
    """The rule of `--force`: it replaces files that are written."""
    return Applies(("force",), any(one is not None for one in files), options)


#: Options of how data is read, and which part of it: the same in every command that reads it.
_READ_ALIKE: Final = (
    *("last", "since", "until", "most", "partitions", "csv_null", "delimiter", "pairs", "file"),
    *("value", "value_schema", "message"),
)


def typed_among(names: Sequence[str]) -> list[click.Parameter]:
    """Which of these options are on the command line that runs: neither defaults nor what is configured."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    return [
        one
        for one in context.command.params
        if one.name in names and context.get_parameter_source(one.name or "") is typed
    ]


def spark_is_configured() -> bool:
    """Whether master and settings come from keylane.toml or KEYLANE_*: where Spark runs, not that it has to."""
    return not typed_among(("master", "settings"))


def read_alike(*left_out: str) -> str:
    """What was typed of these options in the command that runs, to be typed again in one that it proposes.

    A secret is never among it: such properties are only taken as references.
    """
    params, words = click.get_current_context().params, list[str]()
    for option in typed_among([name for name in _READ_ALIKE if name not in left_out]):
        name = option.name or ""
        given = params[name]
        for value in given if isinstance(given, tuple) else (given,):
            words += [option.opts[0], shlex.quote(_as_typed(name, value))]
    return "".join(f" {word}" for word in words)


def _as_typed(name: str, value: Any) -> str:
    """A value as it may be typed.

    >>> _as_typed("last", 5400.0), _as_typed("delimiter", "\\t"), _as_typed("most", 500)
    ('90m', 'tab', '500')
    """
    if name == "last":
        thousandths = round(value * 1000)
        unit = next(unit for unit in ("d", "h", "m", "s", "ms") if not thousandths % round(_SECONDS[unit] * 1000))
        return f"{round(value / _SECONDS[unit])}{unit}"
    return "tab" if value == "\t" else str(value)


def range_from(arguments: Arguments, now: float, most: int | None = None) -> ReadRange | None:
    """Take the part of a topic that is read out of a command's options; None where nothing was asked for.

    `now` is in seconds since 1970, and `most` the number of records where none is given.
    """
    from keylane.systems.read_range import ReadRange

    last, since, until, given, listed = (
        arguments.pop(name) for name in ("last", "since", "until", "most", "partitions")
    )
    if last is not None and since is not None:
        raise click.UsageError("--last and --since both say where to begin; hint: leave one out")
    begin = moment_of(since, now, "--since") if last is None else int((now - last) * 1000)
    wanted = ReadRange(begin, moment_of(until, now, "--until"), given or most, partitions_of(listed))
    return None if wanted == ReadRange() else wanted


def moment_of(text: str | None, now: float, option: str) -> int | None:
    """A time in milliseconds since 1970: a time in UTC, a whole number of such, or a length of time before now.

    >>> moment_of("2026-11-16T08:00", 0, "--since"), moment_of("2h", 7_200, "--since")
    (1794816000000, 0)
    """
    if text is None:
        return None
    ago = _LENGTH.fullmatch(text.removesuffix(" ago"))
    if ago:
        return int((now - int(ago[1]) * _SECONDS[ago[2]]) * 1000)
    if text.isdecimal() and len(text) == len("1794816000000"):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        allowed = "2026-11-16, 2026-11-16T08:00 (UTC), 2026-11-16T08:00+01:00, or a length of time before now: 2h"
        raise click.UsageError(f"{option} takes a time: {allowed}; got {text!r}") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def partitions_of(text: str | None) -> tuple[int, ...]:
    """Numbers and ranges of them, in order.

    >>> partitions_of("8-10,3"), partitions_of(None)
    ((3, 8, 9, 10), ())
    """
    if text is None:
        return ()
    found: set[int] = set()
    for part in text.split(","):
        ends = _PARTITIONS.fullmatch(part.strip())
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise click.UsageError(f"--partitions takes numbers and ranges, as 0,3,8-11, got {text!r}")
        found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return tuple(sorted(found))


def properties_from(arguments: Arguments) -> tuple[tuple[str, str], ...]:
    """Take the properties of a client out of a command's options; the rest stays."""
    from keylane.systems.kafka.access import read_properties

    file, pairs = arguments.pop("file"), [_pair(text) for text in arguments.pop("pairs")]
    return (*(read_properties(file) if file else ()), *pairs)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        # What stands there may be a secret that lost its name.
        raise click.UsageError("--kafka takes NAME=VALUE")
    return name, value


def settings_from(texts: tuple[str, ...]) -> dict[str, str]:
    """Settings of Spark's, each as NAME=VALUE."""
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign or not name.startswith("spark."):
            raise click.UsageError(f"--conf takes spark.NAME=VALUE, got {name + sign!r}")
    return {name: value for name, _, value in pairs}
