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

// readKey reads the key in a file.
func readKey(path string) ([]byte, error) {
	key, _, err := keyfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	if len(key) != keySize || bytes.Equal(key, destroyed) {
		return nil, fmt.Errorf("%q has not the %d bytes of a key; without the file a new one is made", path, keySize)
	}
	return key, nil
}

// readOrMakeKey reads the key in a file, and makes it if there is none.
func readOrMakeKey(path string) ([]byte, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, keySize)
	rand.Read(key) // never fails: see crypto/rand
	if err := keyfile.Make(path, key); err != nil {
		return nil, err
	}
	return readKey(path) // it may be another's
}

// Keep makes the files again that are not there any more, of the keys that are
// known and that Sweep would leave.
func (f *Folder) Keep(now time.Time) (err error) {
	f.pairs.Range(func(days, value any) bool {
		pair := value.(Pair)
		for before, key := range pair.keys {
			path := f.file(pair.Epoch-int64(before), days.(int))
			if err == nil && key != "" && !over(filepath.Base(path), now) {
				err = keyfile.Keep(path, []byte(key))
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
// when nothing is named.
func (f *Folder) Sweep(now time.Time) error {
	f.pairs.Range(func(days, pair any) bool {
		if pair.(Pair).Epoch < number(now, days.(int)) {
			f.pairs.CompareAndDelete(days, pair)
		}
		return true
	})
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, entry := range entries {
		if over(entry.Name(), now) {
			errs = append(errs, destroy(filepath.Join(f.path, entry.Name())))
		}
	}
	errs = append(errs, keyfile.Sweep(f.path, now))
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("epoch: destroy keys: %w", err)
	}
	return nil
}

// over tells whether a file is the key of an epoch before the last one.
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
	f.Write(destroyed)
	f.Sync()
	f.Close()
}
