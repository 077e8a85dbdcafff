"""`keylane migrate run`, whose process ends by SIGKILL when a batch of the copy is written, and not yet committed.

`python -m tests.kinesis.killed_copy ARGUMENTS...`, in a session of its own.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from keylane.cli.main import main
from keylane.systems.kinesis.target import KinesisTarget


def killed() -> None:
    """Plant the kill."""
    write = KinesisTarget._written

    def written(self: KinesisTarget, *arguments: Any) -> Any:
        write(self, *arguments)
        # With Spark's own process, which would hold what is printed open.
        os.killpg(os.getpgrp(), signal.SIGKILL)

    KinesisTarget._written = written  # type: ignore[method-assign, assignment]  # the kill is planted here


if __name__ == "__main__":
    killed()
    main()
