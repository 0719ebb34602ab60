"""Completion for bash, from 3.2 on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imgrec.cli.tree import Argument, Kind, Verb

# Nothing of this is given to `compgen -W`, which would execute a folder called `$(reboot)`.
_SCRIPT = """\
# Completion of imgrec for bash. In ~/.bashrc: eval "$(imgrec completion bash)"

_imgrec_offer() {
    local word
    for word in "$@"; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}

_imgrec_files() {
    local path
    while IFS= read -r path; do
        COMPREPLY+=("$path")
    done < <(compgen "$1" -- "$cur")
    type compopt >/dev/null 2>&1 && compopt -o filenames 2>/dev/null
}

_imgrec_datasets() {
    local path root=${data_dir:-${TFDS_DATA_DIR:-$HOME/tensorflow_datasets}}
    for path in "$root"/*/[0-9]*.[0-9]*.[0-9]*/dataset_info.json; do
        path=${path%/*/*} path=${path##*/}
        [[ $path == *[!A-Za-z0-9_-]* || " ${COMPREPLY[*]} " == *" $path "* ]] ||
            _imgrec_offer "$path"
    done
}

_imgrec() {
    local cur=${COMP_WORDS[COMP_CWORD]} verb= option= kind= word data_dir=
    local -i at place=0
    local -a choices=()
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if [[ $word == = ]]; then
            continue
        elif [[ -n $option ]]; then
            [[ $option == --data-dir ]] && data_dir=${word/#\\~\\//$HOME/}
            option=
        elif [[ $word == -* ]]; then
            _imgrec_value "$verb" "$word" && option=$word
        elif [[ -z $verb ]]; then
            verb=$word
        else
            place+=1
        fi
    done
    [[ $cur == = ]] && cur=
    if [[ -n $option ]]; then
        _imgrec_value "$verb" "$option"
    elif [[ $cur == -* ]]; then
        _imgrec_options "$verb"
        return
    else
        _imgrec_place "$verb" "$place"
    fi
    case $kind in
        choice) _imgrec_offer "${choices[@]}" ;;
        file) _imgrec_files -f ;;
        folder) _imgrec_files -d ;;
        dataset) _imgrec_datasets; _imgrec_files -f ;;
    esac
}

_imgrec_options() {
    case $1 in
OPTIONS
    esac
}

_imgrec_value() {
    case $1:$2 in
VALUES
        *) return 1 ;;
    esac
}

_imgrec_place() {
    case $1:$2 in
PLACES
    esac
}

complete -F _imgrec imgrec"""


def script(verbs: Sequence[Verb]) -> str:
    """Return the script that bash is to evaluate."""
    parts = {"OPTIONS": _options(verbs), "VALUES": _values(verbs), "PLACES": _places(verbs)}
    text = _SCRIPT
    for name, lines in parts.items():
        text = text.replace(name, "\n".join(f"        {line}" for line in lines))
    return text


def _options(verbs: Sequence[Verb]) -> Iterator[str]:
    yield "'') _imgrec_offer --help --version ;;"
    for verb in verbs:
        flags = [flag for option in verb.options for flag in option.flags]
        yield f"{verb.name}) _imgrec_offer {' '.join(flags)} ;;"


def _values(verbs: Sequence[Verb]) -> Iterator[str]:
    for verb in verbs:
        for option in verb.options:
            if option.kind is not Kind.NONE:
                patterns = "|".join(f"{verb.name}:{flag}" for flag in option.flags)
                yield f"{patterns}) {_kind(option)} ;;"


def _places(verbs: Sequence[Verb]) -> Iterator[str]:
    names = " ".join(verb.name for verb in verbs)
    yield f"':0') kind=choice choices=({names}) ;;"
    for verb in verbs:
        for number, argument in enumerate(verb.places):
            yield f"{verb.name}:{number}) {_kind(argument)} ;;"


def _kind(argument: Argument) -> str:
    choices = f" choices=({' '.join(argument.choices)})" if argument.choices else ""
    return f"kind={argument.kind}{choices}"
