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

// testActs records acts, some of them with equal times, and reads them page by page.
func testActs(t *testing.T, open storage.Opener) {
	s := must(t, open)
	other, want := must(t, open), []storage.Act(nil)
	for n := range 50 {
		act := storage.Act{At: start + int64(n/3)*10, By: "admin", Action: "ban", Target: fmt.Sprint(n), Kind: "network", Reason: "scraper"}
		if err := s.Audit(context.Background(), &act); err != nil {
			t.Fatal(err)
		}
		want = append(want, act)
	}
	slices.Reverse(want)
	var got []storage.Act
	for before := int64(math.MaxInt64); ; {
		page, err := other.Acts(context.Background(), before, 7)
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

	long := storage.Act{At: start + int64(time.Hour), By: "a\nb\x00\xffc\u202e", Reason: strings.Repeat("é", 2000)}
	if err := s.Audit(context.Background(), &long); err != nil {
		t.Fatal(err)
	}
	page, err := s.Acts(context.Background(), math.MaxInt64, 1)
	if err != nil || len(page) != 1 || page[0] != long || len(long.Reason) > storage.MaxReason || !utf8.ValidString(long.Reason) || strings.ContainsAny(long.By, "\n\x00\u202e") {
		t.Errorf("got %+v, %v, want it cut", page, err)
	}

	later := start + int64(storage.KeepActs) + int64(time.Minute)
	if history, ok := s.(storage.Historian); ok {
		report(t, history, later, storage.Report{Writer: 1, Number: 1})
	}
	sweepAll(t, s, later)
	if page, err := s.Acts(context.Background(), math.MaxInt64, 10); err != nil || len(page) != 1 || page[0] != long {
		t.Errorf("after %v there are %v (%v), want the last one", storage.KeepActs, page, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Audit(context.Background(), &long); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
	if _, err := s.Acts(context.Background(), 0, 1); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
}
