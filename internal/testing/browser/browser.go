// Package browser makes Chromium visit pages under test.
package browser

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// Find returns the path of a Chromium. It prefers Chromium's headless shell, which renders and runs
// pages as the browser does at 40 % of its processor time; with PROOF it prefers the whole browser.
// It skips the test if neither is installed, and with -short.
func Find(t *testing.T) (path string) {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	names := []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"}
	if proof.IsOn() {
		names = append(names[1:], names[0])
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium to drive: this is not tried in a browser")
	return ""
}

// Visit makes a browser open an address in a tab of its own until the test ends. It doesn't wait
// for the page.
func Visit(t *testing.T, path, address string) {
	t.Helper()
	if err := Start(t, path).Open(t, View{Width: 1280, Height: 900}).Start(address); err != nil {
		t.Fatal(err)
	}
}

// launch starts the browser at path, with files as its descriptors from 3 on. Every host below test and
// example.com resolves to this machine, and may have any certificate. The browser, and its profile, end with
// this process.
func launch(path string, files []*os.File) error {
	profile, err := os.MkdirTemp("", "tally-browser-")
	if err != nil {
		return err
	}
	cmd := exec.Command(path,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		"--host-resolver-rules=MAP *.test 127.0.0.1, MAP *.example.com 127.0.0.1", "--ignore-certificate-errors", "--user-data-dir="+profile,
		"--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), "TMPDIR="+profile) // for its temporary files as well
	if err := errors.Join(child.RemoveFolder(profile), child.Start(cmd)); err != nil {
		return err
	}
	go func() { _ = child.Wait(cmd) }() // an error: it was killed
	return nil
}
