//go:build linux

// Command puzzle measures how many numbers a second a browser tries on one core for the
// challenge's puzzle, and how many Go does. It counts the time that the cores were at it,
// so a machine that is busy gives the same. It needs Linux and Chromium:
//
//	go run ./benchmarks/puzzle
package main

import (
	"context"
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
	"syscall"
	"time"
)

// tries is how many numbers are tried.
const tries = 1 << 23

// tick is the unit of the times in /proc.
const tick = time.Second / 100

func main() {
	script, err := os.ReadFile("identity/challenge/page.js")
	if err == nil {
		err = measure(string(script))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(script string) error {
	solver, _, _ := strings.Cut(script, "const puzzle = form")
	_, solver, ok := strings.Cut(solver, "const makeSolver = ")
	if !ok {
		return fmt.Errorf("the page's script has no makeSolver")
	}
	profile, err := os.MkdirTemp("", "puzzle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	done := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprintf(w, page, solver, tries)
		case "/done":
			worked := workersTime(profile)
			agent, _ := io.ReadAll(r.Body)
			done <- fmt.Sprintf("browser: %.2f million tries a second (%s)", float64(tries)/worked.Seconds()/1e6, agent)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	browser := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-dev-shm-usage", "--no-proxy-server", "--user-data-dir="+profile, "--remote-debugging-port=0", server.URL)
	if err := browser.Start(); err != nil {
		cancel()
		return err
	}
	fmt.Println(<-done)
	cancel()
	_ = browser.Wait() // an error: it was killed
	fmt.Printf("Go: %.2f million tries a second\n", float64(tries)/native().Seconds()/1e6)
	return nil
}

// page has a worker try, and says so when it has. The worker lives on, so that the time
// that it took can be looked up.
const page = `<!doctype html><script>
const makeSolver = %s
const source = "const attempt = (" + makeSolver + ")(); onmessage = () => postMessage(attempt('A'.repeat(80), 32, 0, 0, %d));";
const worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
worker.onmessage = () => fetch("/done", {method: "POST", body: navigator.userAgent});
worker.postMessage(0);
</script>`

// workersTime returns how long cores were busy with the workers of a browser, which is
// known by its profile.
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

// native returns how long a core is busy with as many tries in Go.
func native() time.Duration {
	var text [88]byte
	before := userTime()
	for n := range uint64(tries) {
		binary.BigEndian.PutUint64(text[80:], n)
		sha256.Sum256(text[:])
	}
	return userTime() - before
}

func userTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it can't fail for the process itself
	}
	return time.Duration(usage.Utime.Nano())
}
