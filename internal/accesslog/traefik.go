package accesslog

import (
	"bytes"
	"strings"

	"github.com/valyala/fastjson"
)

// traefikJSON reads the JSON that Traefik writes.
type traefikJSON struct {
	json  fastjson.Parser
	clock clock
	names caddyJSON // names of header fields
}

// traefikField is the prefix of header fields in Traefik's logs.
const traefikField = "request_"

func (t *traefikJSON) parse(line []byte, r *Record) error {
	object, err := t.json.ParseBytes(line)
	if err != nil {
		return errFormat
	}
	if !object.Exists("RequestMethod") {
		if object.Exists("level") {
			return errOther
		}
		return errFormat
	}
	set := &r.text
	set.set(&r.ClientIP, object.GetStringBytes("ClientHost"))
	set.set(&r.RemotePort, object.GetStringBytes("ClientPort"))
	set.set(&r.Method, object.GetStringBytes("RequestMethod"))
	set.set(&r.Host, object.GetStringBytes("RequestHost"))
	set.set(&r.URI, object.GetStringBytes("RequestPath"))
	set.set(&r.Proto, object.GetStringBytes("RequestProtocol"))
	if user := object.GetStringBytes("ClientUsername"); string(user) != "-" {
		set.set(&r.User, user)
	}
	scheme := object.GetStringBytes("RequestScheme")
	r.TLS, r.SchemeKnown = string(scheme) == "https", len(scheme) > 0
	r.Status = object.GetInt("DownstreamStatus")
	r.Size, r.Read = object.GetInt64("DownstreamContentSize"), object.GetInt64("RequestContentSize")
	r.Duration = min(max(object.GetInt64("Duration"), 0), maxDuration)
	t.times(object, r)
	t.fields(object, r)
	set.done()
	return r.complete()
}

// times reads the request's arrival and the time of its line.
func (t *traefikJSON) times(object *fastjson.Value, r *Record) {
	for _, key := range []string{"StartUTC", "StartLocal"} {
		if at, _, ok := t.clock.parse(object.GetStringBytes(key)); ok {
			r.Arrived, r.Logged = at, at+r.Duration
			return
		}
	}
	r.Logged, r.Rounded, _ = t.clock.parse(object.GetStringBytes("time"))
}

// fields reads the header fields that Traefik logs.
func (t *traefikJSON) fields(object *fastjson.Value, r *Record) {
	all, err := object.Object()
	if err != nil {
		return
	}
	if cap(r.Header) < maxFields {
		r.Header = make([]Field, 0, maxFields)
	}
	all.Visit(func(key []byte, value *fastjson.Value) {
		if name, ok := bytes.CutPrefix(key, []byte(traefikField)); ok {
			t.names.field(r, name, value)
		}
	})
	r.AllFields = false
	if cut := strings.IndexByte(r.URI, ' '); cut >= 0 {
		r.URI = r.URI[:cut]
	}
}
