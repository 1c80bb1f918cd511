package client

import (
	"net/netip"
	"testing"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/session"
)

// shown is evidence in plain values.
type shown struct {
	service, apiKey string
	network         string
	claimed         bool
	session, forged bool
	hints           identity.Hints
}

func (s *shown) Service() (string, bool) { return s.service, s.service != "" }
func (s *shown) APIKey() string          { return s.apiKey }
func (s *shown) Hints() identity.Hints   { return s.hints }
func (s *shown) Network() (netip.Prefix, bool) {
	network, _ := identity.Prefix(s.network, 32, 64)
	return network, s.claimed
}
func (s *shown) Session([]byte) (session.Session, bool, bool) {
	return session.Session{ID: [16]byte{1}}, s.session, s.forged
}

func TestTheBestWayCounts(t *testing.T) {
	browser := identity.Hints{UserAgent: "a browser"}
	all := shown{service: "fleet", apiKey: "acme", session: true, network: "192.0.2.1", hints: browser}
	for _, c := range []struct {
		without func(*shown)
		kind    identity.Kind
		tag     byte
		subject bool
	}{
		{func(*shown) {}, identity.APIKey, identity.TagService, false},
		{func(s *shown) { s.service = "" }, identity.APIKey, identity.TagAPIKey, true},
		{func(s *shown) { s.apiKey = "" }, identity.Session, identity.TagSession, true},
		{func(s *shown) { s.session = false }, identity.Fingerprint, identity.TagFingerprint, true},
		{func(s *shown) { s.hints = identity.Hints{} }, identity.ByPrefix, identity.TagFingerprint, true},
		{func(s *shown) { s.network = "" }, identity.Unknown, identity.TagUnknown, false},
	} {
		c.without(&all)
		var got Client
		got.Identify(&all)
		if got.Kind != c.kind || got.Key[0] != c.tag || (got.Subject() != nil) != c.subject {
			t.Errorf("%+v: a %v with the tag %q and the subject %q, want a %v with %q", all, got.Kind, got.Key[0], got.Subject(), c.kind, c.tag)
		}
	}
}

func TestNothingIsHeldAgainstAClaimedAddress(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		var c Client
		c.Identify(&shown{network: "192.0.2.1", claimed: claimed})
		if (c.Subject() == nil) != claimed {
			t.Errorf("claimed %v: the subject is %q", claimed, c.Subject())
		}
	}
}

// Requests that another site causes are counted under a part of the client. A ban of the whole
// client applies to them.
func TestOtherSitesRequestsAreAPart(t *testing.T) {
	for _, s := range []shown{
		{session: true, network: "192.0.2.1", hints: identity.Hints{Initiator: identity.CrossSite}},
		{network: "192.0.2.1", hints: identity.Hints{UserAgent: "a browser", Initiator: identity.CrossSite}},
	} {
		own := s
		own.hints.Initiator = identity.OwnSite
		var c, user Client
		c.Identify(&s)
		user.Identify(&own)
		if string(c.Parent()) != string(user.Subject()) || string(c.Subject()) == string(user.Subject()) || user.Parent() != nil {
			t.Errorf("%v: the subject %q is a part of %q, want one of %q", c.Kind, c.Subject(), c.Parent(), user.Subject())
		}
	}
}

func TestIdentifyAllocatesNothing(t *testing.T) {
	s := &shown{network: "2001:db8::1", hints: identity.Hints{UserAgent: "a browser", Initiator: identity.CrossSite}}
	c := new(Client)
	if n := testing.AllocsPerRun(100, func() {
		*c = Client{}
		c.Identify(s)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
