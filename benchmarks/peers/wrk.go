//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
)

// answers is what wrk was answered.
type answers struct {
	requests int
	rate     float64 // per second
	failed   int     // with a status above 399, or not answered
	busy     float64 // share of the time that the busiest wrk needed its threads
}

// load sends the requests of a case to all processes of a side, for a period.
func (b *bench) load(ctx context.Context, r *running, k kase) (sum answers, err error) {
	n := len(r.addresses)
	got, failed := make([]answers, n), make([]error, n)
	var wg sync.WaitGroup
	for i, address := range r.addresses {
		wg.Go(func() {
			got[i], failed[i] = b.wrk(ctx, address, b.connections/n, k.keys, r.next+k.apart(n)*i)
		})
	}
	wg.Wait()
	for _, a := range got {
		sum.requests += a.requests
		sum.rate += a.rate
		sum.failed += a.failed
		sum.busy = max(sum.busy, a.busy)
	}
	r.next += k.advance(sum.requests / n)
	return sum, errors.Join(failed...)
}

// freshKeys are more keys than a measurement sends.
const freshKeys = 10_000_000

// apart returns how far the first keys of n processes are from each other.
func (k kase) apart(n int) int {
	if k.keys == 0 {
		return 100 * freshKeys
	}
	return k.keys / n
}

// advance returns by how much the first key moves on after some requests: keys in
// rotation go on where they were, and new ones never come back.
func (k kase) advance(requests int) int {
	if k.keys == 0 {
		return freshKeys
	}
	return requests
}

func (b *bench) wrk(ctx context.Context, address string, connections, keys, start int) (answers, error) {
	command := exec.CommandContext(ctx, "wrk",
		"-t"+strconv.Itoa(b.threads), "-c"+strconv.Itoa(connections), "-d"+strconv.Itoa(int(b.period.Seconds()))+"s", "-s", b.keysScript, "http://"+address+"/")
	command.Env = append(os.Environ(), "KEYS="+strconv.Itoa(keys), "START="+strconv.Itoa(start))
	out, err := command.CombinedOutput()
	if err != nil {
		return answers{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	a, err := parseWrk(string(out))
	cpu := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	a.busy = cpu.Seconds() / b.period.Seconds() / float64(b.threads)
	return a, err
}

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in `)
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkFailed   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors   = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

// parseWrk reads what wrk prints.
func parseWrk(text string) (a answers, err error) {
	requests, rate := wrkRequests.FindStringSubmatch(text), wrkRate.FindStringSubmatch(text)
	if requests == nil || rate == nil {
		return a, fmt.Errorf("wrk: expected numbers of requests, got %q", text)
	}
	if a.requests, err = strconv.Atoi(requests[1]); err != nil {
		return a, err
	}
	if a.rate, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return a, err
	}
	for _, pattern := range []*regexp.Regexp{wrkFailed, wrkErrors} {
		found := pattern.FindStringSubmatch(text)
		for _, number := range found[min(1, len(found)):] {
			n, err := strconv.Atoi(number)
			if err != nil {
				return a, err
			}
			a.failed += n
		}
	}
	return a, nil
}
