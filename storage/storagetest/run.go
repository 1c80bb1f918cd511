// Package storagetest is the conformance suite of stores: what every
// [storage.Store] promises, asserted from outside. It knows nothing of how a
// store works.
//
// # Invariants that it holds a store to
//
//   - Every grant is the one that [limiter.Limit.Claim] gives on the state that
//     the claims before it have left, across batches and reopening.
//   - Handles on one place together grant what one would.
//   - An order of atomic calls explains what concurrent calls are answered. [Atomic] holds a store to that over
//     faults, too.
//   - A call that fails because of its context, or because the store is closed,
//     changes nothing.
//   - A sweep takes away what no longer counts and nothing else, a bounded number
//     of rows at a time.
//   - There is one time for all processes; a call whose term does not hold changes nothing.
//   - A probe returns what a claim would be granted, and changes nothing.
//   - A reset is done once. Units charged before it are not given back after it.
//   - The bans in force are listed. Audit entries are in the order of their times.
//   - A [storage.Historian] adds each report once.
//   - A [storage.Local] grants at once what [limiter.Limit.ClaimKnown] grants, while no other process
//     charges it, and later claims find the charge.
//   - A [storage.Network] answers Records and Claim in one call, reports each change of a record or
//     note once, keeps the later of two changes, and swaps a value only for the present one.
package storagetest

import (
	"context"
	"slices"
	"testing"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// MaxStep is the maximum number of rows that one step of a sweep may delete.
const MaxStep = 1000

// Place makes a fresh place for a store to keep its counters in, and returns a
// function that opens a store there. It is called several times for one place,
// also while stores that it opened before are in use. The suite closes what it
// opens.
type Place func(t *testing.T) (open storage.Opener)

// ServerTime names the test that does not apply to stores with a server's clock, see
// [storage.ServerTime]: the clock of a process doesn't set their time.
const ServerTime = "TimeSetBack"

// SweptByServer names the tests that do not apply to stores whose server deletes expired counts and records
// by itself. They count the rows that a sweep deletes.
var SweptByServer = []string{"SweepExpired", "SweepLongWindows", "SweepBesideAnother", "SweepForeignLimits",
	"SweepRenamed", "SweepStandings", "SweepCounted"}

// test is a test of the suite.
type test struct {
	name string
	run  func(t *testing.T, open storage.Opener)
}

// Run runs the suite for a kind of store, except for the tests named by except.
func Run(t *testing.T, place Place, except ...string) {
	tests := storeTests
	opened := must(t, place(t))
	_, isLocal := opened.(storage.Local)
	_, isNetwork := opened.(storage.Network)
	switch {
	case isLocal == isNetwork:
		t.Fatal("the store must be either a storage.Local or a storage.Network")
	case isLocal:
		tests = append(slices.Clip(tests), localTests...)
	default:
		tests = append(slices.Clip(tests), networkTests...)
	}
	if _, ok := opened.(storage.Historian); ok {
		tests = append(slices.Clip(tests), historyTests...)
	}
	for _, test := range tests {
		if !slices.Contains(except, test.name) {
			t.Run(test.name, func(t *testing.T) { test.run(t, place(t)) })
		}
	}
	if isLocal {
		t.Run("AtOnceModel", func(t *testing.T) {
			seeds(t, 4, func(t *testing.T, seed uint64) { testAtOnceModel(t, place(t), seed) })
		})
	}
	t.Run("Continues", func(t *testing.T) { testContinues(t, place(t), place(t)) })
}

var storeTests = []test{
	{"Model", testModel},
	{"OneBatch", testOneBatch},
	{"KeysAndLimitsApart", testApart},
	{"HugeValues", testHugeValues},
	{"BadCalls", testBadCalls},
	{"Cancelled", testCancelled},
	{"TwoHandles", testTwoHandles},
	{"Together", testTogether},
	{"Atomic", testAtomic},
	{"NewKeysTogether", testNewKeysTogether},
	{"SweepExpired", testSweepExpired},
	{"SweepLongWindows", testSweepLongWindows},
	{"SweepBesideAnother", testSweepBesideAnother},
	{"SweepWhileClaiming", testSweepWhileClaiming},
	{"SweepForeignLimits", testSweepForeignLimits},
	{"RenamedKeys", testRenamedKeys},
	{"NamesThatMeet", testNamesThatMeet},
	{"SweepRenamed", testSweepRenamed},
	{"Standings", testStandings},
	{"Renamed", testRenamed},
	{"BanUnderTwoNames", testBanUnderTwoNames},
	{"SweepStandings", testSweepStandings},
	{"SweepCounted", testSweepCounted},
	{"BadStandings", testBadStandings},
	{"Banned", testBanned},
	{"OneTime", testOneTime},
	{"Terms", testTerms},
	{ServerTime, testTimeSetBack},
	{"Probe", testProbe},
	{"Reset", testReset},
	{"ResetClient", testResetClient},
	{"ResetTerm", testResetTerm},
	{"ResetAgain", testResetAgain},
	{"ResetBad", testResetBad},
	{"ResetsKept", testResetsKept},
	{"Acts", testActs},
	{"Stats", testStats},
	{"Close", testClose},
}

var localTests = []test{
	{"AtOnce", testAtOnce},
	{"PeriodsEnd", testPeriodsEnd},
}

var networkTests = []test{
	{"ClaimFor", testClaimFor},
	{"ClaimForFails", testClaimForFails},
	{"News", testNews},
	{"NewsMissed", testNewsMissed},
	{"Notes", testNotes},
	{"NotesReplayed", testNotesReplayed},
	{"NotesFull", testNotesFull},
	{"NotesBad", testNotesBad},
	{"NotesSwept", testNotesSwept},
	{"Vault", testVault},
	{"VaultAtOnce", testVaultAtOnce},
}

var historyTests = []test{
	{"History", testHistory},
	{"HistoryKept", testHistoryKept},
	{"Heaviest", testHeaviest},
	{"HistoryBad", testHistoryBad},
}

// must opens a store, and closes it at the end of the test.
func must(t *testing.T, open storage.Opener) storage.Store {
	t.Helper()
	s, err := open(context.Background())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a second time, in most tests
	return s
}

// network opens a store for several machines.
func network(t *testing.T, open storage.Opener) storage.Network {
	t.Helper()
	return must(t, open).(storage.Network)
}

// claim sends a batch at the time of its first claim, and fails the test on an error.
func claim(t *testing.T, s storage.Store, claims ...storage.Claim) []limiter.Grant {
	t.Helper()
	return claimIn(t, s, At(claims[0].Now), claims...)
}

// claimIn sends a batch within a term, and fails the test on an error.
func claimIn(t *testing.T, s storage.Store, term *storage.Term, claims ...storage.Claim) []limiter.Grant {
	t.Helper()
	grants := make([]limiter.Grant, len(claims))
	if err := s.Claim(context.Background(), term, claims, grants); err != nil {
		t.Fatalf("claim: %v", err)
	}
	for i := range claims {
		if claims[i].Now != term.Time.Now {
			t.Fatalf("claim %d has the time %d, want that of the term, %d", i, claims[i].Now, term.Time.Now)
		}
	}
	return grants
}

// sweepAll sweeps completely, and returns the number of deleted rows.
func sweepAll(t testing.TB, s storage.Store, term *storage.Term) (rows int64) {
	t.Helper()
	for range 100_000 {
		swept, err := s.Sweep(context.Background(), term)
		if err != nil {
			t.Fatalf("sweep: %v", err)
		}
		if swept.Rows < 0 || swept.Rows > MaxStep {
			t.Fatalf("one step of a sweep deleted %d rows, want at most %d", swept.Rows, MaxStep)
		}
		rows += swept.Rows
		if !swept.More {
			return rows
		}
	}
	t.Fatal("a sweep never ends")
	return 0
}

func newLimit(t testing.TB, p limiter.Params) limiter.Limit {
	t.Helper()
	l, err := limiter.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func key(n int) (k storage.Key) {
	// Keys are hashes: spread them, and leave none that starts like another.
	x := uint64(n)*0x9e3779b97f4a7c15 + 1
	for i := range k {
		k[i] = byte(x >> (8 * (i % 8)))
		x ^= x >> 7
	}
	k[14], k[15] = byte(n>>8), byte(n)
	return k
}
