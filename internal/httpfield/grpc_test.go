package httpfield

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestOnlyCallsOfGRPCAreAnsweredAsSuch(t *testing.T) {
	for _, test := range []struct {
		method, contentType, te string
		major                   int
		asks                    string
		want                    bool
	}{
		{"POST", "application/grpc", "trailers", 2, "", true},
		{"POST", "application/grpc+proto", "Trailers", 2, "", true},
		{"POST", "application/grpc;charset=x", "trailers", 3, "", true},
		{"POST", "application/grpc", "trailers", 1, "", false}, // has no trailers there
		{"GET", "application/grpc", "trailers", 2, "", false},
		{"POST", "application/grpc-web", "trailers", 2, "", false},
		{"POST", "application/grpc-web+proto", "trailers", 2, "", false},
		{"POST", "application/grpcx", "trailers", 2, "", false},
		{"POST", "text/application/grpc", "trailers", 2, "", false},
		{"POST", "", "trailers", 2, "", false},
		{"POST", "application/grpc", "", 2, "", false},
		{"POST", "application/grpc", "deflate", 2, "", false},
		{"POST", "application/grpc", "trailers", 2, "X-Forwarded-Method", false}, // a proxy asks whether the call may pass
		{"POST", "application/grpc", "trailers", 2, "X-Forwarded-Uri", false},
		{"POST", "application/grpc", "trailers", 2, "X-Original-Method", false},
		{"POST", "application/grpc", "trailers", 2, "X-Original-URI", false},
		{"POST", "application/grpc", "trailers", 2, "X-Original-URL", false},
		{"POST", "application/grpc", "trailers", 2, "X-Forwarded-For", true},
	} {
		r := &http.Request{Method: http.MethodPut, ProtoMajor: test.major, Header: http.Header{"Content-Type": {test.contentType}, "Te": {test.te}}}
		if test.asks != "" {
			r.Header.Set(test.asks, "")
		}
		if got := IsGRPC(r, test.method); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}

// A client of gRPC decodes the message that was meant, and no message breaks the header.
func FuzzMessageOfGRPC(f *testing.F) {
	for _, seed := range []string{"", "Too Many Requests", "100 %", "zoë\r\nX: y", "\x00\xff", "a+b~"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		w := httptest.NewRecorder()
		WriteGRPC(w, http.StatusTooManyRequests, message)
		escaped := w.Header().Get("Grpc-Message")
		for _, c := range []byte(escaped) {
			if c < ' ' || c > '~' {
				t.Fatalf("%q has %q", escaped, c)
			}
		}
		if got, err := url.PathUnescape(escaped); err != nil || got != message {
			t.Fatalf("%q is decoded as %q: %v", escaped, got, err)
		}
	})
}

// Each answer has a status of gRPC, and says when to try again if trying helps.
func TestStatusesOfGRPC(t *testing.T) {
	for _, test := range []struct {
		status           int
		after            string
		wantCode, wanted string
	}{
		{429, "7", "8", "7000"}, {429, "", "8", "-1"}, {403, "", "7", "-1"}, {403, "60", "7", "60000"}, {401, "", "16", "-1"},
		{400, "", "3", "-1"}, {413, "", "8", "-1"}, {503, "1", "14", "1000"}, {503, "", "14", ""}, {425, "", "14", ""}, {418, "", "2", "-1"},
	} {
		w := httptest.NewRecorder()
		if test.after != "" {
			w.Header().Set("Retry-After", test.after)
		}
		w.Header().Set("Content-Encoding", "gzip") // of an answer that this one replaces
		w.Header().Set("Content-Length", "5")
		WriteGRPC(w, test.status, http.StatusText(test.status))
		h := w.Header()
		if w.Code != 200 || w.Body.Len() > 0 || h.Get("Content-Type") != "application/grpc" || h.Get("Content-Encoding")+h.Get("Content-Length") != "" ||
			h.Get("Grpc-Status") != test.wantCode || h.Get("Grpc-Retry-Pushback-Ms") != test.wanted {
			t.Errorf("%+v: got %d, %v", test, w.Code, h)
		}
	}
}
