"""Ends the cluster of a folder when whoever started this has gone. Run by `cluster.running`, by nobody else.

python -m keylane.systems.broker.watch FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Wait for the end of standard input, which is the end of its writer, then end the cluster."""
    sys.stdin.read()
    from keylane.systems.broker.cluster import down

    down(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
