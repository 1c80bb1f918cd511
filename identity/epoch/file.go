package epoch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/internal/keyfile"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// File is a [Vault] with room for one value, in the file of a path: for the key that the processes of one
// machine agree on. An empty file has no value.
type File string

// Values implements [Vault].
func (f File) Values() (map[string][]byte, error) {
	info, err := os.Lstat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is a symbolic link or a folder: put the file itself there", string(f))
	}
	if err != nil {
		return nil, err
	}
	value, _, err := textfile.Read(string(f), maxFile)
	if err != nil || len(value) == 0 {
		return nil, err
	}
	return map[string][]byte{shared: value}, nil
}

// SwapValue implements [Vault].
func (f File) SwapValue(_ string, former, value []byte) (kept []byte, err error) {
	if _, err := f.Values(); err != nil { // an edit would replace what a link names
		return nil, err
	}
	err = textfile.Edit(string(f), maxFile, func(text []byte) ([]byte, error) {
		if bytes.Equal(text, former) {
			text = value
		}
		kept = text
		return text, nil
	})
	return kept, err
}

// keptAsides is how many values are kept that no line of a secret opened.
const keptAsides = 4

// SetAside moves the value to a file beside it, which nothing replaces, and removes the oldest of more than
// four such files.
func (f File) SetAside() error {
	values, err := f.Values()
	value := values[shared]
	if err != nil || value == nil {
		return err
	}
	sum := sha256.Sum256(value)
	if err := keyfile.Make(fmt.Sprintf("%s%s%x", f, asideInfix, sum[:4]), value); err != nil {
		return err
	}
	asides := f.Asides()
	for _, old := range asides[min(keptAsides, len(asides)):] {
		err = errors.Join(err, os.Remove(old))
	}
	_, swapErr := f.SwapValue(shared, value, nil)
	return errors.Join(err, swapErr)
}

const asideInfix = ".aside-" // then the beginning of the value's hash, so that a value is set aside once

// Asides returns the paths of the values that were set aside, the newest first.
func (f File) Asides() []string {
	if f == "" {
		return nil
	}
	paths, _ := filepath.Glob(string(f) + asideInfix + "*")
	made := func(path string) (at time.Time) {
		if info, err := os.Lstat(path); err == nil {
			at = info.ModTime()
		}
		return at
	}
	slices.SortFunc(paths, func(a, b string) int { return made(b).Compare(made(a)) })
	return paths
}

var _ Vault = File("")
