package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Module is this module.
const Module = "github.com/caddy-tally/caddy-tally"

// Root returns the folder of this module.
func Root(ctx context.Context) (string, error) {
	return Go(ctx, "", "list", "-m", "-f", "{{.Dir}}", Module)
}

// program is a Caddy as xcaddy makes one.
const program = `package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	%s
)

func main() { caddycmd.Main() }
`

// Program returns the arguments with which the go command, in the root, takes a Caddy with the standard modules, and
// with another one unless that is empty. It takes the place of cmd/caddy; scratch is a folder for its files.
func Program(root, scratch, module string) ([]string, error) {
	if module != "" {
		module = fmt.Sprintf("_ %q", module)
	}
	source, overlay := filepath.Join(scratch, "main.go"), filepath.Join(scratch, "overlay.json")
	replace := fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(root, "cmd/caddy/main.go"), source)
	for name, content := range map[string]string{source: fmt.Sprintf(program, module), overlay: replace} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	return []string{"-overlay", overlay, "./cmd/caddy"}, nil
}
