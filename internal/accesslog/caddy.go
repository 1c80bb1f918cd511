package accesslog

import (
	"bytes"
	"net/textproto"
	"time"

	"github.com/valyala/fastjson"
)

// caddyJSON reads the JSON that Caddy writes. journald, Docker or Caddy's format console may
// precede it with a prefix.
type caddyJSON struct {
	json  fastjson.Parser
	clock clock
	names map[string]string // canonical names of header fields, by their written forms
	room  []byte            // the text of a number
}

// timeKeys are the keys of a line's time. The first is Caddy's own.
var timeKeys = []string{"ts", "time", "timestamp", "@timestamp"}

// accessLogger is the prefix of Caddy's loggers of requests.
const accessLogger = "http.log.access"

func (c *caddyJSON) parse(line []byte, r *Record) error {
	begin := bytes.IndexByte(line, '{')
	if begin < 0 {
		return errFormat
	}
	object, err := c.json.ParseBytes(line[begin:])
	if err != nil {
		return errFormat
	}
	request := object.Get("request")
	logger := object.GetStringBytes("logger")
	switch {
	case logger != nil && !bytes.HasPrefix(logger, []byte(accessLogger)):
		return errOther
	case request == nil || request.Type() != fastjson.TypeObject:
		if !object.Exists("RequestMethod") && (object.Exists("level") || logger != nil) {
			return errOther
		}
		return errFormat
	}
	c.time(object, line[:begin], r)
	r.Duration = c.duration(object.Get("duration"))
	r.Status = object.GetInt("status")
	r.Size, r.Read = object.GetInt64("size"), object.GetInt64("bytes_read")
	set := &r.text
	set.set(&r.User, object.GetStringBytes("user_id"))
	if own := object.Get("rate_limit"); own != nil {
		set.set(&r.Refused.Zone, own.GetStringBytes("zone"))
		set.set(&r.Refused.Limit, own.GetStringBytes("limit"))
		set.set(&r.Refused.Outcome, own.GetStringBytes("outcome"))
	}
	c.request(request, r)
	set.done()
	return r.complete()
}

// request reads the request's fields.
func (c *caddyJSON) request(request *fastjson.Value, r *Record) {
	set := &r.text
	set.set(&r.RemoteIP, request.GetStringBytes("remote_ip"))
	set.set(&r.RemotePort, request.GetStringBytes("remote_port"))
	set.set(&r.ClientIP, request.GetStringBytes("client_ip"))
	set.set(&r.Method, request.GetStringBytes("method"))
	set.set(&r.Host, request.GetStringBytes("host"))
	set.set(&r.URI, request.GetStringBytes("uri"))
	set.set(&r.Proto, request.GetStringBytes("proto"))
	r.SchemeKnown = true
	if tls := request.Get("tls"); tls != nil && tls.Type() == fastjson.TypeObject {
		r.TLS = true
		set.set(&r.ServerName, tls.GetStringBytes("server_name"))
	}
	headers := request.GetObject("headers")
	if headers == nil {
		return
	}
	r.AllFields = true
	if cap(r.Header) < maxFields { // avoids reallocation while filling
		r.Header = make([]Field, 0, maxFields)
	}
	headers.Visit(func(name []byte, value *fastjson.Value) {
		values, err := value.Array()
		if err != nil {
			c.field(r, name, value)
			return
		}
		for _, v := range values {
			c.field(r, name, v)
		}
	})
}

// maxFields bounds how many header fields of a request are read.
const maxFields = 64

// redacted is Caddy's replacement for a hidden value.
const redacted = "REDACTED"

func (c *caddyJSON) field(r *Record, name []byte, value *fastjson.Value) {
	text, err := value.StringBytes()
	if err != nil || len(r.Header) == maxFields {
		r.AllFields = false
		return
	}
	canonical := c.canonical(name)
	if string(text) == redacted {
		r.Hidden = append(r.Hidden, canonical)
		return
	}
	r.Header = append(r.Header, Field{Name: canonical})
	r.text.set(&r.Header[len(r.Header)-1].Value, text)
}

// maxNames bounds how many names of header fields are cached.
const maxNames = 1000

func (c *caddyJSON) canonical(name []byte) string {
	if known, ok := c.names[string(name)]; ok {
		return known
	}
	canonical := textproto.CanonicalMIMEHeaderKey(string(name))
	if c.names == nil {
		c.names = make(map[string]string)
	}
	if len(c.names) < maxNames {
		c.names[string(name)] = canonical
	}
	return canonical
}

// time reads the time of the line: from its JSON, or from the prefix as in the format console.
func (c *caddyJSON) time(object *fastjson.Value, before []byte, r *Record) {
	for _, key := range timeKeys {
		value := object.Get(key)
		if value == nil {
			continue
		}
		text := value.GetStringBytes()
		if value.Type() == fastjson.TypeNumber {
			text = c.number(value)
		}
		r.Logged, r.Rounded, _ = c.clock.parse(text)
		return
	}
	if first, _, found := bytes.Cut(before, []byte("\t")); found {
		r.Logged, r.Rounded, _ = c.clock.parse(first)
	}
}

// number returns the text of a value, valid until the next call.
func (c *caddyJSON) number(value *fastjson.Value) []byte {
	c.room = value.MarshalTo(c.room[:0])
	return c.room
}

// duration reads the duration of a request. An integer that would be more than a day of seconds is
// nanoseconds.
func (c *caddyJSON) duration(value *fastjson.Value) int64 {
	if value == nil {
		return 0
	}
	if value.Type() == fastjson.TypeString {
		d, _ := time.ParseDuration(string(value.GetStringBytes()))
		return min(max(int64(d), 0), maxDuration)
	}
	text := c.number(value)
	if !bytes.ContainsAny(text, ".eE") && len(text) > 5 {
		d, _ := parseUnits(text, 1)
		return d
	}
	d, _ := parseSeconds(text)
	return d
}
