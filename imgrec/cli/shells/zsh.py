"""Completion for zsh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from imgrec.cli.tree import Argument, Kind, Verb

_SCRIPT = """\
#compdef imgrec
# Completion of imgrec for zsh. In ~/.zshrc, after compinit: eval "$(imgrec completion zsh)"

_imgrec_datasets() {
    local root=${opt_args[--data-dir]:-${TFDS_DATA_DIR:-$HOME/tensorflow_datasets}}
    local -aU names
    root=${root/#\\~\\//$HOME/}
    names=($root/*/<->.<->.<->/dataset_info.json(N:h:h:t))
    _alternative 'datasets:dataset:compadd -a names' 'files:file:_files'
}

_imgrec() {
    local curcontext=$curcontext state line
    local -A opt_args
    _arguments -C '(- *)--help[show help]' '(- *)--version[show the version]' \\
        '1:verb:->verb' '*::argument:->rest'
    case $state in
        verb)
            local -a verbs
            verbs=(
VERBS
            )
            _describe -t verbs verb verbs
            ;;
        rest)
            curcontext=${curcontext%:*}-$words[1]:
            case $words[1] in
REST
            esac
            ;;
    esac
}

if [[ $funcstack[1] == _imgrec ]]; then
    _imgrec "$@"
else
    compdef _imgrec imgrec
fi"""
_ACTIONS = {
    Kind.OTHER: " ",  # nothing to offer, but a value is due
    Kind.FILE: "_files",
    Kind.FOLDER: "_files -/",
    Kind.DATASET: "_imgrec_datasets",
}


def script(verbs: Sequence[Verb]) -> str:
    """Return the script that zsh is to evaluate, or to autoload."""
    listed = "\n".join(f"                {_quoted(_entry(verb))}" for verb in verbs)
    rest = "\n".join(line for verb in verbs for line in _verb_lines(verb))
    return _SCRIPT.replace("VERBS", listed).replace("REST", rest)


def _entry(verb: Verb) -> str:
    return f"{verb.name}:{_escaped(verb.help)}"


def _verb_lines(verb: Verb) -> Iterator[str]:
    specs = [spec for option in verb.options for spec in _option_specs(option)]
    specs += [_place_spec(argument) for argument in verb.places]
    yield f"                {verb.name})"
    yield "                    _arguments \\"
    yield " \\\n".join(f"                        {_quoted(spec)}" for spec in specs)
    yield "                    ;;"


def _option_specs(option: Argument) -> Iterator[str]:
    others = "" if option.repeats else f"({' '.join(option.flags)})"
    for flag in option.flags:
        value = "" if option.kind is Kind.NONE else f":{_escaped(option.value)}:{_action(option)}"
        yield f"{others}{'*' * option.repeats}{flag}[{_escaped(option.help)}]{value}"


def _place_spec(argument: Argument) -> str:
    return f":{_escaped(argument.value)}:{_action(argument)}"


def _action(argument: Argument) -> str:
    return f"({' '.join(argument.choices)})" if argument.choices else _ACTIONS[argument.kind]


def _escaped(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
