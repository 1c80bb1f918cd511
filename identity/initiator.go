package identity

import "strings"

// Initiator is the cause of a browser's request.
type Initiator uint8

// The initiators.
const (
	// OwnSite is a page of the site itself, or the person at the browser: a typed
	// address, a bookmark, a link in another program.
	OwnSite Initiator = iota
	// Link is a page of another origin that the person left for this one, usually with a link.
	Link
	// SameSite is a page of another host of the same site, such as www.example.com
	// for api.example.com.
	SameSite
	// CrossSite is a page of another site, or the browser itself if it loads pages ahead.
	CrossSite
	// Unsaid is unknown. Programs send nothing, and neither does a browser over plain HTTP that loads a
	// picture for a page without a referrer.
	Unsaid
)

var initiatorNames = [...]string{"own_site", "link", "same_site", "cross_site", "unsaid"}

// String returns the initiator's name.
func (i Initiator) String() string {
	if int(i) < len(initiatorNames) {
		return initiatorNames[i]
	}
	return initiatorNames[Unsaid]
}

// IsOther reports whether a request says that a page of another origin caused it.
func (i Initiator) IsOther() bool { return i == Link || i == SameSite || i == CrossSite }

// Fetch is the data of a request about its cause, as received. Missing header fields are empty. A page can't
// choose these fields in requests of its visitors' browsers; a program can.
type Fetch struct {
	Method  string
	Host    string // the request's host, with the port if it names one
	TLS     bool   // whether it came over TLS
	Site    string // Sec-Fetch-Site
	Mode    string // Sec-Fetch-Mode
	Dest    string // Sec-Fetch-Dest
	Origin  string // Origin
	Referer string // Referer
	Upgrade string // Upgrade-Insecure-Requests, which browsers send when they open a page

	// Speculative reports whether the browser loads a page ahead: Sec-Purpose.
	Speculative bool
}

// Initiator returns the initiator of the request:
//
//	speculative              same-site              SameSite
//	                         Referer of the host    OwnSite, unless Sec-Fetch-Site says cross-site
//	                         otherwise              CrossSite
//	Sec-Fetch-Site           same-origin, none      OwnSite
//	                         same-site              SameSite; Link if it opens a page
//	                         cross-site             CrossSite; Link if it opens a page
//	otherwise Origin         of the host            OwnSite
//	                         null, of another       CrossSite
//	otherwise Referer        of the host            OwnSite
//	                         of another             CrossSite; Link if it opens a page
//	otherwise                over TLS               OwnSite: browsers say Sec-Fetch-Site there
//	                         Upgrade-Insecure-…     OwnSite: a typed address
//	                         nothing                Unsaid
//
// Browsers send Sec-Fetch-Site only over HTTPS and to their own machine
// (https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header). Over plain HTTP a frame or a link of a page
// with the referrer policy no-referrer is like a typed address.
//
// For a page that it loads ahead, Chromium sends `Sec-Fetch-Site: none`, as for a typed address, whichever site
// requested that.
func (f Fetch) Initiator() Initiator {
	if f.Speculative {
		return f.speculator()
	}
	switch f.Site {
	case "same-origin", "none":
		return OwnSite
	case "same-site":
		return f.linkOr(SameSite)
	case "cross-site":
		return f.linkOr(CrossSite)
	}
	switch {
	case f.Origin != "":
		if f.isOwn(f.Origin) {
			return OwnSite
		}
		return CrossSite
	case f.Referer != "":
		if f.isOwn(f.Referer) {
			return OwnSite
		}
		return f.linkOr(CrossSite)
	case f.TLS || f.Method == "GET" && f.Upgrade == "1":
		return OwnSite
	}
	return Unsaid
}

// speculator returns the initiator of a request that loads a page ahead. Only the site's own page is
// identified by the Referer.
func (f Fetch) speculator() Initiator {
	switch {
	case f.Site == "same-site":
		return SameSite
	case f.Site != "cross-site" && f.isOwn(f.Referer):
		return OwnSite
	}
	return CrossSite
}

// linkOr returns Link if the request opens a page, and embedded if it loads a part of one.
func (f Fetch) linkOr(embedded Initiator) Initiator {
	if f.opensPage() {
		return Link
	}
	return embedded
}

// opensPage reports whether the request replaces the page that a browser shows. Without Sec-Fetch-Mode that may
// also be a frame in a page. It doesn't check for a click, because Safari doesn't send Sec-Fetch-User.
func (f Fetch) opensPage() bool {
	if f.Method != "GET" {
		return false
	}
	if f.Mode == "" && f.Dest == "" {
		return f.Upgrade == "1"
	}
	return f.Mode == "navigate" && f.Dest == "document"
}

// isOwn reports whether an address has the request's host. Schemes don't count, because a proxy may have
// terminated TLS.
func (f Fetch) isOwn(address string) bool {
	rest, ok := strings.CutPrefix(address, "https://")
	if !ok {
		if rest, ok = strings.CutPrefix(address, "http://"); !ok {
			return false
		}
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest != "" && strings.EqualFold(withoutDefaultPort(rest), withoutDefaultPort(f.Host))
}

// withoutDefaultPort returns a host without the port that browsers omit.
func withoutDefaultPort(host string) string {
	if h, ok := strings.CutSuffix(host, ":443"); ok {
		return h
	}
	return strings.TrimSuffix(host, ":80")
}
