// Package browser has Chromium visit what is tested.
package browser

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/child"
)

// Find returns the path of a Chromium. It skips the test where there is none, and
// where tests are to be short: a browser takes seconds.
func Find(t *testing.T) (path string) {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium to drive: this is not tried in a browser")
	return ""
}

// Visit has the browser at path go to an address. Every host below test is this
// machine, until the test ends, and may have any certificate. What it says is shown if the test
// fails.
func Visit(t *testing.T, path, address string) {
	t.Helper()
	launch(t, path, nil, "--remote-debugging-port=0", "--ignore-certificate-errors", address)
}

// launch starts the browser with arguments, and with files as its descriptors from 3 on. It
// ends with the test.
func launch(t *testing.T, path string, files []*os.File, args ...string) {
	t.Helper()
	profile, err := os.MkdirTemp("", "tally-browser-") // TempDir would mind what its children still write
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--host-resolver-rules=MAP *.test 127.0.0.1", "--user-data-dir=" + profile,
	}, args...)...)
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), "TMPDIR="+profile) // where it leaves things as well
	cmd.WaitDelay = 10 * time.Second
	var said strings.Builder
	cmd.Stderr = &said
	if err := errors.Join(child.RemoveFolder(profile), child.Start(cmd)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = child.Wait(cmd) // an error: it was killed
		_ = os.RemoveAll(profile)
		if t.Failed() {
			t.Log(said.String())
		}
	})
}
