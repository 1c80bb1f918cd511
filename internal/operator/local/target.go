package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/carried"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/watch"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file finds the keys of an operator's target.

// subject is an operator's target in the running configuration.
type subject struct {
	operator.Target
	Config   runningConfig
	Instance *instance.Instance
	Referred *enforce.ReferredRefusal // the content of a reference; nil for other targets
	nameless string                   // the key of a tag's client that has no other name, or ""
}

// target returns the target with a name.
func (r running) target(ctx context.Context, text string) (*subject, error) {
	named, err := operator.ParseTarget(text)
	if err != nil {
		return nil, err
	}
	app, inst, err := r.instanceInUse()
	if err != nil {
		return nil, err
	}
	t := &subject{Target: named, Config: app, Instance: inst}
	if t.Kind == operator.Tag {
		return t, t.resolveTag(ctx, r)
	}
	if t.Kind == operator.Reference {
		referred, err := app.OpenReference(t.Value)
		if err != nil {
			return nil, operator.Errorf(http.StatusNotFound, "client: %v", err)
		}
		t.Referred = &referred
	}
	return t, nil
}

// zonesNamed returns the zones with a name, or all if it is "".
func (cfg runningConfig) zonesNamed(name string) ([]*enforce.Zone, error) {
	if name == "" {
		return cfg.AllZones, nil
	}
	var zones []*enforce.Zone
	var names []string
	for _, z := range cfg.AllZones {
		if !slices.Contains(names, z.Name) {
			names = append(names, z.Name)
		}
		if z.Name == name {
			zones = append(zones, z)
		}
	}
	if zones == nil {
		message := fmt.Sprintf("zone: there is no %q: expected %s", name, caddyconf.OrList(names))
		if meant := caddyconf.DidYouMean(name, names); meant != "" {
			message += "; " + meant
		}
		return nil, operator.Errorf(http.StatusNotFound, "%s", message)
	}
	return zones, nil
}

// counted returns the target's network as limits count it: an address that carries an IPv4 address counts as that.
func (sub *subject) counted() netip.Prefix {
	if addr := carried.Of(sub.Network.Addr()); sub.Network.IsSingleIP() {
		return netip.PrefixFrom(addr, addr.BitLen())
	}
	return sub.Network
}

// isIn reports whether a key belongs to the target.
func (sub *subject) isIn(key string) bool {
	if key == "" {
		return false
	}
	switch sub.Kind {
	case operator.Address:
		if key[0] == identity.TagText { // a text, of whatever network it speaks
			return sub.Network.IsSingleIP() && key[1:] == sub.Network.Addr().String()
		}
		network, ok := identity.NetworkOf(key)
		return ok && network.Overlaps(sub.counted())
	case operator.Session:
		if key[0] != identity.TagSession {
			return false
		}
		text := identity.KeyText([]byte(key))
		return strings.TrimPrefix(text, "session ") == strings.TrimPrefix(sub.Value, "session ")
	}
	return key == sub.key()
}

// hasSent reports whether a request of the sample is the target's.
func (sub *subject) hasSent(r *watch.Request) bool {
	switch sub.Kind {
	case operator.Address: // keys may be those of wider networks, or texts that the client wrote
		network, ok := identity.NetworkOf(r.Address)
		return ok && network.Overlaps(sub.counted())
	case operator.ASN:
		return r.ASN == "AS"+sub.Value
	case operator.Country:
		return r.Country == sub.Value
	}
	return r.IsOf(sub.isIn)
}

// key returns the target's key, or "" if its kind has none of its own.
func (sub *subject) key() string {
	switch sub.Kind {
	case operator.KeyText:
		return string(textKey(sub.Value))
	case operator.APIKey:
		return string(identity.TagAPIKey) + sub.Value
	}
	return sub.nameless
}

// isWritten reports whether a key in a zone is a text that clients may write themselves: an address
// in it is nobody's.
func isWritten(z *enforce.Zone, key []byte) bool {
	return key[0] == identity.TagText && !isAddress(z)
}

// isAddress reports whether the key of a zone is the client's address, as a text.
func isAddress(z *enforce.Zone) bool {
	return z.Key == "{http.vars.client_ip}" || z.Key == "{http.request.remote.host}"
}

// textKey returns the key for a text.
func textKey(text string) []byte {
	key := append([]byte{identity.TagText}, text...)
	if len(key) > enforce.LongKey {
		sum := sha256.Sum256(key)
		return append([]byte{identity.TagDigest}, sum[:]...)
	}
	return key
}

// keysIn returns the keys in a zone that follow from the target's name, whether or not memory holds
// them.
func (sub *subject) keysIn(z *enforce.Zone) [][]byte {
	switch {
	case sub.Kind == operator.Address && z.Per != enforce.PerClient && z.Per != enforce.PerEveryone:
		if key, ok := sub.Config.KeyOf(z, sub.Network.Addr()); ok && sub.Network.IsSingleIP() {
			return [][]byte{textKey(key)}
		}
		var keys [][]byte
		ipv4, ipv6 := sub.Config.Prefixes(z.IPv4Prefix, z.IPv6Prefix)
		if key := sub.networkKey(ipv4, ipv6); key != nil {
			keys = append(keys, key)
		}
		if key := textKey(z.ShortenIP(sub.Network.Addr().String())); sub.Network.IsSingleIP() && !isWritten(z, key) {
			keys = append(keys, key)
		}
		return keys
	case sub.Kind == operator.KeyText && z.Per == enforce.PerKey:
		return [][]byte{textKey(z.ShortenIP(sub.Value))}
	case sub.Kind == operator.APIKey && (z.Per == enforce.PerAPIKey || z.Per == enforce.PerClient):
		return [][]byte{append([]byte{identity.TagAPIKey}, sub.Value...)}
	}
	return nil
}

// networkKey returns the key of the network that contains the target, given the lengths of
// networks' prefixes. It returns nil if the target spans several such networks.
func (sub *subject) networkKey(ipv4, ipv6 int) []byte {
	network, ok := identity.Prefix(sub.Network.Addr().String(), ipv4, ipv6)
	if !ok || network.Bits() > sub.Network.Bits() {
		return nil
	}
	return identity.AppendPrefix([]byte{identity.TagNetwork}, network)
}

// countedKey is a key of the target with a limit that counts it.
type countedKey struct {
	tierLimit
	key  string      // "" if only its name is known
	name storage.Key // at rest, if the key is ""
	held bool        // in memory; otherwise the key follows from the target's name
}

// countedKeys returns the target's keys in some zones with their limits, at most `most`: all keys
// that follow from its name, and those in memory. If tiers share a count, the limit is that of the
// target's tier, or else the one that was applied last.
func (sub *subject) countedKeys(zones []*enforce.Zone, most int) (list []countedKey) {
	if r := sub.Referred; r != nil {
		if p := r.Policy; p != nil && slices.Contains(zones, p.Zone) && r.Name != (storage.Key{}) {
			list = append(list,
				countedKey{tierLimit: tierLimit{Policy: p}, key: r.Key, name: r.Name, held: r.Key != ""})
		}
		return list
	}
	type id struct {
		limit storage.LimitID
		key   string
	}
	found := make(map[id]int)
	add := func(c countedKey) {
		index, ok := found[id{c.ID, c.key}]
		switch {
		case ok && c.held:
			if list[index].held = true; sub.Kind != operator.APIKey {
				list[index].tierLimit = c.tierLimit
			}
		case !ok && len(list) < most:
			found[id{c.ID, c.key}] = len(list)
			list = append(list, c)
		}
	}
	for _, z := range zones {
		sub.eachNamed(z, add)
	}
	limits := sub.Config.limitsOf(zones)
	for _, k := range sub.Instance.Engine.Keys(
		engine.KeysQuery{N: most, Match: func(id storage.LimitID, key []byte) bool {
			return limits[id] != nil && sub.isIn(string(key)) &&
				(sub.Kind != operator.Address || !isWritten(limits[id][0].Zone, key))
		}}) {
		add(countedKey{tierLimit: applied(limits[k.Limit.ID], k.Limit), key: k.Key, held: true})
	}
	return list
}

// eachNamed passes the keys that follow from the target's name in a zone to add, those of the
// target's tier first.
func (sub *subject) eachNamed(z *enforce.Zone, add func(countedKey)) {
	tier, _ := sub.tierIn(z)
	sets := z.SetsByTier(sub.Config.Tiers)
	slices.SortStableFunc(sets, func(a, b enforce.TierSet) int {
		switch {
		case a.Tier == tier && b.Tier != tier:
			return -1
		case a.Tier != tier && b.Tier == tier:
			return 1
		}
		return 0
	})
	keys := sub.keysIn(z)
	for _, s := range sets {
		for _, key := range keys {
			for _, p := range slices.Concat(s.Set.Policies, s.Set.Shadows) {
				add(countedKey{tierLimit: tierLimit{p, s.Tier}, key: string(key)})
			}
		}
		if s.Set.Networks == nil || sub.Kind != operator.Address {
			continue
		}
		if key := sub.networkKey(sub.Config.Prefixes(0, 0)); key != nil {
			for _, p := range slices.Concat(s.Set.Networks.Policies, s.Set.Networks.Shadows) {
				add(countedKey{tierLimit: tierLimit{p, s.Tier}, key: string(key)})
			}
		}
	}
}

// tierIn returns the target's tier in a zone, and reports whether it is known without a request.
func (sub *subject) tierIn(z *enforce.Zone) (tier string, known bool) {
	switch {
	case z.Tiers && sub.Kind == operator.APIKey:
		return sub.keyTier(), true
	case z.Tiers && sub.Config.APIKeys != nil:
		return sub.Config.APIKeys.DefaultTier, true
	}
	return z.DefaultTier, z.DefaultTier != ""
}

// keyTier returns the tier of the target's API key, or "".
func (sub *subject) keyTier() string {
	if sub.Kind != operator.APIKey {
		return ""
	}
	return sub.Config.APIKeys.TierOf(sub.Value, time.Now())
}

// clients returns the clients of the target with a bad record in memory, at most `most`, and the
// keys that follow from its name.
func (sub *subject) clients(most int) (list []engine.ClientRecord) {
	if sub.Referred != nil {
		return nil
	}
	list = sub.Instance.Engine.Clients(
		engine.ClientsQuery{N: most, Match: func(key []byte) bool { return sub.isIn(string(key)) }})
	if sub.Kind == operator.APIKey && len(list) == 0 {
		list = append(list, engine.ClientRecord{Key: sub.key()})
	}
	return list
}

// targetOf returns the name of a key's client, or "".
func targetOf(key string) string {
	if network, ok := identity.NetworkOf(key); ok {
		return operator.Target{Kind: operator.Address, Network: network}.String()
	}
	return watch.ClientOf(key, identity.KeyText([]byte(key)))
}

// unlessAddress returns the name of a key's client, or "" if it can be linked to an address.
func unlessAddress(key string) string {
	if identity.IsAddress(key) {
		return ""
	}
	return targetOf(key)
}

// tag returns the tag of the target's client, or "" if the target isn't a single client.
func (sub *subject) tag() string {
	if sub.Kind == operator.Address {
		return sub.Instance.Names.Tag(string(sub.networkKey(sub.Config.Prefixes(0, 0))))
	}
	return sub.Instance.Names.Tag(sub.key())
}

// tagOf returns the tag of the client that a rule names, or "". A rule about an address that counts as another
// isn't about the client of that.
func (cfg runningConfig) tagOf(inst *instance.Instance, client string) string {
	named, err := operator.ParseTarget(client)
	sub := &subject{Target: named, Config: cfg, Instance: inst}
	if err != nil || named.Kind == operator.Address && sub.counted() != named.Network {
		return ""
	}
	return sub.tag()
}

// ruleIn returns the rule of a set about the target, or nil.
func (sub *subject) ruleIn(set *rules.Set, now time.Time) *rules.Rule {
	switch sub.Kind {
	case operator.Address:
		found := sub.Config.AboutAddress(set, sub.Network.Addr(), true, now)
		for _, z := range sub.Config.AllZones { // their keys may be texts, such as AS64496
			for _, key := range sub.keysIn(z) {
				if key[0] == identity.TagText && set.Has(rules.Key) {
					found = rules.Stronger(found, set.Find(rules.Key, string(key[1:]), true, now))
				}
			}
		}
		return found
	case operator.APIKey:
		return enforce.AboutAPIKey(set, sub.Value, now)
	case operator.KeyText:
		return set.Find(rules.Key, sub.Value, true, now)
	case operator.Session:
		return set.Find(rules.Session, sub.Value, true, now)
	case operator.ASN:
		return set.Find(rules.ASN, sub.Value, true, now)
	case operator.Country:
		return set.Find(rules.Country, sub.Value, true, now)
	}
	return nil
}

// raise raises the limit of a debit, if an operator has raised the target's.
func (sub *subject) raise(p *enforce.Policy, d *engine.Debit) {
	for _, set := range sub.Config.Stated.Now().Raises(p.Zone.Name, p.Name) {
		if by := sub.ruleIn(set, time.Now()); by != nil {
			p.Raise(d, by)
			return
		}
	}
}

// resolveTag replaces a target that is a tag by the tag's client in memory, or else in the rules.
func (sub *subject) resolveTag(ctx context.Context, s running) error {
	tag, clients := strings.ToLower(sub.Value), make(map[string]string) // names, or keys without one, and keys
	has := func(key []byte) bool {
		return ctx.Err() == nil && strings.HasPrefix(sub.Instance.Names.FullTag(key), tag)
	}
	for _, k := range sub.Instance.Engine.Keys(
		engine.KeysQuery{N: operator.MaxItems, Match: func(_ storage.LimitID, key []byte) bool { return has(key) }}) {
		clients[cmp.Or(targetOf(k.Key), k.Key)] = k.Key
	}
	for _, c := range sub.Instance.Engine.Clients(engine.ClientsQuery{N: operator.MaxItems, Match: has}) {
		clients[cmp.Or(targetOf(c.Key), c.Key)] = c.Key
	}
	if len(clients) == 0 {
		bans, _ := s.Bans(ctx) // it fails if the file can't be read, which a ban reports
		for _, b := range bans {
			if b.Client != "" && b.Tag == tag {
				clients[b.Client] = ""
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch len(clients) {
	case 0:
		return operator.Errorf(http.StatusNotFound, "client: memory holds no client with the tag %s: tags of addresses change every day (UTC); name it by its address, api-key:NAME or key:TEXT", sub.Value)
	case 1:
		for client, key := range clients {
			if client == key {
				sub.nameless = key
				return nil
			}
			named, err := operator.ParseTarget(client)
			sub.Target = named
			return err
		}
	}
	return operator.Errorf(http.StatusConflict,
		"client: %d clients have the tag %s: name the one you mean by its address, api-key:NAME or key:TEXT",
		len(clients), sub.Value)
}
