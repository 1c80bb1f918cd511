//go:build linux

// Command edges measures connections that a Caddy closes before TLS: the processor time of one beside that of
// accepting and closing one in a plain Go program, with 200,000 entries in a block list, and the latency of an
// honest client meanwhile.
package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	flooder = "127.0.0.66" // it isn't in the list, which has no loopback addresses: that is searched, and then it is over its limit
	address = "127.0.0.1:24943"
	plain   = "127.0.0.1:24944"
)

const caddyfile = `{
	admin off
	http_port 24980
	https_port 24943
	skip_install_trust
	log {
		level ERROR
	}
	servers {
		protocols h1 h2
		listener_wrappers {
			rate_limit {
				connections 1000
				limit 1/1h
				except 127.0.0.1
			}
			tls
		}
	}
	rate_limit {
		store memory
		block_list %s
	}
}
https://localhost:24943 {
	tls internal
	respond hello
}
`

func main() {
	caddy := flag.String("caddy", "", "a Caddy with this module")
	accept := flag.Bool("accept", false, "accept and close connections, for another process")
	connections := flag.Int("connections", 20_000, "connections of a measurement")
	repeats := flag.Int("repeats", 3, "measurements of each")
	period := flag.Duration("period", 4*time.Second, "of a measurement of latency")
	flag.Parse()
	run := func() error { return measure(*caddy, *connections, *repeats, *period) }
	if *accept {
		run = acceptAndClose
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// acceptAndClose does the least that refusing a connection can be.
func acceptAndClose() error {
	l, err := net.Listen("tcp", plain)
	for err == nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			err = c.Close()
		}
	}
	return err
}

func measure(caddy string, connections, repeats int, period time.Duration) error {
	folder, err := os.MkdirTemp("", "edges")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	list := filepath.Join(folder, "list.txt")
	if err := os.WriteFile(list, entries(200_000), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	guarded := exec.Command(caddy, "run", "--adapter", "caddyfile", "--config", "-")
	guarded.Stdin = strings.NewReader(fmt.Sprintf(caddyfile, list))
	guarded.Env = append(os.Environ(), "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder, "HOME="+folder)
	guarded.Stderr = os.Stderr
	other := exec.Command(self, "-accept")
	for _, cmd := range []*exec.Cmd{guarded, other} {
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	_, err = shakeHands()
	for start := time.Now(); err != nil && time.Since(start) < time.Minute; _, err = shakeHands() {
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	for range repeats {
		a, err := costOf(other.Process.Pid, plain, connections)
		if err != nil {
			return err
		}
		b, err := costOf(guarded.Process.Pid, address, connections)
		if err != nil {
			return err
		}
		fmt.Printf("connection: accepted and closed %v of processor time, refused %v, ratio %.2f\n", a, b, float64(b)/float64(a))
	}
	for range repeats {
		for _, rate := range []int{0, 5000} {
			if err := report(rate, period); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries returns a block list of so many lines.
func entries(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d.%d.%d.%d\n", 20+i>>18, byte(i>>10), byte(i>>2), byte(i<<6))
	}
	return []byte(b.String())
}

func shakeHands() (net.Conn, error) {
	return tls.Dial("tcp", address, &tls.Config{ServerName: "localhost", InsecureSkipVerify: true}) //nolint:gosec // a certificate of its own
}

// knock opens a connection as the flooder, and waits for its end.
func knock(to string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(flooder)}, Timeout: 5 * time.Second}
	if c, err := d.Dial("tcp", to); err == nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second)) // the first one enters
		_, _ = c.Read(make([]byte, 1))
		c.Close()
	}
}

// costOf returns the processor time of a process per connection.
func costOf(pid int, to string, connections int) (time.Duration, error) {
	before, err := used(pid)
	if err != nil {
		return 0, err
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range connections / 4 {
				knock(to)
			}
		})
	}
	group.Wait()
	after, err := used(pid)
	return (after - before) / time.Duration(connections), err
}

// used returns the processor time of a process.
func used(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	total := time.Duration(0)
	for _, task := range tasks {
		var nanoseconds int64
		stat, err := os.ReadFile(task)
		if err != nil {
			return 0, err
		}
		if _, err := fmt.Sscan(string(stat), &nanoseconds); err != nil {
			return 0, err
		}
		total += time.Duration(nanoseconds)
	}
	return total, nil
}

// report prints the latency of a client with a kept connection, while so many connections a second are refused.
func report(rate int, period time.Duration) error {
	c, err := shakeHands()
	if err != nil {
		return err
	}
	defer c.Close()
	stop := make(chan struct{})
	var group sync.WaitGroup
	knocks := make([]int, 4)
	for i := range knocks {
		if rate == 0 {
			break
		}
		group.Go(func() {
			for start := time.Now(); ; {
				select {
				case <-stop:
					return
				default:
				}
				if due := int(time.Since(start).Seconds() * float64(rate) / float64(len(knocks))); knocks[i] < due {
					knock(address)
					knocks[i]++
				} else {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	var took []time.Duration
	answers := bufio.NewReader(c)
	for start := time.Now(); err == nil && time.Since(start) < period; time.Sleep(2 * time.Millisecond) {
		begin := time.Now()
		if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			break
		}
		var response *http.Response
		if response, err = http.ReadResponse(answers, nil); err == nil {
			_, err = io.Copy(io.Discard, response.Body)
		}
		took = append(took, time.Since(begin))
	}
	close(stop)
	group.Wait()
	if err != nil || len(took) == 0 {
		return errors.Join(errors.New("the honest client isn't answered"), err)
	}
	slices.Sort(took)
	refused := 0
	for _, n := range knocks {
		refused += n
	}
	fmt.Printf("honest client beside %.0f refused connections a second: median %v, p99 %v, of %d requests\n",
		float64(refused)/period.Seconds(), took[len(took)/2], took[len(took)*99/100], len(took))
	return nil
}
