#!/usr/bin/env bash
# What runs survive, as figures: processes killed, nodes lost, messages spoiled, connections cut.
# Usage: scripts/chaos.sh [kills|losses|coordinators|cuts|soak|fuzz|floods|links ...]   default: all but soak
#   kills         200 kills of nodes, launchers and whole runs; results must be the same bits
#   losses        nodes lost for good under --on-failure continue; time to notice; slow nodes
#   coordinators  the coordinator killed in each phase, and another one started
#   cuts          100 encrypted runs whose connections are cut; results must be the same bits
#   soak          two hours with a kill every minute and a return after it (SOAK=SECONDS for less)
#   fuzz          a million spoiled messages, logs and address books
#   floods        memory and speed under each flood
#   links         connections that are cut, delayed and stalled
# Results go to runs/chaos/*.jsonl (OUT=FOLDER for elsewhere); what is there is not done again.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up '[dev]'
out=${OUT:-runs/chaos}
mkdir -p "$out"
python=$venv/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ended=0
for part in "${@:-kills losses coordinators cuts fuzz floods links}"; do
    for one in $part; do
        echo "== $one"
        case $one in
        kills | losses | coordinators | cuts | soak)
            "$python" "$root/scripts/chaos.py" "$one" --work "$work" --results "$out/$one.jsonl" \
                ${SOAK:+$([ "$one" = soak ] && echo --seconds "$SOAK")} || ended=1
            ;;
        fuzz) "$python" "$root/scripts/fuzz.py" --kept "$out/fuzz.jsonl" || ended=1 ;;
        floods) "$python" "$root/scripts/flood.py" all || ended=1 ;;
        links)
            "$python" -m pytest -q "$root/tests/runs/test_broken_network.py" \
                "$root/tests/protocol/test_broken_links.py" || ended=1
            ;;
        *) fail "there is no $one; see the first lines of this script" ;;
        esac
    done
done
exit "$ended"
