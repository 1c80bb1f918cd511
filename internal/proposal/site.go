package proposal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// site is a site of a Caddyfile, or the part of one that is for some hosts.
type site struct {
	address string   // as in the Caddyfile
	hosts   []string // "" for all
	whole   *site    // the one that it is a part of, or nil
	only    string   // the matcher of its hosts, if the site has parts
	block   int      // its index among the parsed blocks
	line    int      // the last one of its addresses
	indent  string   // of its directives
	words   []string // in its addresses, upstreams and folders, in lower case
	ports   []string // of its upstreams that have no name
	serves  bool     // pages of an application or of files
	files   bool     // nothing but files
	limited bool     // it has our directive
	open    bool     // zones may be proposed for it
	tls     bool     // over HTTPS
	file    string   // the imported file that it is in, or ""
	shared  bool     // an import makes other sites of the same lines
	names   zoneNames

	traffic traffic
	zones   []zone
	notes   []string
}

// sitesOf returns the sites of a Caddyfile. Parts of a site follow it.
func sitesOf(file string, text []byte) (sites []*site, err error) {
	blocks, err := caddyfile.Parse(file, text)
	if err != nil {
		return nil, err
	}
	seen, routes, names := make(map[string]*site), make(map[string]caddyfile.Segment), make(zoneNames)
	for _, b := range blocks {
		if b.IsNamedRoute {
			routes[b.Keys[0].Text] = b.Segments[0]
		}
		for _, segment := range b.Segments {
			names.read(segment)
		}
	}
	for i, b := range blocks {
		if len(b.Keys) == 0 || b.IsNamedRoute {
			continue
		}
		s := &site{address: strings.Join(b.GetKeysText(), ", "), block: i, line: b.Keys[len(b.Keys)-1].Line,
			names: names}
		if b.HasBraces {
			s.indent = "\t"
		}
		if b.Keys[0].File != file {
			s.file = b.Keys[0].File
		}
		place := fmt.Sprint(s.file, ":", s.line) // of the block
		if other := seen[place]; other != nil {
			s.shared, other.shared = true, true
		}
		seen[place] = s
		for _, key := range b.Keys {
			address, err := httpcaddyfile.ParseAddress(key.Text)
			if err != nil {
				return nil, err
			}
			s.hosts = append(s.hosts, strings.ToLower(address.Host))
			s.words = append(s.words, wordsOf(address.Host)...)
			s.tls = s.tls || address.Scheme == "https" || address.Port == "443" ||
				address.Scheme == "" && address.Port != "80" && address.Host != "" // automatic HTTPS
		}
		sites = append(append(sites, s), s.split(b.Segments, routes)...)
	}
	return sites, nil
}

// split reads the directives of a site, and returns its parts: what @name hosts is for, by handle @name and the
// like, and in the site what is for all other hosts.
func (s *site) split(directives []caddyfile.Segment, routes map[string]caddyfile.Segment) (parts []*site) {
	hosts, byName := make(map[string][]string), make(map[string]*site)
	for _, d := range directives {
		for i, t := range d {
			if strings.HasPrefix(d[0].Text, "@") && i > 0 && t.Text == "host" &&
				(i == 1 || d[i-1].Line < t.Line || d[i-1].Text == "{") {
				for _, host := range d[i+1:] {
					if host.Line == t.Line && host.Text != "}" && !strings.ContainsAny(host.Text, "{}") {
						hosts[d[0].Text] = append(hosts[d[0].Text], strings.ToLower(host.Text))
					}
				}
			}
		}
	}
	var others []string
	for _, d := range directives {
		to := s
		if name := append(d, caddyfile.Token{}, caddyfile.Token{})[1].Text; len(d) > 1 && hosts[name] != nil {
			if to = byName[name]; to == nil {
				to = &site{whole: s, address: s.address, hosts: hosts[name],
					only: "host " + strings.Join(hosts[name], " "), block: s.block, file: s.file, names: s.names}
				for _, host := range to.hosts {
					to.words = append(to.words, wordsOf(host)...)
				}
				byName[name], parts, others = to, append(parts, to), append(others, to.hosts...)
			}
		}
		to.read(d, routes)
	}
	for _, part := range parts {
		s.only = "not host " + strings.Join(others, " ")
		if slices.Contains(s.words, "basic_auth") {
			part.words = append(part.words, "basic_auth")
		}
	}
	return parts
}

// read notes what the lines of a directive say about the site.
func (s *site) read(tokens []caddyfile.Token, routes map[string]caddyfile.Segment) {
	directive, line := "", caddyfile.Token{}
	for _, t := range tokens {
		if t.Line != line.Line || t.File != line.File || directive == "" {
			directive, line = t.Text, t
		}
		switch directive {
		case "reverse_proxy", "php_fastcgi":
			s.serves, s.files = true, false
		case "file_server":
			s.files = s.files || !s.serves
			s.serves = true
		case names.Handler:
			s.limited = true
		case "invoke":
			s.read(routes[t.Text], nil)
			continue
		case "to", "root":
		case "basic_auth", "basicauth":
			s.words = append(s.words, "basic_auth")
			continue
		default:
			continue
		}
		if host, port, err := net.SplitHostPort(t.Text[strings.Index(t.Text, "//")+1:]); err == nil {
			_, err := netip.ParseAddr(strings.Trim(host, "/"))
			if err == nil || strings.ContainsAny(host, ".{") || strings.Trim(host, "/") == "localhost" {
				s.ports = append(s.ports, port)
			}
			t.Text = host
		}
		s.words = append(s.words, wordsOf(t.Text)...)
	}
}

// wordsOf returns the words of a name, in lower case.
func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name),
		func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

// has returns how exactly the site is for a request's host: 0 if it isn't, 1 if it is for all hosts.
func (s *site) has(host string) (exactness int) {
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	_, parent, _ := strings.Cut(host, ".")
	for _, h := range s.hosts {
		switch h {
		case host:
			return 3
		case "*." + parent:
			exactness = 2
		case "":
			exactness = max(exactness, 1)
		}
	}
	return exactness
}

// zoneNames are the names of a config's zones.
type zoneNames map[string]bool

// read notes the zones of a directive.
func (n zoneNames) read(tokens []caddyfile.Token) {
	for i, t := range tokens {
		if t.Text == "zone" && i+1 < len(tokens) {
			n[tokens[i+1].Text] = true
		}
	}
}

// unused returns a name that no zone has: one of a site a-b.example is a_b_example_all, and so would be that of
// a.b.example.
func (n zoneNames) unused(name string) string {
	free := name
	for i := 2; n[free]; i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	n[free] = true
	return free
}

// notWord matches what names of zones don't have.
var notWord = regexp.MustCompile(`\W+`)

// zone returns the name of a zone of the site: git_example_com_login.
func (s *site) zone(kind string) string {
	return strings.TrimPrefix(notWord.ReplaceAllString(cmp.Or(s.hosts[0], s.address), "_")+"_"+kind, "_")
}

// describe returns a Caddyfile with the sites of a config in JSON, as far as a proposal needs to know them.
func describe(config []byte) ([]byte, error) {
	var parsed struct {
		Apps map[string]json.RawMessage `json:"apps"`
	}
	var http caddyhttp.App
	err := json.Unmarshal(config, &parsed)
	if err == nil && parsed.Apps["http"] != nil {
		err = json.Unmarshal(parsed.Apps["http"], &http)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	out, seen := new(bytes.Buffer), make(map[string]bool)
	if bytes.Contains(parsed.Apps[names.App], []byte(`"session":`)) {
		fmt.Fprintf(out, "{\n\t%s}\n\n", sessionOption)
	}
	for _, name := range slices.Sorted(maps.Keys(http.Servers)) {
		server := http.Servers[name]
		for _, route := range server.Routes {
			addresses := routing.Hosts(route.MatcherSetsRaw)
			if len(addresses) == 0 {
				addresses = server.Listen
			}
			for _, address := range addresses {
				if handlers, err := json.Marshal(route.HandlersRaw); err == nil && !seen[address] {
					fmt.Fprintf(out, "%s {\n%s}\n\n", address, directivesOf(string(handlers)))
				}
				seen[address] = true
			}
		}
	}
	return out.Bytes(), nil
}

var (
	upstream = regexp.MustCompile(`"(?:dial|root)":"([^"\\{}\s]+)"`)
	logFile  = regexp.MustCompile(`"filename":"([^"\\{}]+)"`)
)

// directivesOf describes handlers in JSON.
func directivesOf(handlers string) (lines string) {
	for _, found := range upstream.FindAllStringSubmatch(handlers, -1) {
		lines += "\treverse_proxy " + found[1] + "\n"
	}
	for _, name := range []string{"file_server", names.Handler} {
		if strings.Contains(handlers, `"handler":"`+name+`"`) {
			lines += "\t" + name + "\n"
		}
	}
	return lines
}

// logsOf returns the log files of a config, with those that were rotated; no devices, such as /dev/stdout.
func logsOf(config []byte) (paths []string) {
	for _, found := range logFile.FindAllSubmatch(config, -1) {
		name := string(found[1])
		ext := filepath.Ext(name)
		for _, pattern := range []string{name, strings.TrimSuffix(name, ext) + "-20*" + ext + "*"} {
			found, _ := filepath.Glob(pattern)
			paths = append(paths, found...)
		}
	}
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), func(path string) bool { return checkFile("log", path) != nil })
}
