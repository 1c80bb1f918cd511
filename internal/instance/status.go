package instance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/regions"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Describe describes the stores in use. The result is never nil, which would be null in JSON.
func Describe() []operator.Store {
	inUse := []operator.Store{}
	Each(func(inst *Instance) { inUse = append(inUse, inst.describe()) })
	slices.SortFunc(inUse, func(a, b operator.Store) int { return cmp.Compare(a.Path, b.Path) })
	return inUse
}

// describe describes the store and the memory in front of it.
func (inst *Instance) describe() operator.Store {
	stats := inst.Stats()
	store := operator.Store{
		Kind:     inst.Settings.Kind,
		Path:     cmp.Or(inst.Settings.Path, inst.Settings.Address),
		Degraded: stats.Degraded,
		Keys:     stats.Keys,
		MaxKeys:  cmp.Or(inst.InForce.Load().MaxKeys, engine.DefaultMaxKeys),
		Evicted:  stats.Evicted,
		Bytes:    stats.Store.Bytes,
		Journal:  stats.Store.JournalBytes,

		Processes: stats.Processes,
		Network:   inst.describeNetwork(stats),
	}
	if stats.Cause != nil {
		store.Since, store.Reason = new(stats.Since.UTC().Truncate(time.Second)), stats.Cause.Error()
	}
	store.Region, store.History = inst.describeRegion(), inst.unwritten.Load()
	store.Names = cmp.Or(inst.Names.here.unkept.Load(), inst.Names.here.lost.Load())
	if keys := inst.Keys.Load(); keys != nil {
		keys.Fresh() // checks the file, in case no request has
		store.APIKeys = TroubleOf(keys.Path(), keys.Trouble())
	}
	if rules := inst.Rules.Load(); rules != nil {
		store.Rules = TroubleOf(rules.Path(), rules.Trouble())
	}
	return store
}

// describeNetwork describes the connection to a store on a network. It returns nil for other
// stores.
func (inst *Instance) describeNetwork(stats engine.Stats) *operator.Network {
	if inst.Settings.Address == "" {
		return nil
	}
	n := &operator.Network{
		RoundTrip:  operator.SecondsOf(stats.RoundTrip),
		Ahead:      operator.SecondsOf(stats.Ahead),
		Server:     operator.SecondsOf(stats.ServerAhead),
		LostWrites: stats.LostWrites,
		Unsettled:  stats.Unsettled,
	}
	if stats.Degraded || inst.Names.Secret.Load() == nil {
		return n // doesn't wait for a store that is away
	}
	values, err := inst.Names.Epochs.Seals()
	if notes, known := inst.Shared.laterLines(); known && err == nil {
		n.LaterLines = new(values.Later + values.Unknown + notes)
	}
	return n
}

// describeRegion describes the sharing of counts with other regions, or returns nil without it.
func (inst *Instance) describeRegion() *operator.Region {
	shared := inst.regions.Load()
	if shared == nil {
		return nil
	}
	s := shared.Stats()
	region := &operator.Region{Name: s.Region, Exchange: fmt.Sprint(inst.exchangedAt.Load()),
		Lag: operator.SecondsOf(s.Lag), Keys: s.Keys, Others: []operator.OtherRegion{}}
	if s.Cause != nil {
		region.Since, region.Reason = new(s.Since.UTC().Truncate(time.Second)), s.Cause.Error()
	}
	for _, n := range s.Regions {
		for _, fault := range n.Faults {
			region.Faults = append(region.Faults, faultText(n, fault))
		}
		if n.Name != s.Region {
			region.Others = append(region.Others,
				operator.OtherRegion{Name: n.Name, Machines: n.Machines, Gone: n.Gone, Lag: operator.SecondsOf(n.Lag)})
		}
	}
	return region
}

// faultText describes a fault of a region to operators.
func faultText(r regions.Region, fault regions.Fault) string {
	switch fault {
	case regions.OtherSecret:
		return fmt.Sprintf(
			"Region %s has a machine with another secret_file, which counts on its own: copy one to all machines.",
			r.Name)
	case regions.OtherDatabase:
		return fmt.Sprintf("Region %s has machines with different databases, which count on their own: give each its own region, or one store on a server.", r.Name)
	case regions.SameDatabase:
		return fmt.Sprintf("Region %s has the database of this region, or had it before it was renamed: its counts count twice until their windows end.", r.Name)
	case regions.OtherClock:
		ahead := "ahead"
		if r.Ahead < 0 {
			ahead = "behind"
		}
		return fmt.Sprintf("Region %s has a clock that is %s %s: set it, or limits of about that length count in each region on their own.", r.Name, wording.Wait(r.Ahead.Abs()), ahead)
	}
	return fmt.Sprintf("Region %s is silent: its machines were killed, or can't reach the exchange.", r.Name)
}

// TroubleOf returns the problem of a file, or nil.
func TroubleOf(path string, trouble *textfile.Trouble) *operator.FileTrouble {
	if trouble == nil {
		return nil
	}
	return &operator.FileTrouble{File: path, Since: trouble.Since.UTC().Truncate(time.Second),
		Reason: trouble.Err.Error()}
}
