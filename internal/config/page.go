package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/internal/report"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Page configures the page for people whose browser's request is refused. It tells them when they
// can return, in the language of their browser, with the reference of the refusal. It is sent to
// browsers that load a page, unless a route handles the error; other clients get no body. The name
// and the contact are on the page of a challenge as well.
type Page struct {
	// Send no page with a refusal. The page of a challenge is still sent.
	Disabled bool `json:"disabled,omitempty"`

	// The name of the site, of up to 100 characters. Default: no name.
	Name string `json:"name,omitempty"`

	// A contact for questions: an e-mail address or a URL, which becomes a link, or another text,
	// of up to 200 characters. Default: no contact.
	Contact string `json:"contact,omitempty"`
}

// The most characters of a page's texts, so that it stays small.
const (
	maxPageName    = 100
	maxPageContact = 200
)

// check returns an error about the first text that is too long or invalid.
func (p *Page) check() error {
	if p == nil {
		return nil
	}
	if p.Disabled && (p.Name != "" || p.Contact != "") {
		return errors.New("page: disabled, and has a name or a contact: remove one of them")
	}
	if err := checkPageText("name", p.Name, maxPageName); err != nil {
		return err
	}
	return checkPageText("contact", p.Contact, maxPageContact)
}

// compile returns the compiled option.
func (p *Page) compile() *answer.Pages {
	return &answer.Pages{Disabled: p.Disabled, Refused: page.Refused{Site: page.Site{Name: p.Name, Contact: p.Contact}}}
}

func checkPageText(option, text string, most int) error {
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Errorf("page: %s: must have at most %d characters, got %d", option, most, n)
	}
	for _, c := range text {
		if c == utf8.RuneError || unicode.IsControl(c) {
			return fmt.Errorf("page: %s: must be one line of UTF-8 without control characters, got %q", option, text)
		}
	}
	return nil
}

// DecisionLog writes a line for each refusal to the logger `http.log.rate_limit`, for programs that
// read logs, such as fail2ban and CrowdSec. The lines contain addresses of clients. Caddy's logging
// configures their destination, filters and retention.
//
// There are at most 1000 lines a second of each of four kinds: clients that become blocked, further
// refusals of blocked clients, requests that a limit with `shadow` would refuse, and allowed
// requests. Omitted lines are counted in the next line of their kind.
type DecisionLog struct {
	// Also write a line for one in so many allowed requests, chosen at random: 100 means one in a
	// hundred, 1 means all. From 1 to 1000000000. Default: none.
	Sample int `json:"sample,omitempty"`
}

const maxSample = 1_000_000_000

// decisionLogger gives Caddy the name of the logger. It is no module that configs can use.
type decisionLogger struct{}

// decisionLoggerID is a constant because caddyserver.com takes a type with a literal ID for a module, and rejects a
// package that doesn't register it.
const decisionLoggerID = "http.log.rate_limit"

// CaddyModule implements caddy.Module.
func (decisionLogger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: decisionLoggerID, New: func() caddy.Module { return decisionLogger{} }}
}

// compile checks the option and compiles it. It returns nil if there is none.
func (l *DecisionLog) compile(ctx caddy.Context) (*report.DecisionLog, error) {
	if l == nil {
		return nil, nil
	}
	if l.Sample < 0 || l.Sample > maxSample {
		return nil, fmt.Errorf("decision_log: sample: must be from 1 to %d, or 0 for none, got %d", maxSample, l.Sample)
	}
	return &report.DecisionLog{Sample: l.Sample, Log: ctx.Logger(decisionLogger{})}, nil
}

// pageRules are the syntax of `page`.
func pageRules(field **Page) grammar.Rules {
	p := new(Page)
	return offOr("page", func(off bool) { *field, p.Disabled = p, off },
		grammar.Block{Check: p.check, Rules: func() grammar.Rules {
			return grammar.Rules{
				grammar.Line("name <text>", &p.Name),
				grammar.Line("contact <text>", &p.Contact),
			}
		}})
}

// decisionLogRule is the syntax of `decision_log`.
func decisionLogRule(field **DecisionLog) grammar.Rule {
	l := new(DecisionLog)
	return grammar.Line("decision_log [sample 1/<n>]", func(share string) error {
		n, isShare := strings.CutPrefix(share, "1/")
		sample, err := caddyconf.ParseCount(n)
		if !isShare || err != nil || sample < 1 || sample > maxSample {
			return fmt.Errorf("must be a share from 1/1 to 1/%d, such as 1/100, got %q", maxSample, share)
		}
		l.Sample = int(sample)
		return nil
	}).Then(func() error { *field = l; return nil })
}
