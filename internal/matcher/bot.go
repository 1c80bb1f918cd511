package matcher

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/crawler"
	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

func init() {
	caddy.RegisterModule(VerifiedBot{})
}

// VerifiedBot matches requests of known crawlers: the `User-Agent` claims it, and the client's
// address confirms it. An address is confirmed if the operator's list has it, or if its name in
// reverse DNS is below the operator's domains and has that address in forward DNS.
//
// No request waits for DNS: until an address is confirmed, its requests don't match. Results are kept
// in memory, confirmed ones for a day and others for an hour. Look-ups are bounded: 10 per second.
//
// An address that the client may have written itself, in a header field that a trusted proxy
// appends to, confirms nothing.
type VerifiedBot struct {
	// The operators: `apple`, `baidu`, `bing`, `commoncrawl`, `duckduckgo`, `google`, `openai` or
	// `yandex`. Required.
	Names []string `json:"names,omitempty"`

	// Files with the addresses of an operator, by its name, each as it publishes them in JSON, or
	// with a network per line. A file is read again when it changes; if it can't be used then, the
	// previous addresses stay in force. Required for `duckduckgo` and `openai`, which DNS doesn't
	// confirm.
	Ranges map[string]string `json:"ranges,omitempty"`

	bots     []bot
	verifier *crawler.Verifier
}

// bot is an operator with its file of addresses, or nil.
type bot struct {
	*crawler.Operator
	ranges *crawler.Ranges
}

// verifiers has the verifier of all configs, so that a reload keeps what is confirmed.
var verifiers = caddy.NewUsagePool()

const verifierKey = "dns"

// CaddyModule returns the Caddy module information.
func (VerifiedBot) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.verified_bot", New: func() caddy.Module { return new(VerifiedBot) }}
}

// Provision checks the operators, and reads their files. It looks up nothing.
func (v *VerifiedBot) Provision(ctx caddy.Context) error {
	if err := v.check(); err != nil {
		return err
	}
	for _, name := range v.Names {
		b := bot{Operator: crawler.Find(name)}
		if path := v.Ranges[name]; path != "" {
			log := ctx.Logger().With(zap.String("operator", name), zap.String("file", path))
			var err error
			if b.ranges, err = crawler.OpenRanges(path,
				func(err error) { logChange(log, "the file of a crawler's addresses", "addresses", err) }); err != nil {
				return fmt.Errorf("verified_bot: %s: %w", name, err)
			}
		}
		v.bots = append(v.bots, b)
	}
	value, _ := verifiers.LoadOrStore(verifierKey, crawler.NewVerifier(crawler.DNS, time.Now))
	v.verifier = value.(*crawler.Verifier)
	return nil
}

// logChange logs that a file was read again, or that its previous content stays in force.
func logChange(log *zap.Logger, file, content string, err error) {
	if err != nil {
		log.Error(file+" is invalid; the previous "+content+" stay in force", zap.Error(err))
		return
	}
	log.Info(file + " was read again")
}

// check returns an error about the options.
func (v *VerifiedBot) check() error {
	if err := cmp.Or(checkCommas(v.Names), v.checkNames()); err != nil {
		return fmt.Errorf("verified_bot: %w", err)
	}
	return nil
}

func (v *VerifiedBot) checkNames() error {
	known := strings.Join(crawler.Names(), ", ")
	if len(v.Names) == 0 {
		return fmt.Errorf("names are missing: expected some of %s", known)
	}
	for _, name := range slices.Concat(v.Names, slices.Sorted(maps.Keys(v.Ranges))) {
		o := crawler.Find(name)
		switch {
		case o == nil:
			return fmt.Errorf("there is no operator %q: expected some of %s", name, known)
		case !slices.Contains(v.Names, name):
			return fmt.Errorf("ranges: got %q, which isn't matched: write verified_bot %s %[1]s", name,
				strings.Join(v.Names, " "))
		case !o.HasNames() && v.Ranges[name] == "":
			return fmt.Errorf("DNS doesn't confirm %s: save %s, and write ranges %[1]s <file> in a block", name, o.List)
		}
	}
	return nil
}

// Cleanup gives up the verifier. The last config that does so ends its look-ups. Requests that
// outlive the config may still ask it.
func (v *VerifiedBot) Cleanup() error {
	if v.verifier != nil {
		_, _ = verifiers.Delete(verifierKey) // returns no error
	}
	return nil
}

// MatchWithError reports whether a request is a crawler's. It returns an error for early data that claims to be.
func (v *VerifiedBot) MatchWithError(r *http.Request) (bool, error) {
	agent := r.UserAgent()
	claims := func(b bot) bool { return b.IsClaimedBy(agent) }
	if IsEarly(r) && slices.ContainsFunc(v.bots, claims) {
		return false, errEarly
	}
	return slices.ContainsFunc(v.bots, func(b bot) bool { return claims(b) && v.confirms(b, r) }), nil
}

// confirms reports whether the address of a request is the operator's.
func (v *VerifiedBot) confirms(b bot, r *http.Request) bool {
	addr, err := netip.ParseAddr(clientIP(r))
	if err != nil || IsClaimed(r) {
		return false
	}
	if b.ranges != nil && b.ranges.Contains(addr) {
		return true
	}
	return v.verifier.IsConfirmed(b.Operator, addr, !isForecast(r))
}

// forecastVar is the variable of requests that nobody sent.
const forecastVar = "rate_limit.forecast"

// SetForecast notes that nobody sent a request: it is from a log, or an operator asks what would
// happen. No address is looked up for it.
func SetForecast(r *http.Request) { caddyhttp.SetVar(r.Context(), forecastVar, true) }

// isForecast reports whether nobody sent a request.
func isForecast(r *http.Request) bool {
	return caddyhttp.GetVar(r.Context(), forecastVar) != nil
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	verified_bot <names...> {
//		ranges <name> <file>
//	}
func (v *VerifiedBot) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	line := grammar.Line("verified_bot <names...>", &v.Names).Repeats().With(grammar.Block{Rules: v.rules})
	if err := line.ReadAll(d); err != nil {
		return err
	}
	if err := v.check(); err != nil { // a later line may name the ranges of an earlier one's name
		return d.WrapErr(err)
	}
	return nil
}

func (v *VerifiedBot) rules() grammar.Rules {
	var name, path string
	return grammar.Rules{grammar.Line("ranges <name> <file>", &name, &path).Repeats().Then(func() error {
		if v.Ranges[name] != "" {
			return fmt.Errorf("there are two files of %s: merge them", name)
		}
		if v.Ranges == nil {
			v.Ranges = make(map[string]string)
		}
		v.Ranges[name] = path
		return nil
	})}
}

// Interface guards
var (
	_ caddy.Provisioner                 = (*VerifiedBot)(nil)
	_ caddy.CleanerUpper                = (*VerifiedBot)(nil)
	_ caddyfile.Unmarshaler             = (*VerifiedBot)(nil)
	_ caddyhttp.RequestMatcherWithError = (*VerifiedBot)(nil)
)
