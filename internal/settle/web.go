package settle

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// webReader reads an answer of gRPC-Web for its trailers, which are the last frame of its body
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md).
type webReader struct {
	inBase64 bool
	quad     []byte // the beginning of four letters of base64
	head     []byte // the beginning of a frame: flags, and four bytes with its length
	left     uint32 // bytes of the frame that are to come
	trailers []byte
	status   string // of gRPC
	unread   bool   // there are trailers that can't be read
}

const (
	webTrailers, webCompressed = 0x80, 0x01 // flags of a frame
	webHead                    = 5
	maxWebTrailers             = 16 << 10
)

// isWeb reports whether a message is one of gRPC-Web.
func isWeb(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(httpfield.First(h["Content-Type"])), "application/grpc-web")
}

// newWebReader returns a reader for an answer with a header, or nil if that isn't one of gRPC-Web.
func newWebReader(h http.Header) *webReader {
	if !isWeb(h) {
		return nil
	}
	inBase64 := strings.Contains(strings.ToLower(h.Get("Content-Type")), "-web-text")
	return &webReader{inBase64: inBase64, unread: bodyfield.IsEncoded(h)}
}

// Write implements io.Writer. It reads the next piece of the answer.
func (w *webReader) Write(data []byte) (int, error) {
	if !w.inBase64 {
		w.read(data)
		return len(data), nil
	}
	for _, c := range data {
		if w.quad = append(w.quad, c); len(w.quad) < 4 {
			continue
		}
		var decoded [3]byte // each message may end with padding
		n, err := base64.StdEncoding.Decode(decoded[:], w.quad)
		w.unread = w.unread || err != nil
		w.quad = w.quad[:0]
		w.read(decoded[:n])
	}
	return len(data), nil
}

// read reads the next piece of the frames.
func (w *webReader) read(data []byte) {
	for len(data) > 0 && !w.unread {
		if len(w.head) < webHead {
			w.head, data = append(w.head, data[0]), data[1:]
			if len(w.head) < webHead {
				continue
			}
			w.left = binary.BigEndian.Uint32(w.head[1:])
			w.unread = w.head[0]&webTrailers != 0 && (w.head[0]&webCompressed != 0 || w.left > maxWebTrailers)
		}
		n := int(min(uint64(len(data)), uint64(w.left)))
		if w.head[0]&webTrailers != 0 && !w.unread {
			w.trailers = append(w.trailers, data[:n]...)
		}
		if data, w.left = data[n:], w.left-uint32(n); w.left == 0 {
			w.endFrame()
		}
	}
}

// endFrame ends a frame.
func (w *webReader) endFrame() {
	for line := range strings.Lines(string(w.trailers)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(name), "grpc-status") {
			w.status = strings.TrimSpace(value)
		}
	}
	w.head, w.trailers = w.head[:0], nil
}

// note notes the trailers in the answer that settles. A nil webReader notes nothing.
func (w *webReader) note(by *settledBy) {
	if w == nil {
		return
	}
	if w.status != "" {
		by.header.Set(http.TrailerPrefix+"Grpc-Status", w.status)
	}
	by.unread = w.unread && httpfield.GRPCStatusOf(by.header) < 0
}
