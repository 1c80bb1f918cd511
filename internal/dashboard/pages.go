package dashboard

// page is a page for GET, or for POST to reveal its addresses.
type page struct {
	title    string
	template string
	list     string // the name of its list of addresses in the audit; "" if it shows none
	load     func(*visit) (any, error)
}

// pages are the pages by the last segment of their path.
var pages = map[string]page{
	"":         {title: "Now", template: "now", list: "blocked", load: loadNow},
	"requests": {title: "Requests of the last minutes", template: "requests", load: loadRequests},
	"clients":  {title: "Clients", template: "clients", list: "clients", load: loadClients},
	"bans":     {title: "Bans and allowances", template: "bans", list: "bans", load: loadBans},
	"history":  {title: "History", template: "history", list: "heaviest clients", load: loadHistory},
	"audit":    {title: "Audit", template: "audit", list: "audit", load: loadAudit},
	"health":   {title: "Health", template: "health", load: loadHealth},
	"explain":  {title: "What would happen if", template: "explain", load: loadExplain},
}

// link is an entry of the navigation.
type link struct{ Page, Href, Text string }

// links is the navigation, in its order.
var links = []link{
	{"", "./", "Now"},
	{"requests", "requests", "Requests"},
	{"clients", "clients", "Clients"},
	{"bans", "bans", "Bans"},
	{"history", "history", "History"},
	{"audit", "audit", "Audit"},
	{"health", "health", "Health"},
}
