package instance

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Names makes the names of clients and keys at rest, with the secret of this machine and the keys
// of epochs.
type Names struct {
	instance    *Instance
	Secret      atomic.Pointer[identity.Secret]
	Epochs      *epoch.Keys
	references  atomic.Pointer[reference.Sealer] // derived from the secret; nil until first use
	agreed      atomic.Pointer[agreedKey]        // shared by all processes on a store; nil until it is open
	here        local                            // where those of one machine keep it
	regionNames atomic.Pointer[identity.Hasher]  // names keys for other regions; nil until first use
}

// keep rewrites key files that were removed while in use. Otherwise the next process that opens the
// store would create other keys, and count every client from 0. If the folder of a configured
// secret is gone, keep leaves it alone: it may be a disk that is temporarily missing.
func (n *Names) keep() error {
	secret, s := n.Secret.Load(), n.instance.Settings
	if secret == nil {
		return nil
	}
	var errs []error
	if isOurs := filepath.Dir(s.Secret) == filepath.Dir(s.Epochs); s.Secret != "" && (isOurs || isMissing(s.Secret)) {
		errs = append(errs, keepFile(s.Secret, secret.Keep))
	}
	switch {
	case s.Epochs != "":
		errs = append(errs, keepFile(s.Epochs, func(string) error { return n.Epochs.Keep(n.instance.Lasting()) }))
	case s.Address != "" && !n.isCutOff():
		errs = append(errs, n.Epochs.Keep(n.instance.Lasting()))
	}
	if agreed := n.agreed.Load(); agreed != nil {
		n.keepAgreed(agreed.key)
	}
	return errors.Join(errs...)
}

// keepFile calls keep, and warns if the file was missing.
func keepFile(path string, keep func(path string) error) error {
	removed := isMissing(path)
	if err := keep(path); err != nil {
		return err
	}
	if removed && !isMissing(path) {
		caddyconf.Logger().Warn("keys were removed while they are in use; they are written again, because without them everything would be counted from 0", zap.String("path", path))
	}
	return nil
}

// keepThoseOfOthers makes the instances of this process that use the same files rewrite missing
// ones before this instance opens them.
func (n *Names) keepThoseOfOthers() {
	Each(func(other *Instance) {
		if other == n.instance || other.Settings.Secret != n.instance.Settings.Secret &&
			other.Settings.Epochs != n.instance.Settings.Epochs {
			return
		}
		if err := other.Names.keep(); err != nil {
			caddyconf.Logger().Error("keys that were removed could not be written again", zap.Error(WithRemedy(err)))
		}
	})
}

// isMissing reports whether a file is missing from an existing folder.
func isMissing(path string) bool {
	_, err := os.Lstat(path)
	_, noFolder := os.Stat(filepath.Dir(path))
	return errors.Is(err, fs.ErrNotExist) && noFolder == nil
}

// find determines where the keys for names at rest are. A configured secret takes precedence over a
// store's.
func (n *Names) find(in stores.Store) {
	if n.instance.Settings.Address != "" {
		n.Epochs = epoch.InVault(vaultOf{n.instance}, n.Secret.Load)
		return
	}
	keyed, ok := in.(stores.Keyed)
	if !ok {
		n.here.keys = n.inFile(n.Secret.Load)
		n.Epochs = epoch.In(n.instance.Settings.Epochs)
		return
	}
	secret, epochs := keyed.Keys()
	n.Epochs = epochs
	if n.instance.Settings.Secret == "" {
		n.Secret.Store(secret)
	}
}

// openSecret reads the secret, once: hashes must not change under a running engine. When the store
// is reopened, it rewrites removed key files.
func (n *Names) openSecret(path string) error {
	if n.Secret.Load() != nil {
		return n.keep()
	}
	n.keepThoseOfOthers()
	secret, err := identity.OpenSecret(path)
	if err != nil {
		return err
	}
	n.Secret.Store(secret)
	return nil
}

// AwaitSecret returns the secret, or nil if it can't be read. It waits for it up to ReadyTimeout
// after the instance was made: a hanging disk delays no later request.
func (n *Names) AwaitSecret(ctx context.Context) *identity.Secret {
	if secret := n.Secret.Load(); secret != nil {
		return secret
	}
	n.instance.AwaitStore(ctx)
	return n.Secret.Load()
}

// ForStore implements engine.Options.Name.
func (n *Names) ForStore(id storage.LimitID, key string, retention time.Duration, now int64) (engine.Name, error) {
	hash, err := atrest.HashKey(n.lasting(), n.Epochs, uint64(id), key, retention+limiter.MaxSkew, time.Unix(0, now))
	return engine.Name{Key: hash.Current, Former: hash.Former, From: hash.From, Until: hash.Until}, WithRemedy(err)
}

// ForStoreAtOnce implements engine.Options.NameAtOnce.
func (n *Names) ForStoreAtOnce(id storage.LimitID, key string, retention time.Duration, now int64) (engine.Name, bool) {
	if n.Secret.Load() == nil {
		return engine.Name{}, false
	}
	hash, ok := atrest.HashKeyAtOnce(n.lasting(), n.Epochs, uint64(id), key, retention+limiter.MaxSkew,
		time.Unix(0, now))
	return engine.Name{Key: hash.Current, Former: hash.Former, From: hash.From, Until: hash.Until}, ok
}

// Opaque returns an opaque name of a client.
func (n *Names) Opaque(key []byte, verified bool) (name [16]byte, ok bool) {
	if !verified {
		name, err := atrest.OpaqueToday(n.Epochs, key, n.instance.Lasting())
		return name, err == nil
	}
	if n.Secret.Load() == nil {
		return name, false
	}
	return atrest.Opaque(n.lasting(), key), true
}

// tagSize is the number of hexadecimal digits of a tag.
const tagSize = 6

// Tag returns the short name that distinguishes clients in lists with masked addresses: the
// beginning of the client's opaque name, {http.rate_limit.client}. It is the same in all zones and
// on all machines that share a secret. It is "" for a key that isn't a single client's, and while
// the secret can't be read.
func (n *Names) Tag(key string) string {
	name := n.FullTag([]byte(key))
	return name[:min(tagSize, len(name))]
}

// FullTag returns the opaque name whose beginning is the tag, or "".
func (n *Names) FullTag(key []byte) string {
	if len(key) == 0 || key[0] == identity.TagEveryone || key[0] == identity.TagUnknown {
		return ""
	}
	name, ok := n.Opaque(key, key[0] == identity.TagSession || key[0] == identity.TagAPIKey)
	if !ok {
		return ""
	}
	return hex.EncodeToString(name[:])
}

// Sealer returns the sealer of references, or nil while there is no secret.
func (n *Names) Sealer() *reference.Sealer {
	if s := n.references.Load(); s != nil {
		return s
	}
	secret := n.Secret.Load()
	if secret == nil {
		return nil
	}
	s := reference.New(secret)
	n.references.Store(s)
	return s
}

// Refer returns a new reference of a refusal, or "" if it can't be made. key is the text of the key
// in limit, or of the client's record if limit is nil; "" if nothing was counted.
func (n *Names) Refer(content reference.Refusal, limit *engine.Limit, key string) string {
	sealer := n.Sealer()
	if sealer == nil {
		return ""
	}
	if key != "" {
		name, err := n.instance.Engine.NameOf(limit, key)
		if err != nil {
			return ""
		}
		content.Name = name.Key
	}
	return sealer.Seal(content)
}

// Machines that share a store keep the keys of epochs in it, sealed with the secret.

// use makes the instance use a newly opened store. It agrees with the other processes on the secret,
// and on a network on the keys as well: with different ones, this machine would count every client
// from 0.
func (inst *Instance) use(store storage.Store) error {
	inst.Store.Store(&store)
	n := &inst.Names
	if inst.Settings.Address == "" {
		local, ok := store.(storage.Local)
		if !ok {
			return fmt.Errorf("the store %s is no storage.Local, and has no address", inst.Settings.Kind)
		}
		return n.agreeHere(local)
	}
	network, ok := store.(storage.Network)
	if !ok {
		return fmt.Errorf("the store %s can't keep keys for several machines: it is no storage.Network",
			inst.Settings.Kind)
	}
	inst.network.Store(&network)
	if err := n.agree(); err != nil {
		return err
	}
	return n.Epochs.Keep(inst.Lasting())
}

// agree reads the key with which all machines name verified clients. A changed key means that the
// store has lost everything, and that another machine was there first.
func (n *Names) agree() error {
	own := n.Secret.Load().Keys()[0]
	if agreed := n.agreed.Load(); agreed != nil {
		own = agreed.key
	}
	key, err := n.Epochs.Agree(own)
	if errors.Is(err, epoch.ErrOtherSecret) {
		return fmt.Errorf("secret_file: %q is not the one of the other machines that share the store: copy theirs to this one; if all are equal, the store is a copy from before the secret was replaced: add the former line behind the first one; if nobody has it, start anew as docs/secret.md says (%w)", n.instance.Settings.Secret, err)
	}
	if err == nil {
		n.agreed.Store(&agreedKey{key, identity.NewHasher(key)})
	}
	return err
}

// agreedKey is a key that machines have agreed on, and its hasher.
type agreedKey struct {
	key    []byte
	hasher identity.Hasher
}

// lasting returns the hasher of keys that contain no address. The secret must be known.
func (n *Names) lasting() identity.Hasher {
	if agreed := n.agreed.Load(); agreed != nil {
		return agreed.hasher
	}
	return n.Secret.Load().Hasher
}

// CheckSecret logs whether the secret file has changed since it was read: the next start uses it.
func (n *Names) CheckSecret(log *zap.Logger) {
	used := n.Secret.Load()
	if used == nil || n.instance.Settings.Secret == "" {
		return
	}
	changed, err := identity.ReadSecret(n.instance.Settings.Secret)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a missing file is rewritten
		log.Error("secret_file can't be read, and the next start needs it", zap.Error(WithRemedy(err)))
	}
	if err != nil || changed.Equal(used) {
		return
	}
	keys, then := n.inFile(func() *identity.Secret { return changed }),
		"counts by key and the use of API keys would begin anew"
	if n.instance.Settings.Address != "" {
		keys, then = epoch.InVault(vaultOf{n.instance},
			func() *identity.Secret { return changed }), "this machine could not use the store"
	}
	if seals, err := keys.Seals(); err == nil && seals.Unknown > 0 {
		log.Error("secret_file has changed, and does not fit the store: after its next start "+then+
			". Add the former line behind the new one",
			n.instance.Settings.where(), zap.String("secret_file", n.instance.Settings.Secret))
		return
	}
	log.Warn("secret_file has changed; restart Caddy to use it", zap.String("secret_file", n.instance.Settings.Secret))
}

// isCutOff reports whether keys belong in a store that can't be used at the moment. share writes
// them once it can.
func (n *Names) isCutOff() bool {
	<-n.instance.made
	return n.instance.Settings.Address != "" && n.instance.Engine.Degraded()
}

// vaultOf is the vault in the store that an instance opened last.
type vaultOf struct{ h *Instance }

// vaultTimeout bounds an access to a vault, which happens at a start and at midnight.
const vaultTimeout = time.Second

var errNotOpen = errors.New("the store that has the keys is not open")

// Values implements epoch.Vault.
func (v vaultOf) Values() (map[string][]byte, error) {
	store := v.h.network.Load()
	if store == nil {
		return nil, errNotOpen
	}
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	return (*store).Values(ctx)
}

// SwapValue implements epoch.Vault.
func (v vaultOf) SwapValue(name string, former, value []byte) (kept []byte, err error) {
	store := v.h.network.Load()
	if store == nil {
		return nil, errNotOpen
	}
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	return (*store).SwapValue(ctx, name, former, value)
}

var _ epoch.Vault = vaultOf{}
