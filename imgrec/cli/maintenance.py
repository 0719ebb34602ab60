"""`imgrec clean` and `imgrec completion`: remove leftovers, and set up a shell."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING

from imgrec.cli.arguments import data_dir
from imgrec.cli.parser import VERBS, Parser, argument, switch, verb, verb_parser
from imgrec.cli.render import emit
from imgrec.errors import import_extra
from imgrec.text import size, visible

if TYPE_CHECKING:
    from imgrec.outcome import Leftover

_SHELLS = ("bash", "zsh", "tcsh")
_PREAMBLE = {
    # Names are not given to compgen -W, which would execute a folder called `$(reboot)`.
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
_DATASETS = {"bash": "_imgrec_datasets_or_files", "zsh": "_imgrec_datasets_or_files", "tcsh": "f"}
"""What completes the names of datasets, and files, in each shell."""
_FILE_METAVARS = frozenset({"FILE", "CSV", "HTML", "PNG", "SOURCE", "PREDICTIONS", "DIR|TABLE"})
_DATASET_METAVARS = frozenset({"DATASET", "DATASET|SOURCE", "PATH|NAME"})


@verb(
    ("imgrec clean --dry-run", "imgrec clean --data-dir /data/tfds"),
    (
        data_dir("where to look; default: where TFDS looks"),
        switch("--dry-run", "show what would be removed, and remove nothing"),
    ),
)
def clean(parsed: Namespace) -> int:
    """Remove the hidden folders of interrupted packs, which then cannot be continued.

    Datasets and running packs are left alone.
    """
    from imgrec import api

    found = api.clean(data_dir=parsed.data_dir, dry_run=parsed.dry_run)
    values = [{"path": left.path, "bytes": left.size, "restored": left.restored} for left in found]
    removed = [one for one in values if not parsed.dry_run and not one["restored"]]
    lines = [_leftover_line(left, is_done=not parsed.dry_run) for left in found]
    is_there = not parsed.data_dir or os.path.isdir(os.path.expanduser(parsed.data_dir))
    reason = "" if is_there else visible(f": {parsed.data_dir} does not exist")
    emit(parsed, {"removed": removed, "found": values}, lines or [f"nothing to remove{reason}"])
    return 0


def _leftover_line(left: Leftover, *, is_done: bool) -> str:
    if left.restored:
        word = "restored" if is_done else "would restore"
        return f"{word} {visible(left.restored)} (an overwrite was interrupted)"
    word = "removed" if is_done else "would remove"
    return f"{word} {visible(left.path)}, {size(left.size)}"


@verb(
    (
        'eval "$(imgrec completion bash)"     in ~/.bashrc',
        'eval "$(imgrec completion zsh)"      in ~/.zshrc, after compinit',
    ),
    (argument("shell", "|".join(_SHELLS), "the shell", choices=_SHELLS),),
)
def completion(parsed: Namespace) -> int:
    """Print a script that lets a shell complete verbs, options, choices, files and datasets."""
    text = completion_script(parsed.shell)
    emit(parsed, {"shell": parsed.shell, "script": text}, [text])
    return 0


def completion_script(shell: str) -> str:
    """Return the script that a shell evaluates."""
    shtab = import_extra("shtab", extra="completion", what="imgrec completion")
    parser = Parser(prog="imgrec")
    verbs = parser.add_subparsers()
    for name, (_, what) in VERBS.items():
        declared = verb_parser(name)
        for action in declared._actions:
            if action.metavar in _DATASET_METAVARS:
                action.complete = _DATASETS  # type: ignore[attr-defined]  # shtab looks for it
            elif action.metavar == "DIR":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.metavar in _FILE_METAVARS:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        verbs.add_parser(name, help=what, parents=[declared], add_help=False)
    return str(shtab.complete(parser, shell=shell, preamble=_PREAMBLE))
