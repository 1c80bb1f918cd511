package answer

import (
	"fmt"
	"strings"
	"testing"
)

// A string stays unchanged after later calls, even in a new buffer and if it is long.
func TestTextsStay(t *testing.T) {
	var texts Texts
	var got, want []string
	for i := range 100 {
		text := strings.Repeat(fmt.Sprint(i), 1+i%7)
		if i%30 == 29 {
			text = strings.Repeat(text, textsRoom)
		}
		got, want = append(got, texts.text([]byte(text))), append(want, text)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("string %d is %.20q…, want %.20q…", i, got[i], want[i])
		}
	}
	if n := testing.AllocsPerRun(1000, func() { texts.text([]byte(`"sign-in";r=9999;t=60`)) }); n >= 1 {
		t.Errorf("a string takes %v allocations", n)
	}
}
