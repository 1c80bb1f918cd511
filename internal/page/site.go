package page

import (
	"crypto/sha256"
	"encoding/base64"
	"net/mail"
	"net/url"
	"strings"
)

// Site is the site of a page. Both texts come from the operator and may be empty.
type Site struct {
	Name    string // of the site
	Contact string // an e-mail address, a URL or any other text
}

// Reference is an identifier that a person can give to the site's operator. It is empty if there is
// none.
type Reference struct {
	Short string // to read out
	Whole string // contains more
}

// Link returns the link of the contact: the e-mail address with mailto:, or the URL if its scheme
// is https, http, mailto or tel. Otherwise it returns "".
func (s Site) Link() string {
	if address, err := mail.ParseAddress(s.Contact); err == nil && address.Address == s.Contact {
		return "mailto:" + s.Contact
	}
	u, err := url.Parse(s.Contact)
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "https", "http":
		if u.Host == "" {
			return ""
		}
	case "mailto", "tel":
	default:
		return ""
	}
	return u.String()
}

// Source returns a Content-Security-Policy source for an inline script or style: its hash.
func Source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// policy returns a Content-Security-Policy from its directives.
func policy(directives ...string) string { return strings.Join(directives, "; ") }
