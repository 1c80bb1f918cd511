package proof

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	exceptionOf = regexp.MustCompile(`(?m)^- \*\*(.+?)\*\*`)
	link        = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)
	rowOf       = regexp.MustCompile(`(?m)^\| (.+?) \|(.*?)\|(.*)\|$`)
	quoted      = regexp.MustCompile("`([^`]+)`")
	without     = regexp.MustCompile(`(?m)^ +Without: ([A-Z]+) `)
)

// assumption is what a model allows that fails without one.
const assumption = "an assumption"

// The table in docs/promises.md has a row for each exception. It names tests and models that exist, and
// exactly those models and simulations that allow the exception: in their comments they say so.
func TestExceptionsAreBounded(t *testing.T) {
	text := readFile(t, "../../../docs/promises.md")
	_, text, _ = strings.Cut(text, "\n## Not promised\n")
	list, table, _ := strings.Cut(text, "\n## What bounds the exceptions\n")
	var exceptions []string
	for _, m := range exceptionOf.FindAllStringSubmatch(list, -1) {
		exceptions = append(exceptions, strings.TrimRight(link.ReplaceAllString(m[1], "$1"), ".:"))
	}
	rows := rowOf.FindAllStringSubmatch(table, -1)
	if len(rows) < 2 || len(rows) != len(exceptions)+1 {
		t.Fatalf("the table has %d rows, want the header, and one for each of the %d exceptions", len(rows), len(exceptions))
	}
	known, allowed := allowances(t)
	for i, row := range rows[1:] {
		exception := exceptions[i]
		if row[1] != exception {
			t.Errorf("row %d is %q, want the exception %q", i, row[1], exception)
		}
		for _, name := range quoted.FindAllStringSubmatch(row[2]+row[3], -1) {
			if !known[name[1]] {
				t.Errorf("%s: there is no test or model %s", exception, name[1])
			}
		}
		for _, name := range quoted.FindAllStringSubmatch(row[2], -1) {
			wanted := exception
			if strings.Contains(name[1], " ") {
				wanted = assumption
			}
			if !slices.Contains(allowed[name[1]], wanted) {
				t.Errorf("%s: the comment of %s doesn't say that it allows this", exception, name[1])
			}
			allowed[name[1]] = slices.DeleteFunc(allowed[name[1]], func(s string) bool { return s == wanted })
		}
	}
	for name, left := range allowed {
		if len(left) > 0 {
			t.Errorf("%s allows %q, which is missing in its row of the table", name, left)
		}
	}
}

// allowances returns the names of all tests, of all models, and of models with an assumption that they need;
// and what these allow.
func allowances(t *testing.T) (known map[string]bool, allowed map[string][]string) {
	t.Helper()
	known, allowed = make(map[string]bool), make(map[string][]string)
	add := func(name, comment string) {
		known[name] = true
		_, list, found := strings.Cut(comment, "Allows: ")
		list, _, _ = strings.Cut(list, "\n\n")
		if list = strings.TrimSuffix(strings.Join(strings.Fields(list), " "), "."); list != "nothing" && found {
			allowed[name] = strings.Split(list, "; ")
		}
		if strings.HasPrefix(name, "TestSimulation") && !found {
			t.Errorf(`%s doesn't say what it allows: write "Allows: " with exceptions of docs/promises.md, or nothing`, name)
		}
	}
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil || entry.IsDir():
			return err
		case strings.HasSuffix(name, ".pml"):
			comment, _, _ := strings.Cut(readFile(t, path), "*/")
			add(name, comment)
			for _, m := range without.FindAllStringSubmatch(comment, -1) {
				known[name+" "+m[1]], allowed[name+" "+m[1]] = true, []string{assumption}
			}
		case strings.HasSuffix(name, "_test.go"):
			for f, comment := range testsIn(t, path) {
				add(f, comment)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known, allowed
}

// testsIn returns the comments of the tests in a file, by their names.
func testsIn(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]string)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			tests[f.Name.Name] = f.Doc.Text()
		}
	}
	return tests
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
