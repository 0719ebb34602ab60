# Sourced by the scripts beside it: setup EXTRAS makes .venv with imgrec[EXTRAS], unless it is there.

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=$here/.venv

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "imgrec needs Python 3.11 or newer, and there is none on PATH" >&2
    return 1
}

setup() {
    stamp=$venv/.imgrec-$1
    if [ -f "$stamp" ] && cmp -s "$stamp" "$here/pyproject.toml"; then
        return
    fi
    python=$(find_python)
    echo "setting up $venv (first use; TensorFlow is large, so this takes a minute or two)" >&2
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        --editable "$here[$1]" >&2
    compile
    cp "$here/pyproject.toml" "$stamp"
}

# Else every process compiles what it imports. pip would do it with one CPU, and not for imgrec.
compile() {
    # Some packages have templates that are no Python.
    "$venv/bin/python" -m compileall -q -j 0 "$venv/lib" "$here/imgrec" >/dev/null || :
}
