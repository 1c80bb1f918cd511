package epoch

import (
	"bytes"
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

// maxFile bounds how much of a file is read.
const maxFile = 1 << 10

// destroyed is the content of an overwritten key.
var destroyed = make([]byte, keySize)

// fileName returns the name of an epoch's file, which has its days and its number.
func fileName(epoch int64, days int) string { return fmt.Sprintf("%dd-%d.key", days, epoch) }

var fileNames = regexp.MustCompile(`^([1-9][0-9]{0,4})d-(-?[0-9]{1,10})\.key$`)

// folder stores each key in a file.
type folder string

func (f folder) file(name string) string { return filepath.Join(string(f), name) }

func (f folder) read(name string) ([]byte, error) { return readKey(f.file(name)) }

func (f folder) add(name string, key []byte) ([]byte, error) {
	if err := keyfile.Keep(f.file(name), key); err != nil {
		return nil, err
	}
	return f.read(name) // another process may have created it
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

func (f folder) sweep(now time.Time) error {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, entry := range entries {
		if over(entry.Name(), now) {
			errs = append(errs, destroy(f.file(entry.Name())))
		}
	}
	errs = append(errs, keyfile.Sweep(string(f), now))
	return errors.Join(append(errs, err)...)
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

// destroy overwrites a key and removes its file. On disks that write to another place, as flash does, only the
// removal has an effect.
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
	_, _ = f.Write(destroyed) // if it fails, the file is still removed
	_ = f.Sync()
	_ = f.Close()
}
