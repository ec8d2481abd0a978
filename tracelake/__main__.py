"""The command line. Heavy parts are imported by the command that needs them, so that --help is quick."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the program. An error that the user can mend is one line on standard error and exit code 1."""
    try:
        from tracelake.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f"tracelake: {error.name} is not installed; install tracelake[lake,reports] for the command line")
    app()


if __name__ == "__main__":
    main()
