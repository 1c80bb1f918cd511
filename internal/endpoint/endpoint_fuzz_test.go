package endpoint

import (
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzCovers checks properties of all requests: a request that is the endpoint also names it, a
// request that names it is covered, and a covered one stays covered in a further spelling that
// programs undo.
func FuzzCovers(f *testing.F) {
	for _, target := range []string{"/login", "/login;x", "/%2e%2e/login", "//x/login", "/a.php/login.json/b", "/caf%C3%A9", "/login?mode=heavy&a;b"} {
		f.Add("/login", target)
		f.Add("/*.php", target)
		f.Add("/api/*", target)
	}
	f.Add("/", "/%C0%80") // not UTF-8
	f.Fuzz(func(t *testing.T, pattern, target string) {
		e, err := New(nil, []string{pattern}, nil)
		u, bad := url.ParseRequestURI(target)
		if err != nil || bad != nil || u.Host != "" || u.Opaque != "" {
			return
		}
		r := &Request{Path: u.Path, RawPath: u.RawPath, Query: u.RawQuery}
		exact, names, covers := e.Is(r), e.Names(r), e.Covers(r)
		if exact && !names || names && !covers {
			t.Fatalf("%q, %q: is %v, names %v, covers %v", pattern, target, exact, names, covers)
		}
		if exact && (!r.IsCanonical() || path.Clean(r.Path) != strings.TrimSuffix(r.Path, "/") && r.Path != "/") {
			t.Fatalf("%q is %q, which is not canonical", pattern, target)
		}
		if !names || len(target) > 500 {
			return
		}
		for _, spelled := range []string{
			u.Path + "/", upper(u.Path), "/" + u.Path, "/x/.." + u.Path, "/." + u.Path, encodeAll(u.Path), encodeAll(encodeAll(u.Path)), u.Path + ";x",
		} {
			other := &Request{Path: spelled, RawPath: u.RawPath}
			if u.RawPath != "" || strings.ContainsAny(u.Path, "\x00?#;%\\") || strings.Contains(u.Path, "::$") || strings.HasPrefix(u.Path, "//") {
				break // the addition may be after a cut, in a parameter, or before a host
			}
			if !e.Covers(other) {
				t.Errorf("%q covers %q, and not %q", pattern, u.Path, spelled)
			}
		}
	})
}

// upper returns s in upper case. It leaves invalid UTF-8 unchanged, while strings.ToUpper changes
// its bytes.
func upper(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	return strings.ToUpper(s)
}

func encodeAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString("%" + string("0123456789ABCDEF"[s[i]>>4]) + string("0123456789ABCDEF"[s[i]&15]))
	}
	return "/" + b.String()
}

// foldSlowly decodes in rounds, until a round changes nothing.
func foldSlowly(text string) string {
	for {
		folded := string(appendFolded(nil, decodePercent(text)))
		if folded == text {
			return text
		}
		text = folded
	}
}

// decodePercent decodes percent-encoding once.
func decodePercent(text string) string {
	var b strings.Builder
	for text != "" {
		if c, err := strconv.ParseUint(text[min(1, len(text)):min(3, len(text))], 16, 8); text[0] == '%' && len(text) > 2 && err == nil && isHex(text[1]) && isHex(text[2]) {
			b.WriteByte(byte(c))
			text = text[3:]
			continue
		}
		if len(text) > 5 && text[0] == '%' && lower[text[1]] == 'u' && isHex(text[2]) && isHex(text[3]) && isHex(text[4]) && isHex(text[5]) {
			r, _ := strconv.ParseUint(text[2:6], 16, 32)
			b.WriteRune(rune(r))
			text = text[6:]
			continue
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}

// FuzzFold compares decoding in one pass with decoding in rounds, and checks that it is stable.
func FuzzFold(f *testing.F) {
	for _, text := range []string{"%2541", "%c0%af", "％２５41", "\xff%", "%df%f9", "\xdf\xf9", "%u0041", "%25u0041", "İıſK"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := decoded(text)
		if slowly := foldSlowly(text); slowly != once {
			t.Errorf("%q is read as %q, and in rounds as %q", text, once, slowly)
		}
		if again := decoded(once); again != once {
			t.Errorf("%q is read as %q, which is read as %q", text, once, again)
		}
		c, err := newCondition("k", "v")
		if err != nil {
			t.Fatal(err)
		}
		if key := NewName(once); NewName(string(key)) != key && !strings.ContainsAny(once, "[") {
			t.Errorf("the key %q is %q, which is %q", text, key, NewName(string(key)))
		}
		params := (&Request{Path: "/", Query: text}).parameters(nil)
		if c.is(params.list) && !c.mayHold(params.list) {
			t.Errorf("%q holds exactly, and may not hold", text)
		}
	})
}

// FuzzQuery checks that every query with a condition's parameter meets the condition.
func FuzzQuery(f *testing.F) {
	f.Add("mode", "heavy", "a;b&x=%zz")
	f.Add("a b", "%", "[")
	f.Add("0", "0+", "0")
	f.Add("\xdf\xf9", "0", "0") // two bytes that each begin a character
	f.Add("0+", "0", "0")
	f.Fuzz(func(t *testing.T, key, value, more string) {
		c, err := newCondition(key, value)
		if err != nil || value == "*" || c.value == "" {
			return
		}
		pair := url.QueryEscape(key) + "=" + url.QueryEscape(value)
		for _, query := range []string{pair, more + "&" + pair, pair + "&" + more, pair + ";" + more} {
			if params := (&Request{Path: "/", Query: query}).parameters(nil); !params.unread && !c.mayHold(params.list) {
				t.Errorf("%q=%q is not found in %q", key, value, query)
			}
		}
	})
}
