package load

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestClientsSendAsLongAndAsMuchAsTheLoadSays(t *testing.T) {
	answer := func(context.Context, int64) (Kind, error) {
		time.Sleep(10 * time.Millisecond)
		return Other, nil
	}
	for _, c := range []struct {
		name string
		load Load
		want int64
	}{{"for a time", Load{Duration: 100 * time.Millisecond}, 30}, {"so many", Load{Requests: 7}, 7}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := Run(t.Context(), c.load, []Client{answer, answer, answer})
				if err != nil || r.Answers != [kinds]int64{Other: c.want} {
					t.Errorf("got %v, %v, want %d others", r.Answers, err, c.want)
				}
			})
		})
	}
}

func TestAnswersFollowEachOther(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 3\r\n\r\nno\n" +
		"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n" + "SSH-2.0\r\n"))
	for _, want := range []int{429, 200} {
		if status, err := readAnswer(r); err != nil || status != want {
			t.Errorf("got %d, %v, want %d", status, err, want)
		}
	}
	if _, err := readAnswer(r); err == nil {
		t.Error("got no error for what isn't HTTP")
	}
}
