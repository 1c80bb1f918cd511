package dashboard_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

// Ten rows were `in 203.0.113.0/24`: a tag distinguishes them, the same on all pages.
func TestRowsHaveTags(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	const tag = `203.0.113.0/24</span> <code class="client">3fa9c1</code>`
	for _, name := range []string{"", "clients", "history"} {
		if !strings.Contains(s.get(name), tag) {
			t.Errorf("%q lacks the tag of its client", name)
		}
	}
	handle := handlePattern.FindStringSubmatch(s.get("clients"))[1]
	if !strings.Contains(s.wantPost(200, s.form("explain", "handle", handle)), tag) {
		t.Error("the explanation of a row lacks its tag")
	}
}

// Typing the addresses of a network one by one doesn't reveal the address of a tag.
func TestNoTagForATypedAddress(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	for _, path := range []string{"explain", "ban"} {
		body := s.wantPost(200, s.form(path, "client", "203.0.113.77"))
		if strings.Contains(body, "3fa9c1") || !strings.Contains(body, "203.0.113.77") {
			t.Errorf("%s says the tag of a typed address, or not the address", path)
		}
	}
}

// withService makes a dashboard show another service.
func withService(service operator.Service) func(*dashboard.Options) {
	return func(o *dashboard.Options) { o.Service = service }
}

// referring is a service that knows an address by references and tags.
type referring struct{ operator.Service }

func (referring) Explain(context.Context, operator.Question) (operator.Explanation, error) {
	return operator.Explanation{Client: "203.0.113.77", Text: "203.0.113.77", Tag: "3fa9c1"}, nil
}

func (referring) Do(context.Context, operator.Action, operator.Command) (operator.Done, error) {
	return operator.Done{Client: "203.0.113.77", Changed: 1}, nil
}

// A reference typed without ref: showed the address of its client, without an audit entry.
func TestReferencesAndTagsRevealNoAddress(t *testing.T) {
	s := newSite(t, sample.New(time.Now), withService(referring{sample.New(time.Now)}))
	reference := strings.Repeat("ab12", 16)
	for _, client := range []string{reference, "ref:" + reference, "urn:x:" + reference, "tag:3fa9c1", "tag:3FA9C1"} {
		for _, path := range []string{"explain", "ban"} {
			if body := s.wantPost(200, s.form(path, "client", client)); strings.Contains(body, "203.0.113.77") || !strings.Contains(body, "203.0.113.0/24") {
				t.Errorf("%s of %.10s shows an address", path, client)
			}
		}
	}
}

// The latest refusals and their common properties are on the page before a script runs.
func TestLatestRefusalsAreOnThePage(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	body := s.get("")
	for _, want := range []string{"× 412", "/wp-login.php", "python-requests/2.32.3", "ExampleBot", "was blocked already"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if body := s.get("?zone=search"); strings.Contains(body, "python-requests") || !strings.Contains(body, "ExampleBot") || !strings.Contains(body, "Requests per second in search") {
		t.Error("the page of a zone has refusals of another")
	}
	if body := newSite(t, sample.Empty(time.Now)).get(""); !strings.Contains(body, "Nothing was refused") {
		t.Error("the page doesn't say that nothing was refused")
	}
}

var unitsAndRefusals = regexp.MustCompile(`data-label="Units" class="n[^"]*">(?:≈ )?([0-9,]+)</td><td role="cell" data-label="Refused" class="n[^"]*">(?:≈ )?([0-9,]+)`)

// The clients with the highest usage were ordered by a number that no column showed.
func TestRowsAreSortedByAColumnThatIsShown(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	for by, column := range map[string]int{"units": 1, "refused": 2} {
		body := s.get("history?by=" + by)
		var numbers []string
		for _, found := range unitsAndRefusals.FindAllStringSubmatch(body, -1) {
			numbers = append(numbers, strings.Repeat(" ", 12-len(found[column]))+found[column])
		}
		if len(numbers) < 3 || !slices.IsSortedFunc(numbers, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Errorf("by %s: got %q", by, numbers)
		}
		if strings.Count(body, `aria-sort="descending"><a href="history?by=`+by+`"`) != 1 {
			t.Errorf("by %s: no heading, or another, says so", by)
		}
	}
	if body := s.get("clients?by=refused&zone=login&blocked=1"); !strings.Contains(body, `aria-sort="descending"><a href="clients?blocked=1&amp;by=refused&amp;zone=login"`) ||
		!strings.Contains(body, `<a href="clients?blocked=1&amp;by=used&amp;zone=login"`) {
		t.Error("the headings of clients sort by something else")
	}
}

// unbanning records how a ban was lifted.
type unbanning struct {
	operator.Service
	last operator.Command
}

func (u *unbanning) Do(ctx context.Context, action operator.Action, o operator.Command) (operator.Done, error) {
	u.last = o
	return u.Service.Do(ctx, action, o)
}

// Undoing a ban forgave the client's violations too: it lifts that ban and nothing else.
func TestUndoOfABanLiftsThatBanOnly(t *testing.T) {
	service := &unbanning{Service: sample.New(time.Now)}
	s := newSite(t, sample.New(time.Now), withService(service))
	body := s.wantPost(200, s.form("ban", "client", "192.0.2.200"))
	undo := regexp.MustCompile(`action="unban">.*name="handle" value="([^"]+)"><input type="hidden" name="keep_violations" value="1"><button class="main">Undo`).FindStringSubmatch(body)
	if undo == nil {
		t.Fatalf("there is no undo:\n%s", body)
	}
	s.wantPost(200, s.form("unban", "handle", undo[1], "keep_violations", "1"))
	if service.last.Client != "192.0.2.200" || !service.last.KeepViolations {
		t.Errorf("the command was %+v", service.last)
	}
	s.wantPost(200, s.form("unban", "client", "192.0.2.200"))
	if service.last.KeepViolations {
		t.Error("another command keeps violations, too")
	}
}

// Right after a restart the minute before it, which the history has, isn't shown beside counts since the start.
func TestRatesAreSinceTheStart(t *testing.T) {
	for _, started := range []time.Duration{10 * time.Second, time.Hour} {
		body := newSite(t, sample.New(time.Now), withService(restarted{sample.New(time.Now), time.Now().Add(-started)})).get("")
		if known := strings.Contains(body, "<small>per second</small>"); known != (started == time.Hour) {
			t.Errorf("%v after the start, rates are shown: %v", started, known)
		}
	}
}

// restarted is a service of a process that started at a time.
type restarted struct {
	*sample.Service
	at time.Time
}

func (r restarted) Status(ctx context.Context) (operator.Status, error) {
	s, err := r.Service.Status(ctx)
	s.Started = r.at
	return s, err
}

// inNetwork is a service that explains a client as a part of a banned network.
type inNetwork struct {
	operator.Service
	rule operator.Rule
}

func (n *inNetwork) Explain(context.Context, operator.Question) (operator.Explanation, error) {
	return operator.Explanation{Client: "203.0.113.9", Text: "203.0.113.9", Kind: "address", Rule: &n.rule, Next: operator.Forecast{Outcome: "banned", Status: 429}}, nil
}

// The ban of an address in a banned network is lifted as that of the network, which the page says, or the address is
// let in alone. For one in a block list there is only that.
func TestBanOfANetworkIsLiftedAsThat(t *testing.T) {
	service := &inNetwork{Service: sample.New(time.Now), rule: operator.Rule{Action: operator.Ban, Client: "203.0.113.0/24", Text: "203.0.113.0/24", By: "rules"}}
	acted := &unbanning{Service: service}
	s := newSite(t, sample.New(time.Now), withService(acted))
	body := s.wantPost(200, s.form("explain", "client", "203.0.113.9"))
	lift := regexp.MustCompile(`action="unban">.*name="handle" value="([^"]+)"><button class="main">Lift the whole ban<span class="hidden"> 203.0.113.0/24<`).FindStringSubmatch(body)
	if lift == nil || !strings.Contains(body, `as a part of <span class="who"><span class="name">203.0.113.0/24<`) || !strings.Contains(body, "Always let in for") {
		t.Fatalf("the page doesn't offer both:\n%s", body)
	}
	s.ask(s.form("unban", "handle", lift[1]))
	if acted.last.Client != "203.0.113.0/24" {
		t.Errorf("it lifts the ban of %q", acted.last.Client)
	}
	service.rule.By = "list"
	if body := s.wantPost(200, s.form("explain", "client", "203.0.113.9")); strings.Contains(body, "Lift the whole ban") || !strings.Contains(body, "Always let in for") {
		t.Errorf("in a block list:\n%s", body)
	}
}
