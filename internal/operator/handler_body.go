package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
)

// post returns an endpoint that calls do with the JSON object of a body. An error about the body
// shows an example.
func post[In, Out any](example string, do func(context.Context, In) (Out, error)) endpoint {
	return endpoint{method: http.MethodPost, answer: func(r *http.Request) (any, error) {
		var in In
		if err := readBody(r, &in, example); err != nil {
			return nil, err
		}
		return do(r.Context(), in)
	}}
}

// readBody reads the only JSON value of a body. It checks the content type, since pages of other
// sites can send forms to this endpoint, but no JSON.
func readBody(r *http.Request, into any, example string) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return Errorf(http.StatusUnsupportedMediaType, "content type: got %.100q: expected application/json",
			r.Header.Get("Content-Type"))
	}
	if r.URL.RawQuery != "" {
		return Errorf(http.StatusBadRequest, "query: expected none: Caddy logs it; write a body such as %s", example)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		return Errorf(http.StatusBadRequest, "body: %v", err)
	}
	if len(body) > MaxBody {
		return Errorf(http.StatusRequestEntityTooLarge, "body: expected at most %d bytes", MaxBody)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return Errorf(http.StatusBadRequest, "body: %v: expected JSON such as %s", err, example)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Errorf(http.StatusBadRequest, "body: got something behind the object: expected JSON such as %s", example)
	}
	return nil
}
