package tally

import (
	"runtime"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

// modulePath is what this module is called in a binary.
const modulePath = "github.com/caddy-tally/caddy-tally"

// versions are those of a binary and of what it is made of.
type versions struct {
	Module   string `json:"version,omitempty"`  // "" if the binary doesn't say it
	Revision string `json:"revision,omitempty"` // of the repository, if the binary was built in it
	Modified bool   `json:"modified,omitempty"` // the files weren't those of the revision
	Caddy    string `json:"caddy"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Database int    `json:"database"` // of the schema
	Journal  bool   `json:"journal"`  // whether there can be one on this platform
}

// versionsOf returns the versions of a binary, by what it says of itself; info may be nil.
func versionsOf(info *debug.BuildInfo) versions {
	v := versions{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Database: sqlite.SchemaVersion(), Journal: sqlite.HasJournal,
	}
	v.Caddy, _ = caddy.Version()
	if info == nil {
		return v
	}
	v.Module = moduleVersion(info)
	if info.Main.Path != modulePath {
		return v // the revision is another repository's
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

// moduleVersion returns the version of this module in a binary, or "" if that doesn't say it.
func moduleVersion(info *debug.BuildInfo) string {
	for _, module := range append(info.Deps, &info.Main) {
		switch {
		case module.Path != modulePath:
		case module.Replace == nil:
			return module.Version
		case module.Replace.Version == "":
			return "(devel)" // a folder
		default:
			return module.Replace.Version
		}
	}
	return ""
}

// runningVersions returns the versions of this process.
func runningVersions() versions {
	info, _ := debug.ReadBuildInfo()
	return versionsOf(info)
}
