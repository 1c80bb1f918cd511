package page

import (
	"crypto/sha256"
	"encoding/base64"
	"net/mail"
	"net/url"
	"strings"
)

// Site is whose site a page is of. Both are texts of the operator and may be empty.
type Site struct {
	Name    string // of the site
	Contact string // an e-mail address, a URL or any other text
}

// Reference is what a person can give to whoever runs the site. It is empty if there is none.
type Reference struct {
	Short string // to read out
	Whole string // which tells more
}

// Link returns what the contact links to: the e-mail address with mailto:, or the URL if it is
// one of https, http, mailto or tel. Else it returns "".
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

// Source returns how a Content-Security-Policy allows an inline script or style: by its hash.
func Source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// policy returns a Content-Security-Policy from its directives.
func policy(directives ...string) string { return strings.Join(directives, "; ") }
