package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// explain returns `caddy rate-limit explain`.
func (c console) explain() *cobra.Command {
	var target string
	var headers []string
	cmd := &cobra.Command{
		Use:   "explain <client|reference>",
		Short: "Says how a client stands, and what its next request gets",
		Long: `Says all that is known of a client: what it has used of which limit and when
that frees, its tier, its score and its violations, whether it is banned, and
what its next request gets. The reference of a refusal, which a visitor was
shown, says which client to explain. Its first ten characters are enough while
Caddy has the refusal in memory.
` + clientHelp,
		Example: `  caddy rate-limit explain 203.0.113.9
  caddy rate-limit explain 203.0.113.9 --url 'POST https://example.com/login' --header 'X-Api-Key: …'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeClient(0),
	}
	cmd.Flags().StringVar(&target, "url", "", "A request that it might make: [METHOD] URL")
	cmd.Flags().StringArrayVar(&headers, "header", nil, "A header field of that request: 'Name: value'")
	return c.command(cmd, func(s *session, args []string) error {
		q, err := question(args[0], target, headers)
		if err != nil {
			return err
		}
		e, err := s.Explain(s.ctx, q)
		if err != nil {
			return err
		}
		return s.report(e, true, "", func() { s.showExplanation(e) })
	})
}

// question returns the question in the arguments of explain.
func question(client, target string, headers []string) (q operator.Question, err error) {
	q.Client = client
	if method, url, ok := strings.Cut(target, " "); ok {
		q.Method, q.URL = method, strings.TrimSpace(url)
	} else {
		q.URL = target
	}
	if q.URL != "" && !strings.Contains(q.URL, "://") {
		return q,
			fmt.Errorf(
				"--url: got %q: expected a URL with its scheme and host, such as 'POST https://example.com/login'",
				target)
	}
	for _, header := range headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok || textproto.TrimString(name) == "" {
			return q, fmt.Errorf("--header: got %q: expected a name and a value, such as 'User-Agent: curl'", header)
		}
		if q.URL == "" {
			return q, fmt.Errorf("--header: expected --url as well, since a client alone has no header fields")
		}
		if q.Header == nil {
			q.Header = make(http.Header)
		}
		q.Header.Add(textproto.TrimString(name), textproto.TrimString(value))
	}
	return q, nil
}

func (s *session) showExplanation(e operator.Explanation) {
	// in one line, to be pasted
	fmt.Fprintln(s.out, wording.Bold.In(printable(pasted(cmp.Or(e.Client, e.Text))), s.look))
	if e.Text != "" && e.Text != e.Client && !strings.HasSuffix(e.Client, ":"+e.Text) { // as in api-key:acme
		s.fact("", e.Text)
	}
	if e.Tag != "" {
		s.fact("Tag", e.Tag)
	}
	if r := e.Refusal; r != nil {
		s.fact("Refused", refusedBy(r)+", "+moment(r.At, s.now))
		if r.Text != "" {
			s.fact("  Request", r.Text)
		}
	}
	outcome := green
	if e.Next.Status != 0 {
		outcome = red
	}
	next := printable(e.Next.Text)
	if e.Next.Retry > 0 {
		next += "; it passes in " + span(e.Next.Retry.Duration())
	}
	s.printf("  Next request: %s", outcome.In(next, s.look))
	if e.Exempt {
		s.fact("Exempt", "the request is exempt from all zones")
	}
	s.showRule(e.Rule)
	s.showRule(e.Ban)
	if e.Tier != "" {
		s.fact("Tier", joined(e.Tier, e.TierReason))
	}
	if e.Squeezed != nil {
		s.fact("Network", "has smaller limits "+until(e.Squeezed, s.now)+", since too many clients came from it")
	}
	s.showAdvice(e.Advice)
	s.showReputation(e.Reputation)
	if len(e.Limits) > 0 {
		s.printf("")
		s.showLimits(e)
	}
}

// refusedBy describes the cause of a refusal.
func refusedBy(r *operator.Refusal) string {
	switch {
	case r.Limit == "":
		return "by a limit that the config doesn't have any more"
	case r.Limit == "ban" && r.Zone == "ban":
		return "by a ban"
	}
	return "by limit " + r.Limit + " of zone " + r.Zone
}

// fact prints a line of an explanation.
func (s *session) fact(name, text string) {
	if name != "" {
		name += ": "
	}
	s.printf("  %s%s", name, printable(text))
}

// joined returns a text with details in parentheses.
func joined(text, more string) string {
	if more == "" {
		return text
	}
	return text + " (" + more + ")"
}

func (s *session) showRule(b *operator.Rule) {
	if b == nil {
		return
	}
	word := map[operator.Action]string{operator.Ban: "Banned", operator.Allow: "Allowed"}[b.Action]
	text := until(b.Until, s.now) + ", by " + b.By
	if b.Client != "" {
		text += ", as " + b.Client
	}
	s.fact(cmp.Or(word, string(b.Action)), joined(text, b.Reason))
}

func (s *session) showReputation(r *operator.Reputation) {
	if r == nil {
		return
	}
	s.fact("Score", fmt.Sprintf("%.0f (%s risk)", r.Score, r.Level))
	if r.Reduces != "" {
		s.fact("Has", r.Reduces)
	}
	for _, v := range r.Violations {
		text := v.Reason
		if v.Zone != "" {
			text += " in zone " + v.Zone
		}
		s.fact("  Violation", text+", "+moment(v.At, s.now))
	}
}

func (s *session) showLimits(e operator.Explanation) {
	writeTable(s.out, s.look, []column[operator.LimitState]{
		{"ZONE", func(l operator.LimitState) cell { return text(l.Zone) }},
		{"LIMIT", func(l operator.LimitState) cell { return limitCell(l.Limit, l.Shadow) }},
		{"UNITS", func(l operator.LimitState) cell { return text(l.Text) }},
		{"TAG", func(l operator.LimitState) cell {
			if l.Tag == e.Tag {
				return text("") // which stands above the table
			}
			return text(l.Tag)
		}},
		{"COUNTS", func(l operator.LimitState) cell { return named(l.Client, l.Counts) }},
		{"USED", func(l operator.LimitState) cell { return figure(l.Used) }},
		{"LEFT", func(l operator.LimitState) cell { return figure(l.Left) }},
		{"COST", func(l operator.LimitState) cell { return figure(l.Cost) }},
		{"NEXT", func(l operator.LimitState) cell { return s.nextOf(l, e.Next.Status != 0) }},
	}, e.Limits)
}

// nextOf describes a limit's effect on the next request, which is refused by something.
func (s *session) nextOf(l operator.LimitState, isRefused bool) cell {
	then := ""
	if l.FreeAt != nil {
		then = " " + fromNow(*l.FreeAt, s.now)
	}
	switch {
	case !l.Refuses && isRefused:
		return cell{Text: "has room"}
	case !l.Refuses:
		return cell{Text: "passes", Style: green}
	case l.Shadow && then == "":
		return cell{Text: "would never pass", Style: yellow}
	case l.Shadow:
		return cell{Text: "would pass" + then, Style: yellow}
	case then == "":
		return cell{Text: "never passes", Style: red}
	}
	return cell{Text: "passes" + then, Style: red}
}
