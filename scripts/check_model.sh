#!/usr/bin/env bash
# Check docs/model/views.pml with Spin, where that is installed (Debian: apt-get install spin gcc).
# Usage: scripts/check_model.sh [small|mutants|large]   default: small and mutants
#   small    two to four nodes, every order of events; every execution comes to an end
#   mutants  each of the known mistakes must be found
#   large    more mishaps at once, and more rounds: minutes and gigabytes
# SPIN=PATH names a spin that is not on the path; MEMORY the megabytes that a check may use.
set -euo pipefail

model=$(cd "$(dirname "${BASH_SOURCE[0]}")/../docs/model" && pwd)/views.pml
spin=${SPIN:-$(command -v spin || true)}
if [[ -z $spin ]] || ! command -v cc >/dev/null; then
    echo "check_model: spin or a C compiler is not there, so the model was not checked"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# verify "flags of the model" "flags of the compiler" "flags of the verifier": its report on stdout
verify() (
    cd "$folder"
    rm -f pan* ./*.trail
    cp "$model" views.pml
    # shellcheck disable=SC2086
    "$spin" -a $1 views.pml >/dev/null
    # shellcheck disable=SC2086
    cc -O2 -w -DNOREDUCE -DMEMLIM="${MEMORY:-6000}" $2 -o pan pan.c
    # shellcheck disable=SC2086
    ./pan -m1000000 $3 2>&1
)

figures() {
    grep -Eo 'errors: [0-9]+|[0-9]+ states, stored|[0-9.]+.total actual memory|elapsed time [0-9.e+]+ s' |
        tr '\t\n' '  ' | sed 's/total actual memory/MB/; s/elapsed time //'
}

# passes "name" "flags of the model" [flags of the compiler] [flags of the verifier]
passes() {
    local report
    report=$(verify "$2" "${3:--DSAFETY -DCOLLAPSE}" "${4:-}")
    echo "$1 ($2): $(figures <<<"$report")"
    if ! grep -q 'errors: 0' <<<"$report" || grep -Eq 'not completed|max search depth' <<<"$report"; then
        echo "$report" | head -5
        exit 1
    fi
}

# fails "what must be found" "flags of the model" [flags of the verifier] [flags of the compiler]
fails() {
    local report
    report=$(verify "$2" "${4:--DSAFETY -DCOLLAPSE}" "${3:-}")
    if ! grep -qF "$1" <<<"$report"; then
        echo "mutant $2: not found, the model cannot tell"
        exit 1
    fi
    echo "mutant $2: found, $(grep -m1 -o 'pan:1: [a-z ]*' <<<"$report" | cut -c8-)"
}

small() {
    passes "two nodes" "-DN=2 -DCRASHES=1 -DRETURNS=1 -DLOSSES=1 -DREPEATS=1 -DDROPS=1"
    passes "two nodes, coordinator restarted" "-DN=2 -DRESTARTS=1"
    # With no progress labels every cycle is one without progress: there is none at all.
    passes "two nodes, no cycles" "-DN=2" "-DNP -DCOLLAPSE" "-l"
    passes "three nodes" "-DN=3"
    passes "four nodes" "-DN=4 -DT=1 -DRETURNS=0"
}

mutants() {
    fails "all_mem[ce]==members" "-DNO_RAISE -DCRASHES=2"
    fails "noise[" "-DKEEP_NOISE"
    fails "ep[i]>=seen[i]" "-DGOES_ON" -E
    fails "last_r[i]" "-DREENTER -DREPEATS=1"
    fails "last_r[i]" "-DSAME_VIEW" -E
    fails "has[i]" "-DSTATELESS -DCRASHES=2"
    fails "invalid end state" "-DNO_REPEAT"
    fails "invalid end state" "-DLATE_GUEST"
    fails "non-progress cycle" "-DN=2 -DFORGETS -DRESTARTS=1 -DLOSSES=0" -l "-DNP -DCOLLAPSE"
    fails "ce<=" "-DLEAVES_EARLY"
    fails "pan:1:" "-DANY_PROCESS -DCRASHES=2"
}

large() {
    passes "three nodes, under any name" "-DN=3 -DANY_NAME"
    passes "three nodes, two crashes" "-DN=3 -DT=1 -DCRASHES=2 -DLOSSES=0"
    passes "three nodes, needless repeats" "-DN=3 -DREPEATS=1"
    passes "four nodes, a crash, a return, a loss" "-DN=4"
    passes "four nodes, two crashes" "-DN=4 -DT=1 -DCRASHES=2 -DRETURNS=0 -DLOSSES=0"
    passes "four nodes, coordinator restarted" "-DN=4 -DT=1 -DRETURNS=0 -DLOSSES=0 -DRESTARTS=1"
}

case "${1:-all}" in
small | mutants | large) "$1" ;;
all) small && mutants ;;
*) sed -n '2,7p' "${BASH_SOURCE[0]}" && exit 2 ;;
esac
echo "check_model: all as it should be"
