package identity

import (
	"strings"
	"testing"
)

func TestInitiator(t *testing.T) {
	const own, other = "http://site.test:8080", "http://evil.test"
	for name, c := range map[string]struct {
		fetch Fetch
		want  Initiator
	}{
		"typed address":                  {Fetch{Site: "none", Mode: "navigate", Dest: "document", Upgrade: "1"}, OwnSite},
		"own page":                       {Fetch{Site: "same-origin", Referer: own + "/x"}, OwnSite},
		"own form":                       {Fetch{Method: "POST", Site: "same-origin", Origin: own}, OwnSite},
		"own form that hides where":      {Fetch{Method: "POST", Site: "same-origin", Origin: "null"}, OwnSite},
		"link":                           {Fetch{Site: "cross-site", Mode: "navigate", Dest: "document", Referer: other + "/"}, Link},
		"clicked link":                   {Fetch{Site: "cross-site", Mode: "navigate", Dest: "document", Upgrade: "1"}, Link},
		"link of a sibling":              {Fetch{Site: "same-site", Mode: "navigate", Dest: "document"}, Link},
		"picture elsewhere":              {Fetch{Site: "cross-site", Mode: "no-cors", Dest: "image"}, CrossSite},
		"picture at a sibling":           {Fetch{Site: "same-site", Mode: "no-cors", Dest: "image"}, SameSite},
		"frame elsewhere":                {Fetch{Site: "cross-site", Mode: "navigate", Dest: "iframe", Upgrade: "1"}, CrossSite},
		"form elsewhere":                 {Fetch{Method: "POST", Site: "cross-site", Mode: "navigate", Dest: "document", Upgrade: "1"}, CrossSite},
		"script elsewhere":               {Fetch{Method: "POST", Site: "cross-site", Mode: "no-cors", Origin: other}, CrossSite},
		"prefetch elsewhere":             {Fetch{Site: "cross-site", Mode: "no-cors", Dest: "empty"}, CrossSite},
		"prefetch by rules elsewhere":    {Fetch{Site: "none", Mode: "navigate", Dest: "document", Upgrade: "1", Referer: other + "/", Speculative: true}, CrossSite},
		"prefetch that hides where":      {Fetch{Site: "none", Mode: "navigate", Dest: "document", Upgrade: "1", Speculative: true}, CrossSite},
		"prefetch without a page":        {Fetch{Site: "same-origin", Speculative: true}, CrossSite},
		"prefetch by own page":           {Fetch{Site: "none", Mode: "navigate", Dest: "document", Upgrade: "1", Referer: own + "/x", Speculative: true}, OwnSite},
		"prefetch of a link elsewhere":   {Fetch{Site: "cross-site", Mode: "navigate", Dest: "document", Speculative: true}, CrossSite},
		"prefetch by a sibling":          {Fetch{Site: "same-site", Mode: "navigate", Dest: "document", Speculative: true}, SameSite},
		"HTTP: prefetch":                 {Fetch{Upgrade: "1", Speculative: true}, CrossSite},
		"HTTPS: prefetch":                {Fetch{TLS: true, Speculative: true}, CrossSite},
		"one header":                     {Fetch{Site: "cross-site"}, CrossSite},
		"one header more":                {Fetch{Site: "cross-site", Upgrade: "1"}, Link},
		"HTTP: typed address":            {Fetch{Upgrade: "1"}, OwnSite},
		"HTTP: own link":                 {Fetch{Upgrade: "1", Referer: own + "/x?y#z"}, OwnSite},
		"HTTP: own picture":              {Fetch{Referer: own}, OwnSite},
		"HTTP: own script":               {Fetch{Method: "POST", Origin: own, Referer: own + "/"}, OwnSite},
		"HTTP: link":                     {Fetch{Upgrade: "1", Referer: other + "/"}, Link},
		"HTTP: picture elsewhere":        {Fetch{Referer: other + "/page"}, CrossSite},
		"HTTP: form elsewhere":           {Fetch{Method: "POST", Upgrade: "1", Origin: other}, CrossSite},
		"HTTP: form that hides where":    {Fetch{Method: "POST", Upgrade: "1", Origin: "null"}, CrossSite},
		"HTTP: picture that hides where": {Fetch{}, Unsaid},
		"HTTP: program":                  {Fetch{Method: "POST"}, Unsaid},
		"HTTPS: program":                 {Fetch{TLS: true}, OwnSite},
		"HTTPS: old browser, picture":    {Fetch{TLS: true, Referer: "https://evil.test/"}, CrossSite},
		"HTTPS: old browser, own":        {Fetch{TLS: true, Referer: "https://site.test:8080/"}, OwnSite},
		"nonsense":                       {Fetch{Site: "CROSS-SITE"}, Unsaid},
		"a host that begins alike":       {Fetch{Referer: own + ".evil.test/"}, CrossSite},
		"a host that ends alike":         {Fetch{Referer: "http://evil.site.test:8080/"}, CrossSite},
		"another port":                   {Fetch{Referer: "http://site.test/"}, CrossSite},
		"a user name":                    {Fetch{Referer: "http://site.test:8080@evil.test/"}, CrossSite},
		"an app":                         {Fetch{Referer: "android-app://site.test:8080/"}, CrossSite},
		"no host":                        {Fetch{Referer: "http://"}, CrossSite},
	} {
		f := c.fetch
		f.Host = "site.test:8080"
		if f.Method == "" {
			f.Method = "GET"
		}
		if got := f.Initiator(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for host, address := range map[string]string{
		"Example.com": "https://example.COM/", "example.com": "http://example.com:80", "example.com:443": "https://example.com?x",
		"[::1]:8080": "http://[::1]:8080/", "[::1]": "http://[::1]:80/",
	} {
		if got := (Fetch{Method: "GET", Host: host, Referer: address}).Initiator(); got != OwnSite {
			t.Errorf("%s at %s: %v", address, host, got)
		}
	}
	if got := (Fetch{Method: "GET", Referer: "http:///"}).Initiator(); got != CrossSite {
		t.Errorf("nothing at nothing: %v", got)
	}
}

// A request that a browser attributes to another site is never taken for the site's own, whatever
// else the request says.
func FuzzInitiator(f *testing.F) {
	f.Add("GET", "site.test", true, "cross-site", "navigate", "document", "https://site.test", "https://site.test/", "1")
	f.Add("POST", "site.test:80", false, "", "", "", "null", "", "1")
	f.Add("GET", "[::1]:443", false, "same-site", "", "", "", "http://[::1]/", "")
	f.Fuzz(func(t *testing.T, method, host string, tls bool, site, mode, dest, origin, referer, upgrade string) {
		fetch := Fetch{method, host, tls, site, mode, dest, origin, referer, upgrade, true}
		if got := fetch.Initiator(); got == OwnSite && (!fetch.isOwn(referer) || site == "cross-site" || site == "same-site") || got == Link || got == Unsaid {
			t.Errorf("%+v is %v", fetch, got)
		}
		fetch.Speculative = false
		got := fetch.Initiator()
		if foreign := site == "cross-site" || site == "same-site"; foreign != got.IsOther() && (foreign || site == "same-origin" || site == "none") {
			t.Errorf("%+v is %v", fetch, got)
		}
		if strings.HasPrefix(got.String(), "unsaid") && (tls || origin != "" || referer != "" || site == "none") {
			t.Errorf("%+v says something, and is %v", fetch, got)
		}
		if got == Link && method != "GET" {
			t.Errorf("%+v is %v", fetch, got)
		}
		fetch.Site, fetch.Origin = "", "https://"+strings.ToUpper(host)+".evil.test"
		if got := fetch.Initiator(); got == OwnSite {
			t.Errorf("%+v is %v", fetch, got)
		}
	})
}

func TestInitiatorAllocatesNothing(t *testing.T) {
	f := Fetch{Method: "GET", Host: "site.test:8080", Referer: "http://site.test:8080/where?x=1"}
	if n := testing.AllocsPerRun(100, func() { f.Initiator() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
