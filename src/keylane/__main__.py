"""`python -m keylane`, and the `keylane` command: ends quietly on Ctrl-C from the first moment on, then `cli.main`.

The first moment is the import of `keylane` itself, which sets the signal before it imports anything.
"""

from __future__ import annotations

from keylane.first_moment import end_on_ctrl_c


def main() -> None:
    """Run the command line. Until it is loaded there is nothing to undo, and nothing that could print a traceback."""
    end_on_ctrl_c()
    from keylane.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
