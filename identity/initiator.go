package identity

import "strings"

// Initiator is the cause of a browser's request.
type Initiator uint8

// The initiators.
const (
	// OwnSite is a page of the site itself, or the person at the browser: a typed
	// address, a bookmark, a link in another program.
	OwnSite Initiator = iota
	// Link is a page of another origin that the person left for this one, by a link
	// commonly.
	Link
	// SameSite is a page of another host of the same site, such as www.example.com
	// for api.example.com.
	SameSite
	// CrossSite is a page of another site, or the browser itself, which loads ahead what the
	// person may want next.
	CrossSite
	// Unsaid is unknown. Programs say nothing, and neither does a browser over plain
	// HTTP that loads a picture for a page that hides where it is.
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

// IsOther reports whether a request says that another origin's page had it sent.
func (i Initiator) IsOther() bool { return i == Link || i == SameSite || i == CrossSite }

// Fetch is the data of a request about its cause, as received. Header
// fields that are missing are empty. No page can have its visitors' browsers send
// what the page likes in one of these fields; a program can.
type Fetch struct {
	Method  string
	Host    string // the request's host, with the port if it names one
	TLS     bool   // whether it came over TLS
	Site    string // Sec-Fetch-Site
	Mode    string // Sec-Fetch-Mode
	Dest    string // Sec-Fetch-Dest
	Origin  string // Origin
	Referer string // Referer
	Upgrade string // Upgrade-Insecure-Requests, which browsers send when they call up a page

	// Speculative reports whether the browser loads a page ahead: Sec-Purpose.
	Speculative bool
}

// Initiator returns the initiator of the request:
//
//	speculative              same-site              SameSite
//	                         Referer of the host    OwnSite, unless Sec-Fetch-Site says cross-site
//	                         otherwise              CrossSite
//	Sec-Fetch-Site           same-origin, none      OwnSite
//	                         same-site              SameSite; Link if it calls up a page
//	                         cross-site             CrossSite; Link if it calls up a page
//	otherwise Origin         of the host            OwnSite
//	                         null, of another       CrossSite
//	otherwise Referer        of the host            OwnSite
//	                         of another             CrossSite; Link if it calls up a page
//	otherwise                over TLS               OwnSite: browsers say Sec-Fetch-Site there
//	                         Upgrade-Insecure-…     OwnSite: a typed address
//	                         nothing                Unsaid
//
// Browsers send Sec-Fetch-Site over HTTPS and to their own machine only
// (https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header). Over plain HTTP a
// frame or a link of a page with the referrer policy no-referrer is like a typed
// address.
//
// Of a page that it loads ahead, Chromium says `Sec-Fetch-Site: none`, as of a typed address,
// whichever site asked for that.
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

// speculator returns who had a browser load a page ahead. Only the site's own page is known by
// the address that it is sent with.
func (f Fetch) speculator() Initiator {
	switch {
	case f.Site == "same-site":
		return SameSite
	case f.Site != "cross-site" && f.isOwn(f.Referer):
		return OwnSite
	}
	return CrossSite
}

// linkOr returns Link if the request calls up a page, and embedded if it is for a
// part of one.
func (f Fetch) linkOr(embedded Initiator) Initiator {
	if f.callsUpPage() {
		return Link
	}
	return embedded
}

// callsUpPage reports whether the request replaces the page that a browser shows.
// Without Sec-Fetch-Mode that may also be a frame in a page. Whether it was a
// click doesn't count: Safari doesn't send Sec-Fetch-User.
func (f Fetch) callsUpPage() bool {
	if f.Method != "GET" {
		return false
	}
	if f.Mode == "" && f.Dest == "" {
		return f.Upgrade == "1"
	}
	return f.Mode == "navigate" && f.Dest == "document"
}

// isOwn reports whether an address is of the request's host. Schemes don't count:
// a proxy in front may have ended the TLS connection.
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

// withoutDefaultPort returns a host without the port that browsers leave out.
func withoutDefaultPort(host string) string {
	if h, ok := strings.CutSuffix(host, ":443"); ok {
		return h
	}
	return strings.TrimSuffix(host, ":80")
}
