package instance

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// errAuditAway is the error of an audit whose store can't be used.
var errAuditAway = operator.Errorf(http.StatusServiceUnavailable,
	"the store can't be used at the moment, and neither can the audit that is in it: caddy rate-limit status says why")

// auditError returns the operator's error for an error of the store. In an outage the store that
// was last in use is closed.
func auditError(err error) error {
	if errors.Is(err, storage.ErrClosed) {
		return errAuditAway
	}
	return err
}

// Audit records the actions of operators in the store.
type Audit struct{ instance *Instance }

// Store returns the store in use.
func (a *Audit) Store() (storage.Store, error) {
	store := a.instance.Store.Load()
	if store == nil {
		return nil, errAuditAway
	}
	return *store, nil
}

// AuditEntry is an entry of the audit.
type AuditEntry struct {
	Log        storage.Log
	at         int64 // in the store's time; 0 is now
	By, Action string
	Target     *operator.Target // nil if the entry concerns no client
	Reason     string
}

// Write writes an entry to the audit. When it returns nil, the entry is in the store, so the action
// may be confirmed. A reader of the store learns neither the target nor the reason.
func (a *Audit) Write(ctx context.Context, e AuditEntry) error {
	_ = a.catchUp(ctx) // failed entries keep waiting
	return a.write(ctx, e)
}

func (a *Audit) write(ctx context.Context, e AuditEntry) error {
	store, err := a.Store()
	if err != nil {
		return err
	}
	act := storage.Act{At: cmp.Or(e.at, a.instance.Engine.Now()), By: e.By, Action: e.Action,
		Reason: operator.OneLine(e.Reason)}
	name := ""
	if e.Target != nil {
		names, err := a.instance.Names.inAudit(*e.Target)
		if err != nil {
			return err
		}
		act.Kind, act.Target = kindInAudit(*e.Target), names[0]
		if k := e.Target.Kind; k == operator.APIKey || k == operator.ASN || k == operator.Country { // nobody's address
			name = e.Target.Value
		}
	}
	a.seal(&act, name)
	return auditError(store.Audit(ctx, e.Log, &act))
}

func kindInAudit(t operator.Target) string {
	if t.Kind == operator.Address && !t.Network.IsSingleIP() {
		return "network"
	}
	return string(t.Kind)
}

// inAudit returns the name at rest of a target in new entries, followed by its possible names in
// earlier ones. The name of an address can't be linked to it once the entries are gone: see
// [epoch.Keys].
func (n *Names) inAudit(t operator.Target) ([]string, error) {
	if n.Secret.Load() == nil {
		return nil, operator.Errorf(http.StatusServiceUnavailable,
			"the secret can't be read at the moment, so nothing can be noted in the audit")
	}
	key := []byte(t.String())
	if !t.TellsAddress() {
		name := atrest.Opaque(n.lasting(), key)
		return []string{hex.EncodeToString(name[:])}, nil
	}
	hash, err := atrest.OpaqueFor(n.Epochs, key, storage.KeepActs, n.instance.Lasting())
	names := []string{hex.EncodeToString(hash.Current[:])}
	if hash.Former != [16]byte{} {
		names = append(names, hex.EncodeToString(hash.Former[:]))
	}
	return names, err
}

// sealedReason is the prefix of a sealed reason. An entry with nothing to seal has none.
const sealedReason = "sealed:"

// seal seals the reason of an entry, and the name of its API key.
func (a *Audit) seal(act *storage.Act, name string) {
	act.Cut()
	if act.Reason == "" && name == "" {
		return
	}
	sealer, text := a.instance.Names.Secret.Load().Sealer(AuditPurpose), padded(name+"\n"+act.Reason)
	act.Reason = sealedReason + base64.RawStdEncoding.EncodeToString(sealer.Seal(sealedFor(act), []byte(text)))
}

const AuditPurpose = "audit"

// sealedFor returns the rest of an entry, to which a sealed reason is bound.
func sealedFor(act *storage.Act) string {
	return strings.Join([]string{act.By, act.Action, act.Kind, act.Target}, "\n")
}

// OpenAct returns the name of the API key of an entry, or "", and the reason.
func OpenAct(sealer *identity.Sealer, act *storage.Act) (name, reason string) {
	text, ok := strings.CutPrefix(act.Reason, sealedReason)
	if !ok {
		return "", act.Reason
	}
	sealed, err := base64.RawStdEncoding.DecodeString(text)
	if err == nil {
		if plain, _, ok := sealer.Open(sealedFor(act), sealed); ok {
			name, reason, _ = strings.Cut(strings.TrimRight(string(plain), " "), "\n")
			return name, reason
		}
	}
	return "", "(sealed under another secret)"
}

// List returns the n newest entries of a list before a time, in nanoseconds since the Unix epoch, the
// newest first.
func (a *Audit) List(ctx context.Context, log storage.Log, before int64, n int) ([]storage.Act, error) {
	store, err := a.Store()
	if err != nil {
		return nil, err
	}
	_ = a.catchUp(ctx) // if it fails, lists the entries in the store
	acts, err := store.Acts(ctx, log, before, n)
	return acts, auditError(err)
}

// about returns the n newest entries before a time about a client, and about the networks of an
// address.
func (a *Audit) about(ctx context.Context, log storage.Log, t operator.Target, before int64,
	n int) (found []storage.Act, err error) {
	names := make(map[string]bool)
	for _, around := range targetsAround(t) {
		more, err := a.instance.Names.inAudit(around)
		if err != nil {
			return nil, err
		}
		for _, name := range more {
			names[name] = true
		}
	}
	for len(found) < n {
		page, err := a.List(ctx, log, before, storage.MaxActs)
		if err != nil {
			return nil, err
		}
		for _, act := range page {
			if names[act.Target] && len(found) < n {
				found = append(found, act)
			}
		}
		if len(page) < storage.MaxActs {
			break
		}
		before = page[len(page)-1].At
	}
	return found, nil
}

// targetsAround returns a target and all networks that contain it.
func targetsAround(t operator.Target) []operator.Target {
	all := []operator.Target{t}
	if t.Kind != operator.Address {
		return all
	}
	for bits := t.Network.Bits() - 1; bits >= 0; bits-- {
		all = append(all, operator.Target{Kind: t.Kind, Network: netip.PrefixFrom(t.Network.Addr(), bits).Masked()})
	}
	return all
}

// lateAudit holds the entries that wait for the store.
type lateAudit struct {
	mu      sync.Mutex
	entries []AuditEntry // guarded by mu
}

// maxLateAudit is the most entries that wait for a store.
const maxLateAudit = 1000

// lateAudits maps each store of this process and its secret to a *lateAudit. It outlives instances:
// a reload in an outage may replace them.
var lateAudits sync.Map

func (a *Audit) late() *lateAudit {
	late, _ := lateAudits.LoadOrStore([2]string{a.instance.Settings.Counts, a.instance.Settings.Secret}, new(lateAudit))
	return late.(*lateAudit)
}

// add keeps an entry until the store can be used. It returns false if too many wait already.
func (l *lateAudit) add(e AuditEntry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= maxLateAudit {
		return false
	}
	l.entries = append(l.entries, e)
	return true
}

// take returns the oldest entry that waits.
func (l *lateAudit) take() (e AuditEntry, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return e, false
	}
	e = l.entries[0]
	l.entries = slices.Delete(l.entries, 0, 1)
	return e, true
}

// afterOutage writes the waiting entries, if the store can be used.
func (a *Audit) afterOutage() {
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	_ = a.catchUp(ctx) // failed entries keep waiting
}

// catchUp writes the waiting entries.
func (a *Audit) catchUp(ctx context.Context) error {
	for late := a.late(); ; {
		next, ok := late.take()
		if !ok {
			return nil
		}
		if err := a.write(ctx, next); err != nil {
			late.add(next)
			return err
		}
	}
}

// Of returns the newest entries of a list before a time: all, or those about a client.
func (a *Audit) Of(ctx context.Context, log storage.Log, client string, before int64, n int) ([]storage.Act, error) {
	if a.instance.Names.Secret.Load() == nil {
		return nil, errAuditAway
	}
	if client == "" {
		return a.List(ctx, log, before, n)
	}
	t, err := operator.ParseTarget(client)
	if err != nil {
		return nil, err
	}
	return a.about(ctx, log, t, before, n)
}

// WriteSoon writes an entry to the audit. If the store can't be used, it keeps the entry until it
// can, and reports that as late.
func (a *Audit) WriteSoon(ctx context.Context, e AuditEntry) (late bool, err error) {
	if !a.instance.Engine.Degraded() {
		err = a.Write(ctx, e)
		refusal := (*operator.Error)(nil)
		if err == nil || ctx.Err() != nil || errors.As(err, &refusal) && refusal != errAuditAway {
			return false, err
		}
	}
	e.at = a.instance.Engine.Now()
	if !a.late().add(e) {
		return false, operator.Errorf(http.StatusServiceUnavailable,
			"the store can't be used at the moment, and %d entries of the audit wait for it already", maxLateAudit)
	}
	return true, nil
}
