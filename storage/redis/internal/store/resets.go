package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/storage"
)

// resets forget counts and records, and note it for other machines.
type resets struct{ machine *machine }

// Reset implements [storage.Store].
func (r resets) Reset(ctx context.Context, term *storage.Term, list []storage.Reset) error {
	names := r.machine.server.names
	reply, err := r.machine.inTerm(ctx, term,
		call{what: "reset", script: resetScript, writes: true, request: func(now int64) request {
			q := request{keys: []string{names.resets(), names.resetIDs()}, args: []string{""}}
			for i := range list {
				keys := names.forgottenBy(&list[i])
				q.keys = append(q.keys, keys...)
				q.args = append(q.args, strconv.FormatInt(list[i].ID, 10), strconv.Itoa(len(keys)), noteOf(&list[i]))
			}
			return q
		}})
	if err != nil {
		return err
	}
	numbers := words{text: reply.answer}
	for i := range list {
		list[i].Number, list[i].At, list[i].Found = numbers.next(), numbers.next()*1000, numbers.next() == 1
	}
	if numbers.err != nil {
		return fmt.Errorf("redis: reset: %w", numbers.err)
	}
	return nil
}

// forgottenBy returns the keys that a reset removes.
func (n names) forgottenBy(r *storage.Reset) (keys []string) {
	for _, key := range []storage.Key{r.Key, r.Former} {
		switch {
		case key == (storage.Key{}) && len(keys) > 0:
		case r.Client:
			keys = append(keys, n.record(key))
		default:
			keys = append(keys, n.count(r.Limit, key))
		}
	}
	return keys
}

// noteOf returns the text of a reset's note.
func noteOf(r *storage.Reset) string {
	return fmt.Sprintf("%d %016x %x %x", bit(r.Client), uint64(r.Limit), r.Key, r.Former)
}

// parseNote parses a note: the number and time of the reset, whether something was found, its ID, and
// the text of noteOf.
func parseNote(note string) (r storage.Reset, err error) {
	fields := strings.Split(note, " ")
	if len(fields) != 8 {
		return r, errors.New("a note of a reset can't be read")
	}
	limit, limitErr := strconv.ParseUint(fields[5], 16, 64)
	numbers := words{text: strings.Join(fields[:5], " ")}
	r = storage.Reset{Number: numbers.next(), At: numbers.next() * 1000, Found: numbers.next() == 1, ID: numbers.next(),
		Client: numbers.next() == 1, Limit: storage.LimitID(limit)}
	_, keyErr := hex.Decode(r.Key[:], []byte(fields[6])[:min(len(fields[6]), 2*len(r.Key))])
	_, formerErr := hex.Decode(r.Former[:], []byte(fields[7])[:min(len(fields[7]), 2*len(r.Former))])
	return r, errors.Join(numbers.err, limitErr, keyErr, formerErr)
}
