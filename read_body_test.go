package tally

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// readingHandler returns a handler whose zone reads bodies of at most 8 bytes, and admits one
// failure.
func readingHandler(t *testing.T) *Handler {
	return startHandler(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}, Count: &config.Count{Status: []int{401}, Hold: true, ReadBody: 8},
	}}})
}

// echoing answers with the body of a request.
func echoing(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// slow is a body that signals the first read, and blocks until it may continue.
type slow struct {
	asked, may chan struct{}
	io.Reader
}

func newSlow(text string) *slow {
	return &slow{make(chan struct{}, 100), make(chan struct{}), strings.NewReader(text)}
}

func (s *slow) Read(data []byte) (int, error) {
	s.asked <- struct{}{}
	<-s.may
	return s.Reader.Read(data)
}

// whileSlow returns the status of a request while another one's body is slow.
func whileSlow(t *testing.T, h *Handler) int {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	body, done := newSlow("guess"), make(chan string)
	go func() {
		w, err := askWith(ctx, h, body, echoing)
		done <- fmt.Sprint(w.Code, w.Body, err)
	}()
	<-body.asked
	w, err := askFor(ctx, h, answering(200))
	if err != nil {
		t.Error(err)
	}
	close(body.may)
	if got := <-done; got != "200 guess <nil>" {
		t.Errorf("the slow one is answered with %s", got)
	}
	return w.Code
}

// A client that sends its body slowly takes no attempts from others, unless there is no room for
// it.
func TestSlowBodiesHoldNothing(t *testing.T) {
	if got := whileSlow(t, countingHandler(t, 1, true, 401)); got != http.StatusTooManyRequests {
		t.Errorf("without read_body another is answered with %d, want 429", got)
	}
	if got := whileSlow(t, readingHandler(t)); got != http.StatusOK {
		t.Errorf("with read_body another is answered with %d, want 200", got)
	}
	enforce.Bodies.Add(enforce.MaxBodies)
	defer enforce.Bodies.Add(-enforce.MaxBodies)
	if got := whileSlow(t, readingHandler(t)); got != http.StatusTooManyRequests {
		t.Errorf("without room another is answered with %d, want 429", got)
	}
}

// A body that is unreadable or too long reaches no later handler and uses up nothing. The body of a
// request that is refused anyway isn't read.
func TestBodiesThatAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		want int
	}{
		"as long as it may be": {strings.NewReader("12345678"), 0},
		"of unknown length":    {io.MultiReader(strings.NewReader("1234")), 0},
		"too long":             {strings.NewReader("123456789"), 413},
		"too long, unknown":    {io.MultiReader(strings.NewReader("123456789")), 413},
		"breaks off":           {io.MultiReader(strings.NewReader("1234"), iotest.ErrReader(io.ErrUnexpectedEOF)), 400},
		"too long for another": {iotest.ErrReader(caddyhttp.Error(413, errors.New("enough"))), 413},
	} {
		h, came := readingHandler(t), false
		_, err := askWith(t.Context(), h, c.body, func(w http.ResponseWriter, r *http.Request) error {
			came = true
			return echoing(w, r)
		})
		if status := enforce.StatusOf(err); came != (c.want == 0) || (err == nil) != came || err != nil && status != c.want {
			t.Errorf("%s: came %v, %v, want %d", name, came, err, c.want)
		}
		if passed := passedOf(h, 2); passed != 1 {
			t.Errorf("%s: %d pass afterwards, want 1", name, passed)
		}
		unread := readerFunc(func([]byte) (int, error) {
			t.Errorf("%s: the body of a refused request is read", name)
			return 0, io.EOF
		})
		if w, err := askWith(t.Context(), h, unread, echoing); err != nil || w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: one more is answered with %d, %v", name, w.Code, err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(data []byte) (int, error) { return f(data) }
