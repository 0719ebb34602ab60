"""`imgrec completion`: print a script that completes verbs, options, files and datasets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.parser import VERBS, verb_parsers
from imgrec.extras import needed

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs

_SHELLS = ("bash", "zsh", "tcsh")
_EXAMPLES = """\
examples:
  eval "$(imgrec completion bash)"     in ~/.bashrc
  eval "$(imgrec completion zsh)"      in ~/.zshrc, after compinit
"""
_DATASETS = {
    # compgen is not given the names with -W: it would execute a folder called `$(reboot)`.
    "bash": """\
_imgrec_datasets_or_files() {
    local path root=${TFDS_DATA_DIR:-$HOME/tensorflow_datasets}
    for path in "$root"/*/[0-9]*.[0-9]*.[0-9]*/dataset_info.json; do
        path=${path%/*/*} path=${path##*/}
        [[ $path == "$1"* && $path != *[!A-Za-z0-9_-]* ]] && printf '%s\\n' "$path"
    done | uniq
    compgen -f -- "$1"
}
""",
    "zsh": """\
_imgrec_datasets_or_files() {
    local -aU names
    names=(${TFDS_DATA_DIR:-$HOME/tensorflow_datasets}/*/<->.<->.<->/dataset_info.json(N:h:h:t))
    _alternative 'datasets:dataset:compadd -a names' 'files:file:_files'
}
""",
    "tcsh": "",
}
_DATASET = {"bash": "_imgrec_datasets_or_files", "zsh": "_imgrec_datasets_or_files", "tcsh": "f"}
"""Completes the names of datasets, and files."""
_FILES = frozenset({"FILE", "CSV", "HTML", "PNG", "SOURCE", "PREDICTIONS", "DIR|TABLE"})
_NAMES = frozenset({"DATASET", "DATASET|SOURCE", "PATH|NAME"})


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "completion",
        help=VERBS["completion"],
        description="Print a script with which a shell completes verbs, options, choices, files "
        "and the names of datasets.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("shell", metavar="|".join(_SHELLS), choices=_SHELLS, help="the shell")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Print the script for a shell."""
    text = script(parsed.shell)
    print(render.as_json({"shell": parsed.shell, "script": text}) if parsed.json else text)
    return 0


def script(shell: str) -> str:
    """Return the script that a shell evaluates."""
    from imgrec.cli.main import make_parser

    shtab = needed("shtab", extra="completion", what="imgrec completion")
    parser = make_parser()
    for _, verb in verb_parsers(parser):
        for action in verb._actions:
            if action.metavar in _NAMES:
                action.complete = _DATASET  # type: ignore[attr-defined]  # shtab looks for it
            elif action.metavar == "DIR":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell, preamble=_DATASETS))
