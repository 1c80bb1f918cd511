package tally_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// answers are what people ask, and where the answer is: a page, or a section of it, and words that stand there.
var answers = []struct{ question, page, words string }{
	// Before they choose it.
	{"How do I get it?", "README.md#install", "xcaddy build --with"},
	{"Is it stable?", "README.md#status", "Not released yet"},
	{"What does it cost per request?", "docs/performance.md#what-a-request-costs", "µs"},
	{"How does it compare with nginx?", "README.md#other-rate-limiters", "limit_req"},
	{"What can it not do?", "docs/promises.md#not-promised", "no shield"},
	{"Does it store addresses?", "docs/operations.md#privacy", "No address"},
	{"Does it run on a Raspberry Pi?", "docs/platforms.md", "Linux, arm64"},

	// When they set it up.
	{"How do I limit sign-ins?", "docs/recipes/failed-logins.md", "401"},
	{"How do I let my monitoring through?", "docs/reference/handler.md#handler", "exempt"},
	{"My site is behind Cloudflare: what do I write?", "docs/recipes/cloudflare.md", "trusted_proxies"},
	{"Why do all visitors share one count?", "docs/clients.md#behind-a-proxy", "trusted_proxies"},
	{"Can I limit uploads by size?", "docs/recipes/uploads.md", "cost"},
	{"How do I give customers a quota per month?", "docs/recipes/api-keys.md", "month"},
	{"How do I stop scrapers of a forge without stopping git?", "docs/recipes/forgejo.md", "git"},
	{"How do I allow search engines only?", "docs/recipes/search-engines.md", "verified_bot"},
	{"What limit should I choose?", "docs/shadow.md#1-choose-a-number", "caddy rate-limit init"},
	{"How do I try a limit without refusing anybody?", "docs/shadow.md#2-let-it-run-in-shadow", "shadow"},
	{"How do I change the text of the refusal?", "docs/output.md#the-page-for-browsers", "handle_errors"},
	{"What does this warning mean?", "docs/advice.md", "in `see` the part of this page"},

	// When it runs.
	{"A customer is locked out: what now?", "docs/locked-out.md", "caddy rate-limit explain"},
	{"How do I ban an address?", "docs/bans.md#bans-and-allowances", "caddy rate-limit ban"},
	{"Can I ban the addresses of a list that others publish?", "docs/block-lists.md", "Spamhaus"},
	{"Who did that?", "docs/bans.md#audit", "caddy rate-limit audit"},
	{"What happens if the disk is full?", "docs/faults.md#when-the-database-cant-be-used", "full"},
	{"What happens if Redis is gone?", "docs/faults.md#when-the-database-cant-be-used", "degraded_limit"},
	{"Do counts survive a restart?", "docs/operations.md#reload-and-restart", "keeps counts"},
	{"How do I back it up?", "docs/operations.md#backup", "sqlite3"},
	{"How do I replace the secret?", "docs/secret.md", "first line"},
	{"How large does the database get?", "docs/operations.md#size", "rows"},
	{"How do I get alerts?", "docs/metrics.md#grafana-and-prometheus", "Prometheus"},
	{"What does an entry of the log say?", "docs/logs.md#decision-log", "decision_log"},
	{"How much has a customer used this month?", "docs/usage.md#usage", "caddy rate-limit usage"},
	{"How do I go from one machine to two?", "docs/fleets.md#from-a-file-to-a-server", "store"},
	{"Can I go back to an older version?", "docs/operations.md#upgrade", "go back"},

	// When it runs, at night and with customers.
	{"Everybody is refused: how do I let them in?", "docs/locked-out.md", "0.0.0.0/0"},
	{"A family shares an address: is it locked out together?", "docs/clients.md", "shared addresses"},
	{"How do I keep my own devices out of it?", "docs/recipes/lan.md", "exempt"},
	{"Does the puzzle need JavaScript?", "docs/clients.md#without-javascript", "without_script"},
	{"Do the pages that bots crawl cost honest readers a puzzle?", "docs/recipes/forgejo.md", "puzzle"},
	{"How do I refuse a country or a provider?", "docs/recipes/networks.md", "match not country"},
	{"How do I take one ban back?", "docs/locked-out.md", "caddy rate-limit unban"},
	{"Is the clock allowed to be wrong?", "docs/faults.md#when-the-clock-is-set", "90 minutes"},
	{"How do I give one customer more for a week?", "docs/rules.md#raises", "5x"},
	{"A key has leaked: how do I revoke it?", "docs/reference/api-keys.md", "revoke"},
	{"How does a client see what is left?", "docs/output.md", "RateLimit"},
	{"How do I charge the tokens of an answer?", "docs/recipes/llm.md", "settle"},
	{"Are my invoices exact?", "docs/usage.md#usage", "exact"},
	{"Which of its files may I delete?", "docs/operations.md#files", "never move or delete"},
	{"How do I get rid of it again?", "docs/operations.md#remove-it", "delete the folder"},

	// When they come from another limiter, or ship it.
	{"Do I have to edit my config for mholt/caddy-ratelimit?", "docs/migrate/mholt.md", "mholt"},
	{"What is nginx's burst here?", "docs/migrate/nginx.md#what-is-called-how", "burst=20 nodelay"},
	{"Can both limiters be in one binary?", "docs/migrate/mholt.md", "tally"},
	{"Which Caddy and which Go does it need?", "docs/images.md#what-the-build-needs", "Go"},
	{"How large does it make the binary?", "docs/images.md#what-the-build-needs", "MiB"},
	{"Is a build reproducible?", "docs/platforms.md", "reproducible"},

	// When they take it over.
	{"Where is a request decided?", "docs/architecture.md", "internal/enforce/frame.go"},
	{"Where do I add an option?", "docs/changes.md", "Where would I add an option of a zone?"},
	{"Where do I add a metric, a command or a page of the dashboard?", "docs/changes.md", "a page of the dashboard?"},
	{"What does my change still lack?", "docs/changes.md#what-tells-what-is-missing", "make reference"},
	{"How do I write a store of my own?", "docs/stores-of-your-own.md", "storagetest.Run"},
	{"What does kill -9 lose?", "docs/architecture.md#kill--9", "leases"},
	{"Who owns this goroutine?", "docs/goroutines.md", "ends"},
	{"How do I know that the limit holds?", "docs/proof.md", "go test"},
	{"Which test do I run for a change?", "CONTRIBUTING.md", "go test"},
	{"Why was it decided so?", "docs/decisions/README.md", "0014"},
	{"Where does a field of a body become a cost?", "docs/architecture.md", "internal/settle/answer.go"},
	{"How do I make a release?", "CONTRIBUTING.md", "A release is a tag"},
	{"How do I write golden files anew?", "CONTRIBUTING.md", "make golden"},
	{"How do I report a hole?", "SECURITY.md", "report"},
}

// Each question has its answer at most two links away from README.md or from the page about the code.
func TestQuestionsHaveAnswers(t *testing.T) {
	near := twoLinksFrom(t, "README.md", "docs/architecture.md")
	for _, a := range answers {
		page, anchor, _ := strings.Cut(a.page, "#")
		switch text, ok := section(readText(t, filepath.FromSlash(page)), anchor); {
		case !near[filepath.FromSlash(page)]:
			t.Errorf("%s %s is more than two links away", a.question, page)
		case !ok:
			t.Errorf("%s %s has no section %s", a.question, page, anchor)
		case !strings.Contains(strings.Join(strings.Fields(text), " "), a.words):
			t.Errorf("%s %s doesn't say %q", a.question, a.page, a.words)
		}
	}
}

// section returns the part of a page below the heading with an anchor, with the parts below it; the whole page
// without an anchor.
func section(text, anchor string) (part string, ok bool) {
	if anchor == "" {
		return text, true
	}
	depth := 0
	for line := range strings.Lines(text) {
		switch d := headingDepth(strings.TrimSuffix(line, "\n")); {
		case d > 0 && depth == 0 && anchors(line)[anchor]:
			depth = d
		case d > 0 && depth > 0 && d <= depth:
			return part, true
		}
		if depth > 0 {
			part += line
		}
	}
	return part, depth > 0
}
