#!/usr/bin/env bash
# Run the checks and the tests; sets everything up first if that has not been done.
# Usage: scripts/test.sh [options of pytest]   e.g. scripts/test.sh -k codec
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up '[dev]'
cd "$root"
"$venv/bin/ruff" check --quiet .
"$venv/bin/ruff" format --check --quiet .
exec "$venv/bin/python" -m pytest "$@"
