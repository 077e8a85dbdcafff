"""`python -m keylane`, and the `keylane` command: ends quietly on Ctrl-C from the first moment on, then `cli.main`."""

from __future__ import annotations

import os
import signal
from typing import Any


def main() -> None:
    """Run the command line. Until it is loaded there is nothing to undo, and nothing that could print a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from keylane.cli.main import main as run

    run()


def _leave(*_: Any) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
