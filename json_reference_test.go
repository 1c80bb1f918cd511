package tally_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	pgexchange "github.com/caddy-tally/caddy-tally/storage/exchange/postgres"
	"github.com/caddy-tally/caddy-tally/storage/postgres"
	"github.com/caddy-tally/caddy-tally/storage/redis"
)

var updateReference = flag.Bool("reference.update", false, "write docs/json.md anew from the config structs")

const jsonReference = "docs/json.md"

const jsonReferenceHead = `# JSON reference

Every field of the JSON config, with its type. A field without an explanation is the option of this
name in the [reference](reference.md) or, of a store on a network, in
[its table](servers.md#redis-and-valkey).

A duration is a string such as ` + "`10m`" + ` or ` + "`7d`" + `, or a whole number of nanoseconds; a size
a number of bytes; a share of limits a number of percent. ` + "`caddy adapt`" + ` prints the JSON of a
Caddyfile.

<!-- Written from the doc comments of the config structs by make reference. Do not edit it here. -->
`

// configRoots are the modules whose JSON is documented, each with its place in a config, and its
// heading if that differs from the name of its type.
var configRoots = []struct {
	config  any
	heading string
	where   string
}{
	{config.Handler{}, "Handler", "The handler, module `http.handlers.rate_limit`"},
	{config.Listener{}, "Listener", "The listener wrapper, module `caddy.listeners.rate_limit`, in `listener_wrappers` of a server"},
	{config.Dashboard{}, "Dashboard", "The handler, module `http.handlers.rate_limit_dashboard`"},
	{config.Permission{}, "Permission", "Certificates on demand, module `tls.permission.rate_limit`, also with the fields of [Handler](#handler)"},
	{config.App{}, "App", "The app, module `rate_limit`, in `apps`"},
	{stores.SQLite{}, "SQLite", "The store in SQLite, module `rate_limit.stores.sqlite`, in `store` of the app"},
	{stores.Memory{}, "Memory", "The store in memory, module `rate_limit.stores.memory`, in `store` of the app"},
	{&redis.Store{}, "RedisStore", "The store on a server of Redis, module `rate_limit.stores.redis`, in `store` of the app"},
	{&postgres.Store{}, "PostgresStore", "The store on a server of Postgres, module `rate_limit.stores.postgres`, in `store` of the app"},
	{pgexchange.Exchange{}, "PostgresExchange", "The exchange on a server of Postgres, module `rate_limit.exchanges.postgres`, in `exchange` of [Region](#region)"},
}

// TestJSONReference compares docs/json.md with the config structs.
func TestJSONReference(t *testing.T) {
	want := writeJSONReference(t)
	if *updateReference {
		if err := os.WriteFile(jsonReference, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(jsonReference)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the config structs say: run make reference and look at the difference", jsonReference)
	}
}

func writeJSONReference(t *testing.T) []byte {
	t.Helper()
	w := &referenceWriter{
		t: t, headings: make(map[reflect.Type]string), done: make(map[reflect.Type]bool),
		comments: make(map[string]map[string]*doc.Type), options: readText(t, reference) + strings.Join(slices.Collect(maps.Values(referencePages(t))), ""), stores: readText(t, "docs/servers.md") + readText(t, "docs/regions.md"),
	}
	w.out.WriteString(jsonReferenceHead)
	for _, root := range configRoots {
		typ := reflect.Indirect(reflect.ValueOf(root.config)).Type()
		w.headings[typ] = root.heading
		w.writeStruct(typ, root.where)
	}
	return []byte(wrapped(joinAlike(w.out.String())))
}

// wrapped breaks lines after 100 columns at most.
func wrapped(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		newLine, column := "\n", 0
		if strings.HasPrefix(line, "- ") {
			newLine = "\n  "
		}
		for i, word := range unbroken.FindAllString(line, -1) {
			width := utf8.RuneCountInString(word)
			switch {
			case i == 0:
			case column+1+width <= 100:
				out.WriteString(" ")
				column++
			default:
				out.WriteString(newLine)
				column = len(newLine) - 1
			}
			out.WriteString(word)
			column += width
		}
		out.WriteString("\n")
	}
	return out.String()
}

// joinAlike joins consecutive fields of one type without explanations into one line.
func joinAlike(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i := len(lines) - 2; i >= 0; i-- {
		name, kind, _ := strings.Cut(lines[i], ": ")
		names, nextKind, isField := strings.Cut(lines[i+1], ": ")
		if isField && kind == nextKind && strings.HasPrefix(lines[i+1], "- ") && strings.Count(kind, ". ") == 0 {
			lines[i], lines[i+1] = name+", "+strings.TrimPrefix(names, "- ")+": "+kind, ""
		}
	}
	return strings.Join(lines, "")
}

// typeComments returns the types of a package of this module with their doc comments, by name.
func typeComments(t *testing.T, importPath string) map[string]*doc.Type {
	t.Helper()
	files := token.NewFileSet()
	var parsed []*ast.File
	dir := "." + strings.TrimPrefix(importPath, module)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
	}
	pkg, err := doc.NewFromFiles(files, parsed, importPath)
	if err != nil {
		t.Fatal(err)
	}
	types := make(map[string]*doc.Type)
	for _, typ := range pkg.Types {
		types[typ.Name] = typ
	}
	return types
}

// referenceWriter writes a section for each struct, followed by the structs that its fields link
// to.
type referenceWriter struct {
	t        *testing.T
	out      bytes.Buffer
	headings map[reflect.Type]string         // that differ from the name of the type
	comments map[string]map[string]*doc.Type // of types, by package and name
	options  string                          // the reference of options
	stores   string                          // the page with the options of network stores
	done     map[reflect.Type]bool
}

// documented returns a type with its doc comments, or nil if it has none.
func (w *referenceWriter) documented(typ reflect.Type) *doc.Type {
	types, known := w.comments[typ.PkgPath()]
	if !known {
		types = typeComments(w.t, typ.PkgPath())
		w.comments[typ.PkgPath()] = types
	}
	if documented := types[typ.Name()]; documented != nil && documented.Doc != "" {
		return documented
	}
	w.t.Errorf("type %s has no doc comment", typ)
	return nil
}

func (w *referenceWriter) heading(typ reflect.Type) string {
	if heading := w.headings[typ]; heading != "" {
		return heading
	}
	return typ.Name()
}

func (w *referenceWriter) writeStruct(typ reflect.Type, where string) {
	if w.done[typ] {
		return
	}
	w.done[typ] = true
	documented := w.documented(typ)
	if documented == nil {
		return
	}
	fmt.Fprintf(&w.out, "\n## %s\n\n", w.heading(typ))
	if where != "" {
		fmt.Fprintf(&w.out, "%s.\n\n", where)
	}
	comments := fieldComments(documented)
	var refers []reflect.Type
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "" || name == "-" {
			continue
		}
		comment := comments[field.Name]
		if strings.TrimSpace(comment) == "" {
			w.t.Errorf("%s.%s has no doc comment: it is what users read of the field %q", typ.Name(), field.Name, name)
		}
		kind, inner := jsonType(field)
		fmt.Fprintf(&w.out, "- `%s`: %s.%s\n", name, kind, w.explanation(typ, name, comment))
		if inner != nil {
			refers = append(refers, inner)
		}
	}
	for _, inner := range refers {
		w.writeStruct(inner, "")
	}
}

// explanation returns a field's shortened comment, or nothing if the reference has an option of its
// name. Options of network stores and of the exchange are in docs/servers.md and docs/regions.md.
func (w *referenceWriter) explanation(typ reflect.Type, name, comment string) string {
	options := w.stores
	if slices.Contains([]string{"config", "stores"}, path.Base(typ.PkgPath())) {
		options = w.options
	}
	if hasEntry(options, name) {
		return ""
	}
	return " " + inShort(comment)
}

var (
	defaultSentence = regexp.MustCompile(`\bDefault: .*?(?:\.$|\. )`)
	listedValue     = regexp.MustCompile("(?m)^ *- (`[^`]+`(?: \\(default\\))?)")
)

// inShort returns the first sentence of a comment, up to a colon if an explanation comes after it,
// the values that it lists, and the sentence with the default.
func inShort(comment string) string {
	first, rest, _ := strings.Cut(comment, "\n\n")
	short := new(doc.Package).Synopsis(first)
	var values []string
	for _, m := range listedValue.FindAllStringSubmatch(rest, -1) {
		values = append(values, m[1])
	}
	if clause, explanation, found := strings.Cut(short, ": "); found && !strings.HasPrefix(explanation, "`") && !strings.HasSuffix(clause, "Default") {
		short = clause + "."
	}
	if strings.HasSuffix(short, ":") {
		short += " " + strings.Join(values, ", ") + "."
	}
	whole := strings.Join(strings.Fields(comment), " ")
	if given := strings.TrimSpace(defaultSentence.FindString(whole)); !strings.Contains(short, given) {
		short += " " + given
	}
	return short
}

// fieldComments returns the doc comments of a struct's fields, by name.
func fieldComments(typ *doc.Type) map[string]string {
	comments := make(map[string]string)
	for _, spec := range typ.Decl.Specs {
		spec, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range fields.Fields.List {
			for _, name := range field.Names {
				comments[name.Name] = field.Doc.Text()
			}
		}
	}
	return comments
}

// jsonType returns the JSON type of a field, and the struct of ours in it, if any.
func jsonType(field reflect.StructField) (kind string, inner reflect.Type) {
	if namespace, _, _ := strings.Cut(field.Tag.Get("caddy"), " "); namespace != "" {
		namespace = strings.TrimPrefix(namespace, "namespace=")
		if field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() != reflect.Uint8 {
			return "array of sets of `" + namespace + "`", nil
		}
		return "module in `" + namespace + "`", nil
	}
	return typeInWords(field.Type)
}

func typeInWords(typ reflect.Type) (kind string, inner reflect.Type) {
	switch typ.Kind() {
	case reflect.Pointer:
		return typeInWords(typ.Elem())
	case reflect.Slice:
		kind, inner = typeInWords(typ.Elem())
		return "array of " + kind, inner
	case reflect.Map:
		kind, inner = typeInWords(typ.Elem())
		return "object of " + kind, inner
	case reflect.Struct:
		return "[" + typ.Name() + "](#" + strings.ToLower(typ.Name()) + ")", typ
	case reflect.Bool:
		return "boolean", nil
	case reflect.Float64:
		return "number", nil
	case reflect.Int, reflect.Int64:
		if typ.Name() == "Duration" {
			return "duration", nil
		}
		return "integer", nil
	}
	return typ.Kind().String(), nil
}
