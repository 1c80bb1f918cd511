package tally_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Variables have nouns for names, not the rest of a sentence.
func TestVariablesAreNouns(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		checked++
		for _, name := range variablesOf(file) {
			if slices.Contains([]string{"is", "of", "told"}, name.Name) {
				t.Errorf("%s: the variable %s needs a noun for a name", files.Position(name.Pos()), name.Name)
			}
		}
		return nil
	})
	if err != nil || checked < 100 {
		t.Errorf("%d files checked: %v", checked, err)
	}
}

// variablesOf returns the variables, parameters, results and fields that a file declares.
func variablesOf(file *ast.File) (found []*ast.Ident) {
	add := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			if name, ok := e.(*ast.Ident); ok {
				found = append(found, name)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			found = append(found, n.Names...)
		case *ast.ValueSpec:
			found = append(found, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		}
		return true
	})
	return found
}
