package enforce

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/carried"
	"github.com/caddy-tally/caddy-tally/internal/blocklist"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// ruleSearch looks for the operator's rule about a request.
type ruleSearch struct {
	*Evaluation
	set   *rules.Set
	now   time.Time
	found *rules.Rule // the strongest so far, or nil
}

// Rule returns the operator's rule that applies to the request: an allowance of any of its
// targets, or the ban that ends last; nil if there is none. Without any rules it costs an atomic
// load.
func (e *Evaluation) Rule() (*rules.Rule, error) {
	e.Handler.Config.awaitRules(e.Http.Context())
	set := e.Handler.Config.Stated.Now()
	if set.IsEmpty() && len(e.Handler.Config.BlockLists) == 0 {
		return nil, nil
	}
	return e.ruleAt(time.Now(), set)
}

// awaitRules waits until the rules in a shared store have been read, as requests wait for the
// store after a start. If all rules are in the file, it costs a comparison.
func (cfg *Config) awaitRules(ctx context.Context) {
	if !cfg.SharesRules() {
		return
	}
	if inst := cfg.Use(); inst != nil {
		inst.AwaitStore(ctx)
	}
}

// ruleAt returns the rule of a set that applies to the request at a time, or else that of a
// block list: an operator's rules come first, however wide.
func (e *Evaluation) ruleAt(now time.Time, set *rules.Set) (*rules.Rule, error) {
	s := ruleSearch{Evaluation: e, set: set, now: now}
	found, err := s.find()
	if found != nil || err != nil {
		return found, err
	}
	if addr, err := netip.ParseAddr(e.ClientIP()); err == nil && len(e.Handler.Config.BlockLists) > 0 {
		return e.Handler.Config.listedAt(now, addr), nil
	}
	return nil, nil
}

// AddressRule returns the rule that applies to a client of which only the address is known, or nil. The client
// has proved the address by a connection. It doesn't wait for rules in a store.
func (cfg *Config) AddressRule(addr netip.Addr, now time.Time) *rules.Rule {
	if found := cfg.AboutAddress(cfg.Stated.Now(), addr, true, now); found != nil || len(cfg.BlockLists) == 0 {
		return found
	}
	return cfg.listedAt(now, addr)
}

// listedAt returns the ban of an address by a block list at a time, or nil.
func (cfg *Config) listedAt(now time.Time, addr netip.Addr) *rules.Rule {
	found := cfg.Listed(addr, now)
	if inner := carried.Of(addr); inner != addr.Unmap() {
		if ban := cfg.Listed(inner, now); found == nil || ban != nil && ban.Outlasts(found) {
			found = ban
		}
	}
	return found
}

// find returns the operator's rule of the set that applies to the request at the time.
func (s *ruleSearch) find() (*rules.Rule, error) {
	set := s.set
	s.lookUpAddress()
	if set.Has(rules.APIKey) && !s.isAllowed() {
		s.lookUpAPIKey()
	}
	if set.Has(rules.Session) && !s.isAllowed() {
		s.lookUpSession()
	}
	if set.Has(rules.Key) && !s.isAllowed() {
		return s.lookUpKeys()
	}
	return s.found, nil
}

func (s *ruleSearch) isAllowed() bool { return s.found != nil && s.found.Action == rules.Allow }

// add adds a rule about one of the request's targets. The rule may be nil.
func (s *ruleSearch) add(found *rules.Rule) { s.found = rules.Stronger(s.found, found) }

// lookUpAddress looks for the client's address.
func (s *ruleSearch) lookUpAddress() {
	addr, err := netip.ParseAddr(s.ClientIP())
	if err != nil {
		return
	}
	found := s.Handler.Config.AboutAddress(s.set, addr, true, s.now)
	if found != nil && found.Favors() && s.IsClaimed() {
		found = s.Handler.Config.AboutAddress(s.set, addr, false, s.now)
	}
	s.add(found)
}

// AboutAddress returns the rule about an address, its autonomous system or its country, or nil. If the address is
// IPv6 and contains an IPv4 address, it also looks for rules against the latter, but for none in its favor: a relay
// on the way can claim any address.
func (cfg *Config) AboutAddress(set *rules.Set, addr netip.Addr, proved bool, now time.Time) *rules.Rule {
	found := set.FindAddress(addr, proved, now)
	if inner := carried.Of(addr); inner != addr.Unmap() {
		proved = false
		if found == nil || !found.Favors() {
			found = rules.Stronger(found, set.FindAddress(inner, false, now))
		}
	}
	if set.Has(rules.ASN) {
		found = rules.Stronger(found,
			set.Find(rules.ASN, strings.TrimPrefix(cfg.Networks.ASN(addr), "AS"), proved, now))
	}
	if set.Has(rules.Country) {
		found = rules.Stronger(found, set.Find(rules.Country, cfg.Networks.Country(addr), proved, now))
	}
	return found
}

// lookUpAPIKey looks for the client of the API key.
func (s *ruleSearch) lookUpAPIKey() {
	s.add(AboutAPIKey(s.set, s.authenticate(s.Handler.Config).Name, s.now))
}

// AboutAPIKey returns the rule about the client of an API key, or else about its parent, `vendor` for
// `vendor/product`, or nil.
func AboutAPIKey(set *rules.Set, name string, now time.Time) *rules.Rule {
	found := set.Find(rules.APIKey, name, true, now)
	if whole, _, isPart := strings.Cut(name, "/"); found == nil && isPart {
		found = set.Find(rules.APIKey, whole, true, now)
	}
	return found
}

// lookUpSession looks for the session. A session that is used outside its network may be stolen.
func (s *ruleSearch) lookUpSession() {
	if s.Client == nil || s.Handler.Config.Session == nil || s.identify().Kind != identity.Session {
		return
	}
	name := identity.SessionName(s.Client.Session.ID[:])
	s.add(s.set.Find(rules.Session, name, !s.Client.Session.Elsewhere, s.now))
}

// lookUpKeys looks for the request's keys in its zones.
func (s *ruleSearch) lookUpKeys() (*rules.Rule, error) {
	for _, z := range s.Handler.Zones {
		if z.Per != PerKey {
			continue
		}
		matches, err := s.anyMatch(z.Matchers, &z.MatchReads, true)
		if err == nil {
			if matches {
				err = s.body.peek(&s.Verdict, z.CountsBody)
			}
		}
		if err != nil {
			return nil, err
		}
		if !matches {
			continue
		}
		for s.body.reading = range z.readings(s.Evaluation) {
			if text := z.keyText(s.Evaluation); text != z.EmptyForm {
				s.add(s.findKey(z, text))
			}
		}
		s.body.reading = 0
		if s.isAllowed() {
			break
		}
	}
	return s.found, nil
}

// findKey returns the rule about a zone's key. As elsewhere, a claimed address isn't allowed.
func (s *ruleSearch) findKey(z *Zone, text string) *rules.Rule {
	key := z.ShortenIP(text)
	found := s.set.Find(rules.Key, key, true, s.now)
	if found != nil && found.Favors() && text == s.ClientIP() && s.IsClaimed() {
		return s.set.Find(rules.Key, key, false, s.now)
	}
	return found
}

// longestBan is the longest Retry-After of a ban. A longer ban counts as endless.
const longestBan = 100 * 366 * 24 * time.Hour

// bannedFor returns how long a ban refuses the request, or [limiter.Never]. When the ban ends, that
// of a wider network may apply, and so on.
func (e *Evaluation) bannedFor(ban *rules.Rule) time.Duration {
	now, set := time.Now(), e.Handler.Config.Stated.Now()
	for !ban.Until.IsZero() && ban.Until.Sub(now) <= longestBan {
		next, err := e.ruleAt(ban.Until, set)
		if err != nil || next == nil || next.Action == rules.Allow {
			return max(ban.Until.Sub(now), 1)
		}
		ban = next // it ends later
	}
	return limiter.Never
}

// SharesRules reports whether rules are kept in the store, for all machines.
func (cfg *Config) SharesRules() bool { return cfg.Settings.Address != "" }

// OperatorRules are the operator's bans and allowances: those of the file, and those in a shared
// store.
type OperatorRules struct {
	Rules  *rules.File
	Stated instance.RulesInForce
	// BlockLists only ban, where no operator's rule says otherwise.
	BlockLists []*blocklist.List
	log        *zap.Logger
	check      func(*rules.Set) error
	checked    *rules.Set // the last set that was checked
	unwatch    func()     // nil unless the file is being watched
}

// CheckRules returns an error about rules that can have no effect with this config.
func (cfg *Config) CheckRules(set *rules.Set) error {
	now := time.Now()
	if err := cfg.CheckNetworks(set.Knows(rules.ASN, now), set.Knows(rules.Country, now)); err != nil {
		return fmt.Errorf("rules about %w", err)
	}
	for _, name := range set.Zones() {
		if !slices.ContainsFunc(cfg.AllZones, func(z *Zone) bool { return z.Name == name }) && !cfg.HasLimit(name) {
			return fmt.Errorf("raise: there is no zone %q, nor a limit LIMIT of a zone ZONE for ZONE/LIMIT", name)
		}
	}
	return nil
}

// HasLimit reports whether a name is that of a zone and of one of its limits: ZONE/LIMIT.
func (cfg *Config) HasLimit(name string) bool { return slices.Contains(cfg.LimitNames(), name) }

// LimitNames returns the names of all limits with those of their zones: ZONE/LIMIT.
func (cfg *Config) LimitNames() (names []string) {
	for _, z := range cfg.AllZones {
		for _, set := range z.Sets() {
			for _, p := range set.All() {
				names = append(names, z.Name+"/"+p.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OpenRules reads the file of bans and allowances, if there is one.
func (cfg *Config) OpenRules(path string, log *zap.Logger) (err error) {
	s := &cfg.OperatorRules
	s.log, s.check = log, cfg.CheckRules
	if s.Rules, err = rules.Open(path, s.rulesChanged); err == nil {
		s.Stated.File = s.Rules
	}
	return err
}

// rulesChanged handles a new version of the file.
func (s *OperatorRules) rulesChanged(set *rules.Set, err error) {
	if err != nil {
		s.log.Error("the file of bans and allowances has changed and can't be used; its former lines stay in force until it is mended", zap.Error(err))
		return
	}
	s.Stated.Merge()
	s.logRead("the file of bans and allowances was read again", set)
}

// logRead logs that the file was read, and a warning if it allows everybody.
func (s *OperatorRules) logRead(message string, set *rules.Set) {
	s.log.Info(message, s.rulesFields(set)...)
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if r := set.FindAddress(all, true, time.Now()); r != nil && r.Action == rules.Allow &&
			r.Target.Network.Bits() == 0 {
			s.log.Warn("everybody is allowed, so no limit refuses anybody", zap.String("rule", r.String()),
				zap.String("file", s.Rules.Path()),
				zap.String("write", "allow with your own networks; or shadow into the zones, to refuse nobody"))
		}
	}
}

func (s *OperatorRules) rulesFields(set *rules.Set) []zap.Field {
	now := time.Now()
	return []zap.Field{
		zap.Int("bans", set.InForce(rules.Ban, now)), zap.Int("allowances", set.InForce(rules.Allow, now)),
		zap.Int("raises", set.InForce(rules.Raise, now)),
		zap.String("file", s.Rules.Path()),
	}
}

// rulesEvery is the interval of checking the file, so that a change is in force within a second.
const rulesEvery = time.Second / 2

// WatchRules checks the file until unwatch is called. Requests don't check it: they would wait for
// the disk, and for a large file to be read.
func (s *OperatorRules) WatchRules() {
	for _, list := range s.BlockLists {
		list.Run()
	}
	if set := s.Rules.Value(); !set.IsEmpty() {
		s.logRead("the file of bans and allowances was read", set)
	}
	s.unwatch = untilStopped(func(stop <-chan struct{}) {
		ticker := time.NewTicker(rulesEvery)
		defer ticker.Stop()
		for {
			s.Rules.Look()
			s.countRules()
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	})
}

// countRules checks new rules, and sets the metrics of rules in force and of lists that can't be read.
func (s *OperatorRules) countRules() {
	now := time.Now()
	if set := s.Stated.Now(); set != s.checked {
		s.checked = set
		if err := s.check(set); err != nil {
			s.log.Error("some rules have no effect", zap.Error(err))
		}
	}
	bans, failing := s.Stated.Now().InForce(rules.Ban, now), 0
	for _, list := range s.BlockLists {
		bans += list.InForce(now)
		if list.State().Err != nil {
			failing++
		}
	}
	meter.SetRules(rules.Ban.String(), bans)
	for _, action := range []rules.Action{rules.Allow, rules.Raise} {
		meter.SetRules(action.String(), s.Stated.Now().InForce(action, now))
	}
	meter.SetFailingLists(failing)
}

// Listed returns the ban of an address by a block list, or nil. It doesn't ask the operator's rules.
func (s *OperatorRules) Listed(addr netip.Addr, now time.Time) (found *rules.Rule) {
	for _, list := range s.BlockLists {
		if ban, banned := list.Ban(addr, now); banned && (found == nil || ban.Outlasts(found)) {
			found = &ban
		}
	}
	return found
}
