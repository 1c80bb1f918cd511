package operator

import (
	"slices"
	"testing"
	"time"
)

// Each problem that a status can have is one fact, and what holds at present needs somebody.
func TestEveryProblemIsAFact(t *testing.T) {
	if facts := (Status{Stores: []Store{{Kind: "memory", Network: &Network{Server: 59, Ahead: 7200}, Region: new(Region)}}}).Facts(); facts != nil {
		t.Errorf("all is well, and the facts are %+v", facts)
	}
	since, trouble := time.Unix(1, 0), &FileTrouble{File: "/a", Since: time.Unix(1, 0), Reason: "broken"}
	for text, test := range map[string]struct {
		Severity
		Status
	}{
		"The store redis can't be used: memory decides, with smaller limits":         {Fault, Status{Stores: []Store{{Kind: "redis", Degraded: true}}}},
		"The history can't be written, and waits in memory":                          {Fault, Status{Stores: []Store{{History: &FileTrouble{Reason: "full"}}}}},
		"The file of API keys /a can't be read: keys read before are in force":       {Fault, Status{Stores: []Store{{APIKeys: trouble}}}},
		"The file of the key of names /a is wrong":                                   {Fault, Status{Stores: []Store{{Names: trouble}}}},
		"The store has lost writes that it had acknowledged: 1 time since the start": {Happened, Status{Stores: []Store{{Network: &Network{LostWrites: 1}}}}},
		"The clock of the store's server is 3 hours ahead of this machine's":         {Fault, Status{Stores: []Store{{Network: &Network{Server: 3*3600 + 0.01}}}}},
		"The clock of the store's server is 60 seconds behind this machine's":        {Fault, Status{Stores: []Store{{Network: &Network{Server: -60}}}}},
		"Counts are not exchanged with other regions":                                {Fault, Status{Stores: []Store{{Region: &Region{Since: &since}}}}},
		"Region us is silent": {Fault, Status{Stores: []Store{{Region: &Region{Faults: []string{"Region us is silent."}}}}}},
		"The file of rules /a can't be read: what was read before is in force":                         {Fault, Status{Rules: RulesFile{Trouble: trouble}}},
		"Block list l can't be read, and bans nobody":                                                  {Fault, Status{Rules: RulesFile{Lists: []BlockList{{Name: "l", Reason: "gone"}}}}},
		"Block list l can't be read now, and its last good version is in force":                        {Fault, Status{Rules: RulesFile{Lists: []BlockList{{Name: "l", Bans: 1, Reason: "gone"}}}}},
		"1 notification could not be delivered since the start: caddy rate-limit notify test says why": {Happened, Status{Undelivered: 1}},
		"In shadow, so that nothing is refused: a, b":                                                  {Notice, Status{Shadow: []string{"a", "b"}}},
		"Applied because of the load: a":                                                               {Notice, Status{Loaded: []string{"a"}}},
	} {
		facts := test.Facts()
		if len(facts) != 1 || facts[0].Text != text || facts[0].Severity != test.Severity {
			t.Errorf("got %+v, want one that says %q", facts, text)
		}
		if faults := test.Faults(); (len(faults) > 0) != (test.Severity == Fault) || slices.ContainsFunc(faults, func(f Fact) bool { return f.Severity != Fault }) {
			t.Errorf("%q: got the faults %+v", text, faults)
		}
	}
}
