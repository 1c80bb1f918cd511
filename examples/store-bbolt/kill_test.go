package bboltstore

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

const beCaddy = "BE_CADDY"

// TestMain makes the binary of the tests a Caddy with this store, if the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv(beCaddy) != "" {
		caddycmd.Main()
	}
	os.Exit(m.Run())
}

const config = `
{
	admin off
	persist_config off
	auto_https off
	rate_limit {
		store bbolt %s {
			max_size 100MiB
		}
		store_timeout 10s
	}
}

http://%s {
	rate_limit {
		zone all {
			per ip
			limit 5/10m
		}
	}
	respond ok
}
`

// A limit holds although Caddy is killed.
func TestLimitHoldsOverKill(t *testing.T) {
	folder := t.TempDir()
	address := freeAddress(t)
	file := filepath.Join(folder, "Caddyfile")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, filepath.Join(folder, "data", "tally.bolt"), address), 0o600); err != nil {
		t.Fatal(err)
	}
	for life, wanted := range [][]int{{200, 200, 200}, {200, 200, 429, 429}, {429}} {
		kill := startCaddy(t, folder, file)
		for i, want := range wanted {
			response, err := http.Get("http://" + address)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("life %d, request %d: got %d, want %d", life+1, i+1, response.StatusCode, want)
			}
		}
		kill()
	}
}

// startCaddy starts a Caddy, waits until it serves, and returns a function that kills it.
func startCaddy(t *testing.T, folder, file string) (kill func()) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "run", "--config", file, "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), beCaddy+"=1", "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(kill)
	var log strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), "serving initial configuration") {
			go func() {
				for lines.Scan() { // so that Caddy never waits for a reader
				}
			}()
			return kill
		}
	}
	t.Fatalf("Caddy ended:\n%s", &log)
	return nil
}

// freeAddress returns an address where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
