package caddytest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/golden"
)

// saying is an error or a warning about a config: the problem, the cure and the line.
type saying struct{ problem, write, at string }

// toldTo finds what an error tells to write, and where.
var toldTo = regexp.MustCompile(`^(?s)(.*)[:;] write (.*), at (?:Caddyfile|Testfile):(\d+)$`)

// whatIsSaid loads a config and returns its error or warnings.
func whatIsSaid(t *testing.T, text string) (all []saying) {
	warnings, err := load(t, text)
	for _, w := range warnings {
		all = append(all, saying{w.Msg, w.Write, w.At[strings.LastIndexByte(w.At, ':')+1:]})
	}
	if err != nil {
		all = []saying{{problem: err.Error()}}
		if m := toldTo.FindStringSubmatch(err.Error()); m != nil {
			all[0] = saying{m[1], m[2], m[3]}
		}
	}
	return all
}

// ofMatchers are the options before a matcher, which stay where a cure is a matcher.
var ofMatchers = regexp.MustCompile(`^((?:match|exempt|allow|trap(?: ban \S+)?|cost \S+) )(?:!|not )?`)

// followed returns a config in which the cure stands in the place of the wrong line, or "" if the cure
// is no line. A cure begins with the lines to write; what is behind a semicolon is another one, or about it.
func (s saying) followed(text string) string {
	if s.write == "" {
		return ""
	}
	write, _, _ := strings.Cut(s.write, "; ")
	write, several := strings.CutSuffix(write, ", each on a line of its own")
	cure := []string{write}
	if several {
		last := strings.LastIndex(write, " and ")
		cure = append(strings.Split(write[:last], ", "), write[last+5:])
	} else {
		cure[0], _, _ = strings.Cut(write, ", ")
	}
	first, _, _ := strings.Cut(cure[0], " ")
	lines := strings.Split(text, "\n")
	from, to := 0, len(lines)
	if n, err := strconv.Atoi(s.at); err == nil {
		from, to = n-1, n
		if trimmed := strings.TrimSpace(lines[from]); strings.HasSuffix(trimmed, "{") {
			indent := lines[from][:len(lines[from])-len(strings.TrimLeft(lines[from], "\t"))]
			for to = from + 1; lines[to] != indent+"}"; to++ {
			}
		}
	}
	instead, old, ok := strings.Cut(write, " in the place of ")
	if ok && strings.HasPrefix(old, "path, query and method") {
		for i := from; i < to; i++ {
			if word, _, _ := strings.Cut(strings.TrimSpace(lines[i]), " "); word == "path" || word == "query" || word == "method" {
				lines[i], instead = instead, ""
			}
		}
		return strings.Join(lines, "\n")
	} else if ok {
		for n := range 2 * len(lines) { // from that line on, then before it
			i := from + n
			if i >= to {
				i = to - 1 - n + from
			}
			if i < 0 || i >= len(lines) {
				continue
			}
			if before := lines[i]; !strings.HasPrefix(strings.TrimSpace(before), "zone ") && strings.Contains(before, old) {
				lines[i] = strings.Replace(before, old, instead, 1)
				return strings.Join(lines, "\n")
			}
		}
		return ""
	}
	if close := strings.TrimSpace(lines[from]) == "}" && to-from == 1; close && first == "zone" {
		for from--; !strings.HasSuffix(lines[from], write[:strings.Index(write, "{")+1]); from-- {
		}
		return strings.Join(slices.Replace(lines, from, to, cure...), "\n")
	} else if close {
		return strings.Join(slices.Insert(lines, from, cure...), "\n")
	}
	best, at := 0, -1
	for i := from; i < to; i++ {
		words := strings.Fields(lines[i])
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		score := 0
		for _, word := range words {
			if strings.Contains(s.problem, word) {
				score++
			}
		}
		switch {
		case words[0] == first || words[0] == "key" && first == "per" || to-from == 1:
			score += 10
		case first == "endpoint" && words[0] == "path", ofMatchers.MatchString(strings.TrimSpace(lines[i])+" ") && slices.Contains(words, first), first != "" && strings.ContainsAny(first[:1], "/ABCDEFGHIJKLMNOPQRSTUVWXYZ") && ofMatchers.MatchString(strings.TrimSpace(lines[i])):
			score += 5
		default:
			continue
		}
		if score > best {
			best, at = score, i
		}
	}
	if at < 0 {
		return ""
	}
	wrong := strings.TrimSpace(lines[at])
	indent := lines[at][:len(lines[at])-len(strings.TrimLeft(lines[at], "\t"))]
	prefix := ofMatchers.FindStringSubmatch(wrong + " ")
	if prefix != nil && !strings.HasPrefix(cure[0], strings.Fields(wrong)[0]+" ") && !isOption[first] {
		if len(cure) > 1 {
			cure = slices.Concat([]string{prefix[1] + "{"}, cure, []string{"}"})
		} else {
			cure[0] = prefix[1] + cure[0]
		}
	}
	end := at + 1
	if strings.HasSuffix(wrong, "{") && !strings.HasSuffix(cure[0], "{") {
		if first == "match" { // a line in the place of a block
			for ; lines[end] != indent+"}"; end++ {
			}
			end++
		} else {
			cure[0] += " {"
		}
	}
	for i := range cure {
		cure[i] = indent + cure[i]
	}
	return strings.Join(slices.Replace(lines, at, end, cure...), "\n")
}

// isOption are options of zones and directives, which replace the whole line.
var isOption = map[string]bool{"per": true, "limit": true, "cost": true, "match": true, "exempt": true, "settle": true, "count": true, "key": true, "trap": true}

// marked are the lines that somebody wrote who read advice which is a sentence: behind #> in the wrong line, or behind
// the one before.
func marked(text string) (cured string, ok bool) {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		before, instead, found := strings.Cut(line, "#>")
		indent := line[:len(line)-len(strings.TrimLeft(line, "\t"))]
		if ok = ok || found; !found {
			lines = append(lines, line)
		} else if instead = strings.TrimSpace(instead); instead != "" {
			lines = append(lines, indent+strings.ReplaceAll(instead, "; ", "\n"))
		}
		_ = before
	}
	return strings.Join(lines, "\n"), ok
}

// checkCured follows all that is said of a config, and all that is said then: in the end nothing is. An error
// may say what is wrong and no more, if it comes first.
func checkCured(t *testing.T, text string) {
	t.Helper()
	if cured, ok := marked(text); ok {
		if all := whatIsSaid(t, cured); len(all) > 0 {
			t.Errorf("of the config that was mended as advised is said %q:\n%s", all, cured)
		}
		return
	}
	for i := range 5 {
		all := whatIsSaid(t, text)
		if len(all) == 0 || i == 0 && all[0].write == "" {
			return
		}
		cured := all[0].followed(text)
		if all[0].write == "" || cured == "" || cured == text {
			t.Errorf("nobody can follow %q in\n%s", all[0], text)
			return
		}
		text = cured
	}
	t.Errorf("the cures lead in circles: %q\n%s", whatIsSaid(t, text), text)
}

// Whoever follows all cures of a wrong config has one without errors and warnings.
func TestCuresOfMeantConfigs(t *testing.T) {
	noData(t)
	for _, path := range glob(t, "testdata/meant/*.Caddyfile") {
		t.Run(baseName(path), func(t *testing.T) {
			if text := readSample(t, path); !strings.Contains(text, "\n# silent: ") {
				checkCured(t, text)
			}
		})
	}
}

// prose is the beginning of cures that are no lines.
var prose = regexp.MustCompile("^(it|a|basic_auth|networks|an|the|another|one|both|only|each|about|no|whole|<)\\b|^`|^endpoint \\[")

// An error that tells to write a line is gone when that is done.
func TestCuresOfErrors(t *testing.T) {
	noData(t)
	followed := 0
	for _, path := range glob(t, errorFiles) {
		cases, err := golden.ReadErrors(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			m := toldTo.FindStringSubmatch(c.Error)
			if m == nil || prose.MatchString(m[2]) {
				continue
			}
			followed++
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txt")+"/"+c.Name, func(t *testing.T) {
				s := saying{m[1], m[2], m[3]}
				cured := s.followed(c.Caddyfile)
				if all := whatIsSaid(t, cured); cured == "" || len(all) > 0 && (all[0].problem == s.problem || all[0].at == s.at && !prose.MatchString(all[0].write)) {
					t.Errorf("of the cure of %q is said %q\n%s", s, all, cured)
				}
			})
		}
	}
	if followed < 20 {
		t.Errorf("followed %d cures", followed)
	}
}

// Words of other programs, and what people write from memory.
func TestCuresOfOtherWords(t *testing.T) {
	noData(t)
	for in, lines := range map[string][]string{
		"exempt": {
			"*.rss", "*.css *.js", "192.168.1.*", "10.*", "192.168.1", "10.0.0.0/33", "10.0.0.1-10.0.0.9", "client_ip 10.0.0.1-10.0.0.9", "client_ip 10.0.*", "10.0.0.1-9",
			"10.0.0.0/255.0.0.0", "10.0.0.1,10.0.0.2", "10.0.0.1, 10.0.0.2", "2001:db8::*", "2001:db8:*", "localhost", "googlebot", "verified_bot googlebot", "bingbot",
			"header User-Agent git/*", "header User-Agent *UptimeRobot*", "header User-Agent *Googlebot*", "ip 192.0.2.1", "address 192.0.2.1 192.0.2.2", "url /health", "health",
			"/health$", "~ ^/health", "^/health", "^/health$", "robots.txt", "not POST", "remote_ip 10.0.0.1-10.0.0.9", "client_ip 10.0.0.0/255.255.255.0", "header X-Internal yes", "/*.css", "path *.png",
		},
		"match": {
			"not /api/*", "not /api/* /static/*", "not POST", "not POST /login", "not 10.0.0.0/8", "not 10.*", "not client_ip 10.0.0.1-10.0.0.9", "!/api/*", "! /api/*", "!POST", "!POST /login", "!path /api/*", "not *.png *.css",
			"POST|PUT /login", "POST|PUT", "POST,PUT /login", "post /login", "post", "/login|/signup", "/(login|signup)", "/{login,signup}", "~ ^/api/", "~* ^/api/", "^/api/", "^/api/.*$", "login", "wp-login.php", "login signup", ".env",
			"https://example.com/login", "host example.com:443", "host https://example.com", "example.com", "*.php", "/search?q=*", "/search?q=a&page=2", "path /search?q=*", "/users/:id", "/users/<int:id>/export", "/docs/[slug]", "/login$", "/admin.*",
			"UPDATE /items/*", "GTE /items/*", "ANY /api/*", "ALL /api/*", "DELTE /items/*", "method post", "method GET,POST", "method POST|PUT", "path login", "path ^/api/", "path =/login", "url /login", "location /login", "uri /login",
			"header X-Requested-With: XMLHttpRequest", "header User-Agent GPTBot", "header Cookie session", "POST /login user=admin", "host example.com /login", "path POST /login", "ip 10.0.0.0/8",
		},
		"": {
			"limit 5/1m concurrent", "limit concurrent 5", "limit 5/1m 50/1h", "limit 5/1m, 50/1h", "limit 5/1m and 50/1h", "limit 5/1m per ip", "limit 20/1m burst=40", "limit 20r/m burst=40 nodelay", "limit 20/1m burst 40 nodelay",
			"limit 5/60", "limit 1k/1m", "limit 1,000/1m", "limit rate=10r/s", "limit 0.5/1s", "limit 5/month", "rate 20/1m", "average 20/1m", "events 20/1m",
			"per IP", "per address", "per remote_ip", "per {remote_host}", "per ip/24", "per ip /24", "per ip 24", "per header X-Tenant", "per key header X-Tenant", "per all", "per user", "per session", "per key {path} {header.X-Tenant}", "per client_ip",
			"ipv4_prefix /24", "ipv6_prefix /56", "key remote_host", "per key client_ip", "per key {remote_host", "per key {uuid}", "per key {remote}", "per key {host}", "per key {remote_port}",
			"cost /export 10", "cost 5 *.pdf", "cost 5 export", "settle bytes", "settle duration", "settle {http.rate_limit.answers.usage.total_tokens}", "cost 0\n\t\t\tsettle bytes",
		},
		// Invented without a look at the checks.
		"exempt ": {
			"*.atom", "*.xml *.json", "/*.png", "172.16.*.*", "192.168.*.1", "203.0.113.0/24,198.51.100.0/24", "203.0.113.7:443", "203.0.113.300", "fe80::/200", "::1/", "10.0.0.0/08", "office.example.com", "*.example.com", "us",
			"AS64496", "asn 64496", "country DE", "header X-Api-Key secret", "header User-Agent curl/*", "header User-Agent git-lfs/*", "header User-Agent Googlebot/2.1", "bot google", "verified_bot chatgpt", "verified_bot google,bing", "user admin", "GET|HEAD /health", "!/api/*", "!10.0.0.0/8", "@undefined", "all", "*",
		},
		"match ": {
			"not /login /signup", "not GET|HEAD", "not POST|PUT /login", "not POST,PUT", "not host:example.com", "not @login", "not login", "!*.css", "!GET|HEAD", "!@login", "!!/api/*", "not not /api/*", "POST|PUT|PATCH", "PUT|FOO /x", "POST | PUT /login", "POST/PUT /login", "POST;PUT /login", "(POST|PUT) /login", "POST /login|/signin",
			"POST /login?next=*", "/api?", "//login", "/api/%", "/a b", "path: /login", "path=/login", "method:POST", "method=POST", "host=example.com", "host example.com:8443", "remote_ip 10.0.0.*", "query q", "query q=1&p=2", "POTS /login", "DELET /items/*", "GETS /", "post|put /login", "Post /login",
		},
		" ": {
			"ipv4_prefix 24/", "ipv4_prefix /33", "ipv4_prefix 255.255.255.0", "ipv6_prefix ::/56", "ipv6_prefix sixty-four", "events 1k", "events 1,000", "events 10.5", "events ten", "window 1min", "window 1 h", "cost 0.5 /search", "cost .25", "cost 1.5", "cost 1e3", "cost -1", "cost free", "cost 2x /export", "cost 10%",
			"limit 0.3/1s", "limit 1.7/1m", "limit 5/1m;50/1h", "limit 5/1m|50/1h", "limit 10/1m block", "limit 10/1m block forever", "block 1h", "block 10m", "bantime 1h", "timeout=10m", "limit 5 concurrent block 1h", "limit 5/1m concurrent 3", "limit -5/1m", "limit 5/-1m", "limit 5/0s", "limit unlimited", "limit 10/1m shaddow",
			"count status 200-299", "count status !200", "count 401", "on_exceeded block", "on_exceeded drop", "on_exceeded 503", "shadow on", "when cpu > 80%", "ban AS64496", "ban 203.0.113.9", "ban 1h", "read_body 1MB/s", "read_body unlimited", "max_cost 0.5", "per ip,path", "per ip and path", "per {ip}", "per key {ip}", "per key ip", "per {header.X-Forwarded-For}", "per key {http.request.header.x-api-key", "per asn country",
		},
	} {
		in = strings.TrimSpace(in)
		for _, line := range lines {
			text := "example.com {\n\trate_limit {\n\t\t"
			switch zone := "zone pages {\n\t\t\t"; in {
			case "":
				text += zone + "match POST /login\n\t\t\t" + line
				switch {
				case strings.HasPrefix(line, "cost 5 *"):
					text = strings.ReplaceAll(text, "match POST /login\n", "\n") + "\n\t\t\tlimit 1000/1h"
				case strings.Contains(line, "settle"):
					text += "\n\t\t\tlimit 10_000_000/1h"
				case !strings.HasPrefix(line, "limit "):
					text += "\n\t\t\tlimit 1000/1h"
				}
			case "match":
				text += zone + "match " + line + "\n\t\t\tlimit 100/1m"
			default:
				text += in + " " + line + "\n\t\t" + zone + "limit 100/1m"
			}
			text += "\n\t\t}\n\t}\n\treverse_proxy 127.0.0.1:3000\n}\n"
			t.Run(in+" "+line, func(t *testing.T) {
				all := whatIsSaid(t, text)
				if len(all) == 0 {
					t.Fatal("nothing is said of it")
				}
				t.Logf("%q", all)
				if prose.MatchString(all[0].write) {
					return
				}
				checkCured(t, text)
			})
		}
	}
}
