package config_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

const hour = caddy.Duration(time.Hour)

func TestZonesThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		`{"zones":[{"name":"a","limits":[{"amount":1,"window":"1m"}]},{"name":"a","limits":[{"amount":2,"window":"1m"}]}]}`: "two of this name",
		`{"zones":[{"name":"a","limits":[{"amount":1,"window":"1m"}]}],"rate_limits":{"a":{"window":"1m","max_events":1}}}`: "two of this name",
		`{"rate_limits":{"a":null}}`:                          "null",
		`{"zones":[null]}`:                                    "null",
		`{"zones":[{"limits":[{"amount":1,"window":"1m"}]}]}`: "name",
		`{"zones":[{"name":"a"}]}`:                            "window must be greater than zero",
		`{"zones":[{"name":"a","per":"ip"}]}`:                 "needs a limit",
		`{"zones":[{"name":"a","limits":[{"amount":1,"window":"1m"}],"window":"1m","max_events":1}]}`:                     "exclude one another",
		`{"zones":[{"name":"a","limits":[{"amount":1,"window":"1m","name":"x"},{"amount":2,"window":"2m","name":"x"}]}]}`: "two limits are named",
	} {
		var h config.Handler
		if err := caddy.StrictUnmarshalJSON([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		if err := handlertest.Check(t, &h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

// All options of a zone but those of mholt/caddy-ratelimit are words of ours.
func TestOwnWords(t *testing.T) {
	peers := []string{"Name", "MatcherSetsRaw", "Key", "Window", "MaxEvents", "IPv4Prefix", "IPv6Prefix", "Source"}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[config.Zone]()) {
		var z config.Zone
		value := reflect.ValueOf(&z).Elem().FieldByIndex(field.Index)
		switch value.Kind() {
		case reflect.String:
			value.SetString("x")
		case reflect.Bool:
			value.SetBool(true)
		case reflect.Slice:
			value.Set(reflect.MakeSlice(field.Type, 1, 1))
		case reflect.Pointer:
			value.Set(reflect.New(field.Type.Elem()))
		default:
			value.SetInt(1)
		}
		if got, want := z.HasOwnWords(), !slices.Contains(peers, field.Name); got != want {
			t.Errorf("%s: the zone has words of ours: %v, want %v", field.Name, got, want)
		}
	}
}

// mholt's options can be combined with `per`.
func TestPeerWordsWithPer(t *testing.T) {
	var h config.Handler
	text := `{"zones":[{"name":"a","per":"ip","window":"1m","max_events":7}]}`
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	z := handlertest.Provision(t, handlertest.Compile(t, new(config.App)), &h).Zones[0]
	if p := z.Own.Policies[0]; p.Amount() != 7 || p.Window() != time.Minute || z.Per != enforce.PerIP {
		t.Errorf("%s gives %s per %s", text, p.Field, z.Per)
	}
}

func TestConcurrencyThatCannotBe(t *testing.T) {
	for want, z := range map[string]*config.Zone{
		"must be from 1 to 1000000":     {Concurrent: &config.Concurrent{}},
		"wait: must be at most 5m":      {Concurrent: &config.Concurrent{Requests: 1, Wait: hour}},
		"queue: must be from 1":         {Concurrent: &config.Concurrent{Requests: 1, Wait: 1, Queue: 10_001}},
		"queue is for requests that":    {Concurrent: &config.Concurrent{Requests: 1, Queue: 5}},
		`two limits are named "z-conc`:  {Concurrent: &config.Concurrent{Requests: 1}, Limits: []config.Limit{{Amount: 1, Window: hour, Name: "z-concurrent"}}},
		"must be from 1 to 1000000 req": {Concurrent: &config.Concurrent{Requests: -1}},
	} {
		z.Name = "z"
		if err := handlertest.Check(t, &config.Handler{Zones: []*config.Zone{z}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", z.Concurrent, err, want)
		}
	}
}

func TestReactionsThatCannotBe(t *testing.T) {
	for want, z := range map[string]*config.Zone{
		"must be refuse, challenge, delay or pass": {OnExceeded: "tarpit"},
		"delay must be from 1ms to 1m, got 0s":     {OnExceeded: "delay"},
		"delay must be from 1ms to 1m, got 1h":     {OnExceeded: "delay", MaxDelay: hour},
		"max_delay is for on_exceeded delay":       {MaxDelay: hour},
		"pass_header is for on_exceeded pass":      {OnExceeded: "refuse", PassHeader: "X-Over"},
		"must name a header field":                 {OnExceeded: "pass", PassHeader: "X Over"},
		"leave out hold, or delay":                 {OnExceeded: "delay", MaxDelay: caddy.Duration(time.Second), Count: &config.Count{Status: []int{401}, Hold: true}},
		"nobody waits while shadow is there":       {OnExceeded: "delay", MaxDelay: caddy.Duration(time.Second), Shadow: true},
		"lets all requests through, as shadow":     {OnExceeded: "pass", Shadow: true},
	} {
		z.Name = "z"
		if z.Concurrent == nil {
			z.Limits = []config.Limit{{Amount: 1, Window: hour}}
		}
		if err := handlertest.Check(t, &config.Handler{Zones: []*config.Zone{z}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", z, err, want)
		}
	}
}

func TestConditionsThatCannotHold(t *testing.T) {
	for want, c := range map[string]config.Condition{
		"it names no load":         {},
		"more than one load":       {CPU: 50, SlowerThan: caddy.Duration(time.Second)},
		"requests: must be":        {Window: caddy.Duration(time.Second)},
		"window: must be":          {Requests: 5},
		"cpu: must be":             {CPU: 100},
		"slower than: must be":     {SlowerThan: 1},
		`there is no zone "nets"`:  {Zone: "nets", Requests: 5, Window: caddy.Duration(time.Second)},
		"requests: must be at lea": {Requests: -1, Window: caddy.Duration(time.Second)},
	} {
		zone := &config.Zone{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}, When: []config.Condition{c}}
		if err := handlertest.Check(t, &config.Handler{Zones: []*config.Zone{zone}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", c, err, want)
		}
	}
}
