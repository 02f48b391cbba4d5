#!/usr/bin/env bash
# Run N clients on this machine; sets everything up first if that has not been done.
# Usage: scripts/launch_local.sh N [options of lppa run]
set -euo pipefail

if [ $# -eq 0 ] || [ "$1" = "-h" ] || [ "$1" = "--help" ]; then
    echo "usage: scripts/launch_local.sh N [options of lppa run]"
    echo "example: scripts/launch_local.sh 8 --topology ring --rule dsgt"
    exit $(($# == 0 ? 2 : 0))
fi
nodes=$1
shift
case $nodes in
'' | *[!0-9]*)
    echo "error: the number of clients must be a whole number, not '$nodes'" >&2
    exit 2
    ;;
esac

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up
exec "$venv/bin/lppa" run -n "$nodes" "$@"
