package caddytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Clients have many requests in flight at a time, which are answered in another order than they
// came in, and a log has lines in the order of answers. The replay decides in the order in which
// requests came, so it gives the same verdicts: whole clients at a time, and each of their
// requests.
func TestReplayOfRequestsInFlight(t *testing.T) {
	t.Parallel()
	const clients, each, limit = 8, 30, 12
	arrived, answer := make(map[string]chan struct{}), make(map[string]chan struct{})
	for client := range clients {
		for n := range each {
			path := fmt.Sprintf("/%d/%d", client, n)
			arrived[path], answer[path] = make(chan struct{}), make(chan struct{})
		}
	}
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived[r.URL.Path])
		<-answer[r.URL.Path]
	}))
	defer backend.Close()
	file := filepath.Join(t.TempDir(), "access.log")
	s := startCaddy(t, options(patient+trusting)+site(fmt.Sprintf(`
		log {
			output file %s
		}
		rate_limit {
			zone all {
				limit %d/7d fixed
			}
		}
		reverse_proxy %s
	`, file, limit, strings.TrimPrefix(backend.URL, "http://"))))
	var sending sync.WaitGroup
	for client := range clients {
		sending.Go(func() {
			var inFlight []chan struct{}
			var answers sync.WaitGroup
			for n := range each {
				path, refused := fmt.Sprintf("/%d/%d", client, n), make(chan struct{})
				answers.Go(func() {
					s.get(path, from(client))
					close(refused) // or passed, and nobody waits for it
				})
				select { // so that requests come in this order
				case <-arrived[path]:
					inFlight = append(inFlight, answer[path])
				case <-refused:
				}
			}
			slices.Reverse(inFlight)
			for _, goesOn := range inFlight {
				close(goesOn)
			}
			answers.Wait()
			if len(inFlight) != limit {
				t.Errorf("%d requests of client %d passed, want %d", len(inFlight), client, limit)
			}
		})
	}
	sending.Wait()
	s.stop()
	report, status := s.replayed(file)
	own := report.Own
	if status != 0 || own == nil || own.Requests != clients*each || own.Log != clients*(each-limit) || own.Share < 0.999 {
		t.Errorf("status %d, own verdicts %+v, want %d requests of which %d are refused, all as in the log", status, own, clients*each, clients*(each-limit))
	}
}
