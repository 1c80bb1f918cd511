package tally_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The engine's doc.go lists its rooms, and which rooms touch the fields of a struct beside the one that declares it.
// A line of another room fails here, and so does a line of the list that isn't so any more.
func TestRoomsOfTheEngine(t *testing.T) {
	const dir = "internal/engine"
	list := readText(t, filepath.Join(dir, "doc.go"))
	rooms, opened := roomsIn(list)
	touched, free := make(map[string]map[string]string), regexp.MustCompile(`Engine, cell, request, held, batch and entry`)
	if len(rooms) < 5 || !free.MatchString(list) {
		t.Fatalf("doc.go lists the rooms %v", rooms)
	}
	handedOn := regexp.MustCompile(`\w+`).FindAllString(free.FindString(list), -1)
	for name, in := range touchesOfFields(t, dir) {
		if !slices.Contains(rooms, name.room) {
			t.Errorf("%s is in the room %q, which doc.go doesn't list", in, name.room)
		}
		if name.room == name.home || ast.IsExported(name.owner) || slices.Contains(handedOn, name.owner) {
			continue
		}
		if touched[name.owner] == nil {
			touched[name.owner] = make(map[string]string)
		}
		touched[name.owner][name.room] = in
		if !slices.Contains(opened[name.home+" "+name.owner], name.room) {
			t.Errorf("%s touches a field of %s, which belongs to the room %s: call a method, or say in doc.go why the room %s may", in, name.owner, name.home, name.room)
		}
	}
	for owner, to := range opened {
		for _, room := range to {
			if _, name, _ := strings.Cut(owner, " "); touched[name][room] == "" {
				t.Errorf("doc.go opens %s to the room %s, which touches no field of it", owner, room)
			}
		}
	}
}

// roomsIn returns the rooms in doc.go, and to which rooms each opens its structs, by "room struct".
func roomsIn(list string) (rooms []string, opened map[string][]string) {
	opened = make(map[string][]string)
	for _, line := range regexp.MustCompile(`(?m)^//\t(  )?(\w+) +(.*)$`).FindAllStringSubmatch(list, -1) {
		if line[1] == "" {
			rooms = append(rooms, line[2])
		} else {
			opened[rooms[len(rooms)-1]+" "+line[2]] = strings.Fields(line[3])
		}
	}
	return rooms, opened
}

// touch says that a line of a room touches a field of a struct, which is at home in a room.
type touch struct{ room, owner, home string }

// touchesOfFields returns where the files of a package touch fields of its structs.
func touchesOfFields(t *testing.T, dir string) map[touch]string {
	set, rooms := token.NewFileSet(), make(map[string]string) // by file
	var files []*ast.File
	for _, p := range listPackages(t) {
		if p.name() != "./"+dir {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
			if name == "doc.go" {
				continue
			}
			for _, group := range file.Comments {
				if set.Position(group.Pos()).Line == set.Position(file.Package).Line {
					rooms[filepath.Join(dir, name)] = strings.TrimSpace(group.Text())
				}
			}
		}
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", exportsOf(t, dir))}
	checked, err := config.Check(module+"/"+dir, set, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	owners := make(map[types.Object]types.Object) // of fields
	for _, name := range checked.Scope().Names() {
		object := checked.Scope().Lookup(name)
		if s, ok := object.Type().Underlying().(*types.Struct); ok {
			for field := range s.Fields() {
				owners[field] = object
			}
		}
	}
	touches := make(map[touch]string)
	for ident, object := range info.Uses {
		if v, ok := object.(*types.Var); ok && owners[v.Origin()] != nil {
			owner := owners[v.Origin()]
			at := set.Position(ident.Pos())
			touches[touch{rooms[at.Filename], owner.Name(), rooms[set.Position(owner.Pos()).Filename]}] = at.String()
		}
	}
	return touches
}

// exportsOf returns the compiled packages that a package imports.
func exportsOf(t *testing.T, dir string) func(path string) (io.ReadCloser, error) {
	files := make(map[string]string)
	for line := range strings.Lines(run(t, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+dir)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			files[path] = file
		}
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}
