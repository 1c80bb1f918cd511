package accesslog

import (
	"bytes"
	"cmp"
	"fmt"
	"net/textproto"
	"strings"
)

// presets are named formats, as strings of nginx's log_format.
var presets = map[string]string{
	"common":         `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent`,
	"combined":       `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`,
	"nginx":          `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"`,
	"vhost_common":   `$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent`,
	"vhost_combined": `$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`,
	"traefik":        `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_number "$router" "$upstream" ${request_time_ms}ms`,
}

// guessed are the presets that are tried if no format is named. A line matches only one of them.
var guessed = []string{"combined", "vhost_combined", "common", "vhost_common", "nginx", "traefik"}

// lineFormat reads lines in the format of a format string.
type lineFormat struct {
	pieces []piece
	clock  clock
}

// piece is a variable of a format with the literal text after it.
type piece struct {
	set     func(*lineFormat, *Record, string) bool // nil if the variable is ignored
	literal string
	quoted  bool // whether the value is between quotation marks
}

// variables are the variables of nginx about a request. $http_NAME is another.
var variables = map[string]func(*lineFormat, *Record, string) bool{
	"remote_addr":        func(_ *lineFormat, r *Record, v string) bool { r.ClientIP = v; return isWord(v) },
	"realip_remote_addr": func(_ *lineFormat, r *Record, v string) bool { r.RemoteIP = v; return true },
	"remote_port":        func(_ *lineFormat, r *Record, v string) bool { r.RemotePort = v; return true },
	"remote_user":        func(_ *lineFormat, r *Record, v string) bool { r.User = v; return true },
	"time_local":         (*lineFormat).setTime,
	"time_iso8601":       (*lineFormat).setTime,
	"msec":               (*lineFormat).setTime,
	"request":            (*lineFormat).setRequest,
	"request_method":     func(_ *lineFormat, r *Record, v string) bool { r.Method = v; return true },
	"request_uri":        func(_ *lineFormat, r *Record, v string) bool { r.URI = v; return true },
	"uri":                (*lineFormat).setPath,
	"document_uri":       (*lineFormat).setPath,
	"args":               (*lineFormat).setQuery,
	"query_string":       (*lineFormat).setQuery,
	"server_protocol":    func(_ *lineFormat, r *Record, v string) bool { r.Proto = v; return true },
	"scheme": func(_ *lineFormat, r *Record, v string) bool {
		r.TLS, r.SchemeKnown = v == "https", v != ""
		return true
	},
	"https":       func(_ *lineFormat, r *Record, v string) bool { r.TLS, r.SchemeKnown = v == "on", true; return true },
	"host":        (*lineFormat).setHost,
	"http_host":   (*lineFormat).setHost,
	"server_name": (*lineFormat).setServerName,
	"ssl_server_name": func(_ *lineFormat, r *Record, v string) bool {
		r.TLS, r.SchemeKnown, r.ServerName = v != "", true, v
		return true
	},
	"status":          (*lineFormat).setStatus,
	"body_bytes_sent": (*lineFormat).setSize,
	"bytes_sent":      (*lineFormat).setSize,
	"request_length":  func(_ *lineFormat, r *Record, v string) bool { r.Read = digits(v); return true },
	"request_time":    func(_ *lineFormat, r *Record, v string) bool { r.Duration, _ = parseSeconds([]byte(v)); return true },
	"request_time_ms": func(_ *lineFormat, r *Record, v string) bool { r.Duration, _ = parseUnits([]byte(v), 1e6); return true },
}

// compileFormat parses a format string of nginx's log_format.
func compileFormat(format string) (*lineFormat, error) {
	f := new(lineFormat)
	rest, known := format, 0
	first, rest, found := strings.Cut(rest, "$")
	if !found {
		return nil, fmt.Errorf("format: got %q, which has no variable: expected one such as %s", format,
			presets["combined"])
	}
	f.pieces = append(f.pieces, piece{literal: first})
	for found {
		var name string
		name, rest = cutName(rest)
		if name == "" {
			return nil, fmt.Errorf("format: a $ without a name in %q: expected a variable such as $remote_addr", format)
		}
		p := piece{set: setterOf(name)}
		if p.set != nil {
			known++
		}
		p.literal, rest, found = strings.Cut(rest, "$")
		if found && p.literal == "" {
			return nil,
				fmt.Errorf("format: nothing is between $%s and the variable after it, so nobody can tell where it ends",
					name)
		}
		p.quoted = strings.HasPrefix(p.literal, `"`) && strings.HasSuffix(f.pieces[len(f.pieces)-1].literal, `"`)
		f.pieces = append(f.pieces, p)
	}
	if known == 0 {
		return nil, fmt.Errorf("format: no variable of %q is known: expected those of nginx, such as $remote_addr, $time_local, $request and $status", format)
	}
	return f, nil
}

// cutName cuts off the name of a variable: name or {name}.
func cutName(text string) (name, rest string) {
	if in, ok := strings.CutPrefix(text, "{"); ok {
		name, rest, _ = strings.Cut(in, "}")
		return name, rest
	}
	end := strings.IndexFunc(text, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// setterOf returns the setter of a variable, or nil.
func setterOf(name string) func(*lineFormat, *Record, string) bool {
	if set := variables[name]; set != nil {
		return set
	}
	field, ok := strings.CutPrefix(name, "http_")
	if !ok {
		return nil
	}
	field = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(field, "_", "-"))
	return func(_ *lineFormat, r *Record, v string) bool {
		if v != "" {
			r.Header = append(r.Header, Field{field, v})
		} else {
			r.absent = append(r.absent, field)
		}
		return true
	}
}

func (f *lineFormat) parse(line []byte, r *Record) error {
	rest, ok := bytes.CutPrefix(line, []byte(f.pieces[0].literal))
	if !ok {
		return errFormat
	}
	text := string(rest) // the record refers to its parts
	for i := 1; i < len(f.pieces); i++ {
		p := &f.pieces[i]
		end := p.end(text)
		if end < 0 {
			return errFormat
		}
		value := text[:end]
		if text = text[end+len(p.literal):]; p.set == nil {
			continue
		}
		if value == "-" {
			value = ""
		} else if strings.IndexByte(value, '\\') >= 0 {
			value = unescape(value)
		}
		if !p.set(f, r, value) {
			return errFormat
		}
	}
	if strings.TrimSpace(text) != "" {
		return errFormat
	}
	return r.complete()
}

// end returns the end of a variable's value, or -1.
func (p *piece) end(text string) int {
	if p.literal == "" {
		return len(text)
	}
	if !p.quoted {
		return strings.Index(text, p.literal)
	}
	for from := 0; ; {
		i := strings.Index(text[from:], p.literal)
		if i < 0 {
			return -1
		}
		if from += i; !isEscaped(text[:from]) {
			return from
		}
		from++
	}
}

// isEscaped reports whether a text ends with an odd number of backslashes.
func isEscaped(text string) bool {
	n := len(text) - len(strings.TrimRight(text, `\`))
	return n%2 == 1
}

// unescape reverts nginx's and Apache's escapes: \xXX, \" and the like.
func unescape(text string) string {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b = append(b, text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'r':
			b = append(b, '\r')
		case 'x':
			if i+2 < len(text) && hexDigit(text[i+1]) >= 0 && hexDigit(text[i+2]) >= 0 {
				b = append(b, byte(hexDigit(text[i+1])<<4|hexDigit(text[i+2])))
				i += 2
				continue
			}
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func hexDigit(c byte) int {
	return strings.IndexByte("0123456789abcdef", c|0x20)
}

// digits parses a number. It returns 0 if the text isn't one.
func digits(text string) (n int64) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' || i > 17 {
			return 0
		}
		n = n*10 + int64(text[i]-'0')
	}
	return n
}

func (f *lineFormat) setTime(r *Record, v string) (ok bool) {
	r.Logged, r.Rounded, ok = f.clock.parse([]byte(v))
	return ok
}

// setRequest reads a request line. Other data, such as a TLS handshake sent to a port for HTTP,
// never reaches a handler.
func (f *lineFormat) setRequest(r *Record, v string) bool {
	method, rest, found := strings.Cut(v, " ")
	if !found || !isToken(method) {
		r.noRequest = true
		return true
	}
	r.Method = method
	if i := strings.LastIndexByte(rest, ' '); i >= 0 && strings.HasPrefix(rest[i+1:], "HTTP/") {
		rest, r.Proto = rest[:i], rest[i+1:]
	}
	r.URI = rest
	return true
}

// isToken reports whether a text is an HTTP token, like a method.
func isToken(text string) bool {
	return text != "" && strings.IndexFunc(text, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) < 0
}

func (f *lineFormat) setPath(r *Record, v string) bool {
	if r.URI == "" || r.URI[0] == '?' {
		r.URI = v + r.URI
	}
	return true
}

func (f *lineFormat) setQuery(r *Record, v string) bool {
	if v != "" && !strings.Contains(r.URI, "?") {
		r.URI += "?" + v
	}
	return true
}

// isWord reports whether a text is at most one word.
func isWord(text string) bool { return !strings.ContainsAny(text, " \t\"") }

// setHost reads a host with an optional port.
func (f *lineFormat) setHost(r *Record, v string) bool {
	r.Host = v
	if strings.HasSuffix(v, ":443") {
		r.TLS, r.SchemeKnown = true, true
	}
	return isWord(v)
}

func (f *lineFormat) setServerName(r *Record, v string) bool {
	r.Host = cmp.Or(r.Host, v)
	return true
}

func (f *lineFormat) setSize(r *Record, v string) bool {
	r.Size = digits(v)
	return v == "" || r.Size > 0 || strings.Trim(v, "0") == ""
}

func (f *lineFormat) setStatus(r *Record, v string) bool {
	n := digits(v)
	r.Status = int(n)
	return v == "" || n >= 1 && n <= 999
}
