#!/usr/bin/env bash
# Run N clients as one Slurm job; sets everything up first if that has not been done.
# Usage: scripts/launch_slurm.sh N [options of lppa run]
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
launch "64 --topology random-regular:4 --slurm-options '--time=2:00:00'" --engine slurm -- "$@"
