#!/usr/bin/env bash
# Run the checks and the tests; sets everything up first if that has not been done.
# Usage: scripts/test.sh [options of pytest]   e.g. scripts/test.sh -k codec
# Files of tests run side by side, one a core and four at most; `-n 0` for one after the other.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# mypy goes by folders and knows nothing of package_dir in setup.cfg: it is shown the packages as
# they are installed, as a tree of links. In a subshell, so that the tree is gone before the tests.
check_types() (
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    mkdir "$tree/lppa"
    ln -s "$root"/lppa/* "$root"/{coordinator,models,node,protocol} "$tree/lppa/"
    # Errors with the paths that people know.
    MYPYPATH=$tree "$venv/bin/mypy" --config-file setup.cfg --no-error-summary -p lppa |
        sed -E "s#^$tree/(lppa/(coordinator|models|node|protocol)/)?#\\2/#; s#^/##"
)

set_up '[dev]'
cd "$root"
"$venv/bin/ruff" check --quiet .
"$venv/bin/ruff" format --check --quiet .
check_types
# Much of their time tests wait for processes, timeouts and sockets: two at a time take half as long.
exec "$venv/bin/python" -m pytest -n auto --maxprocesses 4 --dist loadfile "$@"
