//go:build linux

// Package puzzle measures how many numbers a second a browser tries on one core for the
// challenge's puzzle, and how many Go does.
package puzzle

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// tries is how many numbers are tried.
const tries = 1 << 23

// tick is the unit of the times in /proc.
const tick = time.Second / 100

// BenchmarkBrowser lets Chromium try numbers in a worker. It counts the time that cores worked, so
// that a busy machine gives the same.
func BenchmarkBrowser(b *testing.B) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		b.Skip("skipped:", err)
	}
	script, err := os.ReadFile("../../identity/challenge/page.js")
	if err != nil {
		b.Fatal(err)
	}
	solver, _, _ := strings.Cut(string(script), "const puzzle = form")
	_, solver, ok := strings.Cut(solver, "const makeSolver = ")
	if !ok {
		b.Fatal("the page's script has no makeSolver")
	}
	var worked time.Duration
	for range b.N {
		worked += browse(b, chromium, solver)
	}
	report(b, worked)
}

// BenchmarkGo tries as many numbers in Go.
func BenchmarkGo(b *testing.B) {
	var text [88]byte
	before := lab.CPU()
	for range b.N {
		for n := range uint64(tries) {
			binary.BigEndian.PutUint64(text[80:], n)
			sha256.Sum256(text[:])
		}
	}
	report(b, lab.CPU()-before)
}

func report(b *testing.B, worked time.Duration) {
	b.ReportMetric(tries*float64(b.N)/worked.Seconds(), "tries/s")
	b.ReportMetric(0, "ns/op") // the browser's start is in it
}

// page makes a worker try, and reports to the server when it has. The worker lives on, so that its
// time can be looked up.
const page = `<!doctype html><script>
const makeSolver = %s
const source = "const attempt = (" + makeSolver + ")(); onmessage = () => postMessage(attempt('A'.repeat(80), 32, 0, 0, %d));";
const worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
worker.onmessage = () => fetch("/done", {method: "POST", body: navigator.userAgent});
worker.postMessage(0);
</script>`

// browse returns how long cores worked for the page's worker.
func browse(b *testing.B, chromium, solver string) time.Duration {
	profile := b.TempDir()
	done := make(chan time.Duration)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprintf(w, page, solver, tries)
		case "/done":
			agent, _ := io.ReadAll(r.Body)
			b.Logf("%s", agent)
			done <- workersTime(profile)
		}
	}))
	defer server.Close()
	browser := exec.CommandContext(b.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-dev-shm-usage", "--no-proxy-server", "--user-data-dir="+profile, "--remote-debugging-port=0", server.URL)
	if err := browser.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = browser.Process.Kill()
		_ = browser.Wait()
	}()
	return <-done
}

// workersTime returns how long cores worked for the workers of a browser, which is known by its
// profile.
func workersTime(profile string) (worked time.Duration) {
	tasks, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, task := range tasks {
		name, _ := os.ReadFile(task + "/comm")
		command, _ := os.ReadFile(task + "/cmdline")
		stat, _ := os.ReadFile(task + "/stat")
		if !strings.HasPrefix(string(name), "Dedicated") || !strings.Contains(string(command), profile) {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest) // from the third on: proc_pid_stat(5)
		if len(fields) < 13 {
			continue
		}
		for _, field := range fields[11:13] {
			ticks, _ := strconv.Atoi(field)
			worked += time.Duration(ticks) * tick
		}
	}
	return worked
}
