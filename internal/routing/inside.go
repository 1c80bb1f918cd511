package routing

import (
	"net/http"
	"reflect"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
)

// This file reads what Caddy doesn't export.

// TrustsProxies reports whether a server has trusted proxies. Once they are provisioned, only an
// unexported field tells.
func TrustsProxies(server *caddyhttp.Server) bool {
	source := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	return server.TrustedProxiesUnix || server.TrustedProxiesRaw != nil ||
		source.IsValid() && source.Kind() == reflect.Interface && !source.IsNil()
}

var headersPackage = reflect.TypeFor[headers.Handler]().PkgPath()

// DeferredWriter returns the exported part of a writer of Caddy's header directive, or nil. The type
// isn't exported.
func DeferredWriter(w http.ResponseWriter) *caddyhttp.ResponseWriterWrapper {
	if t := reflect.TypeOf(w); t.Kind() != reflect.Pointer || t.Elem().PkgPath() != headersPackage {
		return nil
	}
	inner := reflect.ValueOf(w).Elem().FieldByName("ResponseWriterWrapper")
	if !inner.IsValid() {
		return nil
	}
	wrapper, _ := inner.Interface().(*caddyhttp.ResponseWriterWrapper)
	return wrapper
}
