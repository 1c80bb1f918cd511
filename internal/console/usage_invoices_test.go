package console

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// The command for invoices of the page takes numbers that were counted, and never an estimate: with one, it fails.
func TestInvoicesTakeNoEstimate(t *testing.T) {
	page, err := os.ReadFile("../../docs/usage.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?s)For the invoices of a month.*?```sh\n(.*?)```").FindSubmatch(page)
	if command == nil {
		t.Fatal("the page has no command for invoices")
	}
	away := exec.Command("sh", "-c", string(command[1]))
	away.Dir, away.Env = t.TempDir(), append(os.Environ(), "PATH="+caddyOf(t, "exit 1")+":"+os.Getenv("PATH"))
	if err := away.Run(); err == nil {
		t.Error("the invoices of a Caddy that can't be asked are said to be complete")
	}
	for what, precision := range map[string]operator.Precision{"counted": {Exact: true}, "an estimate": {}, "a part is missing": {AtLeast: true}} {
		t.Run(what, func(t *testing.T) {
			folder, csv := t.TempDir(), new(strings.Builder)
			use := func(limit string, p operator.Precision) operator.UsageDay {
				return operator.UsageDay{Day: "2026-10-02", Zone: `api, "v1"`, Limit: limit, Units: 7, Precision: p}
			}
			s := &session{out: csv}
			if err := s.writeUsageCSV(operator.Usage{Client: "api-key:acme", Days: []operator.UsageDay{
				use("counted", operator.Precision{Exact: true}), use("asked,true", precision), use("true", operator.Precision{Exact: true})}}); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "usage.csv"), []byte(csv.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			shell := exec.Command("sh", "-c", string(command[1]))
			shell.Dir, shell.Env = folder, append(os.Environ(), "PATH="+caddyOf(t, "cat usage.csv")+":"+os.Getenv("PATH"))
			said, err := shell.CombinedOutput()
			file, _ := os.ReadFile(filepath.Join(folder, "2026-10.csv"))
			rows := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
			if wantRows := 1 + 3; precision.Exact && (err != nil || len(rows) != wantRows) {
				t.Errorf("%v: %s\n%s", err, said, file)
			}
			if wantRows := 1 + 2; !precision.Exact && (err == nil || len(rows) != wantRows || !strings.Contains(string(said), "not counted: api-key:acme,2026-10-02")) {
				t.Errorf("%v: %s\n%s", err, said, file)
			}
			if strings.Count(string(file), "exact") != 1 || strings.Contains(string(file), ",false") {
				t.Errorf("the invoices have\n%s", file)
			}
		})
	}
}

// caddyOf returns a folder with a caddy that does what a line of a shell says.
func caddyOf(t *testing.T, does string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "caddy"), []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
}
