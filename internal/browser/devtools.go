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

// Browser is a Chromium that a test drives, by the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol/) over pipes. Each message is JSON that
// ends with a zero byte.
type Browser struct {
	t        *testing.T
	commands *os.File

	mu      sync.Mutex
	last    int // number of the last command
	waiting map[int]chan answer
	pages   map[string]*Page // by their session
}

type command struct {
	ID        int    `json:"id"`
	SessionID string `json:"sessionId,omitempty"`
	Method    string `json:"method"`
	Params    any    `json:"params"`
}

// answer is what the browser says, to a command or by itself.
type answer struct {
	ID        int
	SessionID string
	Method    string
	Params    json.RawMessage
	Result    json.RawMessage
	Error     *struct{ Message string }
}

// Start starts the browser at path. It ends with the test.
func Start(t *testing.T, path string) *Browser {
	t.Helper()
	hears, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{t: t, commands: commands, waiting: make(map[int]chan answer), pages: make(map[string]*Page)}
	read := make(chan struct{})
	t.Cleanup(func() { // after the browser has ended
		commands.Close()
		<-read
		answers.Close()
	})
	launch(t, path, []*os.File{hears, says}, "--remote-debugging-pipe", "about:blank")
	hears.Close()
	says.Close()
	go func() {
		defer close(read)
		b.read(bufio.NewReader(answers))
	}()
	return b
}

// read hands out what the browser says, until it ends.
func (b *Browser) read(answers *bufio.Reader) {
	for {
		text, err := answers.ReadBytes(0)
		if err != nil {
			return
		}
		var m answer
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		waiting, page := b.waiting[m.ID], b.pages[m.SessionID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case waiting != nil:
			waiting <- m
		case page != nil:
			page.hear(m.Method, m.Params)
		}
	}
}

// patience is how long the browser may take for one thing.
const patience = time.Minute

// call has the browser do something, and reads its answer into result unless that is nil.
func (b *Browser) call(session, method string, params, result any) error {
	done := make(chan answer, 1)
	if err := b.send(session, method, params, done); err != nil {
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
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer for %v", method, patience)
	}
}

// send has the browser do something. Its answer goes to done, unless that is nil.
func (b *Browser) send(session, method string, params any, done chan answer) error {
	b.mu.Lock()
	b.last++
	id := b.last
	if done != nil {
		b.waiting[id] = done
	}
	b.mu.Unlock()
	text, err := json.Marshal(command{ID: id, SessionID: session, Method: method, Params: params})
	if err != nil {
		return err
	}
	_, err = b.commands.Write(append(text, 0))
	return err
}
