package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Replace replaces the text of a file that a person wrote. A process that is killed leaves the old text or the new
// one, and after an error the old one is there.
//
// The new text is written beside the file and moved into its place if nobody can tell the difference: the file has
// one link, and its owner, mode and extended attributes, such as access lists, can be kept. Otherwise, and where
// the file is mounted, it is overwritten.
func Replace(path string, old, text []byte) error {
	if found, err := os.ReadFile(path); err != nil { // #nosec G304 G703 -- the operator names the file
		return err
	} else if !bytes.Equal(found, old) {
		return fmt.Errorf("%s has changed meanwhile, and stays as it is: try again", path)
	}
	if moveInto(path, text) == nil {
		return nil
	}
	return overwrite(path, old, text)
}

var errSeveralLinks = errors.New("another name of the file would keep its old text")

// moveInto writes a text beside a file, and moves it into its place.
func moveInto(path string, text []byte) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if links(info) != 1 {
		return errSeveralLinks
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.new")
	if err != nil {
		return err
	}
	_, err = fresh.Write(text)
	err = errors.Join(err, keepOwner(fresh, info), fresh.Chmod(info.Mode()), sameAttributes(path, fresh.Name()),
		fresh.Sync(), fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), path)
	}
	if err != nil {
		os.Remove(fresh.Name())
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// overwrite replaces the text in a file. It first makes room, as empty lines, for which the disk may be full, and
// cuts off what is left of a longer text last: until then it is empty lines, too.
func overwrite(path string, old, text []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // #nosec G304 G703 -- the operator names the file
	if err != nil {
		return err
	}
	defer f.Close() // a second time if nothing fails
	write := func(b []byte, at int) error {
		_, err := f.WriteAt(b, int64(at))
		return errors.Join(err, f.Sync())
	}
	size := max(len(old), len(text))
	emptyLines := func(from int) []byte { return bytes.Repeat([]byte("\n"), size-from) }
	if err = write(emptyLines(len(old)), len(old)); err == nil {
		if err = write(append(bytes.Clone(text), emptyLines(len(text))...), 0); err == nil {
			err = f.Truncate(int64(len(text)))
		}
	}
	if err != nil {
		return errors.Join(err, write(old, 0), f.Truncate(int64(len(old))), f.Sync())
	}
	return errors.Join(f.Sync(), f.Close())
}
