package replay

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// counter is a judge with a limit per address. It is a slow and obvious counter: it remembers the
// times of all passing requests.
type counter struct {
	Limit
	passed map[string][]int64
}

func newCounter(t testing.TB, amount int64, window time.Duration) *counter {
	t.Helper()
	l, err := limiter.New(limiter.Params{Amount: amount, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	return &counter{Limit{Zone: "all", Name: "all", Text: "5/1m", Per: "ip", Amount: amount, Rate: l, Counts: true}, make(map[string][]int64)}
}

// Judge implements Judge.
func (c *counter) Judge(r *accesslog.Record, now int64, v *Verdict) {
	key := append([]byte{identity.TagText}, r.ClientIP...)
	v.Counts = append(v.Counts, Count{Limit: &c.Limit, Key: v.Copy(key), Cost: 1})
	used := int64(0)
	for _, at := range c.passed[r.ClientIP] {
		if c.Rate.Slot(at) >= c.Rate.Oldest(now) {
			used++
		}
	}
	if v.Outcome = Passed; used >= c.Amount {
		v.Outcome, v.By, v.Key, v.Reason = Refused, &c.Limit, v.Copy(key), "over_limit"
		return
	}
	c.passed[r.ClientIP] = append(c.passed[r.ClientIP], now)
}

// line is a request of a log.
func line(at time.Duration, client, method, uri string, status int, agent string) string {
	return fmt.Sprintf(`{"ts":"%s","request":{"client_ip":%q,"method":%q,"host":"example.com","uri":%q,"headers":{"User-Agent":[%q]}},"duration":0.01,"status":%d}`+"\n",
		start.Add(at).Format(time.RFC3339Nano), client, method, uri, agent, status)
}

func replayed(t testing.TB, judge Judge, o Options, log string) *Report {
	t.Helper()
	parser, err := accesslog.NewParser("")
	if err != nil {
		t.Fatal(err)
	}
	merger, err := accesslog.NewMerger(parser, []string{"-"}, strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	defer merger.Close()
	report, err := Run(context.Background(), merger, judge, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// evil is a client's attack on readers of logs.
const evil = "</title><script>alert(1)</script>\x1b[2J\u202e\"'&{{.}}"

// busyReport is a report about forty people, a client that sends too much, and one that sends
// markup.
func busyReport(t testing.TB) *Report {
	var log strings.Builder
	for minute := range 30 {
		for client := range 40 {
			if (minute+client)%3 == 0 {
				log.WriteString(line(time.Duration(minute)*time.Minute, fmt.Sprintf("10.0.0.%d", client), "GET", "/", 200, "Mozilla/5.0"))
			}
		}
		for n := range 20 {
			log.WriteString(line(time.Duration(minute)*time.Minute+time.Duration(n)*time.Second, "203.0.113.9", "POST", "/wp-login.php", 401, evil))
		}
	}
	log.WriteString(evil + "\n")
	log.WriteString(strings.Repeat("x", 300) + "\n")
	return replayed(t, newCounter(t, 5, time.Minute), Options{Suggest: true}, log.String())
}

// The text says that there are no suggestions if they were requested, and only then.
func TestTextSaysThatNothingIsSuggested(t *testing.T) {
	const says = "No limit is suggested: it takes 20 clients"
	for _, asked := range []bool{true, false} {
		log := line(0, "10.0.0.1", "GET", "/", 200, "Mozilla/5.0")
		text := new(bytes.Buffer)
		if err := replayed(t, newCounter(t, 5, time.Minute), Options{Suggest: asked}, log).WriteText(text, wording.Look{}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), says) != asked {
			t.Errorf("asked %v, got\n%s", asked, text)
		}
	}
}

// No client's text is markup, or reaches a terminal unescaped.
func TestReportsAreSafe(t *testing.T) {
	report := busyReport(t)
	page := string(htmlOf(t, report))
	if strings.Count(page, "<script") != 1 || !strings.Contains(page, "<script>"+pageScript+"</script>") || strings.Contains(page, "alert(1)</script>") || !strings.Contains(page, "&lt;script&gt;") || strings.ContainsAny(page, "\x1b\u202e") {
		t.Error("the page has what a client sent as it is")
	}
	if strings.Count(page, "http://")+strings.Count(page, "https://") > 0 || strings.Contains(page, "style=") {
		t.Error("the page names another one, or has a style that its policy forbids")
	}
	if !strings.Contains(page, "<style>"+pageStyle+"</style>") {
		t.Error("the style isn't the one whose hash the policy has")
	}
	text := new(bytes.Buffer)
	if err := report.WriteText(text, wording.Look{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\u202e") || !strings.Contains(text.String(), `\x1b[2J`) {
		t.Error("the text has what a client sent as it is")
	}
}

func TestSuggestions(t *testing.T) {
	report := busyReport(t)
	if len(report.Suggest) != 1 {
		t.Fatalf("got %+v", report.Suggest)
	}
	if own := report.Suggest[0]; own.Zone != "all" || own.Amount != 2 || own.Window != "1m" || own.Now != 5 || own.Clients != 1 {
		t.Errorf("got %+v", own)
	}
}

// The headline of the page says what limits in shadow would refuse, which is all that a config of init would.
func TestHeadlineTellsOfShadow(t *testing.T) {
	limits := func(inShadow ...bool) (list []LimitReport) {
		for i, s := range inShadow {
			list = append(list, LimitReport{Shadow: s, Refused: int64(10 * i), Hit: int64(i)})
		}
		return list
	}
	for _, c := range []struct {
		want   string
		report Report
	}{
		{"The limits in shadow would have refused 20.0 % of all requests, from 1 client", Report{Requests: 100, Would: 20, Limits: limits(true, true)}},
		{"The limits in shadow would have refused nobody", Report{Requests: 100, Limits: limits(true)}},
		{"These limits would have refused nobody; those in shadow, of the rest, 10.0 % of all requests, from 1 client", Report{Requests: 100, Would: 10, Limits: limits(false, true)}},
		{"These limits would have refused 10.0 % of all requests, from 1 client; those in shadow, of the rest, nobody", Report{Requests: 100, Refused: 10, Limits: limits(true, false)}},
		{"These limits would have refused 10.0 % of all requests, from 2 clients or more", Report{Requests: 100, Refused: 10, Limits: limits(false, false, false)}},
		{"These limits would have refused nobody", Report{Requests: 100}},
		{"No request was replayed", Report{Limits: limits(true)}},
	} {
		if got := c.report.headline(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
