package caddytest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	tally "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/internal/testing/golden"
	_ "github.com/caddy-tally/caddy-tally/storage/exchange/postgres"
	_ "github.com/caddy-tally/caddy-tally/storage/postgres"
	_ "github.com/caddy-tally/caddy-tally/storage/redis"
)

var update = flag.Bool("update", false, "write what the golden files are adapted to into them")

// subjects are what golden files and files of errors are named for. Each has both.
var subjects = []string{
	"app", "app_api_keys", "app_cleanup_interval", "app_decision_log", "app_degraded_limit", "app_history", "app_max_keys", "app_prefixes", "app_pressure", "app_region", "app_rules_file", "app_block_list", "app_networks", "app_notify", "app_session", "app_secret_file", "app_store",
	"app_store_max_size", "app_store_postgres", "app_store_synchronous", "app_store_timeout", "app_tier",
	"compat_disable_metrics", "compat_distributed", "compat_events", "compat_ipv4_prefix",
	"compat_ipv6_prefix", "compat_jitter", "compat_key", "compat_log_key", "compat_match",
	"compat_storage", "compat_sweep_interval", "compat_window", "compat_zone",
	"handler", "handler_exempt", "handler_headers",
	"dashboard", "dashboard_allow",
	"zone", "zone_cost", "zone_count", "zone_limit", "zone_limit_burst", "zone_limit_name", "zone_limit_slots",
	"zone_limit_timezone", "zone_match", "zone_max_cost", "zone_on_empty_key", "zone_on_exceeded", "zone_per", "zone_prefix_ceiling", "zone_scope", "zone_tier", "zone_tiers",
}

// subjectsWithoutOption are what files are about that belong to no option.
var subjectsWithoutOption = []string{"compat_order", "compat_unrecognized"}

const (
	goldenFiles = "testdata/adapt/*.caddyfiletest"
	errorFiles  = "testdata/errors/*.txt"
)

func TestEveryOptionHasGoldenFiles(t *testing.T) {
	golden, errors := baseNames(t, goldenFiles), baseNames(t, errorFiles)
	for _, subject := range subjects {
		if !slices.ContainsFunc(golden, func(name string) bool { return isAbout(name, subject) }) {
			t.Errorf("there is no golden file %s*.caddyfiletest", subject)
		}
		if !slices.ContainsFunc(errors, func(name string) bool { return isAbout(name, subject) }) {
			t.Errorf("there is no file of errors %s*.txt", subject)
		}
	}
	if astray, _ := filepath.Glob("*.caddyfiletest"); len(astray) > 0 {
		t.Errorf("no test reads %q: golden files are in testdata/adapt", astray)
	}
	for _, name := range append(golden, errors...) {
		about := func(subject string) bool { return isAbout(name, subject) }
		if !slices.ContainsFunc(append(subjectsWithoutOption, subjects...), about) {
			t.Errorf("%s: the name does not say which option it is about", name)
		}
	}
}

func isAbout(name, subject string) bool {
	return name == subject || strings.HasPrefix(name, subject+"_")
}

// baseNames returns the names of files without folder and ending.
func baseNames(t *testing.T, pattern string) []string {
	t.Helper()
	var names []string
	for _, path := range glob(t, pattern) {
		names = append(names, baseName(path))
	}
	return names
}

func baseName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

// glob returns the files that match, of which there must be some.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("there are no files %s", pattern)
	}
	return paths
}

func TestAdapt(t *testing.T) {
	data := noData(t)
	for _, path := range glob(t, goldenFiles) {
		t.Run(baseName(path), func(t *testing.T) {
			input, expected, err := golden.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			adapted := adapt(t, input)
			if *update {
				if err := golden.Write(path, input, adapted); err != nil {
					t.Fatal(err)
				}
			} else if adapted != expected {
				t.Errorf("adapted to\n%s\nwant\n%s", adapted, expected)
			}
			checkAccepted(t, []byte(adapted))
		})
	}
	checkNoFiles(t, data)
}

func TestErrors(t *testing.T) {
	data := noData(t)
	for _, path := range glob(t, errorFiles) {
		cases, err := golden.ReadErrors(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			t.Run(baseName(path)+"/"+c.Name, func(t *testing.T) { checkRefused(t, c.Caddyfile, c.Error) })
		}
	}
	checkNoFiles(t, data)
}

// adapt returns what the Caddyfile is adapted to. There must be no warnings, not
// even about its format.
func adapt(t *testing.T, input string) string {
	t.Helper()
	raw, warnings, err := adaptCaddyfile([]byte(input), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Errorf("warning: %s", w)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return indented.String()
}

// checkAccepted checks that Caddy takes the config, and that our parts of it are
// what is in our structs and nothing else.
func checkAccepted(t *testing.T, config []byte) {
	t.Helper()
	if err := decodeOurs(config); err != nil {
		t.Error(err)
	}
	if err := validate(config); err != nil {
		t.Errorf("Caddy refuses it: %v", err)
	}
}

// checkRefused checks that the Caddyfile is refused, when it is parsed or when
// it is validated, with an error that has want in it.
func checkRefused(t *testing.T, input, want string) {
	t.Helper()
	raw, _, err := adaptCaddyfile([]byte(input), nil)
	if err == nil {
		err = validate(raw)
	}
	if err == nil {
		t.Fatalf("accepted, want the error %q", want)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error is\n%v\nwant in it\n%s", err, want)
	}
}

func validate(config []byte) error {
	var cfg caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &cfg); err != nil {
		return err
	}
	return caddy.Validate(&cfg)
}

// decodeOurs decodes the app and every handler, wherever it stands.
func decodeOurs(config []byte) error {
	var cfg struct {
		Apps map[string]json.RawMessage `json:"apps"`
	}
	if err := json.Unmarshal(config, &cfg); err != nil {
		return err
	}
	if app, ok := cfg.Apps["rate_limit"]; ok {
		if err := caddy.StrictUnmarshalJSON(app, new(tally.App)); err != nil {
			return err
		}
	}
	return decodeHandlers(cfg.Apps["http"])
}

func decodeHandlers(raw json.RawMessage) error {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		switch string(object["handler"]) {
		case `"rate_limit"`:
			return decodeHandler(object, new(tally.Handler))
		case `"rate_limit_dashboard"`:
			return decodeHandler(object, new(tally.Dashboard))
		}
		for _, value := range object {
			if err := decodeHandlers(value); err != nil {
				return err
			}
		}
		return nil
	}
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list) // what is neither an object nor a list holds no handler
	for _, value := range list {
		if err := decodeHandlers(value); err != nil {
			return err
		}
	}
	return nil
}

func decodeHandler(object map[string]json.RawMessage, handler any) error {
	delete(object, "handler") // as Caddy does
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return caddy.StrictUnmarshalJSON(raw, handler)
}

// noData makes Caddy keep its data in an empty folder and returns its path.
func noData(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	return data
}

// checkNoFiles checks that looking at configs made no file of ours.
func checkNoFiles(t *testing.T, data string) {
	t.Helper()
	if made, _ := filepath.Glob(filepath.Join(data, "*", "rate_limit*")); len(made) > 0 {
		t.Errorf("validating made %s", made)
	}
}

func TestJSONConfigs(t *testing.T) {
	data := noData(t)
	for _, path := range glob(t, "*.json") {
		t.Run(strings.TrimSuffix(path, ".json"), func(t *testing.T) {
			config, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(config, []byte(`"handler": "rate_limit"`)) {
				t.Error("there is no handler in it")
			}
			checkAccepted(t, config)
		})
	}
	checkNoFiles(t, data)
}

// The error about an unknown field of the app and of the dashboard says where it is.
func TestUnknownJSONFields(t *testing.T) {
	noData(t)
	for want, apps := range map[string]string{
		`api_keys: unknown field "form": did you mean from?`:        `"rate_limit":{"api_keys":{"form":[]}}`,
		`unknown field "write": expected allow, source or writable`: `"http":{"servers":{"s":{"listen":[":9080"],"routes":[{"handle":[{"handler":"rate_limit_dashboard","write":true}]}]}}}`,
		`unknown module: http.matchers.nosuch`:                      `"http":{"servers":{"s":{"listen":[":9080"],"routes":[{"handle":[{"handler":"rate_limit_dashboard","allow":[{"nosuch":1}]}]}]}}}`,
	} {
		if err := validate([]byte(`{"apps":{` + apps + `}}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

// Errors that only JSON configs can have.
func TestJSONErrors(t *testing.T) {
	noData(t)
	for _, tt := range []struct{ name, handler, want string }{
		{"unknown field", `"zone":[]`, `unknown field "zone": did you mean zones?`},
		{"unknown field of a zone", `"zones":[{"name":"a"},{"name":"b","limits":[{"amonut":5}]}]`, `zones[1].limits[0]: unknown field "amonut": did you mean amount?`},
		{"field of another program", `"zones":[{"name":"b","count":{"statuses":[401]}}]`, `zones[0].count: unknown field "statuses": did you mean status?`},
		{"field unlike ours", `"traps":[{"paths":"/x"}]`, `traps[0]: unknown field "paths": expected ban, match or source`},
		{"unknown field of a peer zone", `"rate_limits":{"a":{"window":"1m","max_event":5}}`, `rate_limits.a: unknown field "max_event": did you mean max_events?`},
		{"null zone", `"zones":[null]`, `a zone is null`},
		{"null peer zone", `"rate_limits":{"a":null}`, `a zone is null`},
		{"null trap", `"traps":[null]`, `a trap is null`},
		{"zone without name", `"zones":[{"limits":[{"amount":5,"window":"1m"}]}]`, `a zone needs a name`},
		{"unknown per", `"zones":[{"name":"a","per":"browser","limits":[{"amount":5,"window":"1m"}]}]`, `zone "a": per: must be ip, network, asn, country, domain, everyone, client, api_key or key, got "browser"`},
		{"unknown algorithm", `"zones":[{"name":"a","limits":[{"amount":5,"window":"1m","algorithm":"slidng"}]}]`, `zone "a": limit: unknown algorithm "slidng": expected sliding, fixed or token_bucket`},
		{"small window", `"zones":[{"name":"a","limits":[{"amount":5,"window":"5ms"}]}]`, `zone "a": limit: window must be at least 100ms, got 5ms`},
		{"shorthand in key", `"zones":[{"name":"a","key":"{remote_host}","limits":[{"amount":5,"window":"1m"}]}]`, `zone "a": key: unknown placeholder {remote_host}: did you mean {http.request.remote.host}?`},
		{"tiers and tier", `"zones":[{"name":"a","per":"ip","tiers":true,"tier":"b"}]`, `zone "a": tiers and tier exclude one another; leave one out`},
		{"tiers and limits", `"zones":[{"name":"a","per":"ip","tiers":true,"limits":[{"amount":5,"window":"1m"}]}]`, `zone "a": tiers and limits of the zone's own exclude one another; a second zone can have them`},
		{"default tier alone", `"zones":[{"name":"a","default_tier":"b","limits":[{"amount":5,"window":"1m"}]}]`, `zone "a": default_tier belongs to tier, which is missing`},
		{"costs without cost", `"zones":[{"name":"a","costs":[{"match":[{"path":["/a"]}]}],"limits":[{"amount":5,"window":"1m"}]}]`, `zone "a": costs: a cost is missing; give it, or leave out what it is for`},
		{"negative max_cost", `"zones":[{"name":"a","max_cost":-1,"limits":[{"amount":5,"window":"1m"}]}]`, `zone "a": max_cost: must be at least 1, got -1`},
		{"peer without window", `"rate_limits":{"a":{"max_events":5}}`, `setting up rate limit a: window must be greater than zero`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := validate([]byte(`{"apps":{"http":{"servers":{"s":{"listen":[":9080"],"routes":[{"handle":[{"handler":"rate_limit",` + tt.handler + `}]}]}}}}}`))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
		})
	}
}

// Errors in the app that only JSON configs can have.
func TestJSONErrorsOfApp(t *testing.T) {
	noData(t)
	for _, tt := range []struct{ name, app, want string }{
		{"null tier", `"tiers":[null]`, `a tier is null; give it a name and limits, or remove it`},
		{"tier without name", `"tiers":[{"unlimited":true}]`, `a tier must be letters, digits and . _ - such as free, at most 64, got ""`},
		{"tier without limits", `"tiers":[{"name":"a"}]`, `tier "a": a limit is missing: write limit 5/1m or unlimited`},
		{"tier with both", `"tiers":[{"name":"a","unlimited":true,"limits":[{"amount":5,"window":"1m"}]}]`, `tier "a": unlimited excludes limits: leave one out`},
		{"tier with a bad limit", `"tiers":[{"name":"a","limits":[{"amount":5}]}]`, `tier "a": limit: window must be at least 100ms, got 0s`},
		{"one secret for two tiers", `"tiers":[{"name":"a","unlimited":true,"service_header":{"name":"X-A","secret":"0123456789abcdef"}},{"name":"b","unlimited":true,"service_header":{"name":"x-a","secret":"0123456789abcdef"}}]`, `tier "b": service_header: tier "a" has the same field and secret; give each a secret of its own`},
		{"service without secret", `"tiers":[{"name":"a","unlimited":true,"service_header":{"name":"X-A"}}]`, `service_header: the secret must have at least 16 characters, got 0`},
		{"unknown source", `"api_keys":{"from":[{"type":"cookie","name":"key"}]}`, `api_keys: from: must be header, bearer, query or placeholder, got "cookie"`},
		{"named bearer", `"api_keys":{"from":[{"type":"bearer","name":"key"}]}`, `api_keys: from: bearer takes no name, got "key"`},
		{"unknown missing", `"api_keys":{"missing":"allow"}`, `api_keys: missing: must be deny or default, got "allow"`},
		{"useless default", `"tiers":[{"name":"a","unlimited":true}],"api_keys":{"default_tier":"a"}`, `api_keys: a default tier has no effect unless missing or unknown is default`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := validate([]byte(`{"apps":{"rate_limit":{` + tt.app + `}}}`))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
		})
	}
}

// notAStorage is a module among the storages that is none.
type notAStorage struct{}

func init() { caddy.RegisterModule(notAStorage{}) }

// CaddyModule returns the Caddy module information.
func (notAStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.storage.not_a_storage",
		New: func() caddy.Module { return new(notAStorage) },
	}
}

// UnmarshalCaddyfile implements caddyfile.Unmarshaler.
func (*notAStorage) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// adaptCaddyfile adapts a Caddyfile. Caddy 2.11.4 keeps the order of directives that one of them sets for the
// next ones, so it is set back.
func adaptCaddyfile(input []byte, options map[string]any) ([]byte, []caddyconfig.Warning, error) {
	adapting.Lock()
	defer adapting.Unlock()
	adapter := caddyconfig.GetAdapter("caddyfile")
	if strings.Contains(string(input), "order ") {
		defer adapter.Adapt([]byte("{\n\torder rate_limit before basic_auth\n\torder rate_limit_user after forward_auth\n}"), nil)
	}
	return adapter.Adapt(input, options)
}

var adapting sync.Mutex
