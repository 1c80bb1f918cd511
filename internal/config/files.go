package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/siting"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// compileFiles determines the places of the database, the secret and the daily keys.
func (c *Compiler) compileFiles() error {
	c.Run.Settings = instance.Settings{
		Store:    c.Run.Store.Identity(),
		Counts:   c.Run.Store.Counts(),
		Kind:     c.Run.Store.CaddyModule().ID.Name(),
		Secret:   c.SecretFile,
		MaxKeys:  c.MaxKeys,
		Timeout:  time.Duration(c.StoreTimeout),
		Cleanup:  time.Duration(c.CleanupInterval),
		Degraded: c.DegradedLimit,
	}
	if _, ok := c.Run.Store.(stores.Keyed); ok {
		return nil
	}
	if store, ok := c.Run.Store.(stores.Network); ok {
		return c.compileNetwork(store)
	}
	folder := filepath.Join(caddy.AppDataDir(), stores.DefaultFolder)
	if store, ok := c.Run.Store.(stores.File); ok {
		c.Run.Settings.Path, folder = store.Place(), store.Folder()
	}
	c.Run.Settings.Secret = cmp.Or(c.SecretFile, filepath.Join(folder, "tally.key"))
	c.Run.Settings.Epochs = filepath.Join(folder, "tally.epochs")
	c.Run.Settings.Names = filepath.Join(folder, filepath.Base(cmp.Or(c.Run.Settings.Path, "tally.db"))+"-names")
	if secret, err := filepath.Abs(c.Run.Settings.Secret); err == nil &&
		(secret == c.Run.Settings.Path || secret == c.Run.Settings.Names) {
		return fmt.Errorf("secret_file: is a file of the database as well, got %q: name another file", c.SecretFile)
	}
	c.checkSecret(c.Run.Settings.Secret)
	c.checkAccess("the keys that names at rest are hashed under", c.Run.Settings.Epochs)
	c.checkAccess("the key of names", c.Run.Settings.Names)
	return nil
}

// compileNetwork checks that everything is configured that machines with a shared store need.
func (c *Compiler) compileNetwork(store stores.Network) error {
	if c.SecretFile == "" {
		return fmt.Errorf("secret_file: is missing, and the machines that share the store %s must have the same: write secret_file <path>, and copy that file to all of them", c.Run.Settings.Kind)
	}
	c.Run.Settings.Address = store.Address()
	c.checkSecret(c.Run.Settings.Secret)
	return nil
}

// DefaultRulesFile returns the default path of the rules file.
func DefaultRulesFile() string {
	return filepath.Join(caddy.AppDataDir(), stores.DefaultFolder, "rules")
}

// compileRules reads the file, if there is one.
func (c *Compiler) compileRules() error {
	path, err := filepath.Abs(cmp.Or(c.RulesFile, DefaultRulesFile()))
	if err != nil {
		return fmt.Errorf("rules_file: %w", err)
	}
	for _, other := range []string{c.Run.Settings.Path, c.Run.Settings.Secret, c.Run.Settings.Names} {
		if other, err := filepath.Abs(other); err == nil && other == path {
			return fmt.Errorf("rules_file: is the database or the secret as well, got %q: name another file",
				c.RulesFile)
		}
	}
	if err := c.Run.OpenRules(path, c.log); err != nil {
		return fmt.Errorf("rules_file: %w", err)
	}
	if set := c.Run.Rules.Value(); set != nil {
		if err := c.Run.CheckNetworks(set.Knows(rules.ASN, time.Now()),
			set.Knows(rules.Country, time.Now())); err != nil {
			return fmt.Errorf("rules_file: %s: rules about %w", path, err)
		}
	}
	if _, shared := c.Run.Store.(stores.Network); shared && c.RulesFile != "" {
		c.found = append(c.found, advice.Advice{Source: c.Source, Problem: "rules_file: its rules hold on this machine alone, although counts are shared",
			Fix: "caddy rate-limit ban 203.0.113.0/24, in a terminal, which holds on all; or the same file on each"})
	}
	c.checkAccess("rules_file", path)
	return nil
}

// checkSecret advises about a secret file that can't be used: Caddy serves its sites all the same, and counts in
// memory alone.
func (c *Compiler) checkSecret(path string) {
	c.checkAccess("secret_file", path)
	_, err := identity.ReadSecret(path)
	switch isMissing := errors.Is(err, fs.ErrNotExist); {
	case isMissing && len(path) >= 24 && likeSecret.MatchString(path) && strings.ContainsAny(path, "0123456789"):
		c.found = append(c.found, advice.Advice{Source: c.Source, Problem: "secret_file: this looks like the secret itself, and is taken for the name of a file, which each machine makes with another secret",
			Fix: "secret_file /etc/caddy/tally.key; with the secret in it"})
	case err != nil && !isMissing && !errors.Is(err, fs.ErrPermission):
		c.found = append(c.found,
			advice.Advice{Source: c.Source, Problem: "secret_file: Caddy would count in memory alone: " + err.Error(),
				Fix: "a line of at least 32 characters, or remove the file, so that Caddy makes it"})
	}
}

// likeSecret matches what may be a secret, and is hardly the path of a file.
var likeSecret = regexp.MustCompile(`^(\w[\w+/=-]*[A-Z][\w+/=-]*|[0-9a-f]{32,})$`)

// checkAccess finds a file that other users of this machine may read or write, although they
// shouldn't.
func (c *Compiler) checkAccess(what, path string) {
	mode, open := siting.OpenFile(path)
	if !open {
		return
	}
	path, _ = filepath.Abs(path) // the path exists: [siting.OpenFile] succeeded
	c.found = append(c.found,
		advice.Advice{Source: c.Source,
			Problem: fmt.Sprintf("%s: others on this machine may read it or write to it: %s has mode %#o", what, path,
				mode), Fix: "chmod g-w,o-rwx " + path})
}
