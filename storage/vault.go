package storage

import "context"

// Vault is a store that keeps a few small values by name for all processes that use it, the
// keys among them that all must hash under. It is for stores that several machines share;
// processes of one machine share a folder.
//
// The caller seals the values, so that readers of the store learn nothing from them.
type Vault interface {
	Store

	// Values returns all values by their names.
	Values(ctx context.Context) (map[string][]byte, error)

	// SwapValue puts a value in the place of the former one under a name, and returns the value
	// that is there afterwards: this one, or another if the former one wasn't there. So all
	// processes that swap at once get the same value. A former value of no bytes stands for no
	// value, and a value of no bytes removes the former one.
	SwapValue(ctx context.Context, name string, former, value []byte) (kept []byte, err error)
}
