package tally_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	_ "github.com/caddy-tally/caddy-tally/storage/exchange/postgres"
	_ "github.com/caddy-tally/caddy-tally/storage/postgres"
	_ "github.com/caddy-tally/caddy-tally/storage/redis"
)

// caddyserver.com writes its pages about modules from doc comments with github.com/caddyserver/moduledoc, which reads
// all packages that a registered one imports. These tests forbid what makes it reject the package, or leave
// something out.

// It takes a type whose method CaddyModule returns a literal ID for a module, and rejects the package unless it registers
// the type.
func TestModulesAreRegisteredWhereTheyAre(t *testing.T) {
	found := 0
	for _, p := range listPackages(t) {
		if p.Name == "main" {
			continue
		}
		described, registered := make(map[string]bool), make(map[string]bool)
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Name.Name == "CaddyModule" && hasLiteralID(n) {
						described[receiverName(n)] = true
					}
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "RegisterModule" {
						registered[madeType(n.Args[0])] = true
					}
				}
				return true
			})
		}
		for name := range registered {
			if found++; !described[name] {
				t.Errorf("%s registers %q: want X{} or new(X) of one of its types, whose CaddyModule has a literal as ID", p.ImportPath, name)
			}
		}
		for name := range described {
			if !registered[name] {
				t.Errorf("%s.%s has a literal ID and isn't registered: register it there, or make the ID a constant", p.ImportPath, name)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d modules found", found)
	}
}

// hasLiteralID reports whether a CaddyModule method has a string literal for the ID.
func hasLiteralID(method *ast.FuncDecl) (found bool) {
	ast.Inspect(method, func(n ast.Node) bool {
		if field, ok := n.(*ast.KeyValueExpr); ok && field.Key.(*ast.Ident).Name == "ID" {
			_, found = field.Value.(*ast.BasicLit)
		}
		return true
	})
	return found
}

// madeType returns X of X{} and new(X), and otherwise nothing.
func madeType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CompositeLit:
		if name, ok := e.Type.(*ast.Ident); ok {
			return name.Name
		}
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "new" {
			if name, ok := e.Args[0].(*ast.Ident); ok {
				return name.Name
			}
		}
	}
	return ""
}

// All modules and all their fields have an explanation there, also of structs of internal packages that they embed.
func TestModulesAreExplained(t *testing.T) {
	w := moduleWalk{t: t, comments: make(map[string]map[string]string)}
	modules := 0
	for _, id := range caddy.Modules() {
		info, err := caddy.GetModule(id)
		if err != nil {
			t.Fatal(err)
		}
		if typ := reflect.Indirect(reflect.ValueOf(info.New())).Type(); strings.HasPrefix(typ.PkgPath(), module) &&
			!strings.HasPrefix(typ.PkgPath(), module+"/internal/testing/") {
			modules++
			w.walk(typ, id, nil)
		}
	}
	if modules < 15 || len(w.seen) < 40 {
		t.Errorf("%d modules with %d types found", modules, len(w.seen))
	}
}

// moduleWalk visits the types of fields as moduledoc does.
type moduleWalk struct {
	t        *testing.T
	comments map[string]map[string]string // by package, of types and fields
	seen     []reflect.Type
}

func (w *moduleWalk) walk(typ reflect.Type, where string, within []reflect.Type) {
	switch typ.Kind() {
	case reflect.Array, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		w.t.Errorf("%s: moduledoc knows no %s", where, typ.Kind())
	case reflect.Map:
		w.walk(typ.Key(), where, within)
		fallthrough
	case reflect.Pointer, reflect.Slice:
		if typ.Name() == "" || !strings.HasPrefix(typ.PkgPath(), "encoding/") { // json.RawMessage is a module
			w.walk(typ.Elem(), where, within)
		}
	case reflect.Struct:
		if slices.Contains(within, typ) {
			w.t.Errorf("%s: moduledoc never ends with %s in itself", where, typ)
		} else if !slices.Contains(w.seen, typ) {
			w.seen = append(w.seen, typ)
			w.walkFields(typ, where, append(within, typ))
		}
	}
}

func (w *moduleWalk) walkFields(typ reflect.Type, where string, within []reflect.Type) {
	w.needsComment(typ, "", where)
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || name == "" && !field.Anonymous || name != "" && !field.IsExported():
			continue
		case field.Anonymous && !field.IsExported() && field.Type.Kind() == reflect.Struct:
			w.t.Errorf("%s: moduledoc skips the fields of %s, which is embedded and unexported", where, field.Type)
			continue
		case !field.Anonymous:
			w.needsComment(typ, field.Name, where)
		}
		w.walk(field.Type, where+"/"+name, within)
	}
}

func (w *moduleWalk) needsComment(typ reflect.Type, field, where string) {
	if !strings.HasPrefix(typ.PkgPath(), module) {
		return
	}
	comments, known := w.comments[typ.PkgPath()]
	if !known {
		comments = make(map[string]string)
		for name, documented := range typeComments(w.t, typ.PkgPath()) {
			comments[name] = documented.Doc
			for field, comment := range fieldComments(documented) {
				comments[name+"."+field] = comment
			}
		}
		w.comments[typ.PkgPath()] = comments
	}
	name := strings.TrimSuffix(fmt.Sprint(typ.Name(), ".", field), ".")
	if strings.TrimSpace(comments[name]) == "" {
		w.t.Errorf("%s: %s.%s has no comment above it", where, typ.PkgPath(), name)
	}
}

// Whoever combines modules must know all names, and whoever registers packages their modules.
func TestModulesAreOnPages(t *testing.T) {
	images, registration := readText(t, "docs/images.md"), readText(t, "docs/registration.md")
	for _, id := range caddy.Modules() {
		info, err := caddy.GetModule(id)
		if err != nil {
			t.Fatal(err)
		}
		path, isOurs := strings.CutPrefix(reflect.Indirect(reflect.ValueOf(info.New())).Type().PkgPath(), module)
		switch {
		case !isOurs, strings.HasPrefix(path, "/internal/testing/"):
		case strings.HasPrefix(path, "/storage/"):
			if row := "| `…" + path + "` | `" + id + "` |"; !strings.Contains(registration, row) {
				t.Errorf("docs/registration.md lacks %q", row)
			}
			if !strings.Contains(images, path+"`") {
				t.Errorf("docs/images.md lacks the package %s", path)
			}
		case !strings.Contains(images, "`"+id+"`"):
			t.Errorf("docs/images.md lacks the module %s", id)
		}
	}
}
