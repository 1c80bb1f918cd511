package caddytest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// flood sends n requests over a few connections without waiting for answers, and
// returns how many were allowed and how many refused.
func (s *server) flood(n int, request func(i int) string) (allowed, refused int) {
	s.t.Helper()
	const connections = 16
	var mu sync.Mutex
	var done sync.WaitGroup
	for c := range connections {
		done.Go(func() {
			count := (n - c + connections - 1) / connections
			statuses, err := s.pipeline(count, func(i int) string { return request(c + connections*i) })
			mu.Lock()
			defer mu.Unlock()
			allowed += statuses[http.StatusOK]
			refused += statuses[http.StatusTooManyRequests]
			if err != nil {
				s.t.Error(err)
			}
		})
	}
	done.Wait()
	if allowed+refused != n {
		s.t.Errorf("%d of %d requests were allowed and %d refused", allowed, n, refused)
	}
	return allowed, refused
}

// pipeline sends requests on one connection and counts the answers by status.
func (s *server) pipeline(n int, request func(i int) string) (statuses map[int]int, err error) {
	conn := s.dial()
	defer conn.Close()
	conn.SetDeadline(time.Time{})
	go func() {
		w := bufio.NewWriterSize(conn, 32<<10)
		for i := range n {
			io.WriteString(w, request(i))
		}
		w.Flush() // what fails is missed by the reader
	}()
	statuses = make(map[int]int)
	r := bufio.NewReaderSize(conn, 32<<10)
	for range n {
		conn.SetReadDeadline(time.Now().Add(patience))
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses, err
		}
		io.Copy(io.Discard, response.Body)
		statuses[response.StatusCode]++
	}
	return statuses, nil
}

// get is a request with one header field.
func getWith(field string) string {
	return "GET / HTTP/1.1\r\nHost: x\r\n" + field + "\r\n\r\n"
}

// tiny bounds everything that can be bounded.
const tiny = `
	rate_limit {
		store sqlite {$DIR}/tally.db {
			max_size 1MiB
		}
		max_keys 1000
		cleanup_interval 1s
		store_timeout 1m
	}
	log {
		exclude admin.api
	}
	`

// Whatever keys clients invent, memory, disk, metrics and log stay bounded.
func TestFloodOfRandomKeys(t *testing.T) {
	t.Parallel()
	keys := proof.Times(15_000, 5_000_000)
	s := startCaddy(t, options(tiny)+site("rate_limit {\nzone z {\nper key {http.request.header.X-Key}\nlimit 2/1h\n}\n}\nrespond hello"))
	s.flood(1000, func(i int) string { return getWith(fmt.Sprintf("X-Key: warm %d", i)) })
	series, begin := s.series(), time.Now()
	stop := s.watchDatabase(1 << 20)
	seed := rand.Uint64()
	allowed, refused := s.flood(keys, func(i int) string { return getWith(fmt.Sprintf("X-Key: %x", seed+uint64(i))) })
	stop()
	health := s.health()
	t.Logf("%d allowed, %d refused in %v; %+v; %d MiB of memory", allowed, refused, time.Since(begin), health, s.memory()>>20)
	if health.Keys > 1000+64 { // one more for each part of the table
		t.Errorf("%d keys are in memory, max_keys is 1000", health.Keys)
	}
	if allowed == 0 {
		t.Error("nobody is served")
	}
	if now := s.series(); now > series {
		t.Errorf("there are %d metrics, before %d", now, series)
	}
	if lines, most := strings.Count(s.logs(), "\n"), 50+15*int(time.Since(begin)/time.Second+1); lines > most {
		t.Errorf("the log has %d lines, want %d at most", lines, most)
	}
	if memory := s.memory(); memory > 400<<20 {
		t.Errorf("Caddy takes %d MiB of memory", memory>>20)
	}
}

var metricLine = regexp.MustCompile(`(?m)^caddy_rate_limit_`)

// series returns how many metrics there are of this module.
func (s *server) series() int {
	s.t.Helper()
	metrics, err := s.metrics()
	if err != nil {
		s.t.Fatal(err)
	}
	return len(metricLine.FindAllString(metrics, -1))
}

// memory returns how much memory Caddy had at most, 0 where that isn't known.
func (s *server) memory() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, _ := strconv.ParseInt(strings.TrimSpace(strings.Split(after, "kB")[0]), 10, 64)
	return kib << 10
}

// watchDatabase checks over and over that the database doesn't become larger
// than it may, nor its log than 64 MiB and what one commit adds, until it is
// stopped.
func (s *server) watchDatabase(most int64) (stop func()) {
	look := func() {
		for name, most := range map[string]int64{"tally.db": most, "tally.db-wal": 80 << 20} {
			if info, err := os.Stat(filepath.Join(s.dir, name)); err == nil && info.Size() > most {
				s.t.Errorf("%s has %d bytes, want %d at most", name, info.Size(), most)
			}
		}
	}
	end := repeat(1, func(int) {
		look()
		time.Sleep(10 * time.Millisecond)
	})
	return func() {
		end()
		look()
	}
}

// One client that sends a lot passes what it may, and takes no more than others.
func TestFloodOfOneKey(t *testing.T) {
	t.Parallel()
	megabytes := proof.Times(10, 1000)
	s := startCaddy(t, options(tiny)+site("rate_limit {\nzone z {\nper key {http.request.header.X-Key}\nlimit 100/366d\n}\n}\nrespond hello"))
	request := getWith("X-Key: " + strings.Repeat("k", 10<<10))
	begin := time.Now()
	allowed, refused := s.flood(megabytes*100, func(int) string { return request })
	t.Logf("%d MB in %v: %d allowed, %d refused; %d MiB of memory", megabytes, time.Since(begin), allowed, refused, s.memory()>>20)
	if allowed != 100 {
		t.Errorf("%d requests passed, the limit is 100", allowed)
	}
	if health := s.health(); health.Keys != 1 {
		t.Errorf("%d keys are in memory, want 1", health.Keys)
	}
	if lines := len(s.logLines("rate limit exceeded")); lines != 1 {
		t.Errorf("%d lines tell of one client", lines)
	}
	if memory := s.memory(); memory > 400<<20 {
		t.Errorf("Caddy takes %d MiB of memory", memory>>20)
	}
}

// A thousand zones work, and their metrics are as many as the config makes them.
func TestThousandZones(t *testing.T) {
	t.Parallel()
	var zones strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&zones, "zone z%d {\nlimit %d/366d\n}\n", i, 5+i)
	}
	conf := config(zones.String())
	s := startCaddy(t, conf)
	s.wantPassed(5, 7, "/")
	s.mustReload(conf)
	series := s.series()
	for client := range 2 {
		s.wantPassed(5, 7, "/", from(client))
	}
	if now := s.series(); now != series {
		t.Errorf("there are %d metrics, before %d", now, series)
	}
	if health := s.health(); health.Keys != 3*1000 {
		t.Errorf("%d keys are in memory, want 3 of 1000 zones", health.Keys)
	}
}
