#!/usr/bin/env bash
# What attacks show, case by case: runs with fixed seeds, attacks on what was recorded, one table.
# Usage: scripts/attack_figures.sh [digits] [mnist] [adult]    (default: digits)
# OUT is where runs and results go (default runs/attack-figures); mnist and adult need LPPA_DATA.
# ONLY=PATTERN makes only the cases whose name has it, e.g. ONLY=directed-ring.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up
out=${OUT:-runs/attack-figures}
seeds=(1 2 3)
# The paper's setting with one step a round: noise at the start only, unless a case says otherwise.
paper="--preset paper --noise-every 0 --noise-exchange tensor --beta 0.025 --local-steps 1 --rounds 3"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$out"
tables=()

# One case: the same run for each seed, then attacks on all of them, as one JSON file.
# Usage: case NAME "SEEDS" "OPTIONS OF lppa run" "OPTIONS OF lppa attack"
case_of() {
    local name=$1 runs=() seed
    [[ $name == *${ONLY:-}* ]] || return 0
    for seed in $2; do
        runs+=("$out/$name-seed-$seed")
        rm -rf "$out/$name-seed-$seed"
        # shellcheck disable=SC2086
        "$venv/bin/lppa" run -q --seed "$seed" --reveal-batches --eval-samples 100 \
            --out "$out/$name-seed-$seed" $3 >/dev/null
    done
    # shellcheck disable=SC2086
    "$venv/bin/lppa" attack "${runs[@]}" $4 --json >"$out/$name.json"
    tables+=("$out/$name.json")
    echo "done: $name" >&2
}

images() {
    local data=$1
    local first="--dataset $data $paper --batch 1"
    local lenet="$first --model lenet"
    local five="-n 5 --attacker 4 --rule lppa"
    case_of "$data-dsgt-lenet" 1 "-n 11 --attacker 10 --rule dsgt $lenet" \
        "--attack naive/dlg --victim all"
    case_of "$data-dsgt-cnn" 1 "-n 11 --attacker 10 --rule dsgt $first --model cnn" \
        "--attack naive/cosine --victim all"
    case_of "$data-lppa-next" "${seeds[*]}" "$five $lenet" \
        "--attack naive/dlg,neighbour/likelihood,difference/dlg --victim all"
    case_of "$data-lppa-same" "${seeds[*]}" "$five $lenet --batches same" \
        "--attack difference/dlg --victim all"
    case_of "$data-lppa-every-round" "${seeds[*]}" "$five $lenet --noise-every 1" \
        "--attack difference/dlg --victim all"
    # Each node of a directed ring hears only the one before it: six pairs of attacker and victim.
    local ring="-n 12 --topology directed-ring --attacker 1,3,5,7,9,11 $lenet"
    case_of "$data-directed-ring-lppa" 1 "$ring --rule lppa" \
        "--attack neighbour/likelihood --victim all"
    case_of "$data-directed-ring-dp" 1 "$ring --rule dp" \
        "--attack neighbour/likelihood --victim all"
    local many="-n 5 --attacker 4 --dataset $data $paper"
    many="$many --batch 256 --partition dirichlet:0.5"
    case_of "$data-labels-dsgt" "${seeds[*]}" "$many --rule dsgt" \
        "--attack naive/labels --victim all"
    case_of "$data-labels-lppa" "${seeds[*]}" "$many --rule lppa" \
        "--attack naive/labels,neighbour/labels,difference/labels --victim all"
}

tables_of_numbers() {
    local data=$1
    local rows="-n 5 --attacker 4 --dataset $data $paper --batch 1"
    case_of "$data-svd-dsgt" "${seeds[*]}" "$rows --rule dsgt" "--attack naive/svd --victim all"
    case_of "$data-svd-lppa" "${seeds[*]}" "$rows --rule lppa" \
        "--attack naive/svd,neighbour/svd,neighbour/likelihood,difference/svd --victim all"
}

for data in "${@:-digits}"; do
    case $data in
    digits | mnist) images "$data" ;;
    adult) tables_of_numbers "$data" ;;
    *) fail "'$data' is not one of digits, mnist, adult" ;;
    esac
done
[ ${#tables[@]} -gt 0 ] || fail "no case has '${ONLY:-}' in its name"
"$venv/bin/python" -m lppa.attack.totals "${tables[@]}" | tee "$out/totals.md"
