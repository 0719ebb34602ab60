# Sourced by the scripts beside it. `setup EXTRAS` makes .venv with imgrec[EXTRAS], unless it is there.
# It prints one line, and everything that the failed command printed if it fails.

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=$here/.venv
torch=2.13.0

setup() {
    extras=$1
    if is_current; then return; fi
    python=$(find_python)
    echo "setting up $venv with imgrec[$extras] (once; this takes a few minutes)" >&2
    # One set-up at a time: the lock is on the open descriptor, so it ends with this shell.
    exec 9<"$here"
    "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' 2>/dev/null || :
    if ! is_current; then make_venv; fi
    exec 9<&-
}

# The extra `dev` has all others in it.
is_current() {
    cmp -s "$venv/.imgrec-$extras" "$here/pyproject.toml" ||
        cmp -s "$venv/.imgrec-dev" "$here/pyproject.toml"
}

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

make_venv() {
    # pip takes half a package for a whole one, so a set-up that was killed starts afresh. The mark
    # of one is beside .venv, which may be a link to that of another checkout: then the link goes.
    unfinished=$here/.venv-unfinished
    if [ -e "$unfinished" ]; then rm -rf "$venv"; fi
    mkdir -p "$venv"
    : >"$unfinished"
    [ -x "$venv/bin/python" ] || quietly "$python" -m venv "$venv"
    # Where pip itself fails, nearly always before it installs anything, the packages there are stay.
    quietly install_extras || { rm -f "$unfinished"; return 1; }
    # Else every process compiles what it imports. pip would do it with one CPU, and not for imgrec.
    # Some packages have templates that are not Python.
    "$venv/bin/python" -m compileall -q -j 0 "$venv/lib" "$here/imgrec" >/dev/null 2>&1 || :
    cp "$here/pyproject.toml" "$venv/.imgrec-$extras"
    rm -f "$unfinished"
}

quietly() {
    said=$("$@" 2>&1) || { printf '%s\n' "$said" >&2; return 1; }
}

install_extras() {
    if [ "$extras" = dev ]; then install_torch || return; fi
    install --editable "$here[$extras]"
}

# PyPI's torch for Linux brings gigabytes of CUDA, so the CPU build is tried first: where pip is
# set up to look, then where PyTorch keeps it. There is none for macOS, whose torch is small.
# It comes before the other packages, which then find it installed.
install_torch() {
    install "torch==$torch+cpu" ||
        install "torch==$torch+cpu" --extra-index-url https://download.pytorch.org/whl/cpu ||
        install "torch==$torch"
}

install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile "$@"
}
