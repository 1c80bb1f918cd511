#!/usr/bin/env bash
# Measures what the limiter costs end to end: requests per second through Caddy
# with it, as a ratio to the same Caddy process without it, in turn (A B B A A B …).
# Needs wrk and Go. Results go to standard output.
#
#   benchmarks/e2e/run.sh [REPEATS] [SECONDS]
#
# PORT is the first of the four ports that Caddy listens on.
set -euo pipefail
cd "$(dirname "$0")"
repeats=${1:-5} seconds=${2:-5} port=${PORT:-18080}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

export TALLY_DB="$work/tally.db" XDG_DATA_HOME="$work" XDG_CONFIG_HOME="$work"
export PORT_PLAIN=$port PORT_ONE=$((port + 1)) PORT_MANY=$((port + 2)) PORT_REFUSE=$((port + 3))
go build -o "$work/server" ../../cmd/caddy
"$work/server" run --config Caddyfile --adapter caddyfile 2>"$work/log" &
server=$!
for _ in $(seq 100); do curl -fso /dev/null "localhost:$PORT_PLAIN" && break; sleep 0.1; done

../machine.sh
echo "repeats: $repeats of $seconds s"

# rate PORT CONNECTIONS [SCRIPT]: requests per second
rate() {
	wrk -t2 -c"$2" -d"${seconds}s" ${3:+-s "$3"} "http://localhost:$1/" | awk '/Requests\/sec/ {print $2}'
}

# START is the first key of a measurement. It never comes back, or keys would not
# be fresh.
export START=0
fresh_keys() { START=$((START + 10000000)); }

# compare NAME PORT CONNECTIONS [SCRIPT]
compare() {
	local name=$1 port=$2 connections=$3 script=${4:-} ratios=() with without
	fresh_keys
	rate "$port" "$connections" "$script" >/dev/null # warm up
	for i in $(seq "$repeats"); do
		fresh_keys
		if ((i % 2)); then
			with=$(rate "$port" "$connections" "$script")
			without=$(rate "$PORT_PLAIN" "$connections" "$script")
		else
			without=$(rate "$PORT_PLAIN" "$connections" "$script")
			with=$(rate "$port" "$connections" "$script")
		fi
		ratios+=("$(awk "BEGIN {printf \"%.3f\", $with / $without}")")
		echo "raw $name c=$connections with=$with without=$without"
	done
	printf '%s\n' "${ratios[@]}" | sort -n | awk -v name="$name c=$connections" '
		{ r[NR] = $1 } END { printf "ratio %-30s min %.3f median %.3f max %.3f\n", name, r[1], r[int((NR + 1) / 2)], r[NR] }'
	echo "resident after $name c=$connections: $(awk '/VmRSS/ {print int($2 / 1024) " MiB"}' /proc/$server/status)"
}

for connections in 32 128; do
	KEYS=1 compare one_key $PORT_ONE $connections
	KEYS=100000 compare 100k_keys_in_rotation $PORT_MANY $connections keys.lua
	KEYS=1 compare all_refused $PORT_REFUSE $connections
	KEYS=0 compare every_key_fresh $PORT_MANY $connections keys.lua
done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
echo "times that the store couldn't be used: $(grep -c "the store can't be used" "$work/log" || true) (if not 0, the machine was too busy, and the ratios say nothing)"
echo "errors logged: $(grep -c '"level":"error"' "$work/log" || true)"
grep '"level":"error"' "$work/log" | head -5 || true
