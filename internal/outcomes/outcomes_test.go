package outcomes

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

// Each field is in the list once, under its name in JSON, and is added up.
func TestAllCountsAreListed(t *testing.T) {
	var c, sum Counts
	for i, n := range c.All() {
		*n = int64(i + 1)
	}
	for range 3 {
		sum.Add(c)
	}
	fields := reflect.ValueOf(sum)
	if fields.NumField() != len(c.All()) {
		t.Fatalf("there are %d fields, and %d in the list", fields.NumField(), len(c.All()))
	}
	var seen []int64
	for i := range fields.NumField() {
		seen = append(seen, fields.Field(i).Int())
	}
	slices.Sort(seen)
	for i, n := range seen {
		if n != 3*int64(i+1) {
			t.Errorf("the sums are %v: a count is missing, or is listed twice", seen)
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var named map[string]int64
	if err := json.Unmarshal(text, &named); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"allowed", "refused", "blocked", "banned", WouldRefuse} {
		if named[name] != int64(i+1) {
			t.Errorf("the count %q is %d in JSON, want %d", name, named[name], i+1)
		}
	}
}
