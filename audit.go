package tally

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

// errAuditAway says that the audit can't be used, because the store can't.
var errAuditAway = operator.Errorf(http.StatusServiceUnavailable, "the store can't be used at the moment, and neither can the audit that is in it: caddy rate-limit status says why")

// auditError returns the error that an operator gets for an error of the store. In an outage the
// last store that was in use is closed.
func auditError(err error) error {
	if errors.Is(err, storage.ErrClosed) {
		return errAuditAway
	}
	return err
}

// auditor returns the store that is in use as one that keeps the audit.
func (h *instance) auditor() (storage.Auditor, error) {
	store := h.store.Load()
	if store == nil {
		return nil, errAuditAway
	}
	auditor, ok := (*store).(storage.Auditor)
	if !ok {
		return nil, operator.Errorf(http.StatusServiceUnavailable, "the store %s keeps no audit", h.settings.kind)
	}
	return auditor, nil
}

// auditEntry is what is noted in the audit.
type auditEntry struct {
	at         int64 // of the store's time; 0 is now
	by, action string
	target     *operator.Target // nil if it is about nobody
	reason     string
}

// audit notes who did what to whom. When it returns nil, that is in the store, so whatever it
// is about may be answered then. A reader of the store learns neither the target nor the reason.
func (h *instance) audit(ctx context.Context, e auditEntry) error {
	_ = h.catchUpAudit(ctx) // what fails waits on
	return h.writeAudit(ctx, e)
}

func (h *instance) writeAudit(ctx context.Context, e auditEntry) error {
	auditor, err := h.auditor()
	if err != nil {
		return err
	}
	act := storage.Act{At: cmp.Or(e.at, h.engine.Now()), By: e.by, Action: e.action, Reason: operator.OneLine(e.reason)}
	name := ""
	if e.target != nil {
		names, err := h.namesInAudit(*e.target)
		if err != nil {
			return err
		}
		act.Kind, act.Target = kindInAudit(*e.target), names[0]
		if e.target.Kind == operator.APIKey {
			name = e.target.Value
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

// namesInAudit returns the name at rest that an entry about a target has, and after it those that
// earlier entries may have. The name of an address can't be linked to it any more when the entries
// are gone: see [epoch.Keys].
func (h *instance) namesInAudit(t operator.Target) ([]string, error) {
	if h.secret.Load() == nil {
		return nil, operator.Errorf(http.StatusServiceUnavailable, "the secret can't be read at the moment, so nothing can be noted in the audit")
	}
	key := []byte(t.String())
	if !t.TellsAddress() {
		name := atrest.Opaque(h.lastingNames(), key)
		return []string{hex.EncodeToString(name[:])}, nil
	}
	var names []string
	for _, retention := range auditNames {
		hash, err := atrest.OpaqueFor(h.epochs, key, retention, h.lasting())
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
func (h *instance) sealAct(act *storage.Act, name string) error {
	act.Cut()
	if act.Reason == "" && name == "" {
		return nil
	}
	sealer, err := h.secret.Load().Sealer(auditPurpose)
	if err != nil {
		return err
	}
	text := padded(name + "\n" + act.Reason)
	act.Reason = sealedReason + base64.RawStdEncoding.EncodeToString(sealer.Seal(sealedFor(act), []byte(text)))
	return nil
}

const auditPurpose = "audit"

// sealedFor returns the rest of an entry, which a sealed reason belongs to.
func sealedFor(act *storage.Act) string {
	return strings.Join([]string{act.By, act.Action, act.Kind, act.Target}, "\n")
}

// openAct returns the name of the API key that an entry is about, or "", and the reason.
func openAct(sealer *identity.Sealer, act *storage.Act) (name, reason string) {
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

// acts returns the n newest entries before a time, in nanoseconds since the Unix epoch, the
// newest first.
func (h *instance) acts(ctx context.Context, before int64, n int) ([]storage.Act, error) {
	auditor, err := h.auditor()
	if err != nil {
		return nil, err
	}
	_ = h.catchUpAudit(ctx) // if it fails, what is in the store is listed all the same
	acts, err := auditor.Acts(ctx, before, n)
	return acts, auditError(err)
}

// actsAbout returns the n newest entries before a time about a client, and about networks that an
// address is in.
func (h *instance) actsAbout(ctx context.Context, t operator.Target, before int64, n int) (found []storage.Act, err error) {
	names := make(map[string]bool)
	for _, around := range targetsAround(t) {
		more, err := h.namesInAudit(around)
		if err != nil {
			return nil, err
		}
		for _, name := range more {
			names[name] = true
		}
	}
	for len(found) < n {
		page, err := h.acts(ctx, before, storage.MaxActs)
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
	entries []auditEntry // guarded by mu
}

// maxLateAudit is how many entries wait for a store.
const maxLateAudit = 1000

// lateAudits has a *lateAudit for each store of this process and its secret. It outlives instances: a
// reload in an outage may replace them.
var lateAudits sync.Map

func (h *instance) lateAudit() *lateAudit {
	late, _ := lateAudits.LoadOrStore([2]string{h.settings.store, h.settings.secret}, new(lateAudit))
	return late.(*lateAudit)
}

// add keeps an entry until the store can be used. It returns false if too many wait already.
func (l *lateAudit) add(e auditEntry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= maxLateAudit {
		return false
	}
	l.entries = append(l.entries, e)
	return true
}

// take returns an entry that waits, the oldest first.
func (l *lateAudit) take() (e auditEntry, ok bool) {
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
func (h *instance) auditAfterOutage() {
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	_ = h.catchUpAudit(ctx) // they wait on
}

// catchUpAudit writes the entries that wait.
func (h *instance) catchUpAudit(ctx context.Context) error {
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

// actsOf returns the newest entries of the audit before a time: all, or those about a client.
func (h *instance) actsOf(ctx context.Context, client string, before int64, n int) ([]storage.Act, error) {
	if h.secret.Load() == nil {
		return nil, errAuditAway
	}
	if client == "" {
		return h.acts(ctx, before, n)
	}
	t, err := operator.ParseTarget(client)
	if err != nil {
		return nil, err
	}
	return h.actsAbout(ctx, t, before, n)
}

// auditSoon notes an entry in the audit, or keeps it until the store can be used: late reports that.
func (h *instance) auditSoon(ctx context.Context, e auditEntry) (late bool, err error) {
	if !h.engine.Degraded() {
		err = h.audit(ctx, e)
		told := (*operator.Error)(nil)
		if err == nil || ctx.Err() != nil || errors.As(err, &told) && told != errAuditAway {
			return false, err
		}
	}
	e.at = h.engine.Now()
	if !h.lateAudit().add(e) {
		return false, operator.Errorf(http.StatusServiceUnavailable, "the store can't be used at the moment, and %d entries of the audit wait for it already", maxLateAudit)
	}
	return true, nil
}
