package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/accesslog"
)

// Report is the result of a replay. Its texts may come from clients, so a page escapes them, and a
// terminal gets only printable characters.
type Report struct {
	From     *time.Time       `json:"from"` // of the first request; null if there is none
	To       *time.Time       `json:"to"`   // of the last
	Log      accesslog.Counts `json:"log"`
	Requests int64            `json:"requests"` // that were replayed
	Passed   int64            `json:"passed"`   // of these, within their limits
	Free     int64            `json:"unlimited"`
	Refused  int64            `json:"refused"`
	Denied   int64            `json:"denied"`
	Would    int64            `json:"would_refuse"` // that passed, and that shadow limits would refuse
	Skipped  int64            `json:"skipped"`
	Outside  int64            `json:"outside"`   // requests that were left out, not within --from and --to
	Other    int64            `json:"elsewhere"` // the same, of other hosts than those of --site
	Limits   []LimitReport    `json:"limits"`
	Own      *Agreement       `json:"own_verdicts,omitempty"`
	Suggest  []Suggestion     `json:"suggestions,omitempty"`    // nil unless limits are suggested
	Without  []Suggestion     `json:"no_suggestions,omitempty"` // limits for which nothing is suggested, and why
	Coverage []string         `json:"coverage"`                 // what the log can't tell; never null
	Masked   bool             `json:"masked"`                   // whether addresses are
}

// LimitReport is the result for one limit.
type LimitReport struct {
	Zone     string     `json:"zone"`
	Limit    string     `json:"limit"`
	Text     string     `json:"text,omitempty"`
	Per      string     `json:"per,omitempty"`
	Amount   int64      `json:"amount,omitempty"`
	Shadow   bool       `json:"shadow,omitempty"` // it refuses nothing: refusals are what would be
	Shared   bool       `json:"shared,omitempty"` // clients of a network have it together
	Requests int64      `json:"requests"`
	Units    int64      `json:"units"`
	Clients  int64      `json:"clients"`
	Refused  int64      `json:"refused"`
	Hit      int64      `json:"refused_clients"`
	First    *time.Time `json:"first,omitempty"`
	// requests by what their key is made of and the log doesn't have
	Unknown  map[string]int64 `json:"unknown,omitempty"`
	Reasons  map[string]int64 `json:"reasons,omitempty"`
	Statuses []Status         `json:"statuses,omitempty"` // of refused requests, in the log
	Agents   []Agent          `json:"agents,omitempty"`   // the same
	Top      []Client         `json:"top,omitempty"`      // who is refused most
	TopCut   bool             `json:"top_cut,omitempty"`  // there were too many to be sure of these
	Peaks    *Peaks           `json:"peaks,omitempty"`
	Amounts  []Amount         `json:"amounts,omitempty"`
	Inexact  bool             `json:"inexact,omitempty"` // peaks may be too high
	Timeline *Timeline        `json:"timeline,omitempty"`

	moves []Amount // those of the table, and some between them
}

// Timeline is the requests in steps of time.
type Timeline struct {
	From  time.Time `json:"from"`
	Step  string    `json:"step"`
	Steps []Moment  `json:"steps"`

	step time.Duration
}

// Status is the number of requests with a status.
type Status struct {
	Status   int   `json:"status"`
	Requests int64 `json:"requests"`
}

// Agent is the number of requests of a user agent.
type Agent struct {
	Agent    string `json:"agent"`
	Requests int64  `json:"requests"`
}

// Client is a refused client.
type Client struct {
	Client   string    `json:"client"`
	Refused  int64     `json:"refused"`
	Requests int64     `json:"requests"`
	Peak     int64     `json:"peak"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Statuses []Status  `json:"statuses"`
	Agents   []string  `json:"agents,omitempty"`
}

// Peaks is the distribution of clients' peaks: the most units that each wanted within a window.
type Peaks struct {
	P50   int64  `json:"p50"`
	P90   int64  `json:"p90"`
	P99   int64  `json:"p99"`
	P999  int64  `json:"p99.9"`
	Max   int64  `json:"max"`
	Steps []Step `json:"steps"`
}

// Step is the number of clients with a peak above the previous step's and up to this one's.
type Step struct {
	UpTo    int64 `json:"up_to"`
	Clients int64 `json:"clients"`
	Honest  int64 `json:"-"` // of these, not mostly answered with an error
}

// Amount is the effect of another amount of a limit, if that were the only limit.
type Amount struct {
	Amount  int64 `json:"amount"`
	Clients int64 `json:"clients"` // that it refuses something
	Own     bool  `json:"own,omitempty"`

	Honest int64 `json:"-"` // of the clients, not mostly answered with an error
}

// Agreement compares the verdicts with those of the Caddy that wrote the log.
type Agreement struct {
	Requests   int64   `json:"requests"`
	Log        int64   `json:"refused_by_log"`
	Both       int64   `json:"refused_by_both"`
	OnlyLog    int64   `json:"refused_only_by_log"`
	OnlyReplay int64   `json:"refused_only_by_replay"`
	Share      float64 `json:"same"` // of all verdicts, from 0 to 1
}

// DefaultTop is the default number of a limit's reported clients.
const DefaultTop = 20

// report returns the results.
func (r *run) report() *Report {
	p := &Report{
		Log: r.log.Counts, Outside: r.outside, Other: r.elsewhere, Masked: !r.Reveal, Limits: []LimitReport{},
		Passed: r.outcomes[Passed], Free: r.outcomes[Unlimited], Refused: r.outcomes[Refused],
		Denied: r.outcomes[Denied], Skipped: r.outcomes[Skipped], Would: r.wouldRefuse,
	}
	for _, n := range r.outcomes {
		p.Requests += n
	}
	if p.Requests > 0 {
		p.From, p.To = moment(r.first), moment(r.last)
	}
	for _, s := range r.order {
		if r.Zone == "" || s.Zone == r.Zone {
			p.Limits = append(p.Limits, r.limitReport(s))
		}
	}
	slices.SortStableFunc(p.Limits, func(a, b LimitReport) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(b2i(a.Shadow), b2i(b.Shadow)),
			cmp.Compare(b2i(a.Shared), b2i(b.Shared)), cmp.Compare(a.Limit, b.Limit))
	})
	if r.own.Log > 0 {
		p.Own = &r.own
		p.Own.Share = float64(p.Own.Same()) / float64(max(p.Requests, 1))
	}
	p.Suggest, p.Without = r.suggestions()
	p.Coverage = r.coverage(p)
	return p
}

// suggestions returns the suggested limits, and the limits without a suggestion. The list is nil only if
// suggestions are off.
func (r *run) suggestions() (list, without []Suggestion) {
	if !r.Suggest {
		return nil, nil
	}
	list = []Suggestion{}
	for _, s := range r.order {
		switch sg := s.suggest(r.Reveal); {
		case sg == nil || r.Zone != "" && s.Zone != r.Zone:
		case sg.Amount == 0:
			without = append(without, *sg)
		default:
			list = append(list, *sg)
		}
	}
	return list, without
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func moment(at int64) *time.Time {
	return new(time.Unix(0, at).UTC().Truncate(time.Millisecond))
}

func (r *run) limitReport(s *series) LimitReport {
	l := LimitReport{
		Zone: s.Zone, Limit: s.Name, Text: s.Text, Per: s.Per, Amount: s.Amount, Shadow: s.Shadow, Shared: s.Shared,
		Requests: s.requests, Units: s.units, Refused: s.refused, Hit: s.clients,
		Unknown: s.unknown, Reasons: s.reasons, Statuses: s.statuses.list(), Agents: s.agents.list(maxListed),
		TopCut: s.offenders.dropped,
	}
	if t := &s.timeline; t.step > 0 {
		step := time.Duration(t.step)
		l.Timeline = &Timeline{*moment(t.begin), step.String(), t.counts, step}
	}
	if s.refused > 0 {
		l.First = moment(s.first)
	}
	for _, o := range s.offenders.heaviest()[:min(cmp.Or(r.Top, DefaultTop), len(s.offenders.byHash))] {
		l.Top = append(l.Top, r.client(o, s.all().get(o.hash)))
	}
	l.Clients = int64(s.all().len())
	if s.demand != nil {
		l.Inexact = s.demand.inexact
		peaks := s.demand.peaks()
		l.Peaks = distribution(peaks)
		l.Amounts = table(peaks, s.Amount)
		l.moves = between(l.Amounts, peaks)
		honest, _ := s.honest()
		l.tell(honest)
	}
	return l
}

// tell tells honest clients, by their ascending peaks, from others.
func (l *LimitReport) tell(honest []int64) {
	within := func(amount int64) int64 {
		return int64(sort.Search(len(honest), func(i int) bool { return honest[i] > amount }))
	}
	for _, amounts := range [][]Amount{l.Amounts, l.moves} {
		for i := range amounts {
			amounts[i].Honest = int64(len(honest)) - within(amounts[i].Amount)
		}
	}
	if l.Peaks == nil {
		return
	}
	before := int64(0)
	for i := range l.Peaks.Steps {
		s := &l.Peaks.Steps[i]
		s.Honest, before = within(s.UpTo)-before, within(s.UpTo)
	}
}

// maxListed is the number of a limit's reported user agents.
const maxListed = 10

func (r *run) client(o *offender, c *client) Client {
	return Client{
		Client: clientText([]byte(o.key), r.Reveal), Refused: o.refused, Requests: c.requests, Peak: c.peak,
		First: *moment(o.first), Last: *moment(o.last), Statuses: o.statuses.list(), Agents: o.agents,
	}
}

// clientText returns the text of a key. Unless reveal is set, it masks addresses.
func clientText(key []byte, reveal bool) string {
	text := identity.MaskedText(key)
	if reveal {
		text = identity.KeyText(key)
	}
	return cmp.Or(text, "all together")
}

// list returns the statuses, the most frequent first.
func (s statuses) list() (list []Status) {
	for status, n := range s {
		list = append(list, Status{status, n})
	}
	slices.SortFunc(list, func(a, b Status) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Status, b.Status))
	})
	return list
}

// list returns the most frequent texts.
func (t tally) list(most int) (list []Agent) {
	for _, text := range slices.SortedFunc(maps.Keys(t),
		func(a, b string) int { return cmp.Or(cmp.Compare(t[b], t[a]), cmp.Compare(a, b)) }) {
		if len(list) == most {
			break
		}
		list = append(list, Agent{text, t[text]})
	}
	return list
}

// distribution returns the distribution of ascending peaks.
func distribution(peaks []int64) *Peaks {
	if len(peaks) == 0 {
		return nil
	}
	p := &Peaks{P50: quantile(peaks, .5), P90: quantile(peaks, .9), P99: quantile(peaks, .99),
		P999: quantile(peaks, .999), Max: peaks[len(peaks)-1]}
	done := 0
	for _, upTo := range round {
		n := sort.Search(len(peaks), func(i int) bool { return peaks[i] > upTo })
		if n > done || len(p.Steps) > 0 && n < len(peaks) {
			p.Steps = append(p.Steps, Step{UpTo: upTo, Clients: int64(n - done)})
		}
		if done = n; done == len(peaks) {
			break
		}
	}
	return p
}

// quantile returns the smallest value that a share of the ascending values doesn't exceed.
func quantile(ascending []int64, share float64) int64 {
	i := int(math.Ceil(share*float64(len(ascending)))) - 1
	return ascending[max(i, 0)]
}

// table returns the effects of other amounts: up to the first one that refuses nothing, or to the
// configured one.
func table(peaks []int64, own int64) (rows []Amount) {
	for _, amount := range amountsAround(own) {
		row := amountOf(peaks, amount)
		row.Own = amount == own
		if rows = append(rows, row); row.Clients == 0 && amount >= own {
			break
		}
	}
	return rows
}

// amountOf returns the effect of an amount.
func amountOf(peaks []int64, amount int64) Amount {
	within := sort.Search(len(peaks), func(i int) bool { return peaks[i] > amount })
	return Amount{Amount: amount, Clients: int64(len(peaks) - within)}
}

// between returns the rows of a table with up to nine amounts between each two.
func between(rows []Amount, peaks []int64) (list []Amount) {
	for i, row := range rows {
		if i > 0 {
			before := rows[i-1].Amount
			for n, parts := int64(1), min(row.Amount-before, 10); n < parts; n++ {
				list = append(list, amountOf(peaks, before+(row.Amount-before)/parts*n))
			}
		}
		list = append(list, row)
	}
	return list
}

// maxName is the most bytes of a counted text in a list.
const maxName = 50

// names joins the counted texts, the most frequent first.
func names(counts map[string]int64, most int) string {
	list := tally(counts).list(most)
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = strings.ReplaceAll(a.Agent, "\n", `\n`)
		if len(texts[i]) > maxName {
			texts[i] = strings.ToValidUTF8(texts[i][:maxName], "") + "…"
		}
	}
	if len(counts) > most {
		texts = append(texts, strconv.Itoa(len(counts)-most)+" more")
	}
	return strings.Join(texts, ", ")
}
