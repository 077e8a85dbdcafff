"""A machine made of a folder: only the commands that a test puts on the path are there.

`apt-get` is a stand-in that writes down how it was called, and does what the test says installing does.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What the scripts may use without asking.
TOOLS = ("cat", "cp", "dirname", "env", "grep", "mktemp", "readlink", "rm", "sed", "tail", "touch", "true")


@dataclass(frozen=True, slots=True)
class Machine:
    """A folder with `bin/` as the whole path, and `jvm/` as the system's Javas."""

    folder: Path

    @property
    def jvm(self) -> Path:
        return self.folder / "jvm"

    def command(self, name: str, text: str) -> Path:
        """Put a command on the path."""
        return script(self.folder / "bin" / name, text)

    def apt(self, installing: str, updating: str = "touch $here/lists") -> None:
        """An apt-get: `installing` and `updating` are what it does, with the package in $last."""
        self.command(
            "apt-get",
            f'here={self.folder}; echo "$*" >> $here/apt.log; for last in "$@"; do :; done\n'
            f'case "$*" in *update*) {updating} ;; *) {installing} ;; esac',
        )

    @property
    def apt_calls(self) -> list[str]:
        log = self.folder / "apt.log"
        return log.read_text().splitlines() if log.exists() else []

    def run(self, name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the repository here."""
        command = ["/bin/sh", str(ROOT / "scripts" / name), *arguments]
        return subprocess.run(command, env=self.environ(**environ), capture_output=True, text=True, check=False)

    def environ(self, **more: str) -> dict[str, str]:
        return {"PATH": str(self.folder / "bin"), "TMPDIR": str(self.folder), **more}


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine on which we are root, without Java, browser or apt-get."""
    (tmp_path / "jvm").mkdir()
    made = Machine(tmp_path)
    made.command("id", "echo 0")
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    return made
