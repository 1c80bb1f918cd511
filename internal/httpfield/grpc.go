package httpfield

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The names of gRPC's fields, in Go's form.
const (
	grpcStatus   = "Grpc-Status"
	grpcMessage  = "Grpc-Message"
	grpcPushback = "Grpc-Retry-Pushback-Ms"
)

// grpcType is the media type of gRPC. That of gRPC-Web, application/grpc-web, differs.
const grpcType = "application/grpc"

// asksOf are the fields in which a proxy that asks whether a request may pass says which one: its own is another.
var asksOf = []string{"X-Forwarded-Method", "X-Forwarded-Uri", "X-Original-Method", "X-Original-Uri", "X-Original-Url"}

// IsGRPC reports whether a request that came with a method is a call of gRPC, whose client itself reads the status of
// its answer from trailers. In doubt it isn't: whoever else asks would take the 200 before them for a yes.
func IsGRPC(r *http.Request, method string) bool {
	suffix, ok := strings.CutPrefix(First(r.Header["Content-Type"]), grpcType)
	return ok && (suffix == "" || suffix[0] == '+' || suffix[0] == ';') && r.ProtoMajor >= 2 &&
		method == http.MethodPost &&
		strings.EqualFold(First(r.Header["Te"]), "trailers") &&
		!slices.ContainsFunc(asksOf, func(name string) bool { return r.Header[name] != nil })
}

// grpcCodes are the codes of gRPC for statuses of HTTP, as google.rpc.Code maps them
// (https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto).
var grpcCodes = map[int]string{
	http.StatusBadRequest:            "3",  // INVALID_ARGUMENT
	http.StatusUnauthorized:          "16", // UNAUTHENTICATED
	http.StatusForbidden:             "7",  // PERMISSION_DENIED
	http.StatusRequestEntityTooLarge: "8",  // RESOURCE_EXHAUSTED, as gRPC says of messages that are too long
	http.StatusTooEarly:              "14", // UNAVAILABLE
	http.StatusTooManyRequests:       "8",
	http.StatusServiceUnavailable:    "14",
}

// WriteGRPC answers a call of gRPC with trailers only
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses). status is that of HTTP. The
// client may retry after Retry-After, if that is set, and not at all if it isn't, unless we are unavailable.
func WriteGRPC(w http.ResponseWriter, status int, message string) {
	h := w.Header()
	code := grpcCodes[status]
	if code == "" {
		code = "2" // UNKNOWN
	}
	if retry := First(h[RetryAfter]); retry != "" {
		h.Set(grpcPushback, retry+"000")
	} else if code != grpcCodes[http.StatusServiceUnavailable] {
		h.Set(grpcPushback, "-1")
	}
	h.Set("Content-Type", grpcType)
	h.Set(grpcStatus, code)
	h.Set(grpcMessage, url.PathEscape(message)) // may encode more than gRPC asks for
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	w.WriteHeader(http.StatusOK)
}

// GRPCStatusOf returns the status of gRPC in a header with its trailers, as [http.ResponseWriter] has them, or -1
// if there is none.
func GRPCStatusOf(h http.Header) int {
	value := First(h[http.TrailerPrefix+grpcStatus]) // a trailer that wasn't announced
	if value == "" {
		value = First(h[grpcStatus])
	}
	if status, err := strconv.ParseUint(value, 10, 31); err == nil {
		return int(status)
	}
	return -1
}
