package store

import (
	"context"
	"testing"
)

// A request for news that was sent before some writes, and arrives after them, doesn't take them
// for lost ones: claims don't wait for news.
func TestNewsMayBeOvertaken(t *testing.T) {
	s, l := opened(t, newPlace(t)), yearly(t)
	news := call{what: "news", script: newsScript, request: func(int64) request {
		return request{keys: []string{s.server.names.resets(), s.server.names.changes(), s.server.names.resetIDs(), s.server.names.notes(), s.server.names.noteNumbers(), s.server.names.processes()}, args: []string{"0", "0", "", "0"}}
	}}
	keys, args := s.machine.packed(news, header{}, 0)
	for range 3 {
		mustCharge(t, s, l, 1)
	}
	if r, err := s.server.send(context.Background(), news, keys, args); err != nil || r.status != "ok" {
		t.Errorf("news: %q, %v", r.status, err)
	}
	mustCharge(t, s, l, 1)
	s.machine.seq++ // as if a write had been acknowledged that is not there
	if r, err := s.machine.read(context.Background(), news); err == nil {
		t.Errorf("news of writes that are lost: %q, and no error", r.status)
	}
}
