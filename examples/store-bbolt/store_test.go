package bboltstore

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Opener {
		path := filepath.Join(t.TempDir(), "tally.bolt")
		return func(ctx context.Context) (storage.Store, error) {
			s, err := Open(ctx, Options{Path: path, NoSync: true})
			if err != nil {
				return nil, err
			}
			return s, nil
		}
	})
}

// A full file takes no more counts, and has room again when they have expired.
func TestFull(t *testing.T) {
	const most = 256 << 10
	s, err := Open(context.Background(), Options{Path: filepath.Join(t.TempDir(), "tally.bolt"), MaxSize: most, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limit, err := limiter.New(limiter.Params{Amount: 5, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now, next := time.Now().UnixNano(), uint64(0)
	claim := func(now int64) error {
		claims := make([]storage.Claim, 100)
		for i := range claims {
			next++
			claims[i] = storage.Claim{ID: 1, Limit: limit, Claim: limiter.Claim{Min: 1, Want: 1}}
			binary.BigEndian.PutUint64(claims[i].Key[:], next*0x9e3779b97f4a7c15)
		}
		return s.Claim(context.Background(), storagetest.At(now), claims, make([]limiter.Grant, len(claims)))
	}
	for err = claim(now); err == nil && next < 100_000; {
		err = claim(now)
	}
	stats, _ := s.Stats(context.Background())
	if used := stats.Bytes - int64(s.db.Stats().FreeAlloc); err == nil || used > 2*most {
		t.Fatalf("after %d keys, %d bytes are used of %d: %v", next, used, most, err)
	}
	now += int64(2 * time.Minute)
	for more := true; more; {
		swept, err := s.Sweep(context.Background(), storagetest.At(now))
		if err != nil {
			t.Fatal(err)
		}
		more = swept.More
	}
	if err := claim(now); err != nil {
		t.Errorf("after a sweep of what has expired: %v", err)
	}
}
