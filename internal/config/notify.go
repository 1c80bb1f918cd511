package config

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/routing"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Notify is a webhook that is told of bans, of a store that can't be used, of zones that refuse
// unusually much, and of quotas that are nearly used up. No request waits for it. Of one kind, and zone, there is at most one notification
// a minute. What can't be delivered is sent again up to seven times within some ten minutes, and then
// dropped.
type Notify struct {
	// Where notifications are posted. Placeholders such as `{env.NTFY_URL}` are replaced. Required.
	URL string `json:"url,omitempty"`

	// Which events are posted: `ban` (of a client for its violations), `degraded` (the store can't
	// be used, or can again), `refusals` (a zone refuses at least 100 requests a minute, and ten
	// times as many as in the last hour on average), `quota` (a key has used 80 % of a fixed limit of a
	// day or longer). Default: all.
	On []string `json:"on,omitempty"`

	// The body, as a Go template of the fields Kind, Time, Text, Zone, Limit, Reason, Client, Until,
	// Count, Amount and LeftOut; `{{json .Text}}` quotes for JSON. Client has the network instead of an address;
	// Address has the address. Default: a JSON object of all fields but Address.
	Template string `json:"template,omitempty"`

	// Header fields of the request. Placeholders are replaced. Content-Type is set by the body.
	Header map[string]string `json:"header,omitempty"`
}

// maxNotify bounds how many webhooks there are.
const maxNotify = 8

var fieldName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

var notifyKinds = []string{notify.Ban, notify.Degraded, notify.Refusals, notify.Quota}

// compileNotify opens the webhooks. Nothing is posted yet.
func (c *Compiler) compileNotify() error {
	if len(c.Notify) > maxNotify {
		return fmt.Errorf("notify: expected at most %d, got %d", maxNotify, len(c.Notify))
	}
	for _, n := range c.Notify {
		w, err := n.open()
		if err != nil {
			return fmt.Errorf("notify: %w", err)
		}
		c.Run.Webhooks = append(c.Run.Webhooks, w)
		c.found = append(c.found, n.emptyPlaceholders(c.Source)...)
	}
	return nil
}

// emptyPlaceholders finds placeholders without a value, such as a variable that isn't set.
func (n *Notify) emptyPlaceholders(source string) (found []advice.Advice) {
	replacer := caddy.NewReplacer()
	for _, text := range append([]string{n.URL}, slices.Sorted(maps.Values(n.Header))...) {
		for _, name := range routing.PlaceholderNames(text) {
			if value, _ := replacer.GetString(name); value == "" {
				found = append(found, advice.Advice{Source: source, Problem: "notify: {" + name + "} is empty",
					Fix: "it into the environment of Caddy, or its value in the place of the placeholder"})
			}
		}
	}
	return found
}

func (n *Notify) open() (*notify.Webhook, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	replacer, on, header := caddy.NewReplacer(), n.On, ""
	if len(on) == 0 {
		on = notifyKinds
	}
	for _, name := range slices.Sorted(maps.Keys(n.Header)) {
		value := replacer.ReplaceAll(n.Header[name], "")
		if strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header: the value of %s has characters that no field may have", name)
		}
		header += http.CanonicalHeaderKey(name) + ": " + value + "\n"
	}
	return notify.Acquire(notify.Options{URL: replacer.ReplaceAll(n.URL, ""), Template: n.Template, Header: header,
		On: strings.Join(on, " ")})
}

// check returns an error about the first option that can't be used.
func (n *Notify) check() error {
	if n == nil || n.URL == "" {
		return errors.New("expected a URL")
	}
	for _, kind := range n.On {
		if !slices.Contains(notifyKinds, kind) {
			return fmt.Errorf("on: expected %s, got %q", caddyconf.OrList(notifyKinds), kind)
		}
	}
	for name := range n.Header {
		if !fieldName.MatchString(name) {
			return fmt.Errorf("header: got %q: expected the name of a field", name)
		}
	}
	if _, err := notify.ParseTemplate(n.Template); err != nil {
		return fmt.Errorf("template: %w; write for example {\"text\": {{json .Text}}}", err)
	}
	return nil
}

// block is the syntax of `notify`.
func (n *Notify) block() grammar.Block {
	return grammar.Block{Check: n.check, Rules: func() grammar.Rules {
		var name, value string
		return grammar.Rules{
			grammar.Line("on ban|degraded|refusals|quota...", &n.On),
			grammar.Line("template <text>", &n.Template),
			grammar.Line("header <field> <value>", &name, &value).Repeats().Then(func() error {
				if n.Header == nil {
					n.Header = make(map[string]string)
				}
				n.Header[name] = value
				return nil
			}),
		}
	}}
}
