package engine

import (
	"errors"
	"slices"
	"sync"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// offense is one that the store has yet to record.
type offense struct {
	cell *cell
	reputation.Offense
}

// offenses waits for the committer. While the store can't be used it fills up,
// and then what comes is known to memory only.
type offenses struct {
	mu      sync.Mutex
	waiting []offense // guarded by mu
}

const (
	maxOffenses  = 1 << 14 // that wait
	offenseBatch = 256     // that are put to the store in one transaction
)

func (os *offenses) add(o offense) (added bool) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if len(os.waiting) >= maxOffenses {
		return false
	}
	os.waiting = append(os.waiting, o)
	return true
}

// first returns the first of those that wait, which stay, up to some number.
func (os *offenses) first(most int) []offense {
	os.mu.Lock()
	defer os.mu.Unlock()
	return slices.Clone(os.waiting[:min(len(os.waiting), most)])
}

// remove takes the first n away.
func (os *offenses) remove(n int) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.waiting = slices.Delete(os.waiting, 0, n)
}

// drop removes the offenses of a client, and returns how many there were.
func (os *offenses) drop(client *cell) int {
	os.mu.Lock()
	defer os.mu.Unlock()
	before := len(os.waiting)
	os.waiting = slices.DeleteFunc(os.waiting, func(o offense) bool { return o.cell == client })
	return before - len(os.waiting)
}

// punish tells the store of all offenses that wait.
func (m *committer) punish() error {
	for {
		if more, err := m.punishSome(); err != nil || !more {
			return err
		}
	}
}

// punishSome tells the store of the first offenses that wait, in one transaction,
// and whether there may be more.
func (m *committer) punishSome() (more bool, err error) {
	most := min(offenseBatch, m.conn.maxBatch())
	waiting := m.offenses.first(most)
	if len(waiting) == 0 {
		return false, nil
	}
	var records []reputation.Record
	_, err = m.conn.inTerms(func(in storage.Store, term *storage.Term) error {
		waiting = m.offenses.first(most) // they may have been moved with the time, or forgotten
		records = make([]reputation.Record, len(waiting))
		told := make([]storage.Offense, len(waiting))
		for i, o := range waiting {
			client, err := m.clientOf(o.cell, term, term.Time.Now)
			if err != nil {
				return err
			}
			told[i] = storage.Offense{Client: client, Offense: o.Offense}
		}
		ctx, cancel := m.conn.call()
		defer cancel()
		return in.Punish(ctx, told, records)
	})
	if err != nil && !errors.Is(err, storage.ErrUnknownOutcome) {
		return false, err
	}
	m.answers.Add(1)
	m.offenses.remove(len(waiting))
	for i, o := range waiting {
		if err == nil {
			o.cell.client().learn(records[i], 1)
			if records[i].At == o.At && records[i].Banned(o.At) { // offenses of who is banned change nothing
				m.opts.Observer.Banned(o.cell.text(), o.Reason, records[i].Until)
			}
		} else {
			o.cell.client().forget(1)
		}
	}
	return len(waiting) == most, err
}
