package httpfield

import (
	"net/http"
	"slices"
	"testing"
)

// A client's Connection field names no other fields afterwards.
func TestConnectionNamesNoOtherFields(t *testing.T) {
	for _, c := range []struct{ sent, want []string }{
		{nil, nil},
		{[]string{"close"}, []string{"close"}},
		{[]string{"Keep-Alive, Upgrade"}, []string{"Keep-Alive, Upgrade"}},
		{[]string{"upgrade", "keep-alive"}, []string{"upgrade", "keep-alive"}},
		{[]string{""}, []string{""}},
		{[]string{"X-Over-Limit"}, nil},
		{[]string{"close, X-Over-Limit"}, []string{"close"}},
		{[]string{" x-over-limit ,\tUPGRADE , "}, []string{"UPGRADE"}},
		{[]string{"TE", "X-Api-Key,Cookie"}, []string{"TE"}},
		{[]string{"HTTP2-Settings, Upgrade, Remote-User"}, []string{"HTTP2-Settings, Upgrade"}},
	} {
		h := http.Header{"X-Api-Key": {"k"}}
		if c.sent != nil {
			h["Connection"] = slices.Clone(c.sent)
		}
		KeepConnectionOptions(h)
		if got := h["Connection"]; !slices.Equal(got, c.want) || h.Get("X-Api-Key") != "k" {
			t.Errorf("%q: got %q, want %q", c.sent, got, c.want)
		}
	}
	kept := http.Header{"Connection": {"keep-alive, Upgrade"}}
	if n := testing.AllocsPerRun(100, func() { KeepConnectionOptions(kept) }); n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}

func TestTwinsAreDeleted(t *testing.T) {
	h := http.Header{"X-Over-Limit": {"a"}, "X_over_limit": {"b"}, "X_Over-Limit": {"c"}, "X-Over-Limits": {"d"}, "Other_Field": {"e"}}
	if DeleteTwins(h, "X-Over-Limit"); len(h) != 2 || h["X-Over-Limits"] == nil {
		t.Errorf("left are %v", h)
	}
}

func TestFieldsOfOurOwn(t *testing.T) {
	for _, name := range []string{"X-Over-Limit", "X-Service-Token", "Over-Limit"} {
		if err := CheckOwn(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a b", "Host", "host", "Connection", "keep-alive", "TE", "Upgrade", "Transfer-Encoding", "Content-Length", "Content-Type", "Cookie", "Authorization", "X-Forwarded-For", "Proxy-Authorization", "Trailer"} {
		if CheckOwn(name) == nil {
			t.Errorf("%q is taken for a field of our own", name)
		}
	}
}
