package routing

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"go.uber.org/zap/zapcore"
)

// This file reads what Caddy doesn't export, or doesn't in all versions.

// MayObserve reports whether anything may observe an event of Caddy.
func MayObserve(app *caddyevents.App, event string) bool {
	if newer, ok := any(app).(interface{ ShouldEmit(string) bool }); ok {
		return newer.ShouldEmit(event)
	}
	subscriptions := reflect.ValueOf(app).Elem().FieldByName("subscriptions") // before Caddy 2.11.6
	return !subscriptions.IsValid() || subscriptions.MapIndex(reflect.ValueOf(event)).IsValid() ||
		subscriptions.MapIndex(anyEvent).IsValid() || caddy.Log().Core().Enabled(zapcore.DebugLevel)
}

var anyEvent = reflect.ValueOf("")

// TrustsProxies reports whether a server has trusted proxies. Once they are provisioned, only an
// unexported field tells.
func TrustsProxies(server *caddyhttp.Server) bool {
	source := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	return server.TrustedProxiesUnix || server.TrustedProxiesRaw != nil ||
		source.IsValid() && source.Kind() == reflect.Interface && !source.IsNil()
}

// ProxyProtocol returns the networks that may tell a server the addresses of connections, and whether any may.
func ProxyProtocol(server *caddyhttp.Server) (from []string, speaks bool) {
	found := func(wrapper reflect.Value) {
		speaks, from = true, append(from, strings.Fields(strings.Trim(fmt.Sprint(wrapper.FieldByName("Allow")), "[]"))...)
		if slices.Contains([]string{"USE", "REQUIRE", "1", "3"}, fmt.Sprint(wrapper.FieldByName("FallbackPolicy"))) { // a number once it is loaded
			from = append(from, "0.0.0.0/0")
		}
	}
	wrappers := reflect.ValueOf(server).Elem().FieldByName("listenerWrappers")
	for i := 0; wrappers.Kind() == reflect.Slice && i < wrappers.Len(); i++ {
		if wrapper := wrappers.Index(i); !wrapper.IsNil() && strings.Contains(wrapper.Elem().Type().String(), "proxyprotocol") {
			found(reflect.Indirect(wrapper.Elem()))
		}
	}
	for _, raw := range server.ListenerWrappersRaw {
		var wrapper struct {
			Wrapper        string
			FallbackPolicy string `json:"fallback_policy"`
			Allow          []string
		}
		if json.Unmarshal(raw, &wrapper) == nil && wrapper.Wrapper == "proxy_protocol" { // loading reports any error
			found(reflect.ValueOf(wrapper))
		}
	}
	return from, speaks
}

// IncludedLogs returns the loggers that the logs of a config include by name.
func IncludedLogs(ctx caddy.Context) (loggers []string) {
	config := reflect.ValueOf(ctx).FieldByName("cfg")
	if !config.IsValid() || config.Kind() != reflect.Pointer || config.IsNil() {
		return nil
	}
	logging := config.Elem().FieldByName("Logging")
	if !logging.IsValid() || logging.IsNil() {
		return nil
	}
	for logs := logging.Elem().FieldByName("Logs").MapRange(); logs.Next(); {
		include := logs.Value().Elem().FieldByName("Include")
		for i := range include.Len() {
			loggers = append(loggers, include.Index(i).String())
		}
	}
	return loggers
}

// ListenerWrappers returns the names of a server's listener wrappers in their order, while these are being
// provisioned. Caddy forgets them then.
func ListenerWrappers(server *caddyhttp.Server) (names []string) {
	for _, raw := range server.ListenerWrappersRaw {
		var named struct {
			Wrapper string `json:"wrapper"`
		}
		_ = json.Unmarshal(raw, &named) // loading reports any error
		names = append(names, named.Wrapper)
	}
	return names
}

// ServersAt returns the addresses of those options `servers` of a Caddyfile that tell who clients are or have listener
// wrappers.
func ServersAt(servers any) (addresses []string) {
	options := reflect.ValueOf(servers)
	for i := 0; options.IsValid() && i < options.Len(); i++ {
		has := func(field string) bool {
			value := options.Index(i).FieldByName(field)
			return value.IsValid() && !value.IsZero()
		}
		if has("ListenerAddress") && (has("ListenerWrappersRaw") || has("TrustedProxiesRaw") || has("TrustedProxiesUnix") || has("ClientIPHeaders")) {
			addresses = append(addresses, options.Index(i).FieldByName("ListenerAddress").String())
		}
	}
	return addresses
}

// TrustedRanges returns the networks whose proxies a server trusts, if its config lists them.
func TrustedRanges(server *caddyhttp.Server) (ranges []string) {
	source := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	if !source.IsValid() || source.Kind() != reflect.Interface || source.IsNil() {
		return nil
	}
	list := reflect.Indirect(source.Elem()).FieldByName("Ranges")
	for i := 0; list.IsValid() && i < list.Len(); i++ {
		ranges = append(ranges, list.Index(i).String())
	}
	return ranges
}

// ServersWriter returns the place of the server's own writer among those around it, of which w is the outermost. It is
// nil if none of them tells it.
func ServersWriter(w http.ResponseWriter) (place *http.ResponseWriter) {
	for {
		if inner := innerWriter(w); inner != nil {
			place, w = inner, *inner
		} else if wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
			w = wrapper.Unwrap()
		} else {
			return place
		}
	}
}

// innerWriter returns the exported field of a writer, or of a struct in it, that holds the writer within; or nil.
func innerWriter(w http.ResponseWriter) *http.ResponseWriter {
	v := reflect.ValueOf(w)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	field, ok := v.Elem().Type().FieldByName("ResponseWriter")
	if !ok || field.Type != reflect.TypeFor[http.ResponseWriter]() {
		return nil
	}
	inner, err := v.Elem().FieldByIndexErr(field.Index)
	if err != nil || !inner.CanSet() || inner.IsNil() {
		return nil
	}
	return inner.Addr().Interface().(*http.ResponseWriter)
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
