package bodyfield

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func forms() map[string]string {
	return map[string]string{
		"login":   "user=alice%40example.com&password=correct+horse",
		"many":    strings.Repeat("a=b&", 16000),
		"names":   strings.Repeat("user=1&", 9000),
		"escapes": "x=" + strings.Repeat("%61", 20000) + "&user=1",
		"encoded": strings.Repeat("%75%73%65%72=1&", 4000),
		"odd":     strings.Repeat("u.%5B=1&", 8000),
		"split":   strings.Repeat("a;", 32000),
		"long":    "user=" + strings.Repeat("%41", 20000),
		"percent": strings.Repeat("%2525", 13000) + "=1",
	}
}

// BenchmarkForm compares reading a field with parsing everything.
func BenchmarkForm(b *testing.B) {
	f, _ := NewField(Form + "user")
	for name, body := range forms() {
		b.Run(name+"/field", func(b *testing.B) {
			for b.Loop() {
				sink += len(Read([]Field{f}, IsForm, nil, body, ""))
			}
		})
		b.Run(name+"/net-url", func(b *testing.B) {
			for b.Loop() {
				v, _ := url.ParseQuery(strings.ReplaceAll(body, ";", "&"))
				sink += len(v)
			}
		})
	}
}

// FuzzForm holds the reader to net/url: each value of a field that net/url finds is among the readings, or the
// body is refused.
func FuzzForm(f *testing.F) {
	for _, text := range []string{"user=a&user=b", "%75ser=x", "user=%zz", "a;user=b", "user%00=1", "=user=x", "user[x]=1", "u%ff=1&user=\x00"} {
		f.Add(text)
	}
	field, _ := NewField(Form + "user")
	f.Fuzz(func(t *testing.T, body string) {
		got := Read([]Field{field}, IsForm, nil, body, "")[0]
		if got.Err != nil {
			return
		}
		values, _ := url.ParseQuery(body)
		for _, text := range values["user"] {
			if !slices.Contains(got.Texts, text) {
				t.Errorf("%q: %q is not among %q", body, text, got.Texts)
			}
		}
	})
}
