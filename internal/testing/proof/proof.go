// Package proof sets the depth of the tests. By default they cover every promise once, and fast:
// "go test ./..." is for every change. With PROOF in the environment they go deeper: more seeds,
// more kills, longer loads, all widths of pages, and tests that have no short form.
//
// PROOF is a share of the whole depth: "make proof" sets 1, CI a fraction of it. It is for tests
// only (decision 131).
package proof

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
)

// share is the value of PROOF: 0 if it isn't set.
var share = sync.OnceValue(func() float64 {
	share, err := parse(os.Getenv("PROOF"))
	if err != nil {
		panic(err)
	}
	return share
})

// parse parses a value of PROOF, which is not negative. The empty value means 0.
func parse(value string) (float64, error) {
	if value == "" {
		return 0, nil
	}
	share, err := strconv.ParseFloat(value, 64)
	if err != nil || !(share >= 0 && share <= 1e6) {
		return 0, fmt.Errorf("PROOF is %q; set it to a share of the whole depth from 0 to 1000000, for example 1 or 0.05", value)
	}
	return share, nil
}

// Times returns how often a test repeats: quick times by default, and with PROOF its share of
// thorough, but at least quick times.
func Times(quick, thorough int) int { return times(share(), quick, thorough) }

func times(share float64, quick, thorough int) int {
	return max(quick, int(share*float64(thorough)))
}

// Sample returns the size of a sample that shows a promise, and with PROOF, whatever its share, the whole
// size: for tests whose whole size takes seconds.
func Sample(sample, whole int) int {
	if IsOn() {
		return whole
	}
	return sample
}

// IsOn reports whether PROOF asks for more than the default depth.
func IsOn() bool { return share() > 0 }

// Only skips a test that has no short form, unless PROOF is set. Another test must cover the same
// promise in short form.
func Only(t testing.TB) {
	t.Helper()
	if !IsOn() {
		t.Skip("has no short form; PROOF=1 runs it, as make proof does")
	}
}

// Deep skips a test that builds programs, or takes minutes for another reason, unless PROOF is at least 0.1.
func Deep(t testing.TB) {
	t.Helper()
	if share() < 0.1 {
		t.Skip("takes minutes; PROOF=0.1 runs it")
	}
}

// Overlap makes parallel tests of a package overlap eight at a time, unless -parallel is given:
// tests that mostly wait, for servers, processes or time to pass. TestMain calls it.
func Overlap() {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("8")
	}
}
