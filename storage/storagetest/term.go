package storagetest

import "github.com/caddy-tally/caddy-tally/storage"

// Moment is a clock that stands still at a time, in nanoseconds since the Unix epoch.
type Moment int64

// Read implements [storage.Clock].
func (m Moment) Read() storage.Reading {
	return storage.Reading{Wall: int64(m), Steady: int64(m), Source: storage.Source{255}, Shared: true}
}

// At returns a term for a call at a time, in a place whose time was never set and where nothing was reset.
// A place where a later time was read has that one.
func At(now int64) *storage.Term { return &storage.Term{Clock: Moment(now)} }
