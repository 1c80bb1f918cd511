package limiter_test

import (
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// A claim for exactly the cost of a request is the decision about it.
func ExampleLimit_Claim() {
	limit, err := limiter.New(limiter.Params{Amount: 2, Window: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	var client limiter.State
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, at := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		claim := limiter.Claim{Now: start.Add(at).UnixNano(), Min: 1, Want: 1}
		grant := limit.Claim(&client, claim)
		if grant.Refused(claim) {
			fmt.Println(at, "refused, retry in", grant.Retry.Round(time.Second))
			continue
		}
		fmt.Println(at, "allowed,", limit.Capacity()-grant.Used, "left")
	}
	// Output:
	// 0s allowed, 1 left
	// 10s allowed, 0 left
	// 20s refused, retry in 41s
}

// A lease is claimed once and spent many times. The rest of it is given back.
func ExampleLease() {
	limit, err := limiter.New(limiter.Params{Amount: 100, Window: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	var stored limiter.State // in the store
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()

	var lease limiter.Lease // in a process
	grant := limit.Claim(&stored, limiter.Claim{Now: now, Min: 1, Want: 1, Extra: 16})
	lease.Join(&limit, grant.Lease)
	fmt.Println("granted", grant.Units)

	for range 3 {
		fmt.Println("spent", lease.Spend(&limit, now, 1), "worth", lease.Worth(&limit, now))
	}
	fmt.Println("remaining", lease.Quota(&limit, now).Remaining)

	limit.Claim(&stored, limiter.Claim{Now: now, Return: lease})
	fmt.Println("in use", stored.Slots[0].Used)
	// Output:
	// granted 13
	// spent true worth 12
	// spent true worth 11
	// spent true worth 10
	// remaining 97
	// in use 3
}
