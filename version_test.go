package tally

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// The version is this module's, wherever the binary contains it, and the revision only if the
// binary was built in its repository.
func TestVersionsOfABinary(t *testing.T) {
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "41b5c32"}, {Key: "vcs.modified", Value: "true"}}
	other := debug.Module{Path: "caddy", Version: "(devel)"}
	for name, tt := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"built here":           {&debug.BuildInfo{Main: debug.Module{Path: caddyconf.ModulePath, Version: "v1.2.3"}, Settings: revision}, "v1.2.3, revision 41b5c32 with changes"},
		"built by xcaddy":      {&debug.BuildInfo{Main: other, Settings: revision, Deps: []*debug.Module{{Path: caddyconf.ModulePath, Version: "v1.2.3"}}}, "v1.2.3"},
		"replaced by a folder": {&debug.BuildInfo{Main: other, Deps: []*debug.Module{{Path: caddyconf.ModulePath, Version: "v1.2.3", Replace: &debug.Module{Path: "../tally"}}}}, "(devel)"},
		"replaced by a fork":   {&debug.BuildInfo{Main: other, Deps: []*debug.Module{{Path: caddyconf.ModulePath, Version: "v1.2.3", Replace: &debug.Module{Path: "example.com/fork", Version: "v9.0.0"}}}}, "v9.0.0"},
		"not in it":            {&debug.BuildInfo{Main: other}, "unknown"},
		"stripped":             {nil, "unknown"},
	} {
		v := versionsOf(tt.info)
		if got := v.moduleText(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if v.Caddy == "" || !strings.HasPrefix(v.Go, "go") || !strings.Contains(v.Platform, "/") || v.Database < 1 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
