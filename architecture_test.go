package tally_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/caddy-tally/caddy-tally"

// rule forbids packages to depend on others, even indirectly, with the reason. Packages are named
// as for the go command: "./..." are those of this module.
type rule struct {
	packages  []string
	except    []string // of the packages
	forbidden []string
	allowed   []string // of the forbidden
	imports   []string // packages that they must not import directly
	why       string
}

var rules = []rule{
	{
		packages:  []string{"./limiter", "./limiter/reputation", "./limiter/region"},
		forbidden: []string{"./..."}, allowed: []string{"./limiter", "./limiter/reputation", "./limiter/region"},
		why: "the arithmetic is what everything else is held to: it must be possible to read and to test it alone",
	},
	{
		packages:  []string{"./identity/..."},
		forbidden: []string{"./limiter/...", "./storage/...", "."},
		why:       "who a client is has nothing to do with how much it may do; mixed, neither can be changed alone",
	},
	{
		packages:  []string{"./limiter/...", "./internal/engine/..."},
		forbidden: []string{"./identity/...", "."},
		why:       "limits count whatever key they are given; what it means is for those to know who make it",
	},
	{
		packages:  []string{"./internal/engine/table"},
		forbidden: []string{"./...", "golang.org/..."}, allowed: []string{"./internal/engine/table", "./storage", "./limiter/...", "./internal/distinct", "./internal/outcomes"},
		imports: []string{"./limiter/...", "time", "context"},
		why:     "the table knows no policy: which keys stay is for its owner to say",
	},
	{
		packages:  []string{"./internal/engine/clock"},
		forbidden: []string{"./...", "golang.org/..."}, allowed: []string{"./internal/engine/clock", "./storage", "./limiter/...", "./internal/distinct", "./internal/outcomes", "golang.org/x/sys/..."},
		why: "the time must be possible to read and to test without an engine",
	},
	{
		packages:  []string{"./internal/httpfield"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/httpfield"},
		why: "header fields are HTTP's: what is in them is read and written alike whatever they are for",
	},
	{
		packages:  []string{"./internal/siting"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/siting"},
		why: "it says what is true of a path; what to warn of is for the checks of a config",
	},
	{
		packages:  []string{"./internal/advice"},
		forbidden: []string{"./..."}, allowed: []string{"./internal/advice", "./internal/caddyconf", "./internal/typo"},
		why: "a warning is a value for everybody who shows it, whatever has found it",
	},
	{
		packages:  []string{"./internal/textfile"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/textfile"},
		why: "files are read and replaced alike whatever is in them",
	},
	{
		packages:  []string{"./internal/rules"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/rules", "./internal/textfile", "github.com/gaissmai/bart/..."},
		why: "commands read and write rules while no Caddy runs; what a rule does to a request is for package enforce",
	},
	{
		packages:  []string{"./internal/testing/admissions"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/testing/admissions"},
		why: "a proof that limits hold must not stand on the arithmetic that it is to prove",
	},
	{
		packages:  []string{"./internal/testing/trace"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/testing/trace"},
		why: "what holds the engine and the limits to the protocol must not share their errors",
	},
	{
		packages:  []string{"./internal/outcomes"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/outcomes"},
		why: "stores, metrics, operators and pages share the counts, and don't know one another",
	},
	{
		packages:  []string{"./internal/distinct"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/distinct"},
		why: "it is arithmetic on hashes, whatever they are of",
	},
	{
		packages:  []string{"./internal/slab"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/slab"},
		why: "memory is kept alike whatever lies in it",
	},
	{
		packages:  []string{"./internal/typo"},
		forbidden: []string{"./...", "github.com/..."}, allowed: []string{"./internal/typo"},
		why: "words are compared alike whatever they name",
	},
	{
		packages:  []string{"./internal/endpoint"},
		forbidden: []string{"./...", "github.com/...", "go.uber.org/...", "net/http"}, allowed: []string{"./internal/endpoint"},
		why: "how backends read a request has nothing to do with who serves it: it must be possible to read and to test it alone",
	},
	{
		packages:  []string{"./internal/matcher"},
		forbidden: []string{"./..."}, allowed: []string{"./internal/matcher", "./internal/endpoint", "./internal/crawler", "./internal/networks", "./internal/webbot", "./internal/textfile", "./identity/carried", "./internal/names", "./internal/grammar", "./internal/caddyconf", "./internal/typo"},
		why: "what matches a request knows nothing of zones and limits, so it is judged alone: by what backends read; the grammar reads the words of any line",
	},
	{
		packages:  []string{"./internal/crawler"},
		forbidden: []string{"./...", "github.com/...", "net/http"}, allowed: []string{"./internal/crawler", "./internal/textfile", "github.com/gaissmai/bart/..."},
		why: "an address is confirmed alike whatever has asked for it: it must be possible to read and to test it alone",
	},
	{
		packages:  []string{"./internal/webbot"},
		forbidden: []string{"./...", "github.com/...", "net/http"}, allowed: []string{"./internal/webbot", "./internal/textfile", "github.com/dunglas/httpsfv"},
		why: "a signature is verified alike whatever serves the request: it must be possible to read and to test it alone",
	},
	{
		packages:  []string{"./internal/networks"},
		forbidden: []string{"./..."}, allowed: []string{"./internal/networks", "./internal/testing/networkstest", "./internal/textfile", "./identity/carried"},
		why: "where an address is has nothing to do with what is decided about it",
	},
	{
		packages:  []string{"./internal/testing/handlertest"},
		forbidden: []string{".", "./internal/lint", "./internal/replayer", "./internal/proposal", "./internal/dashboard", "github.com/caddyserver/caddy/v2/modules/standard"},
		why:       "after each edit a test of handlers compiles and links all that makes them",
	},
	{
		packages:  []string{"./internal/lint"},
		forbidden: []string{".", "./internal/operator/local", "./internal/replayer", "./internal/replay", "./internal/dashboard"},
		why:       "what a config does other than it seems to is said of the config alone, before anything runs",
	},
	{
		packages:  []string{"./internal/config"},
		forbidden: []string{".", "./internal/operator/local", "./internal/replayer", "./internal/replay", "./internal/dashboard"},
		why:       "a config is read and compiled whether it will run, be validated or be replayed",
	},
	{
		packages:  []string{"./internal/operator/local"},
		forbidden: []string{".", "./internal/config", "./internal/replay"},
		imports:   []string{"github.com/caddyserver/caddy/v2/caddyconfig/..."},
		why:       "operators see what runs, whatever it was compiled from",
	},
	{
		packages:  []string{"./internal/settle", "./internal/answer"},
		forbidden: []string{".", "./internal/enforce", "./internal/config", "./internal/instance"},
		why:       "a request is answered and settled by values alone, whatever decided about it",
	},
	{
		packages:  []string{"./internal/enforce"},
		forbidden: []string{".", "./internal/config", "./internal/replay"},
		imports:   []string{"encoding/json", "./internal/caddyconf", "github.com/caddyserver/caddy/v2/caddyconfig/..."},
		why:       "what decides about requests knows nothing of what an operator writes, so neither can change for the other's sake",
	},
	{
		packages:  []string{"./internal/replayer"},
		forbidden: []string{".", "./internal/config", "./internal/operator/local", "./internal/dashboard"},
		why:       "a log is replayed by what decides about requests, whatever a config is written in, and no running Caddy is asked",
	},
	{
		packages:  []string{"./internal/proposal"},
		forbidden: []string{".", "./internal/config", "./internal/operator/local", "./internal/dashboard"},
		why:       "limits are proposed by what loads and replays configs, not by a second reading of them",
	},
	{
		packages:  []string{"./internal/instance"},
		forbidden: []string{".", "./internal/config", "./internal/matcher", "./internal/routing", "./internal/page", "./internal/replay", "net/http/httputil"},
		why:       "what outlives a config knows neither requests nor what an operator writes",
	},
	{
		packages:  []string{"./internal/stores"},
		forbidden: []string{".", "./internal/config", "./internal/engine/..."},
		why:       "where counts are kept has nothing to do with what is counted",
	},
	{
		packages:  []string{"./internal/routing"},
		forbidden: []string{"./..."},
		allowed:   []string{"./internal/routing", "./internal/typo", "./internal/matcher", "./internal/endpoint", "./internal/crawler", "./internal/networks", "./internal/webbot", "./internal/textfile", "./identity/carried", "./internal/names", "./internal/grammar", "./internal/caddyconf"},
		why:       "handlers, matchers and placeholders are described as they are; what is wrong about them is for the checks",
	},
	{
		packages:  []string{"./internal/meter"},
		forbidden: []string{".", "./internal/config"},
		why:       "what is counted is one list, which zones and operators read; it decides nothing",
	},
	{
		packages:  []string{"./internal/accesslog"},
		forbidden: []string{"./...", "net/http"}, allowed: []string{"./internal/accesslog"},
		why: "what a log says of requests has nothing to do with limits: it must be possible to read and to fuzz it alone",
	},
	{
		packages:  []string{"./internal/replay"},
		forbidden: []string{".", "./internal/engine/...", "./storage/...", "github.com/caddyserver/..."},
		why:       "who decides about a request of a log is the caller's affair; what is counted and reported of it is the same",
	},
	{
		packages:  []string{"./internal/dashboard", "./internal/testing/sample"},
		forbidden: []string{"./...", "github.com/...", "go.uber.org/..."},
		allowed:   []string{"./internal/dashboard", "./internal/testing/sample", "./internal/operator", "./internal/outcomes", "./internal/wording", "./identity/carried", "github.com/dustin/go-humanize"},
		why:       "the dashboard shows what an operator's service says, whether that is in this process or far away",
	},
	{
		packages:  []string{"./internal/engine/..."},
		forbidden: []string{"./storage/..."}, allowed: []string{"./storage"},
		why: "the engine must work with every store that meets the contract, one on a network among them",
	},
	{
		packages: []string{"./limiter/...", "./internal/engine/...", "./storage/...", "./identity/..."},
		except:   []string{"./storage/redis", "./storage/postgres", "./storage/exchange/postgres"}, // modules of Caddy that users build in
		forbidden: []string{
			"github.com/caddyserver/...", "go.uber.org/zap/...", "github.com/prometheus/...",
		},
		why: "Caddy's ways of serving, logging and measuring change; they are met in the root, config and enforce",
	},
	{
		packages:  []string{"./limiter/...", "./internal/engine/...", "./storage/...", "./identity/..."},
		except:    []string{"./identity/siteverify", "./storage/redis", "./storage/postgres", "./storage/exchange/postgres"}, // a client, which serves nothing, and modules of Caddy
		forbidden: []string{"net/http"},
		why:       "requests are met in enforce; what they are made of is handed on as plain values",
	},
	{
		packages:  []string{"./internal/engine/...", "./storage"},
		forbidden: []string{"database/sql/...", "modernc.org/..."},
		why:       "the contract of stores is not SQLite's: a store on a network engine implements it, too",
	},
	{
		packages:  []string{"./internal/regions"},
		forbidden: []string{"./storage/...", "./identity/...", "github.com/caddyserver/...", "database/sql/..."},
		allowed:   []string{"./storage", "./storage/exchange"},
		why:       "regions are told the same whatever their stores and their exchange are made of",
	},
	{
		packages:  []string{"./storage/exchange"},
		forbidden: []string{"./...", "github.com/caddyserver/...", "database/sql/..."}, allowed: []string{"./storage/exchange", "./storage", "./limiter", "./limiter/...", "./internal/distinct", "./internal/outcomes"},
		why: "the contract is names, counts and their arithmetic, nothing else",
	},
	{
		packages:  []string{"./storage"},
		forbidden: []string{"./..."}, allowed: []string{"./storage", "./limiter", "./limiter/reputation", "./internal/distinct", "./internal/outcomes"},
		why: "the contract is limits, counts and their arithmetic, nothing else",
	},
	{
		packages:  []string{"./storage/..."},
		forbidden: []string{"./internal/engine/..."},
		why:       "a store adds durability, not decisions; it would be in a circle with what calls it",
	},
	{
		packages:  []string{"./storage/sqlite"},
		forbidden: []string{"./storage/..."}, allowed: []string{"./storage", "./storage/internal/rows", "./storage/sqlite/..."},
		why: "stores are alternatives; one that needs another can't be left out of a build",
	},
	{
		packages:  []string{"./storage/memory"},
		forbidden: []string{"./..."}, allowed: []string{"./storage/memory", "./storage", "./storage/internal/cells", "./storage/internal/rows", "./limiter", "./limiter/reputation", "./internal/distinct", "./internal/outcomes", "./internal/slab"},
		why: "stores are alternatives; one that needs another can't be left out of a build",
	},
	{
		packages:  []string{"./storage/memory"},
		forbidden: []string{"database/sql/...", "modernc.org/..."},
		why:       "who chooses the store without a disk has none touched",
	},
	{
		packages:  []string{"."},
		forbidden: []string{"./storage/redis/...", "github.com/redis/..."},
		why:       "who doesn't build a Caddy with the store gets none of it",
	},
	{
		packages:  []string{"./storage/redis/..."},
		forbidden: []string{"./storage/sqlite/...", "./storage/memory"},
		why:       "stores are alternatives; one that needs another can't be left out of a build",
	},
	{
		packages:  []string{"."},
		forbidden: []string{"./storage/postgres/..."},
		why:       "who doesn't build a Caddy with such a store gets none of it",
	},
	{
		packages:  []string{"./storage/postgres/internal/store"},
		forbidden: []string{"./storage/..."}, allowed: []string{"./storage", "./storage/internal/cells", "./storage/internal/rows", "./storage/postgres/internal/store"},
		why: "stores are alternatives; one that needs another can't be left out of a build",
	},
	{
		packages:  []string{"./storage/internal/cells"},
		forbidden: []string{"./..."}, allowed: []string{"./storage/internal/cells", "./storage", "./limiter", "./limiter/reputation", "./internal/distinct", "./internal/outcomes"},
		why: "it is arithmetic that stores share, and knows no place where states are kept",
	},
	{
		packages:  []string{"./storage/internal/rows"},
		forbidden: []string{"./..."}, allowed: []string{"./storage/internal/rows", "./storage", "./limiter", "./limiter/reputation", "./internal/distinct", "./internal/outcomes"},
		why: "it adds up the history for every store, and knows no place where rows are kept",
	},
	{
		packages:  []string{"./storage/sqlite/internal/vfs"},
		forbidden: []string{"./...", "modernc.org/sqlite"}, allowed: []string{"./storage/sqlite/internal/vfs"},
		why: "what is unsafe is read alone: it serves SQLite's file calls, and knows neither driver nor rows",
	},
	{
		packages:  []string{"./storage/sqlite/internal/journal"},
		forbidden: []string{"./...", "database/sql/...", "modernc.org/..."}, allowed: []string{"./storage/sqlite/internal/journal", "./storage/sqlite/internal/sleeplock"},
		why: "what survives a SIGKILL, and who may write it, is hard enough to read alone: what the records mean is for the store to say",
	},
}

// usesUnsafe are the packages that may import unsafe, in tests included.
var usesUnsafe = map[string]string{
	"./storage/sqlite/internal/vfs":     "SQLite's structures lie in memory that Go does not manage",
	"./storage/sqlite/internal/journal": "a file that is mapped into memory is read and written in words",
	"./internal/engine/table":           "a key's text follows its entry in one piece of memory without pointers (decision 1)",
	"./internal/engine":                 "what follows an entry in memory is the engine's (decision 1)",
	"./caddytest":                       "a test sets the limits of a child process, a system call that package syscall lacks",
}

// dependencies are the direct dependencies of this module, with the reason for each. They become
// part of every Caddy with this module, so there are no others: one more needs a reason in
// docs/decisions.
var dependencies = map[string]string{
	"github.com/caddyserver/caddy/v2":         "what this is a module of",
	"github.com/caddyserver/certmagic":        "names of certificates in Caddy's storage; Caddy brings it: see decision 160",
	"github.com/cespare/xxhash/v2":            "stable hashes, for the names of limits, for shards and for checksums; Caddy brings it",
	"github.com/dunglas/httpsfv":              "structured fields (RFC 9651), for signatures of requests; Caddy brings it",
	"github.com/dustin/go-humanize":           "sizes in a Caddyfile, read as Caddy reads them, and sizes and numbers for people; Caddy brings it",
	"github.com/gaissmai/bart":                "the longest prefix among the networks of the rules file, found in less than 100 ns; a module that Caddy requires uses it, too",
	"github.com/jackc/pgx/v5":                 "the protocol of Postgres, for the store and the exchange there; Caddy brings it: see decision 97",
	"github.com/klauspost/compress":           "access logs that are compressed with zstd; Caddy brings it",
	"github.com/oschwald/maxminddb-golang/v2": "files of countries and autonomous systems, in the format that all publishers use: see decision 146",
	"github.com/prometheus/client_golang":     "metrics, in Caddy's registry; Caddy brings it",
	"github.com/prometheus/client_model":      "what counters have counted, so that operators see the same numbers as metrics; Caddy brings it",
	"github.com/quic-go/quic-go":              "a client of HTTP/3, for tests; Caddy brings it",
	"github.com/redis/rueidis":                "the protocol of Redis for storage/redis, without sending writes again by itself: see decision 93",
	"github.com/spf13/cobra":                  "subcommands of `caddy rate-limit`, which Caddy has plugins make with it; Caddy brings it",
	"github.com/valyala/fastjson":             "JSON of access logs, without reflection, of which each line is another object: see decision 96",
	"go.yaml.in/yaml/v3":                      "compose files, in tests; Caddy brings it",
	"go.opentelemetry.io/otel":                "attributes of spans, for Caddy's tracing; Caddy brings it",
	"go.opentelemetry.io/otel/trace":          "the span of a request, for Caddy's tracing; Caddy brings it",
	"go.uber.org/zap":                         "logs, by Caddy's loggers; Caddy brings it",
	"golang.org/x/net":                        "the Public Suffix List, for registered domains; Caddy brings it: see decision 160",
	"golang.org/x/sync":                       "calls that share one reading of the store, which may hang; Caddy brings it",
	"golang.org/x/text":                       "characters that stand for others (NFKC), which programs read as ASCII: see decision 40; Caddy brings it",
	"golang.org/x/sys":                        "the clock of Linux that all processes share and nobody sets, mapped files, locks of files; Caddy brings it",
	"google.golang.org/grpc":                  "a client of gRPC, for tests; Caddy brings it: see decision 157",
	"golang.org/x/term":                       "the width of a terminal; Caddy brings it",
	"modernc.org/libc":                        "what SQLite calls Go functions with; modernc.org/sqlite brings it, and pins its version",
	"modernc.org/sqlite":                      "the embedded database, without cgo",
}

// pkg is a package in the output of `go list`.
type pkg struct {
	ImportPath, Dir, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

func (p pkg) name() string {
	return "." + strings.TrimPrefix(p.ImportPath, module)
}

func TestDependencyRules(t *testing.T) {
	packages := listPackages(t)
	for _, r := range rules {
		held := 0
		for _, p := range packages {
			if !matchesAny(r.packages, p.ImportPath) || matchesAny(r.except, p.ImportPath) {
				continue
			}
			held++
			for _, dep := range p.Deps {
				if matchesAny(r.forbidden, dep) && !matchesAny(r.allowed, dep) {
					t.Errorf("%s depends on %s, and must not: %s", p.name(), dep, r.why)
				}
			}
			for _, dep := range p.Imports {
				if matchesAny(r.imports, dep) {
					t.Errorf("%s imports %s, and must not: %s", p.name(), dep, r.why)
				}
			}
		}
		if held == 0 {
			t.Errorf("the rule for %v is for no package: %s", r.packages, r.why)
		}
	}
}

// The arithmetic takes the time as a number and leaves locks to its callers, so the list of its
// permitted imports is short.
func TestArithmeticIsPure(t *testing.T) {
	pure := []string{"cmp", "fmt", "math", "math/bits", "slices", "strconv", "time"}
	for _, p := range listPackages(t) {
		if p.name() != "./limiter" {
			continue
		}
		for _, imported := range p.Imports {
			if !slices.Contains(pure, imported) {
				t.Errorf("limiter imports %s: it is a function of its arguments, and knows no lock, clock, context or I/O", imported)
			}
		}
		return
	}
	t.Fatal("there is no package limiter")
}

// storeTypes are the types that are stores, by the folders of their packages.
var storeTypes = map[string]string{
	"storage/memory":                  "Store",
	"storage/postgres/internal/store": "Store",
	"storage/redis/internal/store":    "Store",
	"storage/sqlite":                  "Store",
}

// mostMethods is how many methods a store may have itself. The contract has 23, see [storage.Network]. What more it
// needs belongs to its parts, which have fields of their own.
const mostMethods = 25

func TestStoresHaveFewMethods(t *testing.T) {
	for folder, store := range storeTypes {
		methods, files, err := methodsOf(folder, store)
		switch {
		case err != nil:
			t.Error(err)
		case len(methods) == 0:
			t.Errorf("%s has no type %s with methods: does this test look in the right place?", folder, store)
		case len(methods) > mostMethods:
			t.Errorf("%s.%s has %d methods in %d files, want at most %d, because each of them may touch all of its fields: %v",
				folder, store, len(methods), len(files), mostMethods, methods)
		}
	}
}

// methodsOf returns the methods of a type in a folder, and the files that they are in. Functions that take the type count
// as well: they may touch all of its fields. Tests don't count.
func methodsOf(folder, name string) (methods []string, files map[string]bool, err error) {
	files = make(map[string]bool)
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			of := f.Type.Params.List
			if f.Recv != nil {
				of = slices.Concat(f.Recv.List, of)
			}
			if slices.ContainsFunc(of, func(p *ast.Field) bool { return strings.TrimPrefix(types.ExprString(p.Type), "*") == name }) {
				methods, files[path] = append(methods, f.Name.Name), true
			}
		}
	}
	return methods, files, err
}

// Unsafe code, which the compiler does not check, stays in few places.
func TestUnsafe(t *testing.T) {
	used := make(map[string]bool)
	for _, p := range listPackages(t) {
		if !slices.Contains(slices.Concat(p.Imports, p.TestImports, p.XTestImports), "unsafe") {
			continue
		}
		used[p.name()] = true
		if usesUnsafe[p.name()] == "" {
			t.Errorf("%s imports unsafe, and must not: see storage/sqlite/internal/vfs", p.name())
		}
	}
	if !used["./storage/sqlite/internal/vfs"] {
		t.Error("storage/sqlite/internal/vfs does not import unsafe: does this test see imports at all?")
	}
}

func TestDirectDependencies(t *testing.T) {
	used := make(map[string]bool)
	for _, p := range listPackages(t) {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if isStandard(imported) || matches("./...", imported) {
				continue
			}
			mod := moduleOf(imported)
			if mod == "" {
				t.Errorf("%s imports %s: a dependency needs a reason in docs/decisions, and a line here", p.ImportPath, imported)
			}
			used[mod] = true
		}
	}
	for dependency := range dependencies {
		if !used[dependency] {
			t.Errorf("nothing imports %s any more: remove it from go.mod and here", dependency)
		}
	}
	for required := range requiredModules(t, "go.mod") {
		if dependencies[required] == "" {
			t.Errorf("go.mod requires %s without `// indirect`: a dependency needs a reason in docs/decisions, and a line here", required)
		}
	}
}

// listPackages returns the packages of this module. It asks the go command once.
func listPackages(t *testing.T) []pkg {
	t.Helper()
	packages, err := packagesOnce()
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 5 {
		t.Fatalf("go list knows %d packages only", len(packages))
	}
	return packages
}

var packagesOnce = sync.OnceValues(func() (packages []pkg, err error) {
	out, err := output("go", "list", "-json=ImportPath,Dir,Name,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var p pkg
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
})

// requiredModules returns the modules of a go.mod that are not marked indirect, with their versions.
func requiredModules(t *testing.T, file string) map[string]string {
	t.Helper()
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	if err := json.Unmarshal([]byte(run(t, "go", "mod", "edit", "-json", file)), &mod); err != nil {
		t.Fatal(err)
	}
	direct := make(map[string]string)
	for _, required := range mod.Require {
		if !required.Indirect {
			direct[required.Path] = required.Version
		}
	}
	return direct
}

func run(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := output(command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// output returns the output of a command. If it fails, the error contains the command's message.
func output(command string, args ...string) (string, error) {
	out, err := exec.Command(command, args...).Output()
	if exit, ok := err.(*exec.ExitError); ok {
		return "", fmt.Errorf("%s %v: %w\n%s", command, args, err, exit.Stderr)
	}
	return string(out), err
}

func matchesAny(patterns []string, importPath string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, importPath) })
}

// matches reports whether a rule's pattern matches an import path.
func matches(pattern, importPath string) bool {
	if pattern == "." || strings.HasPrefix(pattern, "./") {
		pattern = path.Join(module, pattern)
	}
	if whole, ok := strings.CutSuffix(pattern, "/..."); ok {
		return importPath == whole || strings.HasPrefix(importPath, whole+"/")
	}
	return importPath == pattern
}

// isStandard reports whether an import path has no domain in front, like the standard library's.
func isStandard(importPath string) bool {
	domain, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(domain, ".")
}

// moduleOf returns the dependency that contains a package, or "". One module may lie below another.
func moduleOf(importPath string) (module string) {
	for dependency := range dependencies {
		if (importPath == dependency || strings.HasPrefix(importPath, dependency+"/")) && len(dependency) > len(module) {
			module = dependency
		}
	}
	return module
}
