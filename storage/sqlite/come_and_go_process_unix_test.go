//go:build unix

package sqlite

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a comer, as seen from its parent.
type process struct {
	number  int
	file    string // what it has said
	engines int
	leaving bool
	until   time.Time // when it goes on; zero if it isn't stopped
	told    int       // lines that are not answered

	cmd     *exec.Cmd
	in      io.WriteCloser
	stderr  bytes.Buffer // to be read when it has ended
	answers chan string
	ended   chan struct{}
	err     error // to be read when it has ended
}

func isAny(*process) bool       { return true }
func isStopped(p *process) bool { return !p.until.IsZero() }
func isThere(p *process) bool   { return !isStopped(p) && !p.leaving }

// newProcess starts a process with random options.
func newProcess(c *comings) *process {
	c.t.Helper()
	p := &process{number: c.started, engines: 1, file: fmt.Sprintf("%s.said-%d", c.path, c.started),
		answers: make(chan string, 1000), ended: make(chan struct{})}
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	timeout, keys := time.Minute, []int{64, 1000, 100_000}[c.rng.IntN(3)]
	if c.may.stop { // without the store, a key that is evicted is forgotten
		timeout, keys = []time.Duration{100 * time.Millisecond, time.Second}[c.rng.IntN(2)], 100_000
	}
	p.cmd = exec.Command(self, "-db", c.path, "-said", p.file, "-round", fmt.Sprint(c.round), "-number", fmt.Sprint(p.number),
		"-seed", fmt.Sprint(c.rng.Uint64()), "-timeout", timeout.String(),
		"-cleanup", []string{"100ms", "1s", "1m"}[c.rng.IntN(3)], "-keys", fmt.Sprint(keys), "-full="+fmt.Sprint(c.rng.IntN(8) == 0), "-plain="+fmt.Sprint(c.rng.IntN(8) == 0), "-small="+fmt.Sprint(c.small))
	p.cmd.Env = append(os.Environ(), comerJob+"=1")
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	go p.watch(out)
	return p
}

// watch forwards answers until the process has ended.
func (p *process) watch(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.answers <- lines.Text()
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// tell sends a command to the process. If the process has ended, the missing answer shows it.
func (p *process) tell(line string) {
	p.told++
	_, _ = io.WriteString(p.in, line+"\n")
}

// settle waits until the process has executed its commands, and has ended if it was to.
func (p *process) settle(stuck <-chan time.Time) error {
	for p.told > 0 || p.leaving {
		select {
		case answer := <-p.answers:
			p.told--
			if strings.Contains(answer, ":") {
				return errors.New(answer)
			}
		case <-p.ended:
			if p.leaving {
				return nil
			}
			return fmt.Errorf("ended by itself: %w", p.outcome())
		case <-stuck:
			_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it shows what its goroutines do
			<-p.ended
			return fmt.Errorf("stuck: %w", p.outcome())
		}
	}
	return nil
}

// outcome returns an error unless the process has ended well.
func (p *process) outcome() error {
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", p.err, &p.stderr)
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) stop(until time.Time) {
	p.until = until
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
}

func (p *process) goOn() {
	p.until = time.Time{}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}
