"""Stops the cluster of a folder when the parent process is gone. Run by `cluster.running` only."""

import sys
from pathlib import Path

from keylane.systems.broker.cluster import down

if __name__ == "__main__":
    # The end of standard input is the end of the parent.
    sys.stdin.read()
    down(Path(sys.argv[1]))
