#!/usr/bin/env bash
# Write the API reference as static pages; sets everything up first if that has not been done.
# Usage: scripts/api_docs.sh [OUT]   (default: api/, which git ignores); then open OUT/index.html
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up '[docs]'
mkdir -p "${1:-$root/api}"
out=$(cd "${1:-$root/api}" && pwd)
# Where no folder is called lppa, so that there is no doubt which one is meant.
cd "$root/scripts"
"$venv/bin/python" api_docs.py "$out"
echo "written: $out/index.html"
