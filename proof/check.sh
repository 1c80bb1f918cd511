#!/usr/bin/env bash
# Checks the models in this folder with SPIN: each model must hold in all of its states, and each of its
# mutants must not.
#
#   proof/check.sh              everything, and writes results.txt
#   proof/check.sh -share       the constants in the line "Share:" of each model, in less than two minutes
#   proof/check.sh leases.pml   only these models
#
# In a model's first comment, "Mutant: NAME text" names a fault of the protocol, and "Without: NAME text" an
# assumption that the model fails without. Both may have flags after the name. "Share: flags" are smaller
# constants. JOBS is how many checks run at a time.
set -euo pipefail
cd "$(dirname "$0")"

for command in spin gcc; do
  command -v "$command" >/dev/null || { printf 'the models need %s: install spin and gcc (Debian has packages of these names)\n' "$command"; exit 1; }
done
share=
[ "${1:-}" != -share ] || { share=1; shift; }
models=("$@")
[ $# -gt 0 ] || models=(*.pml)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check runs one model with some flags, and prints a line of results. want is "holds" or "fails".
check() {
  local model=$1 name=$2 want=$3 out states seconds verdict dir
  shift 3
  dir=$(mktemp -d -p "$work")
  cp "$model" "$dir"
  (
    cd "$dir"
    spin -a "$@" "$model" >spin.out 2>&1 || { cat spin.out; exit 1; }
    gcc "$([ "$want" = holds ] && echo -O2 || echo -O1)" -w -DSAFETY -DCOLLAPSE -DNOFAIR -DMEMLIM=3500 -o pan pan.c
    ./pan -E -n -m1000000 >out 2>&1 || :
  ) || { printf '%s %s: does not compile\n' "$model" "$name"; return 1; }
  out=$(cat "$dir/out")
  rm -rf "$dir"
  states=$(sed -nE 's/^ *([0-9]+) states, stored.*/\1/p' <<<"$out")
  seconds=$(sed -nE 's/^pan: elapsed time ([0-9.e+-]+) seconds.*/\1/p' <<<"$out")
  verdict=unknown
  if grep -q 'errors: 0' <<<"$out"; then verdict=holds; fi
  if grep -q 'assertion violated' <<<"$out" && ! grep -q 'invalid array index' <<<"$out"; then verdict=fails; fi
  if grep -qE 'max search depth too small|out of memory|memory limit|Search not completed' <<<"$out" && [ "$verdict" != fails ]; then verdict='not finished'; fi
  printf '%-12s %-10s %-6s %12s states %8s s\n' "$model" "$name" "$verdict" "${states:-?}" "${seconds:-?}"
  [ "$verdict" = "$want" ] && return
  printf '%s %s: %s, want %s\n%s\n' "$model" "$name" "$verdict" "$want" "$out" >&2
  return 1
}
export -f check
export work

# checks prints the arguments of each check of a model.
checks() {
  local model=$1 flags=
  [ -z "$share" ] || flags=$(sed -nE 's/^ *Share: *([^*]*).*/\1/p' "$model")
  printf '%s - holds%s\n' "$model" "${flags:+ ${flags% }}"
  sed -nE "s/^ *(Mutant|Without): *([A-Z]+)(( -D[A-Z]+=[0-9]+)*) .*/$model \2 fails -D\2\3/p" "$model"
}

results=$work/results
for model in "${models[@]}"; do checks "$model"; done \
  | xargs -P "${JOBS:-1}" -L 1 bash -c 'check "$@"' check >"$results" || { sort "$results"; exit 1; }
sort "$results"
if [ -z "$share" ] && [ $# = 0 ]; then
  { printf '# written by make models: SPIN on %s\n' "$(uname -sm)"; sort "$results"; } >results.txt
fi
