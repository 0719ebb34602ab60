"""`python -m imgrec` is the `imgrec` command."""

from imgrec.cli.main import run

run()
