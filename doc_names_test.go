package tally_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The comment of a function, a type, a variable or a constant begins with its name, so that one that was renamed doesn't keep the former name.
func TestCommentsBeginWithTheName(t *testing.T) {
	checked := 0
	for _, p := range listPackages(t) {
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				for name, doc := range documented(d) {
					checked++
					words := strings.Fields(doc)
					for len(words) > 1 && (words[0] == "A" || words[0] == "An" || words[0] == "The") {
						words = words[1:]
					}
					if len(words) > 0 && strings.Trim(words[0], ".,:") != name {
						t.Errorf("%s: the comment of %s begins with %q", set.Position(d.Pos()), name, words[0])
					}
				}
			}
		}
	}
	if checked < 1000 {
		t.Errorf("checked %d comments", checked)
	}
}

// documented returns the comments in a declaration by what they are on.
func documented(d ast.Decl) map[string]string {
	found := make(map[string]string)
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc != nil && !strings.HasPrefix(d.Name.Name, "test") { // the comment of a test is what it holds
			found[d.Name.Name] = d.Doc.Text()
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			var name string
			doc := d.Doc
			switch s := spec.(type) {
			case *ast.TypeSpec:
				name = s.Name.Name
				if s.Doc != nil {
					doc = s.Doc
				}
			case *ast.ValueSpec:
				if len(s.Names) == 1 && !d.Lparen.IsValid() { // in a group the comment may be on several
					name = strings.Trim(s.Names[0].Name, "_")
				}
			}
			if name != "" && doc != nil && (doc != d.Doc || len(d.Specs) == 1) {
				found[name] = doc.Text()
			}
		}
	}
	return found
}
