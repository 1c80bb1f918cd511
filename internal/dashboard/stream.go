package dashboard

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// streamLife is how long a stream may last. A browser opens another when one ends.
const streamLife = time.Hour

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
		v.fail(operator.Errorf(http.StatusTooManyRequests, "Live updates are shown in %d browsers already.",
			cap(v.d.streams)))
		return
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), streamLife)
	defer cancel()
	events, err := v.d.options.Service.Events(ctx)
	if err != nil {
		v.fail(err)
		return
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Cache-Control", "no-store, no-transform") // nor do encoders of this server delay it
	v.w.WriteHeader(http.StatusOK)
	if v.r.Method != http.MethodHead {
		operator.SendEvents(ctx, v.w, events, maskedEvent)
	}
}

// maskedEvent returns an event without what pages mask.
func maskedEvent(event operator.Event) operator.Event {
	if event.Refused != nil {
		refused := *event.Refused
		refused.Text, refused.Path, refused.Agent = masked(named(refused.Text, refused.Client)),
			masked(refused.Path), ""
		refused.Client = "" // it may have an address in it
		event.Refused = &refused
	}
	return event
}

// masked returns a text as [visit.Say] does for those who haven't revealed addresses.
func masked(text string) string { return wording.Printable(wording.MaskText(text), "") }
