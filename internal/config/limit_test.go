package config

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/limiter"
)

func TestLimitCompile(t *testing.T) {
	minute := caddy.Duration(time.Minute)
	for _, tt := range []struct {
		in        Limit
		algorithm limiter.Algorithm
		capacity  int64
		slots     int64
	}{
		{Limit{Amount: 5, Window: minute}, limiter.Sliding, 5, 60},
		{Limit{Amount: 5, Window: minute, Algorithm: "sliding"}, limiter.Sliding, 5, 60},
		{Limit{Amount: 5, Window: minute, Slots: 12}, limiter.Sliding, 5, 12},
		{Limit{Amount: 5, Window: minute, Algorithm: "fixed"}, limiter.Fixed, 5, 1},
		{Limit{Amount: 5, Window: minute, Burst: 9}, limiter.TokenBucket, 9, 0},
		{Limit{Amount: 5, Window: minute, Algorithm: "token_bucket"}, limiter.TokenBucket, 5, 0},
		{Limit{Amount: 5, Window: minute, Algorithm: "token_bucket", Burst: 2}, limiter.TokenBucket, 2, 0},
	} {
		got, err := tt.in.Compile()
		if err != nil {
			t.Errorf("%+v: %v", tt.in, err)
			continue
		}
		if got.Algorithm() != tt.algorithm || got.Capacity() != tt.capacity || got.Slots() != tt.slots ||
			got.Amount() != 5 || got.Window() != time.Minute {
			t.Errorf("%+v compiles to %+v", tt.in, got)
		}
	}
}

func TestLimitCompileRefuses(t *testing.T) {
	minute := caddy.Duration(time.Minute)
	for _, tt := range []struct {
		in   Limit
		want string
	}{
		{Limit{}, "window must be at least 100ms, got 0s"},
		{Limit{Window: minute}, "amount must be between 1 and 1099511627776 (2^40), got 0"},
		{Limit{Amount: 5, Window: minute, Algorithm: "Sliding"}, `unknown algorithm "Sliding": expected sliding, fixed or token_bucket`},
		{Limit{Amount: 5, Window: minute, Algorithm: "sliding", Burst: 5}, "a burst belongs to a token bucket, not to sliding"},
		{Limit{Amount: 5, Window: minute, Algorithm: "fixed", Burst: 5}, "a burst belongs to a token bucket, not to fixed"},
		{Limit{Amount: 5, Window: minute, Burst: -1}, "burst must be between 1 and 1099511627776 (2^40), got -1"},
		{Limit{Amount: 5, Window: minute, Slots: -1}, "slots must be between 1 and 10000, got -1"},
	} {
		if _, err := tt.in.Compile(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error is %v, want %q in it", tt.in, err, tt.want)
		}
	}
}
