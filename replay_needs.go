package tally

import (
	"net/textproto"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// replayNeed is what a zone asks of a request, and a log may not have.
type replayNeed struct {
	field string // the header field; "" for what no log has
	text  string
}

// unknown returns what a zone needs of a request and the log lacks, or "".
func (j *replayJudge) unknown(z *enforce.Zone, r *accesslog.Record) string {
	needs, known := j.needs[z]
	if !known {
		needs = needsOf(z, j.config.app.run)
		j.needs[z] = needs
	}
	for _, n := range needs {
		if n.field == "" || r.Hides(n.field) {
			return n.text
		}
	}
	return ""
}

// needsOf returns what a zone counts by that a log may not have.
func needsOf(z *enforce.Zone, a *enforce.Config) (needs []replayNeed) {
	for _, text := range []string{z.Key, z.Tier, z.Cost.From} {
		for _, name := range placeholder.Names(text) {
			if n, ok := needOf(name); ok {
				needs = append(needs, n)
			}
		}
	}
	if a.APIKeys != nil && (z.Per == enforce.PerAPIKey || z.Tiers || z.Per == enforce.PerClient) {
		for _, source := range a.APIKeys.From {
			switch source.Kind {
			case enforce.FromHeader:
				needs = append(needs, needOfField(source.In))
			case enforce.FromBearer:
				needs = append(needs, needOfField("Authorization"))
			case enforce.FromCookie:
				needs = append(needs, needOfField("Cookie"))
			}
		}
	}
	if z.Per == enforce.PerClient && a.Session != nil {
		needs = append(needs, needOfField("Cookie"))
	}
	return needs
}

func needOfField(name string) replayNeed {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return replayNeed{field: name, text: "the header field " + name}
}

// needOf returns what a placeholder needs, if logs may not have it.
func needOf(name string) (n replayNeed, ok bool) {
	if field, ok := strings.CutPrefix(name, "http.request.header."); ok {
		return needOfField(field), true
	}
	switch {
	case strings.HasPrefix(name, "http.request.cookie."):
		return needOfField("Cookie"), true
	case strings.HasPrefix(name, "http.request.body"):
		return replayNeed{text: "the body"}, true
	case strings.HasPrefix(name, "http.request.tls.client."):
		return replayNeed{text: "the client's certificate"}, true
	case strings.HasPrefix(name, "http.auth.user.") && name != "http.auth.user.id":
		return replayNeed{text: "what authentication knows of the user"}, true
	}
	return n, false
}
