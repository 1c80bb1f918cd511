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
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// ErrAuditAway says that the audit can't be used, because the store can't.
var ErrAuditAway = operator.Errorf(http.StatusServiceUnavailable, "the store can't be used at the moment, and neither can the audit that is in it: caddy rate-limit status says why")

// auditError returns the error that an operator gets for an error of the store. In an outage the
// last store that was in use is closed.
func auditError(err error) error {
	if errors.Is(err, storage.ErrClosed) {
		return ErrAuditAway
	}
	return err
}

// Auditor returns the store that is in use as one that keeps the audit.
func (h *Instance) Auditor() (storage.Auditor, error) {
	store := h.Store.Load()
	if store == nil {
		return nil, ErrAuditAway
	}
	auditor, ok := (*store).(storage.Auditor)
	if !ok {
		return nil, operator.Errorf(http.StatusServiceUnavailable, "the store %s keeps no audit", h.Settings.Kind)
	}
	return auditor, nil
}

// AuditEntry is what is noted in the audit.
type AuditEntry struct {
	at         int64 // of the store's time; 0 is now
	By, Action string
	Target     *operator.Target // nil if it is about nobody
	Reason     string
}

// Audit notes who did what to whom. When it returns nil, that is in the store, so whatever it
// is about may be answered then. A reader of the store learns neither the target nor the reason.
func (h *Instance) Audit(ctx context.Context, e AuditEntry) error {
	_ = h.catchUpAudit(ctx) // what fails waits on
	return h.writeAudit(ctx, e)
}

func (h *Instance) writeAudit(ctx context.Context, e AuditEntry) error {
	auditor, err := h.Auditor()
	if err != nil {
		return err
	}
	act := storage.Act{At: cmp.Or(e.at, h.Engine.Now()), By: e.By, Action: e.Action, Reason: operator.OneLine(e.Reason)}
	name := ""
	if e.Target != nil {
		names, err := h.NamesInAudit(*e.Target)
		if err != nil {
			return err
		}
		act.Kind, act.Target = kindInAudit(*e.Target), names[0]
		if e.Target.Kind == operator.APIKey {
			name = e.Target.Value
		}
	}
	if err := h.sealAct(&act, name); err != nil {
		return err
	}
	return auditError(auditor.Audit(ctx, &act))
}

func kindInAudit(t operator.Target) string {
	if t.Kind == operator.Address && !t.Network.IsSingleIP() {
		return "network"
	}
	return string(t.Kind)
}

// NamesInAudit returns the name at rest that an entry about a target has, and after it those that
// earlier entries may have. The name of an address can't be linked to it any more when the entries
// are gone: see [epoch.Keys].
func (h *Instance) NamesInAudit(t operator.Target) ([]string, error) {
	if h.Secret.Load() == nil {
		return nil, operator.Errorf(http.StatusServiceUnavailable, "the secret can't be read at the moment, so nothing can be noted in the audit")
	}
	key := []byte(t.String())
	if !t.TellsAddress() {
		name := atrest.Opaque(h.lastingNames(), key)
		return []string{hex.EncodeToString(name[:])}, nil
	}
	var names []string
	for _, retention := range auditNames {
		hash, err := atrest.OpaqueFor(h.Epochs, key, retention, h.Lasting())
		if err != nil {
			return nil, err
		}
		for _, name := range [][16]byte{hash.Current, hash.Former} {
			if name != [16]byte{} {
				names = append(names, hex.EncodeToString(name[:]))
			}
		}
	}
	return names, nil
}

// auditNames are for how long the names of addresses can be linked: those of new entries as long
// as these are kept, those of entries by earlier versions for a day or two.
var auditNames = []time.Duration{storage.KeepActs, storage.Day}

// sealedReason begins the reason of an entry that is sealed. Entries of earlier versions have it
// in plain.
const sealedReason = "sealed:"

// sealAct seals the reason of an entry, and the name of the API key that it is about.
func (h *Instance) sealAct(act *storage.Act, name string) error {
	act.Cut()
	if act.Reason == "" && name == "" {
		return nil
	}
	sealer, err := h.Secret.Load().Sealer(AuditPurpose)
	if err != nil {
		return err
	}
	text := padded(name + "\n" + act.Reason)
	act.Reason = sealedReason + base64.RawStdEncoding.EncodeToString(sealer.Seal(sealedFor(act), []byte(text)))
	return nil
}

const AuditPurpose = "audit"

// sealedFor returns the rest of an entry, which a sealed reason belongs to.
func sealedFor(act *storage.Act) string {
	return strings.Join([]string{act.By, act.Action, act.Kind, act.Target}, "\n")
}

// OpenAct returns the name of the API key that an entry is about, or "", and the reason.
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

// Acts returns the n newest entries before a time, in nanoseconds since the Unix epoch, the
// newest first.
func (h *Instance) Acts(ctx context.Context, before int64, n int) ([]storage.Act, error) {
	auditor, err := h.Auditor()
	if err != nil {
		return nil, err
	}
	_ = h.catchUpAudit(ctx) // if it fails, what is in the store is listed all the same
	acts, err := auditor.Acts(ctx, before, n)
	return acts, auditError(err)
}

// actsAbout returns the n newest entries before a time about a client, and about networks that an
// address is in.
func (h *Instance) actsAbout(ctx context.Context, t operator.Target, before int64, n int) (found []storage.Act, err error) {
	names := make(map[string]bool)
	for _, around := range targetsAround(t) {
		more, err := h.NamesInAudit(around)
		if err != nil {
			return nil, err
		}
		for _, name := range more {
			names[name] = true
		}
	}
	for len(found) < n {
		page, err := h.Acts(ctx, before, storage.MaxActs)
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

// targetsAround returns a target, and all networks that it is in.
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

// lateAudit is the entries that could not be written, because the store couldn't be used.
type lateAudit struct {
	mu      sync.Mutex
	entries []AuditEntry // guarded by mu
}

// maxLateAudit is how many entries wait for a store.
const maxLateAudit = 1000

// lateAudits has a *lateAudit for each store of this process and its secret. It outlives instances: a
// reload in an outage may replace them.
var lateAudits sync.Map

func (h *Instance) lateAudit() *lateAudit {
	late, _ := lateAudits.LoadOrStore([2]string{h.Settings.Store, h.Settings.Secret}, new(lateAudit))
	return late.(*lateAudit)
}

// Add keeps an entry until the store can be used. It returns false if too many wait already.
func (l *lateAudit) add(e AuditEntry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= maxLateAudit {
		return false
	}
	l.entries = append(l.entries, e)
	return true
}

// take returns an entry that waits, the oldest first.
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

// auditAfterOutage writes the entries that wait, if the store can be used.
func (h *Instance) auditAfterOutage() {
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	_ = h.catchUpAudit(ctx) // they wait on
}

// catchUpAudit writes the entries that wait.
func (h *Instance) catchUpAudit(ctx context.Context) error {
	for late := h.lateAudit(); ; {
		next, ok := late.take()
		if !ok {
			return nil
		}
		if err := h.writeAudit(ctx, next); err != nil {
			late.add(next)
			return err
		}
	}
}

// ActsOf returns the newest entries of the audit before a time: all, or those about a client.
func (h *Instance) ActsOf(ctx context.Context, client string, before int64, n int) ([]storage.Act, error) {
	if h.Secret.Load() == nil {
		return nil, ErrAuditAway
	}
	if client == "" {
		return h.Acts(ctx, before, n)
	}
	t, err := operator.ParseTarget(client)
	if err != nil {
		return nil, err
	}
	return h.actsAbout(ctx, t, before, n)
}

// AuditSoon notes an entry in the audit, or keeps it until the store can be used: late reports that.
func (h *Instance) AuditSoon(ctx context.Context, e AuditEntry) (late bool, err error) {
	if !h.Engine.Degraded() {
		err = h.Audit(ctx, e)
		told := (*operator.Error)(nil)
		if err == nil || ctx.Err() != nil || errors.As(err, &told) && told != ErrAuditAway {
			return false, err
		}
	}
	e.at = h.Engine.Now()
	if !h.lateAudit().add(e) {
		return false, operator.Errorf(http.StatusServiceUnavailable, "the store can't be used at the moment, and %d entries of the audit wait for it already", maxLateAudit)
	}
	return true, nil
}
