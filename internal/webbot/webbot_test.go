package webbot

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// The key of RFC 9421, appendix B.1.4.
const (
	rfcKey = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
	rfcID  = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
)

var now = time.Unix(1_735_690_000, 0)

// private returns the same key for the same number.
func private(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey { return private(n).Public().(ed25519.PublicKey) }

// open returns a file with the RFC's key and the first two of ours.
func open(t testing.TB) *Keys {
	t.Helper()
	x := func(n byte) string { return base64.RawURLEncoding.EncodeToString(public(n)) }
	path := filepath.Join(t.TempDir(), "keys.json")
	text := fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": %q}, {"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": %q, "use": "sig"},
		{"kty": "OKP", "crv": "Ed25519", "kid": "2", "name": "two", "x": %q}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}`, rfcKey, x(1), x(2))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := Open(path, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func request() *Message {
	return &Message{
		Method: "GET", Scheme: "https", Authority: "Example.com:443", Target: "/a%20b?c=d",
		Header: map[string][]string{"Accept": {"text/html"}, "X-Dict": {"a=1, b=2;x", "c"}},
	}
}

// signature is what a bot sends.
type signature struct {
	label, covers, params string
	by                    byte // the number of the key
}

// good returns a signature that is valid now.
func good() signature {
	return signature{label: "sig1", covers: `("@authority")`, params: times(-10, 300) + id(1) + `;tag="web-bot-auth"`, by: 1}
}

func id(n byte) string { return fmt.Sprintf(`;keyid=%q`, thumbprint(public(n))) }

// times returns parameters in seconds from now.
func times(created, expires int64) string {
	return fmt.Sprintf(";created=%d;expires=%d", now.Unix()+created, now.Unix()+expires)
}

// sign adds signatures to a request. A component that can't be signed is signed as if it were empty.
func sign(t testing.TB, m *Message, signatures ...signature) *Message {
	t.Helper()
	for _, s := range signatures {
		d, err := httpsfv.UnmarshalDictionary([]string{s.label + "=" + s.covers + s.params})
		if err != nil {
			t.Fatal(err)
		}
		input, _ := member[httpsfv.InnerList](d, s.label)
		base, _ := m.base(input)
		text := base64.StdEncoding.EncodeToString(ed25519.Sign(private(s.by), []byte(base)))
		m.Header["Signature-Input"] = append(m.Header["Signature-Input"], s.label+"="+s.covers+s.params)
		m.Header["Signature"] = append(m.Header["Signature"], s.label+"=:"+text+":")
	}
	return m
}

// RFC 9421, appendix B.2.6. It isn't a signature of Web Bot Auth, so only its parts are verified.
func TestSignatureOfRFC9421(t *testing.T) {
	m := &Message{Method: "POST", Scheme: "https", Authority: "example.com", Target: "/foo?param=Value&Pet=dog", Header: map[string][]string{
		"Date": {"Tue, 20 Apr 2021 02:07:55 GMT"}, "Content-Type": {"application/json"}, "Content-Length": {"18"},
		"Signature-Input": {`sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`},
	}}
	input, _ := member[httpsfv.InnerList](m.dictionary("signature-input"), "sig-b26")
	base, ok := m.base(input)
	want := `"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": ("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`
	if !ok || base != want {
		t.Errorf("the base is %v:\n%s", ok, base)
	}
	key, _ := base64.RawURLEncoding.DecodeString(rfcKey)
	text, _ := base64.StdEncoding.DecodeString("wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==")
	if !ed25519.Verify(key, []byte(base), text) {
		t.Error("the signature isn't valid")
	}
	if id := thumbprint(key); id != rfcID {
		t.Errorf("the thumbprint is %s", id)
	}
}

func TestComponents(t *testing.T) {
	m := request()
	m.Header["Accept"] = []string{" text/html\t", "*/*"}
	for covers, want := range map[string]string{
		`"@authority"`:     "example.com",
		`"@target-uri"`:    "https://example.com/a%20b?c=d",
		`"@path"`:          "/a%20b",
		`"@query"`:         "?c=d",
		`"accept"`:         "text/html, */*",
		`"x-dict"`:         "a=1, b=2;x, c",
		`"x-dict";key="b"`: "2;x",
		`"x-dict";key="c"`: "?1",
	} {
		item, err := httpsfv.UnmarshalItem([]string{covers})
		if got, ok := m.component(item); err != nil || !ok || got != want {
			t.Errorf("%s: got %q, %v, want %q", covers, got, ok, want)
		}
	}
	m.Scheme = "http"
	for authority, want := range map[string]string{"example.com:443": "example.com:443", "example.com:80": "example.com", "[::1]": "[::1]", "a:8080": "a:8080"} {
		if m.Authority = authority; m.authority() != want {
			t.Errorf("%s: got %s", authority, m.authority())
		}
	}
}

// The draft of Web Bot Auth, appendix A.2.3, and a signature of its dictionary form that is valid for
// a hundred years, which is too long for us.
func TestSignaturesOfWebBotAuth(t *testing.T) {
	keys := open(t)
	m := &Message{Method: "GET", Scheme: "https", Authority: "example.com", Target: "/", Header: map[string][]string{
		"Signature-Agent": {`"https://signature-agent.test"`},
		"Signature-Input": {`sig2=("@authority" "signature-agent");created=1735689600;keyid="` + rfcID + `";alg="ed25519";expires=1735693200;nonce="e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==";tag="web-bot-auth"`},
		"Signature":       {"sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:"},
	}}
	if !keys.Verify(m, nil, now) {
		t.Error("the signature of the draft isn't valid")
	}
	m.Header = map[string][]string{
		"Signature-Agent": {`agent2="https://signature-agent.test"`},
		"Signature-Input": {`sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="` + rfcID + `";alg="ed25519";expires=4889289600;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";tag="web-bot-auth"`},
		"Signature":       {"sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:"},
	}
	input, _ := member[httpsfv.InnerList](m.dictionary("signature-input"), "sig2")
	text, _ := member[httpsfv.Item](m.dictionary("signature"), "sig2")
	if !keys.verify(m, input, text, nil) || !isSufficient(input, m) {
		t.Error("the signature of the dictionary form isn't valid")
	}
	if keys.Verify(m, nil, now) {
		t.Error("a signature for a hundred years is valid")
	}
}

func TestGoodSignaturesAreValid(t *testing.T) {
	keys := open(t)
	for name, change := range map[string]func(*signature, *Message){
		"as it is":      func(*signature, *Message) {},
		"another label": func(s *signature, _ *Message) { s.label = "x" },
		"all components": func(s *signature, _ *Message) {
			s.covers = `("@target-uri" "@method" "@path" "@query" "@scheme" "@authority" "accept" "x-dict" "x-dict";key="b" "x-dict";key="c")`
		},
		"another key": func(s *signature, _ *Message) { s.by, s.params = 2, strings.Replace(s.params, id(1), id(2), 1) },
		"a nonce":     func(s *signature, _ *Message) { s.params += `;nonce="x";alg="ed25519";x=?0` },
		"a clock behind": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, times(-10, 300), times(60, 300), 1)
		},
		"a clock ahead": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, times(-10, 300), times(-300, -60), 1)
		},
		"a day": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, times(-10, 300), times(-10, 86_390), 1)
		},
		"an agent": func(s *signature, m *Message) {
			m.Header["Signature-Agent"] = []string{"https://a.test"}
			s.covers = `("@authority" "signature-agent")`
		},
		"no query":         func(s *signature, m *Message) { m.Target, s.covers = "/", `("@authority" "@query")` },
		"an absolute URI":  func(_ *signature, m *Message) { m.Target = "https://example.com/" },
		"sixteen elements": func(s *signature, m *Message) { s.covers = many(m, 16) },
	} {
		s, m := good(), request()
		change(&s, m)
		if !keys.Verify(sign(t, m, s), nil, now) {
			t.Errorf("%s: isn't valid", name)
		}
	}
}

// many returns so many components, with their fields in the message.
func many(m *Message, n int) string {
	covers := `("@authority"`
	for i := range n - 1 {
		m.Header[fmt.Sprintf("X%d", i)] = []string{"y"}
		covers += fmt.Sprintf(` "x%d"`, i)
	}
	return covers + ")"
}

func TestBadSignaturesAreNot(t *testing.T) {
	keys := open(t)
	for name, change := range map[string]func(*signature, *Message){
		"expired": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, times(-10, 300), times(-300, -61), 1)
		},
		"future": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, times(-10, 300), times(61, 300), 1)
		},
		"too long": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, times(-10, 300), times(-10, 86_391), 1)
		},
		"backward": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, times(-10, 300), times(10, -10), 1)
		},
		"no times":    func(s *signature, _ *Message) { s.params = strings.Replace(s.params, times(-10, 300), "", 1) },
		"no expiry":   func(s *signature, _ *Message) { s.params = strings.Replace(s.params, "expires", "x", 1) },
		"no creation": func(s *signature, _ *Message) { s.params = strings.Replace(s.params, "created", "x", 1) },
		"times as text": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, times(-10, 300), `;created="1";expires="2"`, 1)
		},
		"no tag":      func(s *signature, _ *Message) { s.params = strings.Replace(s.params, "tag", "x", 1) },
		"another tag": func(s *signature, _ *Message) { s.params = strings.Replace(s.params, "web-bot-auth", "web-bot", 1) },
		"a token as tag": func(s *signature, _ *Message) {
			s.params = strings.Replace(s.params, `"web-bot-auth"`, "web-bot-auth", 1)
		},
		"another algorithm":    func(s *signature, _ *Message) { s.params += `;alg="hmac-sha256"` },
		"a token as algorithm": func(s *signature, _ *Message) { s.params += `;alg=ed25519` },
		"wrong key":            func(s *signature, _ *Message) { s.by = 2 },
		"unknown key":          func(s *signature, _ *Message) { s.by, s.params = 3, strings.Replace(s.params, id(1), id(3), 1) },
		"no key":               func(s *signature, _ *Message) { s.params = strings.Replace(s.params, "keyid", "x", 1) },
		"kid as key id":        func(s *signature, _ *Message) { s.params = strings.Replace(s.params, id(1), `;keyid="one"`, 1) },
		"nothing covered":      func(s *signature, _ *Message) { s.covers = "()" },
		"no site covered":      func(s *signature, _ *Message) { s.covers = `("@method" "@path")` },
		"agent not covered":    func(_ *signature, m *Message) { m.Header["Signature-Agent"] = []string{"https://a.test"} },
		"long agent":           func(_ *signature, m *Message) { m.Header["Signature-Agent"] = []string{strings.Repeat("x", 5000)} },
		"unknown component":    func(s *signature, _ *Message) { s.covers = `("@authority" "@request-target")` },
		"query parameter":      func(s *signature, _ *Message) { s.covers = `("@authority" "@query-param";name="c")` },
		"request parameter":    func(s *signature, _ *Message) { s.covers = `("@authority";req)` },
		"component with key":   func(s *signature, _ *Message) { s.covers = `("@authority";key="a")` },
		"field as bytes":       func(s *signature, _ *Message) { s.covers = `("@authority" "accept";bs)` },
		"field in capitals":    func(s *signature, _ *Message) { s.covers = `("@authority" "Accept")` },
		"missing field":        func(s *signature, _ *Message) { s.covers = `("@authority" "cookie")` },
		"missing member":       func(s *signature, _ *Message) { s.covers = `("@authority" "x-dict";key="d")` },
		"no dictionary":        func(s *signature, _ *Message) { s.covers = `("@authority" "accept";key="text/html")` },
		"number as key":        func(s *signature, _ *Message) { s.covers = `("@authority" "x-dict";key=1)` },
		"component twice":      func(s *signature, _ *Message) { s.covers = `("@authority" "@authority")` },
		"token as component":   func(s *signature, _ *Message) { s.covers = `("@authority" accept)` },
		"no inner list":        func(s *signature, _ *Message) { s.covers = `"@authority"` },
		"line break": func(s *signature, m *Message) {
			m.Header["Accept"], s.covers = []string{"a\nb"}, `("@authority" "accept")`
		},
		"path of absolute URI": func(s *signature, m *Message) { m.Target, s.covers = "https://example.com/", `("@authority" "@path")` },
		"long field": func(s *signature, m *Message) {
			m.Header["Accept"], s.covers = []string{strings.Repeat("x", 4097)}, `("@authority" "accept")`
		},
		"long path": func(s *signature, m *Message) {
			m.Target, s.covers = "/"+strings.Repeat("x", 4096), `("@authority" "@path")`
		},
		"long input":           func(s *signature, _ *Message) { s.params += `;nonce="` + strings.Repeat("x", 4096) + `"` },
		"seventeen components": func(s *signature, m *Message) { s.covers = many(m, 17) },
		"no host":              func(_ *signature, m *Message) { m.Authority = "" },
	} {
		s, m := good(), request()
		change(&s, m)
		if keys.Verify(sign(t, m, s), nil, now) {
			t.Errorf("%s: is valid", name)
		}
	}
}

func TestASignatureIsForOneRequest(t *testing.T) {
	keys := open(t)
	for name, change := range map[string]func(*Message){
		"method":       func(m *Message) { m.Method = "POST" },
		"scheme":       func(m *Message) { m.Scheme = "http" },
		"authority":    func(m *Message) { m.Authority = "example.net" },
		"port":         func(m *Message) { m.Authority = "example.com:80" },
		"path":         func(m *Message) { m.Target = "/a%20c?c=d" },
		"spelling":     func(m *Message) { m.Target = "/a%20%62?c=d" },
		"query":        func(m *Message) { m.Target = "/a%20b?c=e" },
		"field":        func(m *Message) { m.Header["Accept"] = []string{"text/html", "*/*"} },
		"member":       func(m *Message) { m.Header["X-Dict"] = []string{"a=1, b=3"} },
		"signature":    func(m *Message) { m.Header["Signature"] = []string{"sig1=:AAAA:"} },
		"no bytes":     func(m *Message) { m.Header["Signature"] = []string{"sig1=1"} },
		"other label":  func(m *Message) { m.Header["Signature"][0] = "x" + m.Header["Signature"][0] },
		"no signature": func(m *Message) { delete(m.Header, "Signature") },
		"parameter":    func(m *Message) { m.Header["Signature-Input"][0] += ";x=1" },
		"broken input": func(m *Message) { m.Header["Signature-Input"] = append(m.Header["Signature-Input"], "(") },
	} {
		s := good()
		s.covers = `("@method" "@scheme" "@authority" "@path" "@query" "accept" "x-dict";key="b")`
		m := sign(t, request(), s)
		if !keys.Verify(m, nil, now) {
			t.Fatalf("%s: isn't valid before", name)
		}
		if change(m); keys.Verify(m, nil, now) {
			t.Errorf("%s: is valid after a change", name)
		}
	}
}

func TestTwoSignaturesOfWebBotAuthAreExamined(t *testing.T) {
	keys := open(t)
	bad, other := good(), good()
	bad.label, bad.by = "bad", 2
	other.label, other.params = "proxy", strings.Replace(other.params, "web-bot-auth", "proxy", 1)
	third := bad
	third.label = "bad2"
	twice := bad // a field with a label twice has the second one only
	twice.label = "sig1"
	for _, c := range []struct {
		name string
		in   []signature
		want bool
	}{
		{"the second is good", []signature{bad, good()}, true},
		{"the first is good", []signature{good(), bad}, true},
		{"the third is good", []signature{bad, third, good()}, false},
		{"two are for other purposes", []signature{other, bad, good()}, true},
		{"a label twice, the last is good", []signature{twice, good()}, true},
		{"a label twice, the last is bad", []signature{good(), twice}, false},
	} {
		if got := keys.Verify(sign(t, request(), c.in...), nil, now); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestNamesOfKeys(t *testing.T) {
	keys := open(t)
	second := good()
	second.by, second.params = 2, strings.Replace(second.params, id(1), id(2), 1)
	for _, c := range []struct {
		s     signature
		names []string
		want  bool
	}{
		{good(), []string{"one"}, true},
		{good(), []string{"two", "one"}, true},
		{good(), []string{"two"}, false},
		{good(), []string{""}, false},
		{second, []string{"two"}, true},
		{second, []string{"2"}, true},
		{second, []string{"one"}, false},
	} {
		if got := keys.Verify(sign(t, request(), c.s), c.names, now); got != c.want {
			t.Errorf("%v of key %d: got %v", c.names, c.s.by, got)
		}
	}
	if !keys.Has("two") || !keys.Has("one") || keys.Has("three") || keys.Has("") {
		t.Error("the names in the file are wrong")
	}
}

func TestKeys(t *testing.T) {
	one := `{"kty": "OKP", "crv": "Ed25519", "x": "` + rfcKey + `"}`
	list := func(n int, key string) string {
		return `{"keys": [` + strings.TrimSuffix(strings.Repeat(key+",", n), ",") + `]}`
	}
	for text, want := range map[string]string{
		list(1, one):    "",
		list(1000, one): "",
		list(1001, one): "got 1001 keys",
		"":              "unexpected end of JSON",
		"<html>":        "expected a JWK Set, such as",
		"{}":            "there are no Ed25519 keys",
		one:             "there are no Ed25519 keys",
		list(1, `{"kty": "EC", "crv": "P-256", "x": "AA"}`):                                "there are no Ed25519 keys",
		list(1, `{"kty": "OKP", "crv": "Ed25519"}`):                                        `key 1: x: got ""`,
		list(1, one+`, {"kty": "OKP", "crv": "Ed25519", "x": "`+rfcKey[1:]+`"}`):           "key 2: x: got",
		list(1, `{"kty": "OKP", "crv": "Ed25519", "x": "`+strings.Repeat("x", 999)+`"}`):   "expected 32 bytes",
		list(1, `{"kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P/89iXES9+vFgrIy29clF9CC"}`): "in base64url",
	} {
		keys, err := parseKeys([]byte(text))
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.80s: got %v, want %s", text, err, want)
			}
		} else if err != nil || len(*keys) != 1 || (*keys)[rfcID].public == nil {
			t.Errorf("%.80s: got %v, %v", text, keys, err)
		}
	}
}

func TestAKeyTwiceHasBothNames(t *testing.T) {
	one := `{"kty": "OKP", "crv": "Ed25519", "x": "` + rfcKey + `", "kid": `
	keys, err := parseKeys([]byte(`{"keys": [` + one + `"a"}, ` + one + `"b"}]}`))
	if err != nil || !slices.Equal((*keys)[rfcID].names, []string{"a", "b"}) {
		t.Errorf("got %v, %v", keys, err)
	}
}

func TestTheLastGoodKeysStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(n byte) string {
		return fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "key %d", "x": %q}]}`, n, base64.RawURLEncoding.EncodeToString(public(n)))
	}
	if _, err := Open(path, nil); err == nil || !strings.Contains(err.Error(), "there is no file") {
		t.Errorf("a missing file: %v", err)
	}
	write("{}")
	if _, err := Open(path, nil); err == nil || !strings.Contains(err.Error(), "no Ed25519 keys") {
		t.Errorf("a broken file: %v", err)
	}
	write(file(1))
	var changes []error
	keys, err := Open(path, func(err error) { changes = append(changes, err) })
	if err != nil {
		t.Fatal(err)
	}
	first, second := good(), good()
	second.by, second.params = 2, strings.Replace(second.params, id(1), id(2), 1)
	valid := func(s signature) bool { return keys.Verify(sign(t, request(), s), nil, now) }
	write("<html>Sorry!</html>")
	if keys.file.Look(); !valid(first) || len(changes) != 1 || changes[0] == nil {
		t.Errorf("after a broken file: %v", changes)
	}
	write(file(2) + "\n")
	if keys.file.Look(); valid(first) || !valid(second) || len(changes) != 2 || changes[1] != nil {
		t.Errorf("after a good file: %v", changes)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if keys.file.Look(); !valid(second) || len(changes) != 3 || changes[2] == nil {
		t.Errorf("after a removed file: %v", changes)
	}
}

// Nobody without a key writes a valid signature, and nothing that anybody writes panics.
func FuzzVerify(f *testing.F) {
	keys := open(f)
	s := good()
	s.covers = `("@authority" "@target-uri" "accept" "signature-agent";key="a")`
	m := request()
	m.Header["Signature-Agent"] = []string{`a="https://a.test"`}
	sign(f, m, s)
	known := m.Header["Signature"][0]
	f.Add(m.Header["Signature-Input"][0], known, m.Header["Signature-Agent"][0], m.Authority, m.Target)
	f.Add(`a=("@authority" "x";sf "x";key="y");created=-1;expires=9.5;tag=@1;alg=%"x"`, "a=:AA==:;x, b", "a, b=(1 2);c", "", "*")
	f.Fuzz(func(t *testing.T, input, text, agent, authority, target string) {
		m := request()
		m.Authority, m.Target = authority, target
		m.Header["Signature-Input"], m.Header["Signature"], m.Header["Signature-Agent"] = []string{input}, []string{text}, []string{agent}
		if keys.Verify(m, nil, now) && !strings.Contains(text, strings.TrimPrefix(known, "sig1=")) {
			t.Errorf("a forged signature is valid: %q %q %q", input, text, agent)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	keys := open(b)
	m := sign(b, request(), good())
	b.ReportAllocs()
	for b.Loop() {
		if !keys.Verify(m, nil, now) {
			b.Fatal("isn't valid")
		}
	}
}
