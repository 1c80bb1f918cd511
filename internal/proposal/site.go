package proposal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// site is a site of a Caddyfile.
type site struct {
	address string   // as in the Caddyfile
	hosts   []string // "" for all
	block   int      // its index among the parsed blocks
	line    int      // the last one of its addresses
	indent  string   // of its directives
	signs   string   // its addresses and upstreams, in lower case
	serves  bool     // pages of an application or of files
	files   bool     // nothing but files
	limited bool     // it has our directive
	file    string   // the imported file that it is in, or ""
	shared  bool     // an import makes other sites of the same lines

	traffic traffic
	zones   []zone
	notes   []string
}

// sitesOf returns the sites of a Caddyfile.
func sitesOf(file string, text []byte) (sites []*site, err error) {
	blocks, err := caddyfile.Parse(file, text)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]*site) // by place
	for i, b := range blocks {
		if len(b.Keys) == 0 || b.IsNamedRoute {
			continue
		}
		s := &site{address: strings.Join(b.GetKeysText(), ", "), block: i, line: b.Keys[len(b.Keys)-1].Line}
		if b.HasBraces {
			s.indent = "\t"
		}
		if s.signs = s.address; b.Keys[0].File != file {
			s.file = b.Keys[0].File
		}
		place := fmt.Sprint(s.file, ":", s.line)
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
		}
		for _, segment := range b.Segments {
			s.read(segment)
		}
		s.signs = strings.ToLower(s.signs)
		sites = append(sites, s)
	}
	return sites, nil
}

// read notes what the lines of a directive say about the site.
func (s *site) read(tokens []caddyfile.Token) {
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
		case "to", "root", "basic_auth", "basicauth":
		default:
			continue
		}
		s.signs += " " + t.Text
	}
}

// has reports whether the site has a request's host.
func (s *site) has(host string) bool {
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	_, parent, _ := strings.Cut(host, ".")
	return slices.ContainsFunc(s.hosts, func(h string) bool { return h == "" || h == host || h == "*."+parent })
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
		Apps struct {
			HTTP caddyhttp.App `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &parsed); err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	out, seen := new(bytes.Buffer), make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(parsed.Apps.HTTP.Servers)) {
		server := parsed.Apps.HTTP.Servers[name]
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
