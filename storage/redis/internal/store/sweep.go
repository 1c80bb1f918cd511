package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// sweep drops resets, acts and notes within a term: keys charged within one expire by themselves on the
// server. Outside a term it also looks for expired keys.
func (s *Store) sweep(ctx context.Context, term *storage.Term, now int64) (swept storage.Swept, err error) {
	if term != nil {
		if _, err := s.look(ctx, "sweep", term, storage.Seen{Resets: -1, Changes: -1, Notes: -1}, true); err != nil {
			return swept, err
		}
		if err := s.checkEvictions(ctx); err != nil {
			return swept, fmt.Errorf("redis: sweep: %w", err)
		}
		if err := s.dropActs(ctx, term.Time.Now); err != nil {
			return swept, err
		}
		swept.Rows, err = s.dropNotes(ctx, term.Time.Now)
		swept.More = swept.Rows == maxNotesDropped
		return swept, err
	}
	if err := s.take(ctx); err != nil {
		return swept, fmt.Errorf("redis: sweep: %w", err)
	}
	defer func() { <-s.turn }()
	if err := s.dropActs(ctx, now); err != nil {
		return swept, err
	}
	if swept, err = s.sweepStep(ctx, now); err != nil {
		return swept, fmt.Errorf("redis: sweep: %w", err)
	}
	dropped, err := s.dropNotes(ctx, now)
	swept.Rows += dropped
	swept.More = swept.More || dropped == maxNotesDropped
	return swept, err
}

// stepLooks is about how many keys a step examines.
const stepLooks = 500

// sweepStep removes expired counts of some keys, and continues where the last step stopped.
func (s *Store) sweepStep(ctx context.Context, now int64) (swept storage.Swept, err error) {
	scan, err := s.client.Do(ctx, s.client.B().Scan().Cursor(s.cursor).Match(s.options.Prefix+":*").Count(stepLooks).Build()).AsScanEntry()
	if err != nil {
		return swept, err
	}
	var keys []string // of states and records
	for _, key := range scan.Elements {
		if s.names.isRecord(key) || s.names.isCount(key) {
			keys = append(keys, key)
		}
	}
	s.cursor = scan.Cursor
	swept.More = s.cursor != 0
	if len(keys) > 0 {
		swept.Rows, err = s.removeExpired(ctx, keys, now)
	}
	return swept, err
}

// removeExpired removes those of some keys that have expired.
func (s *Store) removeExpired(ctx context.Context, keys []string, now int64) (removed int64, err error) {
	values, err := s.client.Do(ctx, s.client.B().Mget().Key(keys...).Build()).ToArray()
	if err != nil {
		return 0, err
	}
	var expired []string
	for i, message := range values {
		value, err := message.ToString()
		if err == nil && s.hasExpired(keys[i], value, now) {
			expired = append(expired, keys[i])
		}
	}
	if len(expired) == 0 {
		return 0, nil
	}
	return s.client.Do(ctx, s.client.B().Del().Key(expired...).Build()).AsInt64()
}

// hasExpired reports whether a state or a record has expired.
func (s *Store) hasExpired(key, value string, now int64) bool {
	if s.names.isRecord(key) {
		record := cells.ParseRecord([]byte(value))
		return record.Expires() <= now
	}
	_, rest, _ := strings.Cut(value, " ")
	numbers := words{text: rest}
	expires := numbers.next()
	return numbers.err == nil && now/1e6 >= expires
}
