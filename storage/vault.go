package storage

import "context"

// Vault is a store that keeps a few small values by name for all processes that use it, the
// keys among them that all must hash under. It is for stores that several machines share;
// processes of one machine share a folder.
//
// What is kept is sealed by the caller, so that who reads the store learns nothing from it.
type Vault interface {
	Store

	// Values returns all values by their names.
	Values(ctx context.Context) (map[string][]byte, error)

	// AddValue keeps a value under a name unless one is kept there already, and returns the
	// one that is kept. So all who add at once get the same.
	AddValue(ctx context.Context, name string, value []byte) (kept []byte, err error)

	// RemoveValue removes the value with a name, if there is one.
	RemoveValue(ctx context.Context, name string) error
}
