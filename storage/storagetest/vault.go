package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
)

// A value is there for all after it was swapped for the one that was there, and only then.
func testVault(t *testing.T, open storage.Opener) {
	one, two := network(t, open), network(t, open)
	long := bytes.Repeat([]byte{0, 0xff, '\''}, 100)
	for i, swap := range []struct {
		name                string
		former, value, kept []byte
	}{
		{"a", nil, []byte("first"), []byte("first")},
		{"a", nil, []byte("second"), []byte("first")},
		{"a", []byte("other"), []byte("second"), []byte("first")},
		{"a", []byte("other"), nil, []byte("first")},
		{"b", []byte("none"), []byte("second"), nil},
		{"a", []byte("first"), long, long},
		{"a", long, []byte("third"), []byte("third")},
		{"a", []byte("third"), []byte("third"), []byte("third")},
		{"b", nil, long, long},
		{"a", []byte("third"), nil, nil},
		{"a", []byte("third"), []byte("fourth"), nil},
	} {
		store := []storage.Network{one, two}[i%2]
		kept, err := store.SwapValue(context.Background(), swap.name, swap.former, swap.value)
		if err != nil || !bytes.Equal(kept, swap.kept) {
			t.Fatalf("swap %d: %q is kept (%v), want %q", i, kept, err, swap.kept)
		}
	}
	if values, err := one.Values(context.Background()); err != nil || len(values) != 1 ||
		!bytes.Equal(values["b"], long) {
		t.Errorf("the values are %q (%v)", values, err)
	}
}

// Of many processes that swap at once, one succeeds, and all know which.
func testVaultAtOnce(t *testing.T, open storage.Opener) {
	stores := []storage.Network{network(t, open), network(t, open)}
	var former []byte
	for range 3 {
		kept := make([][]byte, 8)
		var wg sync.WaitGroup
		for i := range kept {
			wg.Go(func() {
				var err error
				kept[i], err = stores[i%2].SwapValue(context.Background(), "a", former,
					fmt.Appendf(nil, "%s %d", former, i))
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range kept {
			if !bytes.Equal(kept[i], kept[0]) || bytes.Equal(kept[i], former) {
				t.Fatalf("the values that are kept after one another: %q", kept)
			}
		}
		former = kept[0]
	}
}
