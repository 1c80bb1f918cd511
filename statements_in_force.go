package tally

import (
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// statementsInForce are those of the file of this machine and those of the store that machines
// share, as if they stood in one file.
type statementsInForce struct {
	file   *rules.File
	merged atomic.Pointer[mergedStatements] // nil until the store is in use

	mu     sync.Mutex
	shared *sharedStatements // guarded by mu: of the store; nil before it is known, or if there are none
}

type mergedStatements struct{ file, store, both *rules.Set }

// now returns the statements in force. It waits for nothing.
func (s *statementsInForce) now() *rules.Set {
	if m := s.merged.Load(); m != nil {
		return m.both
	}
	return s.file.Value()
}

// begin has the statements of a store be in force as well, and those that come to be.
func (s *statementsInForce) begin(shared *sharedStatements) {
	s.mu.Lock()
	s.shared = shared
	s.mu.Unlock()
	shared.follow(s, s.merge)
	s.merge()
}

// end ends what begin began.
func (s *statementsInForce) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		s.shared.follow(s, nil)
	}
}

// merge goes by what the file and the store have now. No request does: a large file takes a while.
func (s *statementsInForce) merge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return
	}
	is := mergedStatements{file: s.file.Value(), store: s.shared.set.Load()}
	if was := s.merged.Load(); was != nil && was.file == is.file && was.store == is.store {
		return
	}
	is.both = rules.Union(is.file, is.store)
	s.merged.Store(&is)
}
