package operator

import (
	"context"
	"encoding/json"
	"fmt"
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
	stream := stream{w, http.NewResponseController(w)}
	stream.controller.SetReadDeadline(time.Time{}) //nolint:errcheck // Caddy's server ends a request after 10 s
	setFields(w.Header(), "text/event-stream")
	w.WriteHeader(http.StatusOK)
	stream.send(ctx, events)
}

// stream is an answer that is sent in pieces.
type stream struct {
	w          http.ResponseWriter
	controller *http.ResponseController
}

// send sends events until there are no more, ctx ends, or the reader is gone or too slow.
func (s stream) send(ctx context.Context, events <-chan Event) {
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	err := s.write(": this stream is open\n\n")
	for err == nil {
		select {
		case event, more := <-events:
			if !more {
				return
			}
			err = s.event(event)
		case <-alive.C:
			err = s.write(": nothing new\n\n")
		case <-ctx.Done():
			return
		}
	}
}

func (s stream) event(e Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("data: %s\n\n", data))
}

func (s stream) write(text string) error {
	s.controller.SetWriteDeadline(time.Now().Add(slowReader)) //nolint:errcheck // without one the write waits longer
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.controller.Flush()
}
