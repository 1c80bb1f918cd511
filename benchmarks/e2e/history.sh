#!/usr/bin/env bash
# Measures what the history costs end to end: processor time per request of a Caddy that
# keeps one, as a ratio to a Caddy with `history off`, in turn (A B B A A B …). Processor
# time rather than requests per second, so that it means something on a machine that
# does other things, too. Needs wrk, Go and Linux. Results go to standard output.
#
#   benchmarks/e2e/history.sh [REPEATS] [SECONDS]
set -euo pipefail
cd "$(dirname "$0")"
repeats=${1:-15} seconds=${2:-2} port=${PORT:-18180}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

go build -o "$work/server" ../../cmd/caddy
# serve NAME PORT OPTION starts a Caddy of its own, and sets $pid.
serve() {
	mkdir "$work/$1"
	TALLY_DB="$work/$1/tally.db" XDG_DATA_HOME="$work/$1" XDG_CONFIG_HOME="$work/$1" HISTORY="$3" \
		PORT_PLAIN=$2 PORT_ONE=$(($2 + 1)) PORT_MANY=$(($2 + 2)) PORT_REFUSE=$(($2 + 3)) \
		"$work/server" run --config Caddyfile --adapter caddyfile 2>"$work/$1/log" &
	pid=$!
	for _ in $(seq 100); do curl -fso /dev/null "localhost:$2" && return; sleep 0.1; done
}
serve on "$port" "" && with=$pid
serve off $((port + 10)) "history off" && without=$pid

../machine.sh
echo "repeats: $repeats of $seconds s"

# cpu PID: the processor time that a process has taken, in ticks of 10 ms
cpu() { awk '{print $14 + $15}' "/proc/$1/stat"; }

# cost PID PORT [SCRIPT]: processor time per request, in microseconds
cost() {
	local before requests
	before=$(cpu "$1")
	requests=$(wrk -t2 -c32 -d"${seconds}s" ${3:+-s "$3"} "http://localhost:$2/" | awk '/requests in/ {print $1}')
	awk "BEGIN {printf \"%.3f\", ($(cpu "$1") - $before) * 10000 / $requests}"
}

export START=0
# compare NAME OFFSET [SCRIPT]
compare() {
	local name=$1 offset=$2 script=${3:-} ratios=() on off
	cost "$with" $((port + offset)) "$script" >/dev/null # warm up
	cost "$without" $((port + 10 + offset)) "$script" >/dev/null
	for i in $(seq "$repeats"); do
		if ((i % 2)); then
			on=$(cost "$with" $((port + offset)) "$script")
			off=$(cost "$without" $((port + 10 + offset)) "$script")
		else
			off=$(cost "$without" $((port + 10 + offset)) "$script")
			on=$(cost "$with" $((port + offset)) "$script")
		fi
		ratios+=("$(awk "BEGIN {printf \"%.4f\", $on / $off}")")
		echo "raw $name on=$on off=$off µs"
	done
	printf '%s\n' "${ratios[@]}" | sort -n | awk -v name="$name" '
		{ r[NR] = $1 } END { printf "ratio %-24s min %.3f median %.3f max %.3f\n", name, r[1], r[int((NR + 1) / 2)], r[NR] }'
}

KEYS=1 compare one_key 1
KEYS=100000 compare 100k_keys_in_rotation 2 keys.lua
KEYS=1 compare all_refused 3
