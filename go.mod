module github.com/caddy-tally/caddy-tally

go 1.26.0
