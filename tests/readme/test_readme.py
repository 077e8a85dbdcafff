"""The README tells the truth: its Python runs, its commands print what it shows. Each twin plants an untruth."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from tests.readme.conftest import Page, blocks, in_a_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.readme.conftest import Ended

    RunPage = Callable[[str], Page]


@pytest.fixture
def readme(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


def test_the_readme_runs_as_it_stands(readme: str, run_page: RunPage) -> None:
    page = run_page(readme)
    assert page.complaints == []
    assert page.run_blocks >= 8


@pytest.mark.parametrize("page", ["README.md", "docs/quick-start.md"])
def test_no_block_is_left_out_without_a_reason(page: str, root: Path) -> None:
    found = blocks((root / page).read_text(encoding="utf-8"))
    assert [f"line {one.line}" for one in found if one.left_out] == []
    assert len(found) >= 6


def test_a_block_that_nothing_runs_is_noticed() -> None:
    left = ["```sh\nls\n```\n", "```\nls\n```\n", "```console\n$ ls\n```\n", '```sh title="soon"\nls\n```\n']
    assert all(one.left_out for text in left for one in blocks(text))
    assert not any(one.left_out for one in blocks('```sh title="not run: it installs"\nls\n```\n'))


@pytest.mark.faults
@pytest.mark.parametrize("page", ["README.md", "docs/quick-start.md"])
def test_a_page_runs_with_its_broker(page: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block in its place, on a broker that the page itself starts and stops."""
    monkeypatch.chdir(tmp_path)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    folder = tmp_path / "broker"

    def keylane(words: list[str]) -> Ended:
        return in_a_process([*words, *(["--dir", str(folder)] if words[:2] == ["dev", "kafka"] else [])])

    try:
        found = Page(keylane, port=port).run((root / page).read_text(encoding="utf-8"))
    finally:
        in_a_process(["dev", "kafka", "down", "--dir", str(folder)])
    assert found.complaints == []


#: A truth of the README, an untruth in its place, and what is then complained of.
UNTRUTHS = [
    (
        "\n10    Java, kafka-python",
        "\n11    Java, kafka-python",
        "explain TT0124 --lanes 15` does not print",
    ),
    ("mixed writers: kafka-java 95.0%", "mixed writers: kafka-java 96.0%", "lane partition` does not print"),
    ("\n4\n```", "\n0\n```", "lane partition` ends with 4, not 0"),
    ('"merchant_000001"})  # -> 56', '"merchant_000001"})  # -> 57', "57 is shown, 56 is so"),
    ("# -> 'murmur2_random'", "# -> 'murmur2'", "'murmur2' is shown, 'murmur2_random' is so"),
    ("lane: 56}", "lane: 57}", "`$ keylane check payments.yaml` ends with 4, not 0"),
]


def test_wrong_lines_in_the_readme_are_noticed_each(readme: str, run_page_here: RunPage) -> None:
    for truth, untruth, _ in UNTRUTHS:
        assert truth in readme
        readme = readme.replace(truth, untruth)
    complaints = run_page_here(readme).complaints
    assert [words for *_, words in UNTRUTHS if not any(words in one for one in complaints)] == []


def test_lines_in_another_order_are_noticed(run_page_here: RunPage) -> None:
    shown = "librdkafka-consistent            9  librdkafka                              -"
    first = "kafka-java                      10  Java, kafka-python, aiokafka, franz-go  -"
    command = "```console\n$ keylane explain TT0124 --lanes 15 --all\n"
    assert not run_page_here(f"{command}{first}\n...\n{shown}\n```\n").complaints
    assert run_page_here(f"{command}{shown}\n...\n{first}\n```\n").complaints


@pytest.mark.parametrize("way", ["run_page", "run_page_here"])
def test_a_wrong_exit_code_is_noticed(request: pytest.FixtureRequest, way: str) -> None:
    run = request.getfixturevalue(way)
    assert run("```console\n$ keylane explain TT0124 --lanes 0\n```\n").complaints
    assert not run("```console\n$ keylane explain TT0124 --lanes 0\n$ echo $?\n2\n```\n").complaints


def test_a_block_that_raises_is_noticed(run_page: RunPage) -> None:
    with pytest.raises(ImportError):
        run_page("```python\nfrom keylane import no_such_name\n```\n")


def test_a_block_that_is_not_run_must_still_be_python(run_page: RunPage) -> None:
    assert run_page("```py\nraise SystemExit\n```\n").run_blocks == 0
    with pytest.raises(SyntaxError):
        run_page("```py\nproducer = = None\n```\n")
