package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// coverage describes what the log lacks, and other reasons why the replay may be inexact.
func (r *run) coverage(p *Report) (says []string) {
	say := func(n int64, format string, args ...any) {
		if n > 0 {
			says = append(says, capitalized(fmt.Sprintf(format, args...)))
		}
	}
	f, all := &r.facts, r.facts.requests
	if all == 0 {
		return r.nothing(p)
	}
	for reason, n := range sorted(r.skipped) {
		say(n, "%s could not be decided about: %s.", wording.Counted(n, "request"), reason)
	}
	say(f.noHost, "The site is unknown of %s: name it with --site.", share(f.noHost, all))
	say(f.noFields, "%s have no header fields: what depends on one, a matcher or a key, works as if it were missing.",
		share(f.noFields, all))
	say(f.partial, "%s have some header fields only.", share(f.partial, all))
	say(int64(len(f.hidden)), "Hidden in the log, and taken as missing: %s.", names(f.hidden, 5))
	for _, l := range p.Limits {
		for what, n := range sorted(l.Unknown) {
			say(n, "Zone %s, limit %s: the log lacks %s for %s, so they count as requests without it.", l.Zone, l.Limit,
				what, share(n, l.Requests))
		}
	}
	say(f.hashed, "%s have no address: each text in its place counts as a client of its own.", share(f.hashed, all))
	if f.addresses > 100 && f.zeroEnd*100 > f.addresses*95 {
		say(1, "Nearly all IPv4 addresses end in 0: the log masks them, so the clients of a network count as one.")
	}
	say(f.noScheme, "Whether TLS was used is unknown of %s.", share(f.noScheme, all))
	say(f.rounded, "The times of %s are whole seconds: bursts within a second look like one moment.",
		share(f.rounded, all))
	if f.untimed*10 > all {
		say(f.untimed, "How long they took is unknown of %s: they count at the time of their line, which may be that of their end.", share(f.untimed, all))
	}
	say(r.log.Late, "%s came too late for their order, and count at the time of a later request.",
		share(r.log.Late, all))
	say(f.bodies, "Bodies are in no log: %s had a method that sends one.", share(f.bodies, all))
	if r.Connections {
		say(1, "Connections are in no log: some of these requests would have been closed before TLS, and those that were aren't here.")
	}
	say(r.log.Bad, "%s could not be read.", wording.Counted(r.log.Bad, "line"))
	return says
}

// nothing describes why no request was replayed.
func (r *run) nothing(p *Report) (says []string) {
	switch log := &p.Log; {
	case log.Lines == 0:
		return []string{"The log is empty."}
	case log.Records == 0 && log.Bad > 0:
		return []string{fmt.Sprintf("No line of the log could be read as a request, of %s. If its format is none of those that are recognized, name it with --format.", wording.Counted(log.Lines, "line"))}
	case log.Records == 0:
		return []string{"No line of the log is about a request. Caddy writes one for each request if the site has the directive log."}
	}
	if p.Outside > 0 {
		says = append(says, fmt.Sprintf("%s not within --from and --to. The log has requests from %s to %s.",
			are(p.Outside), clockText(moment(r.span.first)), clockText(moment(r.span.last))))
	}
	if p.Other > 0 {
		says = append(says,
			fmt.Sprintf("%s for other hosts than those of --site: %s.", are(p.Other), names(r.hosts, 5)))
	}
	return says
}

// are returns a number of requests with its verb: 1 request is, 2 requests are.
func are(n int64) string {
	if n == 1 {
		return "1 request is"
	}
	return wording.Counted(n, "request") + " are"
}

// Check returns an error if the log has no readable record.
func (r *Report) Check() error {
	if r.Log.Records > 0 || r.Log.Bad == 0 {
		return nil
	}
	text := "no line of the log could be read as a request: expected Caddy's JSON, Common, Combined, or those of nginx and Traefik; name another format with --format"
	if len(r.Log.Quoted) > 0 {
		first := r.Log.Quoted[0]
		text += fmt.Sprintf("; %s, line %d: %s", first.File, first.Line, first.Error)
	}
	return errors.New(text)
}

// capitalized returns a sentence with an initial capital.
func capitalized(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// sorted returns counts in the order of their texts.
func sorted(counts map[string]int64) func(func(string, int64) bool) {
	return func(yield func(string, int64) bool) {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if !yield(name, counts[name]) {
				return
			}
		}
	}
}

// share returns a number of requests and their share of all: 120 requests (1.2 %).
func share(n, all int64) string {
	if n == all {
		return "all requests"
	}
	return fmt.Sprintf("%s (%s)", wording.Counted(n, "request"), percent(n, all))
}

// percent returns a share in percent: 0 % only for none, and 100 % only for all.
func percent(n, all int64) string {
	p := 100 * float64(n) / float64(max(all, 1))
	switch {
	case n == 0:
		return "0 %"
	case p < 0.01:
		return "< 0.01 %"
	case p < 1:
		return fmt.Sprintf("%.2f %%", p)
	case p < 99.95:
		return fmt.Sprintf("%.1f %%", p)
	case n < all:
		return "> 99.9 %"
	}
	return "100 %"
}
