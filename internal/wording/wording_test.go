package wording

import (
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-1: "", 0: "", 1: "1 second", time.Second: "1 second", 41*time.Second + 1: "42 seconds", 90 * time.Second: "90 seconds",
		91 * time.Second: "2 minutes", 90 * time.Minute: "90 minutes", 91 * time.Minute: "2 hours", 23*time.Hour + 1: "1 day",
		day: "1 day", day + 1: "25 hours", 48 * time.Hour: "48 hours", 2*day + 1: "3 days", 366 * day: "366 days",
	} {
		if got := Wait(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := Number(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", -1: "0 B"} {
		if got := Bytes(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
