package epoch

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/internal/keyfile"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// keySize is the length of a key in bytes.
const keySize = 32

// maxFile is how much is read to see that it is no key.
const maxFile = 1 << 10

// destroyed is what a key is overwritten with.
var destroyed = make([]byte, keySize)

// fileName returns the name of an epoch's file: its days and its number.
func fileName(epoch int64, days int) string { return fmt.Sprintf("%dd-%d.key", days, epoch) }

var fileNames = regexp.MustCompile(`^([1-9][0-9]{0,4})d-(-?[0-9]{1,10})\.key$`)

// read returns the key with a file name, or an error that wraps [fs.ErrNotExist].
// The keys must be locked.
func (k *Keys) read(name string) ([]byte, error) {
	if k.inMemory == nil {
		return readKey(filepath.Join(k.path, name))
	}
	if key := k.inMemory[name]; key != nil {
		return key, nil
	}
	return nil, fs.ErrNotExist
}

// readOrMake returns the key with a file name, and makes it if there is none. The
// keys must be locked.
func (k *Keys) readOrMake(name string) ([]byte, error) {
	key, err := k.read(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, keySize)
	rand.Read(key) // never fails: see crypto/rand
	if k.inMemory != nil {
		k.inMemory[name] = key
		return key, nil
	}
	if err := keyfile.Make(filepath.Join(k.path, name), key); err != nil {
		return nil, err
	}
	return k.read(name) // it may be another's
}

// readKey reads the key in a file.
func readKey(path string) ([]byte, error) {
	key, _, err := textfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	if len(key) != keySize || bytes.Equal(key, destroyed) {
		return nil, fmt.Errorf("%q has not the %d bytes of a key; without the file a new one is made", path, keySize)
	}
	return key, nil
}

// Keep makes the files again that are not there any more, of the keys that are
// known and that Sweep would leave. It does nothing about keys in memory.
func (k *Keys) Keep(now time.Time) (err error) {
	if k.inMemory != nil {
		return nil
	}
	k.pairs.Range(func(days, value any) bool {
		pair := value.(Pair)
		for before, key := range pair.keys {
			name := fileName(pair.Epoch-int64(before), days.(int))
			if err == nil && key != "" && !over(name, now) {
				err = keyfile.Keep(filepath.Join(k.path, name), []byte(key))
			}
		}
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("epoch: keep keys: %w", err)
	}
	return nil
}

// Sweep destroys the keys that nothing is looked up by any more: all but those of
// the current epochs and the ones before. It is to be called now and then, also
// when nothing is hashed.
func (k *Keys) Sweep(now time.Time) error {
	k.pairs.Range(func(days, pair any) bool {
		if pair.(Pair).Epoch < number(now, days.(int)) {
			k.pairs.CompareAndDelete(days, pair)
		}
		return true
	})
	if k.inMemory != nil {
		k.sweepMemory(now)
		return nil
	}
	entries, err := os.ReadDir(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, entry := range entries {
		if over(entry.Name(), now) {
			errs = append(errs, destroy(filepath.Join(k.path, entry.Name())))
		}
	}
	errs = append(errs, keyfile.Sweep(k.path, now))
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("epoch: destroy keys: %w", err)
	}
	return nil
}

func (k *Keys) sweepMemory(now time.Time) {
	k.opening.Lock()
	defer k.opening.Unlock()
	for name, key := range k.inMemory {
		if over(name, now) {
			clear(key)
			delete(k.inMemory, name)
		}
	}
}

// over reports whether a file is the key of an epoch before the last one.
func over(name string, now time.Time) bool {
	m := fileNames.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	days, _ := strconv.Atoi(m[1])
	epoch, _ := strconv.ParseInt(m[2], 10, 64)
	return epoch < number(now, days)-1
}

// destroy overwrites a key and removes its file. Where the disk writes elsewhere
// instead, as flash does, removing is all there is.
func destroy(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() {
		overwrite(path)
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	return err
}

func overwrite(path string) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.Write(destroyed) // if it fails, removing the file is all there is
	_ = f.Sync()
	_ = f.Close()
}
