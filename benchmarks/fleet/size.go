//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of this module.
const module = "github.com/caddy-tally/caddy-tally"

// optional are the packages that users choose to build.
var optional = []string{"storage/redis", "storage/postgres", "storage/mysql", "exchange/postgres"}

// behind are packages that only those need.
var behind = []string{"storage/internal/sqlmodule", "storage/internal/sqlstore"}

// sizes compares a Caddy from a copy of this tree, without and with the optional packages in it,
// and with one from the tree after they are deleted.
func sizes(ctx context.Context, scratch string) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return err
	}
	tree := filepath.Join(scratch, "tree")
	if err := os.CopyFS(tree, sources{os.DirFS(strings.TrimSpace(string(out)))}); err != nil {
		return err
	}
	const line = "%-36s %d bytes, sha256 %x\n"
	usual, size, err := buildCaddy(ctx, tree, nil)
	if err != nil {
		return err
	}
	fmt.Printf(line, "default", size, usual)
	all, size, err := buildCaddy(ctx, tree, optional)
	if err != nil {
		return err
	}
	fmt.Printf(line, "with all optional packages", size, all)
	for _, name := range slices.Concat(optional, behind) {
		if err := os.RemoveAll(filepath.Join(tree, name)); err != nil {
			return err
		}
	}
	lean, size, err := buildCaddy(ctx, tree, nil)
	if err != nil {
		return err
	}
	fmt.Printf(line, "default, after these are deleted", size, lean)
	fmt.Println("optional packages:", strings.Join(optional, ", "))
	fmt.Println("the default is the same without them:", bytes.Equal(usual, lean))
	return nil
}

// sources is a tree without its history.
type sources struct{ fs.FS }

// ReadDir implements [fs.ReadDirFS].
func (s sources) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".git" }), err
}

// buildCaddy builds a Caddy with its standard modules, this one and more packages of it, and
// returns the hash and the size of the program.
func buildCaddy(ctx context.Context, tree string, packages []string) (sum []byte, size int, err error) {
	source := "package main\n\nimport (\n\tcaddycmd \"github.com/caddyserver/caddy/v2/cmd\"\n" +
		"\t_ \"github.com/caddyserver/caddy/v2/modules/standard\"\n\t_ \"" + module + "\"\n"
	for _, p := range packages {
		source += "\t_ \"" + module + "/" + p + "\"\n"
	}
	source += ")\n\nfunc main() { caddycmd.Main() }\n"
	folder := filepath.Join(tree, "cmd", "measured")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, 0, err
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o600); err != nil {
		return nil, 0, err
	}
	program := filepath.Join(folder, "caddy")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./cmd/measured")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		return nil, 0, fmt.Errorf("build in %s: %w: %s", tree, err, out)
	}
	content, err := os.ReadFile(program)
	hash := sha256.Sum256(content)
	return hash[:], len(content), err
}
