package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Bounds of a stream. A browser opens another when one ends.
const (
	streamLife   = time.Hour
	writeTimeout = 10 * time.Second // for one event
)

// serveEvents sends server-sent events until the browser disconnects.
func (v *visit) serveEvents() {
	if fromElsewhere(v.r) {
		v.fail(operator.Errorf(http.StatusForbidden, "Another site asked for live updates."))
		return
	}
	select {
	case v.d.streams <- struct{}{}:
		defer func() { <-v.d.streams }()
	default:
		v.fail(operator.Errorf(http.StatusTooManyRequests, "Live updates are shown in %d browsers already.", cap(v.d.streams)))
		return
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), streamLife)
	defer cancel()
	events, err := v.d.options.Service.Events(ctx)
	if err != nil {
		v.fail(err)
		return
	}
	v.relay(events)
}

// relay sends events until there are no more, or sending one fails.
func (v *visit) relay(events <-chan operator.Event) {
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	v.w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(v.w)
	if v.r.Method == http.MethodHead || control.Flush() != nil {
		return
	}
	for event := range events {
		if event.Refused != nil {
			refused := *event.Refused
			refused.Text, refused.Path, refused.Agent = wording.MaskText(refused.Text), wording.MaskText(refused.Path), ""
			refused.Client = "" // it may have an address in it
			event.Refused = &refused
		}
		text, err := json.Marshal(event)
		if err != nil {
			v.d.options.Report(err)
			return
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // an error: the connection doesn't support deadlines
		if _, err := v.w.Write([]byte("data: " + string(text) + "\n\n")); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
	}
}
