#!/usr/bin/env bash
# Measures what the limiter costs end to end: requests per second through Caddy
# with it, as a ratio to the same Caddy process without it, in turn (A B A B …).
# Needs wrk and Go. Results go to standard output.
#
#   benchmarks/e2e/run.sh [REPEATS] [SECONDS]
set -euo pipefail
cd "$(dirname "$0")"
repeats=${1:-5} seconds=${2:-5}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

export TALLY_DB="$work/tally.db" XDG_DATA_HOME="$work" XDG_CONFIG_HOME="$work"
export PORT_PLAIN=18080 PORT_ONE=18081 PORT_MANY=18082 PORT_REFUSE=18083
go build -o "$work/caddy" ../../cmd/caddy
"$work/caddy" run --config Caddyfile --adapter caddyfile 2>"$work/log" &
server=$!
for _ in $(seq 100); do curl -fso /dev/null "localhost:$PORT_PLAIN" && break; sleep 0.1; done

echo "machine: $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(go version | cut -d' ' -f3-4), commit $(git rev-parse --short HEAD), $(date -u +%F)"

# rate PORT CONNECTIONS [SCRIPT]: requests per second
rate() {
	wrk -t2 -c"$2" -d"${seconds}s" ${3:+-s "$3"} "http://localhost:$1/" | awk '/Requests\/sec/ {print $2}'
}

# compare NAME PORT CONNECTIONS [SCRIPT]
compare() {
	local name=$1 port=$2 connections=$3 script=${4:-} ratios=()
	rate "$port" "$connections" "$script" >/dev/null # warm up
	for i in $(seq "$repeats"); do
		export START=$((i * 20000000))
		local with without
		with=$(rate "$port" "$connections" "$script")
		without=$(rate "$PORT_PLAIN" "$connections" "$script")
		ratios+=("$(awk "BEGIN {printf \"%.3f\", $with / $without}")")
		echo "raw $name c=$connections with=$with without=$without"
	done
	printf '%s\n' "${ratios[@]}" | sort -n | awk -v name="$name c=$connections" '
		{ r[NR] = $1 } END { printf "ratio %-24s min %.3f median %.3f max %.3f\n", name, r[1], r[int((NR + 1) / 2)], r[NR] }'
}

for connections in 32 128; do
	KEYS=1 compare one_key $PORT_ONE $connections
	KEYS=100000 compare 100k_keys_in_rotation $PORT_MANY $connections keys.lua
	KEYS=1 compare all_refused $PORT_REFUSE $connections
	KEYS=0 compare every_key_fresh $PORT_MANY $connections keys.lua
	echo "resident c=$connections $(awk '/VmRSS/ {print int($2 / 1024) " MiB"}' /proc/$server/status)"
done
echo "errors logged:"
grep '"level":"error"' "$work/log" | head -5 || true
