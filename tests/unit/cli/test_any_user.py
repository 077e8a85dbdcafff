"""The command line as a container runs it: under any user id, without a name, a home or an environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Run = Callable[..., tuple[int, str, str]]

ANY = 12345
#: The Python of this machine may be in root's own home: reading is all that is left to the user beside its id.
AS_ANYBODY = [
    *("setpriv", f"--reuid={ANY}", f"--regid={ANY}", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search", "--bounding-set=-all,+dac_read_search"),
]
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can become another user; tests/unit/test_private.py plays a user without a home",
)


@pytest.fixture
def anybody(tmp_path: Path) -> Iterator[Run]:
    """Run keylane as a user that the system does not know, with nothing in the environment but paths."""
    scratch = Path("/tmp") / f"keylane-anybody-{os.getpid()}"
    scratch.mkdir(mode=0o1777)
    scratch.chmod(0o1777)

    def run(*arguments: object, **environ: str) -> tuple[int, str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "JAVA_HOME") if name in os.environ}
        command = [*AS_ANYBODY, sys.executable, "-m", "keylane", *map(str, arguments)]
        env = {**kept, "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1", **environ}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/", timeout=120)
        return done.returncode, done.stdout, done.stderr

    yield run
    shutil.rmtree(scratch)


def test_it_is_nobody(anybody: Run) -> None:
    """The twin of the tests below: the user has neither name nor home, and may write to no folder but the temporary."""
    program = "import os, pathlib; print(os.geteuid(), os.access('/', os.W_OK)); pathlib.Path.home()"
    kept = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [*AS_ANYBODY, sys.executable, "-c", program], capture_output=True, text=True, check=False, env=kept
    )
    assert done.stdout == f"{ANY} False\n"
    assert "RuntimeError: Could not determine home directory" in done.stderr


@pytest.mark.parametrize("environ", [{}, {"HOME": "/root"}], ids=str)
def test_commands_find_a_folder_for_what_they_keep(anybody: Run, environ: dict[str, str]) -> None:
    code, out, err = anybody("dev", "kafka", "status", **environ)
    assert (code, err) == (1, "")
    assert f"/keylane-cache-{ANY}/kafka; start one" in out


def test_the_doctor_speaks(anybody: Run) -> None:
    code, out, err = anybody("doctor")
    assert code in {0, 1}
    assert "Traceback" not in err
    assert "user id 12345 has no name" in out


def test_what_needs_no_spark_works(anybody: Run) -> None:
    assert anybody("explain", "TT0124", "-n", "15")[0] == 0


def test_spark_says_what_it_needs(anybody: Run, tmp_path: Path) -> None:
    contract = Path("/tmp") / f"keylane-anybody-{os.getpid()}" / "c.yaml"
    spec = "{streams: [t], lanes: 15, key: {fields: [k]}, partitioner: kafka-java}"
    contract.write_text(f"apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {{name: t}}\nspec: {spec}\n")
    (contract.parent / "src").mkdir()
    (contract.parent / "src" / "a.jsonl").write_text('{"k": "x"}\n')
    target = contract.parent / "made" / "dst"
    target.parent.mkdir(mode=0o777)
    target.parent.chmod(0o777)
    code, out, err = anybody("route", contract, "--from", contract.parent / "src", "--to", target)
    assert (code, out) == (1, "")
    assert err.startswith("error: Spark needs a user with a name, and this user id has none: got 12345; hint: add it")


def test_a_cache_that_others_can_write_to_is_refused(anybody: Run) -> None:
    code, _, err = anybody("dev", "kafka", "status", KEYLANE_CACHE=f"/tmp/keylane-anybody-{os.getpid()}")
    assert code == 1
    assert "others can write to" in err
    assert "KEYLANE_CACHE=DIR" in err
