#!/usr/bin/env bash
# Run N clients on this machine; sets everything up first if that has not been done.
# Usage: scripts/launch_local.sh N [options of lppa run]
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
launch "8 --topology ring --rule dsgt" --engine local -- "$@"
