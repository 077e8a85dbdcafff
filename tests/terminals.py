"""Commands on a pseudo-terminal: what is on the screen in the end, everything that was sent to it, and interrupts.

Each runs as the leader of a session of its own, so that a Ctrl-C is what the terminal makes of it: a signal to all
processes of the foreground, and so that a process that is left behind is found by its session.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CTRL_C = b"\x03"


@dataclass(frozen=True)
class Seen:
    """What a terminal was sent, with the second at which each part came, and how the command ended."""

    code: int
    parts: list[tuple[float, str]]
    interrupted_at: float | None = None
    seconds: float = 0.0
    left_behind: list[str] = field(default_factory=list)
    #: When it listened to Ctrl-C: Python had started, which takes long where many processes do.
    ready_at: float = 0.0

    @property
    def text(self) -> str:
        """Everything, with line ends as Python has them; what was written over is still there."""
        return "".join(part for _, part in self.parts).replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        """What is on the screen in the end."""
        return screen(self.text)

    @property
    def after(self) -> list[str]:
        """The lines that came, and stayed, after the interrupt: from the terminal's own `^C` on, where it shows one.

        What the command wrote before it was interrupted may be read from the terminal after that.
        """
        before, echo, _ = self.text.partition("^C")
        if not echo:
            before = "".join(part for at, part in self.parts if at < (self.interrupted_at or 0.0)).replace("\r\n", "\n")
        return self.lines[before.count("\n") :]

    def first_at(self) -> float:
        """How long after its start something was shown for the first time."""
        return self.parts[0][0] - self.ready_at if self.parts else float("inf")


def screen(text: str) -> list[str]:
    """The lines that a terminal shows of this, colours aside; a line that was written over is gone."""
    lines = []
    for line in re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n"):
        rest = line.replace("^C", "")
        lines.append(rest.rpartition("\r")[2].replace("\x1b[K", ""))
    while lines and not lines[-1]:
        lines.pop()
    return lines


def on_a_terminal(
    *command: object,
    columns: int = 80,
    interrupt_after: float | None = None,
    interrupt_on: str | None = None,
    times: int = 1,
    timeout: float = 120.0,
    cwd: Path | None = None,
    grace: float | None = None,
    **environment: str,
) -> Seen:
    """Run a command on a terminal; interrupt it when it shows a text, or so many seconds after Python has started."""
    pid, terminal = pty.fork()
    if pid == 0:
        _become(command, cwd, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    began, parts, at, presses = time.monotonic(), [], None, 0
    status = ready_at = None
    deadline = began + timeout
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([terminal], [], [], 0.02)
            if ready:
                try:
                    part = os.read(terminal, 65_536)
                except OSError:
                    break  # how a terminal ends on Linux
                if not part:
                    break
                parts.append((time.monotonic() - began, part.decode("utf-8", "replace")))
            elif (ended := os.waitpid(pid, os.WNOHANG))[0]:
                status = ended[1]
                break  # whatever it has left behind may keep the terminal open
            now = time.monotonic() - began
            shown = interrupt_on is not None and interrupt_on in "".join(text for _, text in parts)
            if ready_at is None and _threads(pid) > 1:
                ready_at = now
            due = shown or (interrupt_after is not None and ready_at is not None and now >= ready_at + interrupt_after)
            if due and presses < times and (at is None or now > at + 1.0):
                at, presses = (at or now), presses + 1
                with suppress(OSError):
                    os.write(terminal, CTRL_C)
        else:
            os.killpg(pid, signal.SIGKILL)
            raise TimeoutError(f"{command} runs after {timeout} s; it showed: {''.join(t for _, t in parts)[-2000:]}")
    finally:
        if status is None:
            _, status = os.waitpid(pid, 0)
        os.close(terminal)
    seconds = time.monotonic() - began
    # Without an interrupt Java may write its class archive when the command has ended: it is not waited for.
    return Seen(
        os.waitstatus_to_exitcode(status),
        parts,
        at,
        seconds,
        left_behind(pid, grace or (1.0 if at else 90.0)),
        ready_at or 0.0,
    )


def _threads(pid: int) -> int:
    """How many threads a process has: the one that looks for Ctrl-C is the second."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def _become(command: tuple[object, ...], cwd: Path | None, environment: dict[str, str]) -> Any:
    """The child: the command itself, with Python's own handler of interrupts wherever the tests themselves run."""
    try:
        if cwd is not None:
            os.chdir(cwd)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Otherwise the end of the leader would end, by a signal, whatever is left behind: a shell's commands lead none.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.execvpe(str(command[0]), [str(part) for part in command], {**os.environ, "TERM": "xterm", **environment})
    finally:
        os._exit(127)


def left_behind(session: int, grace: float = 1.0) -> list[str]:
    """Processes of a session that are there a moment after its leader has ended."""
    until = time.monotonic() + grace
    while found := _of_session(session):
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return found


def _of_session(session: int) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                text = (entry / "stat").read_text(encoding="ascii", errors="replace")
                state, _, _, sid = text[text.rindex(")") + 2 :].split()[:4]
                if int(sid) == session and state != "Z":
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200])
    return found
