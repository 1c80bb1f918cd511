// Package proof holds the models of this folder to the code (decision 164).
package proof

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines is the most lines of a model, so that it can be read.
const maxLines = 150

var (
	ofName = regexp.MustCompile(`(?m)^ +(Mutant|Without): ([A-Z]+) `)
)

// A model says in its first comment what it leaves out, and of which functions it speaks. These
// exist. Its mutants are used in its text, and the results have all of them.
func TestModelsSpeakOfTheCode(t *testing.T) {
	results := read(t, "results.txt")
	models, err := filepath.Glob("*.pml")
	if err != nil || len(models) == 0 {
		t.Fatalf("%d models: %v", len(models), err)
	}
	functions := make(map[string][]string)
	for _, model := range models {
		t.Run(model, func(t *testing.T) {
			text := read(t, model)
			if lines := strings.Count(text, "\n"); lines > maxLines {
				t.Errorf("it has %d lines, want at most %d", lines, maxLines)
			}
			comment, code, _ := strings.Cut(text, "*/")
			for _, word := range []string{"Checked: ", "Left out: ", "Go: "} {
				if !strings.Contains(comment, word) {
					t.Errorf("the first comment has no %q", word)
				}
			}
			for name := range speaksOf(comment) {
				folder, function, _ := strings.Cut(name, ": ")
				if functions[folder] == nil {
					functions[folder] = declared(t, folder)
				}
				if !slices.Contains(functions[folder], function) {
					t.Errorf("there is no %s in %s", function, folder)
				}
			}
			mutants := ofName.FindAllStringSubmatch(comment, -1)
			if len(mutants) < 5 {
				t.Errorf("it has %d mutants, want at least 5", len(mutants))
			}
			for _, m := range mutants {
				if !regexp.MustCompile(`(?m)^#.*\b` + m[2] + `\b`).MatchString(code) {
					t.Errorf("nothing depends on %s", m[2])
				}
				if !regexp.MustCompile(regexp.QuoteMeta(model) + ` +` + m[2] + ` +fails`).MatchString(results) {
					t.Errorf("results.txt doesn't say that %s fails: run make models", m[2])
				}
			}
			if !regexp.MustCompile(regexp.QuoteMeta(model) + ` +- +holds`).MatchString(results) {
				t.Error("results.txt doesn't say that it holds: run make models")
			}
		})
	}
}

// speaksOf returns the functions that a comment names, each after its folder.
func speaksOf(comment string) map[string]bool {
	names := make(map[string]bool)
	for _, part := range strings.Split(comment, " Go: ")[1:] {
		part, _, _ = strings.Cut(part, "\n\n")
		folder, list, _ := strings.Cut(part, ": ")
		for name := range strings.SplitSeq(list, ",") {
			names[folder+": "+strings.TrimSpace(name)] = true
		}
	}
	return names
}

// declared returns the functions and types of a folder, and the methods as Type.method.
func declared(t *testing.T, folder string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files in %s: %v", len(paths), folder, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				names = append(names, receiver(f)+f.Name.Name)
			}
		}
	}
	return names
}

// receiver returns the type of a method with a dot, or nothing.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	expression := f.Recv.List[0].Type
	if star, ok := expression.(*ast.StarExpr); ok {
		expression = star.X
	}
	if name, ok := expression.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
