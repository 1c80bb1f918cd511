package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// Options configure a [Webhook].
type Options struct {
	URL      string
	Template string // of the body: see [ParseTemplate]; "" sends the event as JSON
	Header   string // lines of "name: value"
	On       string // the kinds of events, separated by blanks
}

const (
	maxQueue    = 64       // notifications that wait
	maxBody     = 64 << 10 // bytes
	maxAttempts = 8
	timeout     = 10 * time.Second
	maxPause    = 5 * time.Minute // between attempts
)

// firstPause is the time after the first failed attempt; each further one doubles it.
var firstPause = 5 * time.Second

// Webhook posts events to a URL. Its methods may be called from any number of goroutines.
type Webhook struct {
	options Options
	on      []string
	body    *template.Template // nil for JSON
	client  http.Client
	log     *zap.Logger
	limiter limiter
	queue   chan Event

	once sync.Once       // starts the goroutine
	ctx  context.Context // ends it
	end  context.CancelFunc
	done sync.WaitGroup // for the goroutine to end
}

// webhooks are those in use, by their options: what waits in a queue outlives a reload.
var webhooks = caddy.NewUsagePool()

// startOfObject matches the beginning of what is meant for JSON, also without the quotes.
var startOfObject = regexp.MustCompile(`^\s*["\w]+\s*:|^\s*"`)

// Acquire returns the webhook with some options. It posts nothing: see [Webhook.Run].
// [Webhook.Release] gives it up.
func Acquire(o Options) (*Webhook, error) {
	value, _, err := webhooks.LoadOrNew(o, func() (caddy.Destructor, error) { return open(o) })
	if err != nil {
		return nil, err
	}
	return value.(*Webhook), nil
}

// Release gives up the webhook. When all have who acquired it, what still waits is dropped.
func (w *Webhook) Release() { _, _ = webhooks.Delete(w.options) } // returns no error

func open(o Options) (*Webhook, error) {
	at, err := url.Parse(o.URL)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return nil, errors.New("expected a URL such as https://ntfy.example.com/alerts") // which may hold a key
	}
	w := &Webhook{options: o, on: strings.Fields(o.On), queue: make(chan Event, maxQueue),
		log: caddyconf.Logger().With(zap.String("webhook", at.Host))}
	if w.body, err = ParseTemplate(o.Template); err != nil {
		return nil, err
	}
	for _, e := range o.samples() {
		if _, err := w.render(e); err != nil {
			return nil, fmt.Errorf("template: it fails for a notification of the kind %s: %w; write {{with .Until}} … {{end}} around what only some kinds have", e.Kind, err)
		}
	}
	// with what is secret in the header
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.ctx, w.end = context.WithCancel(context.Background())
	return w, nil
}

// ParseTemplate parses a text/template of an [Event], in which {{json .Text}} quotes for JSON. It
// returns nil for "". Bodies that begin as an object of JSON must be one.
func ParseTemplate(text string) (*template.Template, error) {
	if text == "" {
		return nil, nil
	}
	t, err := template.New("template").Funcs(template.FuncMap{"json": func(value any) (string, error) {
		quoted, err := json.Marshal(value)
		return string(quoted), err
	}}).Parse(text)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	err = t.Execute(&body, Event{Text: `a "quoted" text`, Until: new(time.Time)})
	inside, isObject := bytes.CutPrefix(bytes.TrimSpace(body.Bytes()), []byte("{"))
	if err == nil && isObject && startOfObject.Match(inside) && !json.Valid(body.Bytes()) {
		err = errors.New("it begins like JSON and gives none for a text with quotes")
	}
	return t, err
}

// samples returns an event of each kind that the webhook wants, with the fields that it has.
func (o Options) samples() (events []Event) {
	for _, kind := range strings.Fields(o.On) {
		switch now := time.Now(); kind {
		case Ban:
			events = append(events, Event{Kind: Ban, Time: now, Reason: "trap", Until: &now})
		case Degraded:
			events = append(events, Event{Kind: Degraded, Time: now, Reason: "error"},
				Event{Kind: Recovered, Time: now})
		case Quota:
			events = append(events, Event{Kind: Quota, Time: now, Zone: "zone", Limit: "limit", Client: "client",
				Until: &now, Count: 80, Amount: 100})
		default:
			events = append(events, Event{Kind: kind, Time: now, Zone: "zone", Count: 100},
				Event{Kind: Calm, Time: now, Zone: "zone"})
		}
	}
	return events
}

// Test posts a message at once, whatever the webhook wants, and returns the host that it was sent to.
func (w *Webhook) Test(ctx context.Context, now time.Time) (host string, err error) {
	if at, err := url.Parse(w.options.URL); err == nil {
		host = at.Host
	}
	e := Event{Kind: "test", Time: now, Until: &now, Reason: "test",
		Text: "This is a test of the notifications of the rate limiter."}
	if !w.limiter.admits(&e) {
		return host, errors.New("it was tested less than a minute ago: wait a moment")
	}
	body, err := w.render(e)
	if err == nil {
		_, err = w.post(ctx, body)
	}
	return host, err
}

// Run begins to post what is sent.
func (w *Webhook) Run() { w.once.Do(func() { w.done.Go(w.loop) }) }

// Destruct implements caddy.Destructor. It ends what is under way, and waits for that.
func (w *Webhook) Destruct() error {
	w.end()
	w.done.Wait()
	for len(w.queue) > 0 {
		<-w.queue
		meter.NotificationDropped()
	}
	return nil
}

// Wants reports whether the webhook wants a kind of events.
func (w *Webhook) Wants(kind string) bool {
	return slices.Contains(w.on, cmp.Or(ends[kind], kind))
}

// Send queues an event for the webhook, if it wants its kind. It never blocks.
func (w *Webhook) Send(e Event) {
	if !w.Wants(e.Kind) || !w.limiter.admits(&e) {
		return
	}
	select {
	case w.queue <- e:
	default:
		meter.NotificationDropped()
	}
}

func (w *Webhook) loop() {
	for {
		select {
		case e := <-w.queue:
			if err := w.deliver(e); err != nil {
				meter.NotificationDropped()
				w.log.Warn("a notification could not be delivered", zap.String("kind", e.Kind), zap.Error(err))
			}
		case <-w.ctx.Done():
			return
		}
	}
}

// deliver posts an event, again after errors that may pass.
func (w *Webhook) deliver(e Event) error {
	body, err := w.render(e)
	if err != nil {
		return err
	}
	for pause, attempt := firstPause, 1; ; pause, attempt = min(2*pause, maxPause), attempt+1 {
		again, err := w.post(w.ctx, body)
		if err == nil || !again || attempt == maxAttempts {
			return err
		}
		select {
		case <-time.After(pause):
		case <-w.ctx.Done():
			return err
		}
	}
}

// render returns the body for an event.
func (w *Webhook) render(e Event) ([]byte, error) {
	if w.body == nil {
		return json.Marshal(e)
	}
	var body bytes.Buffer
	if err := w.body.Execute(&body, e); err != nil {
		return nil, err
	}
	if body.Len() > maxBody {
		return nil, fmt.Errorf("the template makes %d bytes, expected at most %d", body.Len(), maxBody)
	}
	return body.Bytes(), nil
}

// post posts a body, and reports whether it is worth another attempt if that fails.
func (w *Webhook) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.options.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL can't be used")
	}
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if json.Valid(body) {
		request.Header.Set("Content-Type", "application/json")
	}
	for line := range strings.Lines(w.options.Header) {
		name, value, _ := strings.Cut(line, ":")
		request.Header.Set(name, strings.TrimSpace(value))
	}
	response, err := w.client.Do(request)
	if urlErr := (*url.Error)(nil); errors.As(err, &urlErr) {
		return true, urlErr.Err // without the URL, in which a key may be
	} else if err != nil {
		return true, err
	}
	response.Body.Close()
	if status := response.StatusCode; status < 200 || status > 299 {
		return status == http.StatusTooManyRequests ||
			status >= 500, fmt.Errorf("the webhook answers with status %d", status)
	}
	return false, nil
}
