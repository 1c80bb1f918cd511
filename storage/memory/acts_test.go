package memory

import (
	"context"
	"math"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Each list keeps its newest acts. Charges displace nothing that operators did.
func TestActsAreBounded(t *testing.T) {
	s, err := New().Opener(Options{})(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Audit(context.Background(), storage.Audit, &storage.Act{At: 1, Action: "ban"}); err != nil {
		t.Fatal(err)
	}
	for n := range storage.MaxActsKept + 1000 {
		if err := s.Audit(context.Background(), storage.Charges, &storage.Act{At: int64(n), Action: "charge"}); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for before := int64(math.MaxInt64); ; {
		page, err := s.Acts(context.Background(), storage.Charges, before, storage.MaxActs)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		kept, before = kept+len(page), page[len(page)-1].At
	}
	if kept < storage.MaxActsKept || kept > storage.MaxActsKept+256 {
		t.Errorf("%d charges are kept, want %d and at most 256 more", kept, storage.MaxActsKept)
	}
	if acts, err := s.Acts(context.Background(), storage.Audit, math.MaxInt64, 10); err != nil || len(acts) != 1 || acts[0].Action != "ban" {
		t.Errorf("the audit has %+v, %v", acts, err)
	}
}
