package tally

import (
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/routes"
	"github.com/caddy-tally/caddy-tally/internal/siting"
)

// warnOfAccess warns of a file that others on this machine may read or write to, which
// they shouldn't.
func (a *App) warnOfAccess(what, path string) {
	mode, open := siting.OpenFile(path)
	if !open {
		return
	}
	path, _ = filepath.Abs(path) // which [siting.OpenFile] could do
	a.warn(fmt.Sprintf("%s: others on this machine may read it or write to it: %s has mode %#o", what, path, mode),
		"chmod g-w,o-rwx "+path)
}

// warnIfServed warns once for each folder that a file server serves with the
// database or the secret in it. ctx is that of a handler of the configuration.
func (a *App) warnIfServed(ctx caddy.Context) {
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			for _, server := range app.Servers {
				a.warnOfFolders(routes.ServedFolders(server))
			}
		}
	}
}

func (a *App) warnOfFolders(folders []string) {
	for _, folder := range folders {
		for _, path := range []string{a.run.Settings.Path, a.run.Settings.Secret, a.run.Rules.Path()} {
			if path == "" || a.warned[folder+path] || !siting.Contains(folder, path) {
				continue
			}
			a.warned[folder+path] = true
			a.log.Warn("a file of the rate limiter lies in a folder that a site serves, where everybody can get it; keep it elsewhere",
				zap.String("path", path), zap.String("root", folder))
		}
	}
}
