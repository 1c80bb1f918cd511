package testserver

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

// copyOf fills folder with a fresh server's data. Because its program takes seconds to create them,
// they are created once on a machine, for each version of the program and its arguments, and
// copied.
func copyOf(folder string, build func(data string) error, program string, args ...string) error {
	template, err := templatePath(program, args)
	if err != nil {
		return err
	}
	if err := ensureTemplate(template, build); err != nil {
		return err
	}
	if output, err := exec.Command("cp", "-a", template, folder).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, output)
	}
	return nil
}

// templatePath returns the path of the data that a program creates.
func templatePath(program string, args []string) (string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "caddy-tally")
	id := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s", program, info.Size(), info.ModTime().UnixNano(), strings.Join(args, "\x00")))
	return filepath.Join(cache, fmt.Sprintf("%s-%x", filepath.Base(program), id[:8])), os.MkdirAll(cache, 0o700)
}

// building is held while a template is looked up, so that servers that start concurrently build
// one.
var building sync.Mutex

func ensureTemplate(template string, build func(data string) error) error {
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(template); err == nil {
		return nil
	}
	return buildTemplate(template, build)
}

// buildTemplate builds a template that is complete as soon as it exists. Other processes may build
// it, too, each in a folder of its own: the first one wins.
func buildTemplate(template string, build func(data string) error) error {
	folder, err := newFolder("template")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	data := filepath.Join(folder, "data")
	if err := build(data); err != nil {
		return err
	}
	beside, err := os.MkdirTemp(filepath.Dir(template), "building")
	if err != nil {
		return err
	}
	defer os.RemoveAll(beside)
	if err := child.RemoveFolder(beside); err != nil {
		return err
	}
	whole := filepath.Join(beside, "data")
	if output, err := exec.Command("cp", "-a", data, whole).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, output)
	}
	if err := os.Rename(whole, template); err != nil {
		if _, other := os.Stat(template); other != nil {
			return errors.Join(err, other)
		}
	}
	return nil
}
