package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-tally/caddy-tally/storage"
)

// testActs records acts of all lists, which are kept apart and for a time.
func testActs(t *testing.T, open storage.Opener) {
	s := must(t, open)
	for log := range storage.Logs {
		checkActs(t, s, must(t, open), log)
	}
	other := must(t, open)
	charges, err := other.Acts(context.Background(), storage.Charges, math.MaxInt64, storage.MaxActs)
	if err != nil || len(charges) != 50 || charges[0].Reason != "of 1" {
		t.Errorf("the charges are %v, %v", charges, err)
	}
	long := storage.Act{At: start + int64(time.Hour), By: "a\nb\x00\xffc\u202e", Reason: strings.Repeat("é", 2000)}
	if err := s.Audit(context.Background(), storage.Audit, &long); err != nil {
		t.Fatal(err)
	}
	page, err := s.Acts(context.Background(), storage.Audit, math.MaxInt64, 1)
	if err != nil || len(page) != 1 || page[0] != long || len(long.Reason) > storage.MaxReason ||
		!utf8.ValidString(long.Reason) || strings.ContainsAny(long.By, "\n\x00\u202e") {
		t.Errorf("got %+v, %v, want it cut", page, err)
	}

	later := start + int64(storage.KeepActs) + int64(time.Minute)
	if history, ok := s.(storage.Historian); ok {
		report(t, history, later, storage.Report{Writer: 1, Number: 1})
	}
	sweepAll(t, s, At(later))
	if page, err := s.Acts(context.Background(), storage.Audit, math.MaxInt64, 10); err != nil || len(page) != 1 ||
		page[0] != long {
		t.Errorf("after %v there are %v (%v), want the last one", storage.KeepActs, page, err)
	}
	if page, err := s.Acts(context.Background(), storage.Charges, math.MaxInt64, 10); err != nil || len(page) != 0 {
		t.Errorf("after %v there are %v (%v), want no charges", storage.KeepActs, page, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Audit(context.Background(), storage.Audit, &long); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
	if _, err := s.Acts(context.Background(), storage.Audit, 0, 1); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
}

// checkActs records acts of a list, some of them with equal times, and reads them page by page.
func checkActs(t *testing.T, s, other storage.Store, log storage.Log) {
	t.Helper()
	var want []storage.Act
	for n := range 50 {
		act := storage.Act{At: start + int64(n/3)*10, By: "admin", Action: "ban", Target: fmt.Sprint(n),
			Kind: "network", Reason: fmt.Sprint("of ", log)}
		if err := s.Audit(context.Background(), log, &act); err != nil {
			t.Fatal(err)
		}
		want = append(want, act)
	}
	slices.Reverse(want)
	var got []storage.Act
	for before := int64(math.MaxInt64); ; {
		page, err := other.Acts(context.Background(), log, before, 7)
		if err != nil || len(page) > 7 {
			t.Fatalf("got %d acts, %v", len(page), err)
		}
		if len(page) == 0 {
			break
		}
		got, before = append(got, page...), page[len(page)-1].At
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
