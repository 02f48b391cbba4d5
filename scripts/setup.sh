# Sourced by the other scripts: sets `root` and `venv`, and gives them `set_up`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv

fail() {
    echo "error: $1" >&2
    exit 1
}

# Makes .venv if there is none, and installs lppa into it, once. Usage: set_up [EXTRAS]
set_up() {
    local extras=${1:-} python=${PYTHON:-python3} wanted
    if [ ! -x "$venv/bin/python" ]; then
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
            fail "Python 3.10 or newer is needed, and $python is not; set PYTHON to one that is"
        "$python" -c 'import venv, ensurepip' 2>/dev/null ||
            fail "$python has no venv module; install it (Debian, Ubuntu: apt install python3-venv)"
        echo "making .venv with $("$python" --version)" >&2
        # A half-made environment would look like a whole one next time.
        "$python" -m venv "$venv" || { rm -rf "$venv"; fail "could not make $venv"; }
    fi
    # What is installed follows from these files; the stamp says for which content it was done.
    wanted=$(cat "$root/setup.cfg" "$root/constraints.txt" "$root/pyproject.toml" | cksum)
    grep -qsxF "$wanted" "$venv/installed$extras" && return
    echo "installing lppa and what it needs into .venv (a few minutes, a few GB, only once)" >&2
    "$venv/bin/python" -m pip install --quiet --constraint "$root/constraints.txt" \
        --editable "$root$extras" >&2 || fail "the installation did not succeed; see above"
    # Where Python is told to write no bytecode, every start would compile all modules anew.
    "$venv/bin/python" -m compileall -q "$root"/{lppa,coordinator,models,node,protocol} || true
    echo "$wanted" | tee "$venv/installed" >"$venv/installed$extras"
}

# Sets up, then becomes `lppa run` for N clients. Usage: launch EXAMPLE OPTIONS... -- [N] [options of lppa run]
launch() {
    local script example=$1 fixed=()
    script=scripts/$(basename "$0")
    shift
    while [ "$1" != "--" ]; do
        fixed+=("$1")
        shift
    done
    shift
    if [ $# -eq 0 ] || [ "$1" = "-h" ] || [ "$1" = "--help" ]; then
        echo "usage: $script N [options of lppa run]"
        echo "example: $script $example"
        exit $(($# == 0 ? 2 : 0))
    fi
    case $1 in
    '' | *[!0-9]*)
        echo "error: the number of clients must be a whole number, not '$1'" >&2
        exit 2
        ;;
    esac
    set_up
    exec "$venv/bin/lppa" run "${fixed[@]}" -n "$@"
}
