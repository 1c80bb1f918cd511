package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// Browser is a test's view of a Chromium: other tests don't share its cookies and storage.
type Browser struct {
	*chromium
	context string
}

// chromium is a process that all tests control, by the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol/) over pipes. Each message is JSON that ends
// with a zero byte.
type chromium struct {
	commands *os.File
	ended    chan struct{} // closed when it has ended

	mu      sync.Mutex
	last    int // number of the last command
	waiting map[int]chan answer
	pages   map[string]*Page // by session
}

type command struct {
	ID        int    `json:"id"`
	SessionID string `json:"sessionId,omitempty"`
	Method    string `json:"method"`
	Params    any    `json:"params"`
}

// answer is a message from the browser: an answer to a command, or an event.
type answer struct {
	ID        int
	SessionID string
	Method    string
	Params    json.RawMessage
	Result    json.RawMessage
	Error     *struct{ Message string }
}

// running is the process, by the path of its program.
var running struct {
	sync.Mutex
	browsers map[string]*chromium
}

// Start returns a browser for a test. The first call starts the process at path, which ends with
// the tests' process.
func Start(t *testing.T, path string) *Browser {
	t.Helper()
	c, err := started(path)
	if err != nil {
		t.Fatal(err)
	}
	var context struct {
		ID string `json:"browserContextId"`
	}
	c.must(t, "", "Target.createBrowserContext", map[string]any{}, &context)
	t.Cleanup(func() {
		_ = c.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": context.ID}, nil)
	})
	return &Browser{c, context.ID}
}

func started(path string) (*chromium, error) {
	running.Lock()
	defer running.Unlock()
	if c := running.browsers[path]; c != nil {
		return c, nil
	}
	hears, commands, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, says, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer hears.Close()
	defer says.Close()
	if err := launch(path, []*os.File{hears, says}); err != nil {
		return nil, err
	}
	c := &chromium{commands: commands, ended: make(chan struct{}), waiting: make(map[int]chan answer), pages: make(map[string]*Page)}
	go func() {
		defer close(c.ended)
		c.read(bufio.NewReader(answers))
	}()
	running.browsers = map[string]*chromium{path: c}
	return c, nil
}

// read dispatches the browser's messages until it ends.
func (c *chromium) read(answers *bufio.Reader) {
	for {
		text, err := answers.ReadBytes(0)
		if err != nil {
			return
		}
		var m answer
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		waiting, page := c.waiting[m.ID], c.pages[m.SessionID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		switch {
		case waiting != nil:
			waiting <- m
		case page != nil:
			page.hear(m.Method, m.Params)
		}
	}
}

// patience is how long the browser may take for a command.
const patience = time.Minute

// call sends a command to the browser, and reads its answer into result unless that is nil.
func (c *chromium) call(session, method string, params, result any) error {
	done := make(chan answer, 1)
	if err := c.send(session, method, params, done); err != nil {
		return err
	}
	select {
	case a := <-done:
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-c.ended:
		return fmt.Errorf("%s: the browser has ended", method)
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer for %v", method, patience)
	}
}

// send sends a command to the browser. Its answer goes to done, unless that is nil.
func (c *chromium) send(session, method string, params any, done chan answer) error {
	c.mu.Lock()
	c.last++
	id := c.last
	if done != nil {
		c.waiting[id] = done
	}
	c.mu.Unlock()
	text, err := json.Marshal(command{ID: id, SessionID: session, Method: method, Params: params})
	if err != nil {
		return err
	}
	_, err = c.commands.Write(append(text, 0))
	return err
}
