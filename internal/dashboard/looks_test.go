package dashboard_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

// asked is a service that knows one client by all its names, and keeps the last question.
type asked struct {
	*sample.Service
	last operator.Question
}

const masked = "203.0.113.77"

func (a *asked) Explain(_ context.Context, q operator.Question) (operator.Explanation, error) {
	a.last = q
	return operator.Explanation{Client: masked, Text: masked}, nil
}

func (a *asked) Do(_ context.Context, action operator.Action, _ operator.Command) (operator.Done, error) {
	if action == operator.Unban {
		return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: it isn't banned", masked)
	}
	return operator.Done{Client: masked, Changed: 1}, nil
}

// newLooks returns a site with a stopped clock.
func newLooks(t *testing.T) (*site, *asked) {
	service := &asked{Service: sample.New(time.Now)}
	now := time.Now()
	return newSite(t, service.Service, func(o *dashboard.Options) {
		o.Service, o.Now = service, func() time.Time { return now }
	}), service
}

// A read-only user could find a masked address by a binary search of its network.
func TestQuestionsAboutAddressesAreNotedAndBounded(t *testing.T) {
	s, service := newLooks(t)
	networks := []string{"203.0.113.0/25", "203.0.113.64/26", masked, "key:" + masked, "2001:db8::/49"}
	for i := range 60 {
		s.wantPost(200, s.form("explain", "client", networks[i%len(networks)]))
		if !service.last.Note || service.last.By != "maria" {
			t.Fatalf("the audit isn't to know of %+v", service.last)
		}
	}
	if body := s.wantPost(429, s.form("explain", "client", networks[0])); !strings.Contains(body, "The next look is free in 1m0s") {
		t.Errorf("got\n%s", body)
	}
	s.wantPost(429, s.form("clients", "reveal", "1"))
	s.wantPost(200, s.form("explain", "client", "tag:3fa9c1"))
	s.user = "ann"
	s.wantPost(200, s.form("explain", "client", networks[0]))
}

// A reference and a tag name a client whose address the user doesn't know.
func TestClientsThatAreNotNamedByTheirAddressStayMasked(t *testing.T) {
	s, service := newLooks(t)
	reference := strings.Repeat("ab12 ", 16)
	for _, client := range []string{reference, "ref:" + reference, "urn:rate-limit:" + strings.Repeat("a", 64), "tag:3fa9c1", "session:1f2e3d4c5b6a7980"} {
		if body := s.wantPost(200, s.form("explain", "client", client)); strings.Contains(body, masked) || service.last.Note {
			t.Errorf("%s shows an address, or is noted: %+v", client, service.last)
		}
		if body := s.wantPost(200, s.form("ban", "client", client)); strings.Contains(body, masked) {
			t.Errorf("the ban of %s shows an address", client)
		}
		if body := s.wantPost(404, s.form("unban", "client", client)); strings.Contains(body, masked) || !strings.Contains(body, "isn") {
			t.Errorf("the error about %s shows an address:\n%s", client, body)
		}
	}
	if body := s.wantPost(404, s.form("unban", "client", masked)); !strings.Contains(body, masked) {
		t.Errorf("an address that was typed is masked:\n%s", body)
	}
}
