#!/bin/sh
# Shows that a limit holds over kill -9: starts a Caddy, sends 3 of the 5 requests that it lets pass,
# kills it, starts it again, and sends until one is refused.
#
#   examples/kill.sh                builds Caddy first, which takes minutes the first time
#   examples/kill.sh /path/caddy    takes this one, which must have the module
#
# Needs curl. It listens on a free port of 127.0.0.1, keeps everything in a folder of its own, and
# leaves nothing behind.
set -eu

folder=$(mktemp -d)
caddy= # the process
trap 'stop; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM

main() {
  command -v curl >/dev/null || fail 'There is no curl: install it first.'
  binary=${1:-}
  [ -n "$binary" ] || build
  find_port
  write_config
  say 'The limit is 5 requests in 10 minutes.'
  start
  expect 200 200 200
  say "kill -9 $caddy"
  stop
  start
  expect 200 200 429
  say 'The 3 requests from before the kill still count.'
}

build() {
  say 'Building Caddy. This takes minutes the first time, and seconds later.'
  binary=$folder/caddy
  (cd "$(dirname "$0")/.." && CGO_ENABLED=0 go build -o "$binary" ./cmd/caddy)
}

# find_port finds a port where nobody listens.
find_port() {
  port=$((20000 + $$ % 10000))
  while answers; do port=$((port + 1)); done
}

# answers reports whether somebody listens on the port.
answers() {
  curl -s -o /dev/null --noproxy '*' "http://127.0.0.1:$port/ready" || [ $? -ne 7 ]
}

write_config() {
  cat >"$folder/Caddyfile" <<END
{
	admin off
	persist_config off
	auto_https off
	rate_limit {
		store_timeout 10s
	}
}

http://127.0.0.1:$port {
	rate_limit {
		zone login {
			match POST /login
			per ip
			limit 5/10m
		}
	}
	respond ok
}
END
}

# start starts Caddy and waits until it answers.
start() {
  HOME=$folder XDG_DATA_HOME=$folder/data XDG_CONFIG_HOME=$folder/config \
    "$binary" run --config "$folder/Caddyfile" --adapter caddyfile >>"$folder/log" 2>&1 &
  caddy=$!
  until answers; do
    kill -0 "$caddy" 2>/dev/null || fail 'Caddy does not start:'
    sleep 0.1
  done
  say "Caddy runs as process $caddy on port $port."
}

# stop kills Caddy.
stop() {
  [ -n "$caddy" ] || return 0
  kill -9 "$caddy" 2>/dev/null || :
  wait "$caddy" 2>/dev/null || :
  caddy=
}

# expect sends a request for each status, which it must get.
expect() {
  for want; do
    got=$(curl -s -o /dev/null --noproxy '*' -w '%{http_code}' -X POST "http://127.0.0.1:$port/login") || :
    say "  POST /login  $got"
    [ "$got" = "$want" ] || fail "expected $want; Caddy says:"
  done
}

say() { printf '%s\n' "$*"; }

fail() {
  say "$*" >&2
  cat "$folder/log" >&2 2>/dev/null || :
  exit 1
}

main "$@"
