package operator

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

const (
	// heartbeat is the interval of signs of life on a stream without events.
	heartbeat = 15 * time.Second
	// slowReader is how long a reader may take for an event before the stream ends.
	slowReader = 10 * time.Second
)

// serveEvents sends server-sent events, each with the JSON of an [Event].
func (h handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "" {
		writeError(w, Errorf(http.StatusBadRequest, "query: expected none"))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events, err := h.service.Events(ctx)
	if err != nil {
		writeError(w, err)
		return
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) //nolint:errcheck // Caddy's server ends a request after 10 s
	setFields(w.Header(), "text/event-stream")
	w.WriteHeader(http.StatusOK)
	SendEvents(ctx, w, events, func(e Event) Event { return e })
}

// SendEvents sends server-sent events, each with the JSON of what shown returns for it, until there are no more,
// ctx ends, or the reader is gone or too slow.
func SendEvents(ctx context.Context, w http.ResponseWriter, events <-chan Event, shown func(Event) Event) {
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	controller := http.NewResponseController(w)
	for text := ": this stream is open"; ; {
		controller.SetWriteDeadline(time.Now().Add(slowReader)) //nolint:errcheck // without one the write waits longer
		if _, err := w.Write([]byte(text + "\n\n")); err != nil || controller.Flush() != nil {
			return
		}
		select {
		case event, more := <-events:
			data, err := json.Marshal(shown(event))
			if !more || err != nil {
				return
			}
			text = "data: " + string(data)
		case <-alive.C:
			text = ": nothing new"
		case <-ctx.Done():
			return
		}
	}
}
