package tally_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Advice is short: what is wrong and what to write have at most 200 characters together, in the source of
// whatever gives advice. What config files name comes on top.
func TestAdviceIsShort(t *testing.T) {
	var files []*ast.File
	set := token.NewFileSet()
	for _, folder := range []string{"internal/lint", "internal/config", "internal/enforce", "internal/advice", "internal/matcher", "."} {
		paths, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, error %v", folder, len(paths), err)
		}
		for _, path := range paths {
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(path, "_test.go") {
				files = append(files, file)
			}
		}
	}
	constants := make(map[string]string)
	each := func(visit func(ast.Node)) {
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				visit(n)
				return true
			})
		}
	}
	each(func(n ast.Node) {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
			for i, name := range spec.Names {
				constants[name.Name] = textOf(spec.Values[i], constants)
			}
		}
	})
	found := 0
	each(func(n ast.Node) {
		var parts []ast.Expr
		switch n := n.(type) {
		case *ast.ReturnStmt: // of a problem and its fix
			if isCheck := filepath.Dir(set.Position(n.Pos()).Filename) == filepath.FromSlash("internal/lint"); isCheck && len(n.Results) > 1 && textOf(n.Results[0], constants) != "" {
				parts = n.Results[:2]
			}
		case *ast.AssignStmt:
			if first, ok := n.Lhs[0].(*ast.Ident); ok && first.Name == "problem" && len(n.Rhs) > 1 {
				parts = n.Rhs[:2]
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Advice", "note", "Warn"}, name.Sel.Name) && len(n.Args) == 2 {
				parts = n.Args
			}
		case *ast.CompositeLit:
			for _, element := range n.Elts {
				if field, ok := element.(*ast.KeyValueExpr); ok && slices.Contains([]string{"Problem", "Fix"}, textOf(field.Key, nil)) {
					parts = append(parts, field.Value)
				}
			}
		}
		text := ""
		for _, part := range parts {
			text += textOf(part, constants)
		}
		if found += min(len(parts), 1); len(text) > 200 {
			t.Errorf("%v: %d characters: %s", set.Position(n.Pos()), len(text), text)
		}
	})
	if found < 60 {
		t.Errorf("found %d places that give advice", found)
	}
}

var verbs = regexp.MustCompile(`%(\[\d\])?[a-z]`)

// textOf returns the text of an expression without what is known at run time only; the name of an identifier
// without constants.
func textOf(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return verbs.ReplaceAllString(text, "")
	case *ast.BinaryExpr:
		return textOf(e.X, constants) + textOf(e.Y, constants)
	case *ast.CallExpr: // fmt.Sprintf
		text := ""
		for _, arg := range e.Args {
			text += textOf(arg, constants)
		}
		return text
	case *ast.SelectorExpr:
		return textOf(e.Sel, constants)
	case *ast.Ident:
		if constants == nil {
			return e.Name
		}
		return constants[e.Name]
	}
	return ""
}
