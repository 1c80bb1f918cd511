package store

import (
	"context"
	"testing"
)

// A request for news that was sent before some writes, and arrives after them, doesn't take them
// for lost ones: claims don't wait for news.
func TestNewsMayBeOvertaken(t *testing.T) {
	s, l := opened(t, newPlace(t)), yearly(t)
	news := call{what: "news", script: newsScript, request: func(int64) (request, error) {
		return request{keys: []string{s.names.resets(), s.names.changes(), s.names.resetIDs(), s.names.notes(), s.names.noteNumbers(), s.names.processes()}, args: []string{"0", "0", "", "0"}}, nil
	}}
	keys, args, err := s.packed(news, header{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustCharge(t, s, l, 1)
	}
	if r, err := s.send(context.Background(), news, keys, args); err != nil || r.status != "ok" {
		t.Errorf("news: %q, %v", r.status, err)
	}
	mustCharge(t, s, l, 1)
	s.seq++ // as if a write had been acknowledged that is not there
	if r, err := s.read(context.Background(), news); err == nil {
		t.Errorf("news of writes that are lost: %q, and no error", r.status)
	}
}
