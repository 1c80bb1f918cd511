package report_test

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/listener"
	"github.com/caddy-tally/caddy-tally/internal/report"
)

// A connection that is refused before the config runs waits for nothing, and opens no store.
func TestConnectionsBeforeTheConfigRuns(t *testing.T) {
	cfg := enforce.NewConfig(zap.NewNop(), "")
	cfg.Zones = true
	zone := &enforce.Zone{Name: enforce.BeforeTLS}
	zone.BeforeTLS = []*enforce.Policy{enforce.StandIn(zone, enforce.BanName)}
	c := &report.Connections{Config: cfg, Zone: zone}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Report("i\x20\xc0\x00\x02\x01", listener.Banned, true)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second): // it would wait for the start
		t.Fatal("the listener waits")
	}
	if cfg.Instance.Load() != nil {
		t.Error("the store is open")
	}
	if list := cfg.Watchers.Recent(time.Now()); len(list) != 1 || list[0].Refusal.Zone != enforce.BeforeTLS || list[0].Network != "192.0.2.0/24" {
		t.Errorf("the sample has %+v", list)
	}
}
