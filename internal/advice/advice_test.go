package advice

import (
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Advice is logged with its place and kept. Advice that refuses the config is its error, and then
// nothing is logged or kept.
func TestGive(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	mild := Advice{Problem: "limit: never reached", Fix: "limit 5/1m alone", Zone: "login", Source: "Caddyfile:3"}
	var list List
	if err := list.Give(zap.New(core), mild); err != nil {
		t.Fatal(err)
	}
	err := list.Give(zap.New(core), mild, Advice{Problem: "per key: it is empty", Fix: "per ip", Zone: "login", Source: "Caddyfile:4", Refused: true})
	if want := `zone "login": per key: it is empty; write per ip, at Caddyfile:4`; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	lines := logged.All()
	if len(lines) != 1 || lines[0].Message != mild.Problem {
		t.Fatalf("logged %v, want one line", lines)
	}
	fields := lines[0].ContextMap()
	if len(fields) != 3 || fields["write"] != mild.Fix || fields["zone"] != mild.Zone || fields["at"] != mild.Source {
		t.Errorf("logged with %v", fields)
	}
	if given := list.All(); len(given) != 1 || !slices.Equal(given[0].Server, mild.Server) || given[0].Problem != mild.Problem {
		t.Errorf("kept %v", given)
	}
}

// Advice that was given about the config before is kept and not logged again. What is new, or is about another place,
// is logged.
func TestAReloadRepeatsNoAdvice(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	old := []Advice{{Problem: "a", Fix: "b", Source: "Caddyfile:3"}, {Problem: "c", Fix: "d", Zone: "z", Server: []string{":443"}}, {Problem: "json"}}
	before := new(List)
	if err := before.Give(zap.NewNop(), old...); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		list := new(List)
		list.Follow(before)
		if err := list.Give(zap.New(core), old...); err != nil {
			t.Fatal(err)
		}
		before = list
	}
	if lines := logged.All(); len(lines) != 0 || len(before.All()) != len(old) {
		t.Errorf("logged %v, kept %v", lines, before.All())
	}
	moved := old[0]
	moved.Source = "Caddyfile:4"
	list := new(List)
	list.Follow(before)
	if err := list.Give(zap.New(core), moved, old[1], Advice{Problem: "new"}); err != nil || logged.Len() != 2 {
		t.Errorf("logged %v, %v", logged.All(), err)
	}
}
