package epoch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

// Vault stores values by name, for all machines in a shared database, or for the processes of one in a
// [File]. It only receives keys that are sealed under the secret.
type Vault interface {
	// Values returns all values by their names.
	Values() (map[string][]byte, error)
	// SwapValue replaces the former value under a name, and returns the resulting value. An empty value
	// stands for no value.
	SwapValue(name string, former, value []byte) (kept []byte, err error)
}

// ErrOtherSecret says that values in a vault are sealed under an unknown secret.
var ErrOtherSecret = errors.New("sealed under another secret")

// InVault returns the keys in a vault, sealed under the secret that the function returns.
func InVault(vault Vault, secret func() *identity.Secret) *Keys {
	return &Keys{store: &inVault{vault, secret}}
}

// shared is the name of the key for names of verified clients.
const shared = "secret"

// Agree returns the key under which all users of the vault name verified clients: the first one passed to
// Agree by any of them. It stays the same when the lines of the secret file change. Agree also seals values
// that only a later line opens under the first line, so that the later line can be removed once all files
// have the same order of lines.
//
// The error wraps [ErrOtherSecret] if no line opens the key. For keys that are not in a vault, Agree returns
// key.
func (k *Keys) Agree(key []byte) (agreed []byte, err error) {
	v, ok := k.store.(*inVault)
	if !ok {
		return key, nil
	}
	if agreed, err = v.add(shared, key); err == nil {
		err = v.sealAgain()
	}
	if err != nil {
		return nil, fmt.Errorf("epoch: %w", err)
	}
	return agreed, nil
}

// Agreed returns the key that users of the vault have agreed on. The error wraps [fs.ErrNotExist] if they
// haven't yet, and [ErrOtherSecret] as that of Agree does.
func (k *Keys) Agreed() ([]byte, error) {
	agreed, err := k.store.read(shared)
	if err != nil {
		return nil, fmt.Errorf("epoch: %w", err)
	}
	return agreed, nil
}

// Seals counts the values in a vault by the line that opens them.
type Seals struct {
	First   int // opened by the first line of the secret file
	Later   int // opened by a later line, which is still needed
	Unknown int // opened by no line
}

// Seals counts the values in the vault. Keys that are not in a vault have none.
func (k *Keys) Seals() (n Seals, err error) {
	if v, ok := k.store.(*inVault); ok {
		n, err = v.each(func(string, []byte, []byte) error { return nil })
	}
	return n, err
}

// inVault stores keys in a vault.
type inVault struct {
	vault  Vault
	secret func() *identity.Secret
}

func (v *inVault) read(name string) ([]byte, error) {
	values, err := v.vault.Values()
	if err != nil {
		return nil, err
	}
	sealed, found := values[name]
	if !found {
		return nil, fs.ErrNotExist
	}
	return v.open(name, sealed)
}

func (v *inVault) add(name string, key []byte) ([]byte, error) {
	sealed := v.sealer().Seal(name, key)
	kept, err := v.vault.SwapValue(name, nil, sealed)
	if err != nil || bytes.Equal(kept, sealed) {
		return key, err
	}
	return v.open(name, kept)
}

// sealAgain seals the values of later lines under the first line. If another process does the same, its
// values stay.
func (v *inVault) sealAgain() error {
	_, err := v.each(func(name string, sealed, key []byte) error {
		_, err := v.vault.SwapValue(name, sealed, v.sealer().Seal(name, key))
		return err
	})
	return err
}

// each counts the values, and calls f with those that a later line opens.
func (v *inVault) each(f func(name string, sealed, key []byte) error) (n Seals, err error) {
	sealer := v.sealer()
	values, err := v.vault.Values()
	if err != nil {
		return n, err
	}
	var errs []error
	for name, sealed := range values {
		switch key, first, ok := sealer.Open(name, sealed); {
		case !ok:
			n.Unknown++
		case first:
			n.First++
		default:
			n.Later++
			errs = append(errs, f(name, sealed, key))
		}
	}
	return n, errors.Join(errs...)
}

func (v *inVault) sweep(now time.Time) error {
	values, err := v.vault.Values()
	errs := []error{err}
	for name, sealed := range values {
		if over(name, now) {
			_, err := v.vault.SwapValue(name, sealed, nil)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// open opens a value sealed under any line of the secret file.
func (v *inVault) open(name string, sealed []byte) ([]byte, error) {
	if key, _, ok := v.sealer().Open(name, sealed); ok && len(key) == keySize {
		return key, nil
	}
	return nil, ErrOtherSecret
}

func (v *inVault) sealer() *identity.Sealer { return v.secret().Sealer("keys in a vault") }
