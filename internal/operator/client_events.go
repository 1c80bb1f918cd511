package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Events implements [Service].
func (r *Remote) Events(ctx context.Context) (<-chan Event, error) {
	response, err := r.send(ctx, http.MethodGet, "events", nil, nil)
	if err != nil {
		return nil, err
	}
	events := make(chan Event)
	go func() {
		defer close(events)
		defer response.Body.Close()
		receive(ctx, response.Body, events)
	}()
	return events, nil
}

// receive reads the events of a stream until it or ctx ends. Closing the body of a response
// whose context has ended ends the read.
func receive(ctx context.Context, from io.Reader, events chan<- Event) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue // a comment, or the end of an event
		}
		var event Event
		if json.Unmarshal(data, &event) != nil {
			continue
		}
		select {
		case events <- event:
		case <-ctx.Done():
			return
		}
	}
}
