//go:build unix

package sqlite

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

var comeAndGoSeed = flag.Uint64("comeandgo.seed", 0, "draw what processes do from this seed; 0 draws one")

const (
	// notStuck is how long a process may take to do what it is told while none is stopped.
	notStuck   = 3 * time.Minute
	mostEvents = 30 // of a round
	mostComers = 5
)

// Up to five processes start and end on one database at random, alone or together. They end in
// order, are killed, or are stopped for seconds. No limit admits too much, and no process hangs. A
// seed repeats the plan, but not the timing.
func TestProcessesComeAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts dozens of processes")
	}
	seed := *comeAndGoSeed
	for seed == 0 {
		seed = rand.Uint64()
	}
	for _, may := range []mayHappen{{}, {kill: true}, {kill: true, stop: true}, {kill: true, damage: true}} {
		t.Run(may.String(), func(t *testing.T) {
			t.Parallel()
			t.Logf("PROOF=%s go test ./storage/sqlite -run TestProcessesComeAndGo/%v -v -comeandgo.seed=%d", os.Getenv("PROOF"), may, seed)
			c := newComings(t, may, seed)
			for events := proof.Times(6, 500); c.events < events && !t.Failed(); {
				c.playRound(min(5+c.rng.IntN(mostEvents-5), events-c.events))
			}
			c.report()
		})
	}
}

// mayHappen has the possible events.
type mayHappen struct {
	kill bool // SIGKILL
	stop bool // SIGSTOP, and SIGCONT seconds later

	damage bool // to the file of pending charges
}

func (m mayHappen) String() string {
	switch {
	case m.damage:
		return "damaged"
	case m.stop:
		return "stopped"
	case m.kill:
		return "killed"
	}
	return "closed"
}

// comings are the processes of a test.
type comings struct {
	t      *testing.T
	may    mayHappen
	small  bool // the journals of processes
	rng    *rand.Rand
	began  time.Time
	path   string // of the database
	ledger *ledger

	round     int
	solo      bool // in this round there is one engine at a time
	events    int
	processes []*process     // that run, with those that are about to end
	files     map[int]string // in which those of this round said what they admitted, by their number
	damages   damages
	started   int
	counts    map[string]int // of events
	story     []string       // of this round, for a person
}

func newComings(t *testing.T, may mayHappen, seed uint64) *comings {
	c := &comings{t: t, may: may, rng: rand.New(rand.NewPCG(seed, 0)), began: time.Now(),
		path: filepath.Join(t.TempDir(), "tally.db"), ledger: newLedger(t), counts: make(map[string]int)}
	t.Cleanup(c.killAll)
	return c
}

// playRound makes a number of events happen, ends all processes, and checks their admissions. Each
// round has its own keys.
func (c *comings) playRound(events int) {
	c.beginRound()
	c.solo = c.rng.IntN(3) == 0
	for end := c.events + events; c.events < end && !c.t.Failed(); {
		c.playPhase(min(5+c.rng.IntN(6), end-c.events))
	}
	c.continueAll()
	c.settle()
	for _, p := range c.running(func(p *process) bool { return !p.leaving }) {
		if c.may.kill && c.rng.IntN(3) == 0 {
			c.kill(p)
		} else {
			c.leave(p)
		}
	}
	c.endRound()
}

func (c *comings) beginRound() {
	c.round++
	c.story, c.files = nil, make(map[int]string)
	c.damages.begin()
}

// endRound checks the admissions of processes that all end.
func (c *comings) endRound() {
	c.t.Helper()
	c.settle()
	c.ledger.prove(c)
	if c.t.Failed() {
		c.t.Log(strings.Join(c.story, "\n"))
	}
}

// playPhase makes events happen with a maximum number of running processes, often one.
func (c *comings) playPhase(events int) {
	most := 1
	if !c.solo && c.rng.IntN(2) == 0 {
		most = 2 + c.rng.IntN(mostComers-1)
	}
	for range events {
		for len(c.running(isThere)) > most {
			c.end(c.any(isThere))
		}
		c.event(most)
		c.events++
		c.pause()
		c.continueDue()
		for _, p := range c.running(isThere) {
			p.tell("alive")
		}
		if c.rng.IntN(2) == 0 && len(c.running(isStopped)) == 0 {
			c.settle()
		}
	}
}

// event makes a random event happen.
func (c *comings) event(most int) {
	there := c.running(isThere)
	if c.may.damage && c.rng.IntN(8) == 0 {
		c.damage()
		return
	}
	if len(there) == 0 || len(there) < most && c.rng.IntN(2) == 0 {
		c.start()
		return
	}
	p := there[c.rng.IntN(len(there))]
	switch n := c.rng.IntN(8); {
	case n == 0 && c.may.kill:
		c.kill(c.any(isAny))
	case n <= 2 && c.may.kill:
		c.kill(p)
		c.start()
	case n <= 2:
		c.leave(p)
		c.start()
	case n == 3:
		c.end(p)
	case n <= 6 && c.may.stop:
		c.stop(p)
	case p.engines > 1:
		c.note(p, "close")
		p.engines--
		p.tell("close")
	case !c.solo:
		c.note(p, "open")
		c.come()
		p.engines++
		p.tell("open")
	default:
		c.leave(p)
	}
}

// come records the start of an engine. Charges of an engine that was alone at that moment may be
// charged twice.
func (c *comings) come() {
	if len(c.processes) > 0 {
		c.ledger.lose(1)
	}
}

// pause waits for a random time. Rarely it is long enough for all periodic work of a process.
func (c *comings) pause() {
	most := 300 * time.Millisecond
	if c.rng.IntN(16) == 0 {
		most = 4 * time.Second
	}
	time.Sleep(time.Duration(c.rng.Int64N(int64(most))))
}

// running returns the processes of a kind.
func (c *comings) running(match func(*process) bool) (matching []*process) {
	for _, p := range c.processes {
		if match(p) {
			matching = append(matching, p)
		}
	}
	return matching
}

func (c *comings) any(match func(*process) bool) *process {
	matching := c.running(match)
	return matching[c.rng.IntN(len(matching))]
}

func (c *comings) note(p *process, what string) {
	c.noteEvent(what, fmt.Sprintf("process %d of %d with %d engines", p.number, len(c.processes), p.engines))
}

func (c *comings) noteEvent(what, to string) {
	c.counts[what]++
	c.story = append(c.story, fmt.Sprintf("%8.3f s: %s: %s", time.Since(c.began).Seconds(), to, what))
}

// start starts a process.
func (c *comings) start() {
	if c.solo && len(c.running(isStopped)) == 0 {
		c.settle()
	}
	c.come()
	c.started++
	p := newProcess(c)
	c.processes, c.files[p.number] = append(c.processes, p), p.file
	c.note(p, "start")
}

// end kills a process, or ends it in order.
func (c *comings) end(p *process) {
	if c.may.kill && c.rng.IntN(2) == 0 {
		c.kill(p)
	} else {
		c.leave(p)
	}
}

// leave ends a process in order.
func (c *comings) leave(p *process) {
	c.note(p, "leave")
	p.leaving = true
	p.in.Close()
}

// kill kills a process. The units that it held are lost.
func (c *comings) kill(p *process) {
	what := "kill"
	switch {
	case isStopped(p):
		what = "kill while stopped"
	case p.leaving:
		what = "kill while leaving"
	case len(c.processes) == 1:
		what = "kill while alone"
	}
	c.note(p, what)
	p.kill()
	c.ledger.lose(p.engines)
	c.remove(p)
}

// stop stops a process for some time.
func (c *comings) stop(p *process) {
	d := 200*time.Millisecond + time.Duration(c.rng.Int64N(int64(3800*time.Millisecond)))
	c.note(p, "stop")
	p.stop(time.Now().Add(d))
}

// continueDue continues processes that were stopped for long enough.
func (c *comings) continueDue() {
	for _, p := range c.running(isStopped) {
		if !time.Now().Before(p.until) {
			c.note(p, "continue")
			p.goOn()
		}
	}
}

// continueAll waits until no process is stopped.
func (c *comings) continueAll() {
	for _, p := range c.running(isStopped) {
		time.Sleep(time.Until(p.until))
		c.continueDue()
	}
}

// settle waits until all processes have executed their commands. None may be stopped.
func (c *comings) settle() {
	c.t.Helper()
	stuck := time.After(notStuck)
	for _, p := range slices.Clone(c.processes) {
		if err := p.settle(stuck); err != nil {
			c.t.Errorf("process %d, %.3f s: %v", p.number, time.Since(c.began).Seconds(), err)
		}
		if p.leaving {
			c.left(p)
		}
	}
}

// left records how a process has ended in order. Units that it couldn't give back, for example
// while another one was stopped, or as it had noticed the damage to a file, are lost.
func (c *comings) left(p *process) {
	if err := p.outcome(); err != nil {
		if !c.may.stop && !(c.may.damage && strings.Contains(err.Error(), "is damaged")) {
			c.t.Errorf("process %d ended: %v", p.number, err)
		}
		c.note(p, "left in vain: "+err.Error())
		c.ledger.lose(p.engines)
	}
	c.remove(p)
}

func (c *comings) remove(p *process) {
	if output := p.stderr.String(); output != "" {
		c.story = append(c.story, fmt.Sprintf("process %d wrote:\n%s", p.number, output))
	}
	c.processes = slices.DeleteFunc(c.processes, func(q *process) bool { return p == q })
}

func (c *comings) killAll() {
	for _, p := range c.processes {
		p.kill()
	}
}

// report logs the events.
func (c *comings) report() {
	wall := time.Duration(time.Now().UnixNano() - c.began.UnixNano())
	if set := wall - time.Since(c.began); set.Abs() > admissions.Slack {
		c.t.Errorf("the system's clock was set by %v meanwhile: nothing is proved", set)
	}
	proof.Figure(c.t, "%d events in %d rounds, %v: %v", c.events, c.round, wall.Round(time.Second), c.counts)
	c.t.Log(c.ledger)
}
