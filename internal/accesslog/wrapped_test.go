package accesslog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Lines are read that Docker, Kubernetes and journald have put into lines of their own, also in pieces, between
// which those of the other stream may be.
func TestWrappedLines(t *testing.T) {
	quoted := func(text string) string {
		raw, _ := json.Marshal(text)
		return string(raw)
	}
	docker := func(text, stream string) string {
		return fmt.Sprintf(`{"log":%s,"stream":%q,"time":"2026-11-20T10:00:00.123456789Z"}`+"\n", quoted(text), stream)
	}
	cri := func(text, stream string) string {
		return "2026-11-20T10:00:00.123456789Z " + stream + " " + text + "\n"
	}
	journal := func(message string) string {
		return `{"__CURSOR":"s=1","MESSAGE":` + message + `,"__REALTIME_TIMESTAMP":"1795168800000000","PRIORITY":"6"}` + "\n"
	}
	bytesOf := func(text string) string {
		var numbers []int
		for _, b := range []byte(text) {
			numbers = append(numbers, int(b))
		}
		raw, _ := json.Marshal(numbers)
		return string(raw)
	}
	first, second := strings.TrimSpace(lineAt(1, 0)), strings.TrimSpace(lineAt(2, 0))
	const combined = `203.0.113.7 - - [20/Nov/2026:10:00:00 +0000] "GET /1 HTTP/1.1" 200 5 "-" "curl"`
	for name, c := range map[string]struct {
		log  string
		want []string
		bad  int64
	}{
		"docker":               {docker(first+"\n", "stderr") + docker(second+"\n", "stdout"), []string{"/1", "/2"}, 0},
		"docker, combined":     {docker(combined+"\n", "stdout"), []string{"/1"}, 0},
		"docker, in pieces":    {docker(first[:9], "stderr") + docker(second+"\n", "stdout") + docker(first[9:20], "stderr") + docker(first[20:]+"\n", "stderr"), []string{"/1", "/2"}, 0},
		"CRI":                  {cri("F "+first, "stderr") + cri("F "+second, "stdout"), []string{"/1", "/2"}, 0},
		"CRI, combined":        {cri("F "+combined, "stdout"), []string{"/1"}, 0},
		"CRI, in pieces":       {cri("P "+first[:9], "stderr") + cri("F "+second, "stdout") + cri("P "+first[9:20], "stderr") + cri("F "+first[20:], "stderr"), []string{"/1", "/2"}, 0},
		"CRI, without end":     {strings.Repeat(cri("P "+strings.Repeat("x", 1<<16), "stderr"), 40) + cri("F ", "stderr") + cri("F "+first, "stderr"), []string{"/1"}, 1},
		"journald":             {journal(quoted(first)) + journal(bytesOf(second)), []string{"/1", "/2"}, 0},
		"journald, left out":   {journal("null") + journal(quoted(second)), []string{"/2"}, 1},
		"what only looks like": {combined[:len(combined)-6] + `"x stderr P "` + "\n" + first + "\n" + `{"log":"` + "\n", []string{"/1", "/1"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			uris, counts := read(t, nil, writeLog(t, []byte(c.log)))
			if slices.Sort(uris); !slices.Equal(uris, c.want) || counts.Bad != c.bad {
				t.Errorf("got %v, want %v; counts %+v", uris, c.want, counts)
			}
		})
	}
}

// HAProxy's time has thousandths of seconds, and no zone.
func TestTimeOfHAProxy(t *testing.T) {
	p, err := NewParser(`$remote_addr:$remote_port [$time_local] $frontend $backend $timers $status $body_bytes_sent $a $b $c $d $e "$request"`)
	if err != nil {
		t.Fatal(err)
	}
	r := new(Record)
	err = p.parse([]byte(`10.0.1.2:33317 [20/Nov/2026:10:00:01.655] in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /1 HTTP/1.1"`), r)
	if want := start.Add(1655 * time.Millisecond).UnixNano(); err != nil || r.Logged != want || r.ClientIP != "10.0.1.2" || r.URI != "/1" {
		t.Errorf("got %v, %+v", err, r)
	}
}
