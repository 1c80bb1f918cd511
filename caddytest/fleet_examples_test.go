package caddytest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// composition is the tested part of a compose file.
type composition struct {
	Services map[string]composed  `yaml:"services"`
	Secrets  map[string]yaml.Node `yaml:"secrets"`
	Volumes  map[string]yaml.Node `yaml:"volumes"`
}

type composed struct {
	Build       string            `yaml:"build"`
	Image       string            `yaml:"image"`
	DependsOn   []string          `yaml:"depends_on"`
	Environment map[string]string `yaml:"environment"`
	Secrets     []string          `yaml:"secrets"`
	Volumes     []string          `yaml:"volumes"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     string            `yaml:"command"`
}

func readComposition(t *testing.T, path string) (c composition) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readSample(t, path)), &c); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c
}

// The files that the compose files of fleets refer to exist, and their Caddys get all variables
// that the Caddyfile beside them needs.
func TestFleetExamplesAreComplete(t *testing.T) {
	placeholder := regexp.MustCompile(`\{\$([A-Z_]+)`)
	for _, dir := range []string{"../examples/fleet", "../examples/fleet-postgres"} {
		c := readComposition(t, filepath.Join(dir, "compose.yaml"))
		caddyfile := readSample(t, filepath.Join(dir, "Caddyfile"))
		built := 0
		for name, s := range c.Services {
			for _, other := range s.DependsOn {
				if _, exists := c.Services[other]; !exists {
					t.Errorf("%s: %s depends on %q, which there is not", dir, name, other)
				}
			}
			for _, volume := range s.Volumes {
				source, _, _ := strings.Cut(volume, ":")
				_, named := c.Volumes[source]
				if _, err := os.Stat(filepath.Join(dir, source)); err != nil && !named {
					t.Errorf("%s: %s mounts %q: %v", dir, name, source, err)
				}
			}
			if s.Build == "" {
				continue
			}
			built++
			if _, err := os.Stat(filepath.Join(dir, s.Build, "Dockerfile")); err != nil {
				t.Error(err)
			}
			for _, found := range placeholder.FindAllStringSubmatch(caddyfile, -1) {
				if s.Environment[found[1]] == "" {
					t.Errorf("%s: %s isn't told %s, which the Caddyfile asks for", dir, name, found[1])
				}
			}
			secret, isSecret := strings.CutPrefix(s.Environment["TALLY_SECRET_FILE"], "/run/secrets/")
			if _, exists := c.Secrets[secret]; !isSecret || !exists || !slices.Contains(s.Secrets, secret) {
				t.Errorf("%s: %s has no secret %q", dir, name, secret)
			}
		}
		if built != 2 {
			t.Errorf("%s: %d Caddys are built, want 2", dir, built)
		}
		if _, _, err := adaptCaddyfile([]byte(caddyfile), map[string]any{"filename": "Caddyfile"}); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// A server starts as its compose file says, with the password, which is on no command line.
func TestFleetExampleStartsItsServer(t *testing.T) {
	redis := testserver.FindRedis(t)
	valkey := readComposition(t, "../examples/fleet/compose.yaml").Services["valkey"]
	entrypoint := slices.Clone(valkey.Entrypoint)
	script := &entrypoint[2]
	if strings.Contains(*script+valkey.Command, "${") {
		t.Errorf("a value is on the command line: %q %q", valkey.Entrypoint, valkey.Command)
	}
	*script = strings.Replace(strings.ReplaceAll(*script, "$$", "$"), "docker-entrypoint.sh valkey-server", redis, 1)
	socket := filepath.Join(t.TempDir(), "s")
	arguments := slices.Concat(entrypoint[1:], strings.Fields(valkey.Command), []string{"--port", "0", "--unixsocket", socket})
	server := exec.Command(entrypoint[0], arguments...)
	server.Dir, server.Env = filepath.Dir(socket), append(os.Environ(), "TALLY_VALKEY_PASSWORD=secret")
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Wait() }() // it is killed
	defer server.Process.Kill()
	var said strings.Builder
	for lines := bufio.NewScanner(output); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "eady to accept connections") {
			if answer := pingRedis(t, socket); !strings.HasPrefix(answer, "-NOAUTH") {
				t.Errorf("without a password it answers %q", answer)
			}
			return
		}
	}
	t.Errorf("the server doesn't start: %s", &said)
}

// pingRedis returns what a server answers to somebody who has no password.
func pingRedis(t *testing.T, socket string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
