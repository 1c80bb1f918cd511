package instance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Processes that share a database on one machine keep the key of their names in a file beside it, sealed with
// the secret. The database itself has a mark of that key, which doesn't reveal it.

// local is what a process knows of that file.
type local struct {
	keys   *epoch.Keys                          // the key in the file
	lost   atomic.Pointer[operator.FileTrouble] // why counts began anew; nil if they didn't
	unkept atomic.Pointer[operator.FileTrouble] // why the file hasn't the key in use; nil if it has
}

// inFile returns the key in the file that belongs to a database, sealed under a secret.
func (n *Names) inFile(secret func() *identity.Secret) *epoch.Keys {
	if n.instance.Settings.Names == "" {
		return epoch.InMemory()
	}
	return epoch.InVault(epoch.File(n.instance.Settings.Names), secret)
}

// agreeHere agrees with the other processes of this machine on the key of names: that of the file. If the file
// has none that can be read, it is the key of that line of the secret which the database has a mark of. If no
// line is, and no other process uses the database, the first line's key begins anew: limits hold again without
// anybody's help. Then, and if another process uses another key, an operator is told.
func (n *Names) agreeHere(store storage.Local) error {
	keys, isKept, fault := n.candidates()
	marks := make([]int64, len(keys))
	for i, key := range keys {
		hash := identity.NewHasher(key).Hash(0, "mark of a secret")
		marks[i] = int64(binary.BigEndian.Uint64(hash[:]) >> 1)
	}
	former, kept, err := n.mark(store, marks, fault)
	if err != nil {
		return err
	}
	line := slices.Index(marks, kept)
	if line < 0 {
		return fmt.Errorf("the database is in use under another secret (%x) than that in %q (%x), and both would count apart: give all processes on it the same secret_file, or name another database", kept, n.instance.Settings.Secret, marks[0])
	}
	key := keys[line]
	if n.agreed.Load() == nil {
		if err := n.keepAtStart(key); err != nil {
			return err
		}
		n.tellLost(former, kept, former != 0 && !slices.Contains(marks, former), isKept)
	}
	n.keepAgreed(key)
	n.agreed.Store(&agreedKey{key, identity.NewHasher(key)})
	return nil
}

// candidates returns the keys that names may be made with, the most likely one first, whether it is the one in
// the file, and why that can't be read.
func (n *Names) candidates() (keys [][]byte, isKept bool, fault error) {
	if agreed := n.agreed.Load(); agreed != nil {
		return [][]byte{agreed.key}, false, nil // names don't change under a running engine
	}
	lines := n.Secret.Load().Keys()
	if n.instance.Settings.Names == "" {
		return lines, false, nil
	}
	key, err := n.here.keys.Agreed()
	if err == nil {
		return [][]byte{key}, true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return lines, false, nil
	}
	return lines, false, err
}

// mark notes marks of keys in the database. A key in a file that can't be read now is not replaced by another.
func (n *Names) mark(store storage.Local, marks []int64, fault error) (former, kept int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	now := n.instance.Lasting().UnixNano()
	if fault != nil && !errors.Is(fault, epoch.ErrOtherSecret) {
		former, _, err = store.Mark(ctx, now)
		if err == nil && former != 0 && !slices.Contains(marks, former) {
			err = fmt.Errorf(
				"the key of the names in the database can't be read, and it is that of no line of secret_file: %w",
				fault)
		}
		if err != nil {
			return former, 0, err
		}
	}
	return store.Mark(ctx, now, marks...)
}

// keepAtStart makes the file have a key, in the place of one that no line of the secret opens. Another process
// may be faster with another key.
func (n *Names) keepAtStart(key []byte) error {
	if n.instance.Settings.Names == "" {
		return nil
	}
	kept, err := n.here.keys.Agree(key)
	if errors.Is(err, epoch.ErrOtherSecret) && epoch.File(n.instance.Settings.Names).SetAside() == nil {
		kept, err = n.here.keys.Agree(key)
	}
	if err == nil && !slices.Equal(kept, key) {
		return errors.New("another process has agreed on another key of names at this moment; it is tried again")
	}
	return nil // keepAgreed tells of an error, and goes on trying
}

// keepAgreed keeps the key in use in the file, and notes why that isn't possible. It leaves alone what the
// secret of another process may have sealed.
func (n *Names) keepAgreed(key []byte) {
	path := n.instance.Settings.Names
	if path == "" {
		return
	}
	kept, err := n.here.keys.Agreed()
	was := n.here.unkept.Load()
	if isMissing := errors.Is(err, fs.ErrNotExist); isMissing || was != nil && err == nil {
		if isMissing && was == nil {
			caddyconf.Logger().Warn("the file of the key of names was removed or emptied while it is in use; it is written again, because without it counts by key could begin anew", zap.String("path", path))
		}
		kept, err = n.here.keys.Agree(key)
	}
	switch {
	case errors.Is(err, epoch.ErrOtherSecret):
		err = fmt.Errorf("no line of secret_file opens it: it is damaged, or was sealed under a secret that this process doesn't have. If no other process with another secret_file uses the database, delete it: it is written again within a cleanup_interval (%w)", err)
	case err != nil:
		err = fmt.Errorf("the key of the names in the database can't be kept in it: don't remove or change lines of secret_file until it can (%w)", WithRemedy(err))
	case !slices.Equal(kept, key):
		err = errors.New("it has another key of names than the one in use: delete it, and it is written again within a cleanup_interval")
	default:
		n.here.unkept.Store(nil)
		return
	}
	if was == nil || was.Reason != err.Error() {
		n.here.unkept.Store(troubleNow(path, err.Error()))
		caddyconf.Logger().Error("the file of the key of names is wrong: "+err.Error(), zap.String("path", path))
	}
}

// tellLost tells of keys of names that aren't known any more, now or since an earlier start.
func (n *Names) tellLost(former, kept int64, isAnew, isKept bool) {
	path := n.instance.Settings.Names
	var reasons []string
	switch {
	case isAnew && isKept:
		reasons = append(reasons, fmt.Sprintf("the database was last used under another key of names (%x) than that in the file (%x): counts by key and the use of API keys from then aren't found", former, kept))
	case isAnew:
		reasons = append(reasons, fmt.Sprintf("the database was made under another secret (%x) than that in secret_file (%x): counts by key and the use of API keys begin anew. To have them back, stop Caddy, and put back the former file and, behind the first line of secret_file, the former line", former, kept))
	}
	for _, aside := range epoch.File(path).Asides() {
		reasons = append(reasons, fmt.Sprintf("no line of secret_file opened the file, which is %q now: counts by key and the use of API keys under the key in it aren't found. To have them back, stop Caddy, add the former line of secret_file behind the first, and move it back; otherwise delete it", aside))
	}
	if len(reasons) > 0 {
		n.here.lost.Store(troubleNow(path, strings.Join(reasons, "; ")))
		caddyconf.Logger().Error(strings.Join(reasons, "; "), n.instance.Settings.where())
	}
}

func troubleNow(path, reason string) *operator.FileTrouble {
	return &operator.FileTrouble{File: path, Since: time.Now().UTC().Truncate(time.Second), Reason: reason}
}
