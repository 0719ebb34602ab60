"""`imgrec completion`: print what makes a shell complete verbs, options and datasets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from imgrec.cli import render

if TYPE_CHECKING:
    from imgrec.cli.types import Verbs

_EXAMPLES = """\
examples:
  eval "$(imgrec completion bash)"     in ~/.bashrc
  eval "$(imgrec completion zsh)"      in ~/.zshrc, after compinit
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "completion",
        help="print a script that completes imgrec in bash or zsh",
        description="Print a script with which bash or zsh completes verbs, options, choices, "
        "files and the names of datasets.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("shell", metavar="bash|zsh", choices=["bash", "zsh"], help="the shell")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Print the script of a shell."""
    from imgrec.cli import main
    from imgrec.cli.shells import bash, zsh
    from imgrec.cli.tree import read_tree

    tree = read_tree(main.make_parser())
    script = {"bash": bash.script, "zsh": zsh.script}[parsed.shell](tree)
    print(render.as_json({"shell": parsed.shell, "script": script}) if parsed.json else script)
    return 0
