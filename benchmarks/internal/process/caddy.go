//go:build linux

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildCaddy builds a Caddy with this module into a file.
func BuildCaddy(ctx context.Context, file string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", file, "github.com/caddy-tally/caddy-tally/cmd/caddy").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
}

// StartCaddy starts a Caddy, whichever modules it has, with a Caddyfile of the given
// text. All that it keeps is in a folder, which is made.
func StartCaddy(ctx context.Context, binary, folder, caddyfile string, env ...string) (*Process, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "Caddyfile")
	if err := os.WriteFile(config, []byte(caddyfile), 0o600); err != nil {
		return nil, err
	}
	env = append(env, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	return Start(ctx, filepath.Join(folder, "log"), env, binary, "run", "--config", config, "--adapter", "caddyfile")
}
