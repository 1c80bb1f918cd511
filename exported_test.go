package tally_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Below internal/ a name is exported for the code of another package, so that the exported names
// say what a package is for. Tests don't count: they lie beside what they test. Methods that
// implement an interface are exempt, and modules, which Caddy makes. So are fields, which JSON,
// templates and options need.
func TestExportedNamesAreUsed(t *testing.T) {
	c := checkedModule(t)
	for _, p := range c.packages {
		if !strings.Contains(p.Path(), "/internal/") {
			continue
		}
		for _, name := range p.Scope().Names() {
			object := p.Scope().Lookup(name)
			typ, ok := object.(*types.TypeName)
			if ok && typ.IsAlias() {
				continue
			}
			if ok {
				c.checkMethods(t, typ)
			}
			if !ok || !c.implements(typ.Type(), "CaddyModule") {
				c.check(t, object, "")
			}
		}
	}
}

// exportedForTests are the names that only tests of other packages use, with the reason.
var exportedForTests = map[string]string{
	"internal/enforce.APIKeys.Find":             "package config compiles where keys are looked for",
	"internal/enforce.ManyPairs":                "package config compiles where keys are looked for",
	"internal/enforce.OddKey":                   "package config compiles where keys are looked for",
	"internal/enforce.TwoKeys":                  "package config compiles where keys are looked for",
	"internal/enforce.Collectors":               "the reference names all metrics",
	"internal/enforce.OperatorRules.WatchRules": "operators write rules that requests obey",
	"internal/enforce.Tenant.Use":               "operators see what an instance holds",
	"internal/engine.Limit.Retention":           "it hides the one of the rate, which may be shorter",
	"internal/instance.Names.ForStore":          "limits that a config scales must have one name",
	"internal/instance.Names.ForStoreAtOnce":    "limits that a config scales must have one name",
	"internal/language.All":                     "pages are shown in all languages",
}

// isForTests reports whether a package is for tests only.
func isForTests(importPath string) bool {
	return strings.Contains(importPath, "/internal/testing/") || strings.HasSuffix(importPath, "test")
}

// checked are the packages of this module with the names that they use of each other.
type checked struct {
	packages   []*types.Package
	positions  *token.FileSet
	used       map[string]bool               // "import/path.Type.Method", by another package
	held       map[string]bool               // types, by packages that have values of them
	selected   map[string]bool               // names in templates, and in the module of benchmarks
	interfaces map[string][]*types.Interface // by the names of their methods
}

func (c *checked) check(t *testing.T, object types.Object, receiver string) {
	t.Helper()
	if constant, ok := object.(*types.Const); ok { // one of several values
		if named, ok := constant.Type().(*types.Named); ok && named.Obj().Pkg() == object.Pkg() && c.used[fullName(named.Obj(), "")] {
			return
		}
	}
	name := strings.TrimPrefix(fullName(object, receiver), module+"/")
	if object.Exported() && !c.used[module+"/"+name] && !c.selected[object.Name()] && exportedForTests[name] == "" {
		t.Errorf("%s: no other package uses %s outside of tests: unexport or remove it", c.positions.Position(object.Pos()), name)
	}
}

func (c *checked) checkMethods(t *testing.T, typ *types.TypeName) {
	t.Helper()
	named, ok := typ.Type().(*types.Named)
	if !ok {
		return
	}
	for method := range named.Methods() {
		if !byConvention[method.Name()] && !c.implements(named, method.Name()) {
			c.check(t, method, typ.Name())
		}
	}
}

// byConvention are the methods of interfaces that the standard library doesn't export.
var byConvention = map[string]bool{"Unwrap": true, "Is": true, "FlushError": true}

// implements reports whether a type, or one that embeds it, has a method for the sake of an interface.
func (c *checked) implements(named types.Type, method string) bool {
	for _, typ := range append(embedders(named), named) {
		for _, i := range c.interfaces[method] {
			if types.Implements(typ, i) || types.Implements(types.NewPointer(typ), i) {
				return true
			}
		}
	}
	return false
}

// embedders returns the types of a type's package that embed it, and so have its methods.
func embedders(t types.Type) (list []types.Type) {
	named, ok := t.(*types.Named)
	if !ok {
		return nil
	}
	scope := named.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		if s, ok := scope.Lookup(name).Type().Underlying().(*types.Struct); ok {
			for field := range s.Fields() {
				if field.Embedded() && types.Identical(field.Type(), named) {
					list = append(list, scope.Lookup(name).Type())
				}
			}
		}
	}
	return list
}

// fullName names an object, or a method of a receiver, in its package.
func fullName(object types.Object, receiver string) string {
	return object.Pkg().Path() + "." + strings.TrimPrefix(receiver+"."+object.Name(), ".")
}

// checkedModule checks the types of all code that is no test. Imports are read from what the
// compiler has exported.
func checkedModule(t *testing.T) *checked {
	t.Helper()
	exported := make(map[string]string)
	for line := range strings.Lines(run(t, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")) {
		importPath, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exported[importPath] = file
	}
	c := &checked{positions: token.NewFileSet(), used: make(map[string]bool), held: make(map[string]bool), selected: make(map[string]bool), interfaces: make(map[string][]*types.Interface)}
	imports := importer.ForCompiler(c.positions, "gc", func(importPath string) (io.ReadCloser, error) { return os.Open(exported[importPath]) })
	seen := make(map[string]bool)
	for _, p := range listPackages(t) {
		if isForTests(p.ImportPath) {
			continue
		}
		files := make([]*ast.File, len(p.GoFiles))
		for i, name := range p.GoFiles {
			var err error
			if files[i], err = parser.ParseFile(c.positions, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
		}
		info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Types: make(map[ast.Expr]types.TypeAndValue)}
		checked, err := (&types.Config{Importer: imports}).Check(p.ImportPath, c.positions, files, info)
		if err != nil {
			t.Fatal(err)
		}
		c.packages = append(c.packages, checked)
		for _, object := range info.Uses {
			c.use(object, p.ImportPath)
		}
		for _, v := range info.Types {
			c.hold(v.Type, p.ImportPath)
			if v.IsType() {
				c.addInterface(v.Type)
			}
		}
		for _, imported := range checked.Imports() {
			if !seen[imported.Path()] {
				seen[imported.Path()] = true
				c.addInterfaces(imported)
			}
		}
		c.addInterfaces(checked)
	}
	c.addInterface(types.Universe.Lookup("error").Type())
	c.selectIn(t, "internal", `\.html$`)
	c.selectIn(t, "benchmarks", `\.go$`)
	return c
}

// use notes that a package uses an object of another one.
func (c *checked) use(object types.Object, user string) {
	if object.Pkg() == nil || object.Pkg().Path() == user || !object.Exported() {
		return
	}
	receiver := ""
	if f, ok := object.(*types.Func); ok {
		object = f.Origin()
		if r := f.Signature().Recv(); r != nil {
			receiver = receiverOf(r.Type())
		}
	}
	c.used[fullName(object, receiver)] = true
}

// hold notes that a package has values of a type, with what that type consists of.
func (c *checked) hold(t types.Type, user string) {
	switch t := t.(type) {
	case *types.Named:
		object, key := t.Obj(), user+" "+t.String()
		if object.Pkg() == nil || !strings.HasPrefix(object.Pkg().Path(), module) || c.held[key] {
			return
		}
		c.held[key] = true
		c.use(object, user)
		if s, ok := t.Underlying().(*types.Struct); ok && object.Pkg().Path() != user {
			for field := range s.Fields() {
				if field.Exported() {
					c.hold(field.Type(), user)
				}
			}
		}
	case *types.Signature:
		c.hold(t.Params(), user)
		c.hold(t.Results(), user)
	case *types.Tuple:
		for v := range t.Variables() {
			c.hold(v.Type(), user)
		}
	case *types.Map:
		c.hold(t.Key(), user)
		c.hold(t.Elem(), user)
	case interface{ Elem() types.Type }: // a pointer, a slice, an array or a channel
		c.hold(t.Elem(), user)
	}
}

func receiverOf(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}

func (c *checked) addInterfaces(p *types.Package) {
	for _, name := range p.Scope().Names() {
		if typ, ok := p.Scope().Lookup(name).(*types.TypeName); ok {
			c.addInterface(typ.Type())
		}
	}
}

func (c *checked) addInterface(t types.Type) {
	if i, ok := t.Underlying().(*types.Interface); ok {
		for method := range i.Methods() {
			c.interfaces[method.Name()] = append(c.interfaces[method.Name()], i)
		}
	}
}

var selector = regexp.MustCompile(`\.([A-Z]\w*)`)

// selectIn notes what is selected in files that this module doesn't compile.
func (c *checked) selectIn(t *testing.T, folder, files string) {
	t.Helper()
	wanted, found := regexp.MustCompile(files), 0
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !wanted.MatchString(path) {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range selector.FindAllStringSubmatch(string(text), -1) {
			c.selected[m[1]] = true
		}
		found++
		return err
	})
	if err != nil || found == 0 {
		t.Fatal(fmt.Errorf("%s: %d files: %w", folder, found, err))
	}
}
