package tally

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// errAuditAway says that the audit can't be used, because the store can't.
var errAuditAway = operator.Errorf(http.StatusServiceUnavailable, "the store can't be used at the moment, and neither can the audit that is in it: caddy rate-limit status says why")

// auditError returns what an operator is told of an error of the store. In an outage the last store that
// was in use is closed.
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

// audit notes who did what to whom. When it returns nil, that is in the store, so whatever it
// is about may be answered then. The target is nil if it is nobody. Of a target the audit has
// its kind and its name at rest: of an address, also one that a zone's key is, another one
// every day.
func (h *instance) audit(ctx context.Context, by, action string, target *operator.Target, reason string) error {
	auditor, err := h.auditor()
	if err != nil {
		return err
	}
	act := storage.Act{At: h.engine.Now(), By: by, Action: action, Reason: reason}
	if target != nil {
		if act.Kind, act.Target, err = h.nameInAudit(*target); err != nil {
			return err
		}
	}
	return auditError(auditor.Audit(ctx, &act))
}

// nameInAudit returns the kind of a target, and its name at rest.
func (h *instance) nameInAudit(t operator.Target) (kind, name string, err error) {
	kind = string(t.Kind)
	if t.Kind == operator.Address && !t.Network.IsSingleIP() {
		kind = "network"
	}
	if h.secret.Load() == nil {
		return "", "", operator.Errorf(http.StatusServiceUnavailable, "the secret can't be read at the moment, so nothing can be noted in the audit")
	}
	hash := atrest.Opaque(h.lastingNames(), []byte(t.String()))
	if t.TellsAddress() {
		hash, err = atrest.OpaqueToday(h.epochs, []byte(t.String()), h.lasting())
	}
	return kind, hex.EncodeToString(hash[:]), err
}

// acts returns the n newest acts before a time, in nanoseconds since the Unix epoch, the
// newest first.
func (h *instance) acts(ctx context.Context, before int64, n int) ([]storage.Act, error) {
	auditor, err := h.auditor()
	if err != nil {
		return nil, err
	}
	acts, err := auditor.Acts(ctx, before, n)
	return acts, auditError(err)
}
