package epoch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

// Vault keeps values by name where all machines find them, for example in a database that they
// share. It gets keys only as sealed under the secret.
type Vault interface {
	// Values returns all values by their names.
	Values() (map[string][]byte, error)
	// AddValue keeps a value under a name unless one is kept there already, and returns the
	// one that is kept.
	AddValue(name string, value []byte) (kept []byte, err error)
	// RemoveValue removes the value with a name, if there is one.
	RemoveValue(name string) error
}

// ErrOtherSecret says that what is in a vault was sealed under a secret that isn't known here.
var ErrOtherSecret = errors.New("sealed under another secret")

// InVault returns the keys in a vault, sealed under a secret. secret is called for each key; what
// it returns isn't nil then.
func InVault(vault Vault, secret func() *identity.Secret) *Keys {
	return &Keys{place: &inVault{vault, secret}}
}

// witness is the name of a value that is sealed under the secret that all machines have.
const witness = "secret"

// Verify returns an error that wraps [ErrOtherSecret] if those who use the vault have another
// secret. Whoever comes first says which one it is; after that an older line of the secret file
// does as well. Keys that are not in a vault need no such thing.
func (k *Keys) Verify() error {
	v, ok := k.place.(*inVault)
	if !ok {
		return nil
	}
	_, err := v.add(witness, make([]byte, keySize))
	if err != nil {
		return fmt.Errorf("epoch: %w", err)
	}
	return nil
}

// inVault keeps keys in a vault.
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
	sealed, err := v.seal(name, key)
	if err != nil {
		return nil, err
	}
	kept, err := v.vault.AddValue(name, sealed)
	if err != nil || bytes.Equal(kept, sealed) {
		return key, err
	}
	return v.open(name, kept)
}

func (v *inVault) sweep(now time.Time) error {
	values, err := v.vault.Values()
	errs := []error{err}
	for name := range values {
		if over(name, now) {
			errs = append(errs, v.vault.RemoveValue(name))
		}
	}
	return errors.Join(errs...)
}

// seal seals a key under the secret in use. What is sealed is of no use under another name.
func (v *inVault) seal(name string, key []byte) ([]byte, error) {
	sealer, err := v.sealer()
	if err != nil {
		return nil, err
	}
	return sealer.Seal(name, key), nil
}

// open opens what was sealed under any line of the secret file.
func (v *inVault) open(name string, sealed []byte) ([]byte, error) {
	sealer, err := v.sealer()
	if err != nil {
		return nil, err
	}
	if key, _, ok := sealer.Open(name, sealed); ok && len(key) == keySize {
		return key, nil
	}
	return nil, ErrOtherSecret
}

func (v *inVault) sealer() (*identity.Sealer, error) { return v.secret().Sealer("keys in a vault") }
