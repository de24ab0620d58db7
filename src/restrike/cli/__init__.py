"""The command line: one file a verb. Data goes to stdout, everything else to stderr.

Importing this package imports no verb; a verb imports torch only when it is about to compute.
"""

from __future__ import annotations


def main() -> None:
    """The `restrike` command; ends the process with the exit code of the table in `restrike.errors`."""
    import sys

    from restrike.cli.streams import prepare

    prepare()
    try:
        from restrike.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # While the verbs were still being imported, or as the last one ended.
        from restrike.cli.failures import settle

        code = settle(KeyboardInterrupt(), as_json=False, traceback=False)
    sys.exit(code)
