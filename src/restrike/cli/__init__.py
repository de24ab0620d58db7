"""The command line: one file a verb. Data goes to stdout, everything else to stderr.

Importing this package imports no verb; a verb imports torch only when it is about to compute.
"""

from __future__ import annotations


def main() -> None:
    """The `restrike` command; ends the process with the exit code of the table in `restrike.errors`."""
    import sys

    from restrike.cli.streams import prepare

    prepare()

    from restrike.cli.app import run

    sys.exit(run(sys.argv[1:]))
