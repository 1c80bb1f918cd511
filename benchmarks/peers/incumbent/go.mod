module github.com/caddy-tally/caddy-tally/benchmarks/peers/incumbent

go 1.26.0
