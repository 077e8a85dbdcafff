"""`keylane shards apply`, whose process ends by SIGKILL before or behind one of its calls, or of its records.

`python -m tests.kinesis.killed_apply WHERE NUMBER ARGUMENTS...`; WHERE is before, behind or recorded.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from keylane.cli.main import main
from keylane.systems.kinesis.reshard import KinesisResharder
from keylane.systems.resharding import PlanRecord


def killed(where: str, number: int) -> None:
    """Plant the kill."""
    calls = 0
    send, note = KinesisResharder._call, PlanRecord.note

    def call(self: KinesisResharder, name: str, **arguments: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls == number and where == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        taken = send(self, name, **arguments)
        if calls == number and where == "behind":
            os.kill(os.getpid(), signal.SIGKILL)
        return taken

    def noted(self: PlanRecord, done: int, *, begun: bool) -> None:
        note(self, done, begun=begun)
        if where == "recorded" and done == number and not begun:
            os.kill(os.getpid(), signal.SIGKILL)

    KinesisResharder._call, PlanRecord.note = call, noted  # type: ignore[method-assign]  # the kill is planted here


if __name__ == "__main__":
    killed(sys.argv[1], int(sys.argv[2]))
    sys.argv[1:] = sys.argv[3:]
    main()
