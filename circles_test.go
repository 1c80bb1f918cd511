package tally_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fileUses are the declarations that files of a package use of one another: by the file that
// uses, then by the file that declares. The type of a method's receiver is not counted, so
// methods of one type may be spread over files.
type fileUses map[string]map[string][]string

// No file of this package uses one that uses it in turn, also not through others. So there is
// an order to read them in, and a reader need not know the whole to understand a part.
func TestFilesAreInNoCircle(t *testing.T) {
	uses := usesBetweenFiles(t)
	done := make(map[string]bool)
	var visit func(way []string)
	visit = func(way []string) {
		file := way[len(way)-1]
		if first := slices.Index(way, file); first < len(way)-1 {
			t.Error(uses.circle(way[first:]))
			return
		}
		for _, used := range slices.Sorted(maps.Keys(uses[file])) {
			if !done[used] {
				visit(append(way, used))
			}
		}
		done[file] = true
	}
	for _, file := range slices.Sorted(maps.Keys(uses)) {
		if !done[file] {
			visit([]string{file})
		}
	}
}

// circle describes files of which each uses the next, and the last is the first.
func (u fileUses) circle(files []string) string {
	var text strings.Builder
	text.WriteString("files use one another in a circle: move a declaration to a file that both can use\n")
	for i, file := range files[1:] {
		names := slices.Compact(slices.Sorted(slices.Values(u[files[i]][file])))
		fmt.Fprintf(&text, "  %s uses %s: %s\n", files[i], file, strings.Join(names, ", "))
	}
	return text.String()
}

func usesBetweenFiles(t *testing.T) fileUses {
	t.Helper()
	fset, files := token.NewFileSet(), []*ast.File(nil)
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", exported(t))}
	pkg, err := config.Check(module, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	receivers := receiverNames(files)
	uses := make(fileUses)
	for name, object := range info.Uses {
		from, to := fset.Position(name.Pos()).Filename, fset.Position(object.Pos()).Filename
		if from == to || receivers[name] || !isDeclaration(object, pkg) {
			continue
		}
		if uses[from] == nil {
			uses[from] = make(map[string][]string)
		}
		uses[from][to] = append(uses[from][to], object.Name())
	}
	return uses
}

// isDeclaration reports whether an object is a function, a method, a type, a constant or a
// variable of a package itself, and not a field or what a function declares.
func isDeclaration(object types.Object, of *types.Package) bool {
	if object.Pkg() != of {
		return false
	}
	_, isFunction := object.(*types.Func)
	return isFunction || object.Parent() == of.Scope()
}

// receiverNames returns the names of types where methods are declared on them, or where it is
// asserted that they implement an interface.
func receiverNames(files []*ast.File) map[*ast.Ident]bool {
	names := make(map[*ast.Ident]bool)
	add := func(node ast.Node) {
		ast.Inspect(node, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				names[name] = true
			}
			return true
		})
	}
	for _, file := range files {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					add(d.Recv)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].Name == "_" {
						add(v)
					}
				}
			}
		}
	}
	return names
}

// exported returns what opens the export data of packages that this one depends on.
func exported(t *testing.T) importer.Lookup {
	t.Helper()
	paths := make(map[string]string)
	for line := range strings.Lines(run(t, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", ".")) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		paths[name] = path
	}
	return func(name string) (io.ReadCloser, error) { return os.Open(paths[name]) }
}
