package store

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// A server whose scripts can't read the time is refused with an error that says so, and stays
// unchanged.
func TestServersWithoutTimeInScripts(t *testing.T) {
	for what, c := range map[string]struct {
		says  string
		start func(t *testing.T) *testserver.RedisServer
	}{
		"the command is removed": {"TIME: ", func(t *testing.T) *testserver.RedisServer {
			return testserver.Redis(t, "--rename-command", "TIME", "")
		}},
		"the user has no right to it": {"TIME: ", func(t *testing.T) *testserver.RedisServer {
			server := testserver.Redis(t)
			server.Must(t, "ACL", "SETUSER", "default", "-time")
			return server
		}},
		"another command has its name": {"TIME: 1", func(t *testing.T) *testserver.RedisServer {
			return testserver.Redis(t, "--rename-command", "TIME", "", "--rename-command", "LASTSAVE", "TIME")
		}},
		"it answers zeros": {"it answers 0", func(t *testing.T) *testserver.RedisServer { // as Dragonfly does
			openScript = rueidis.NewLuaScript("local redis = setmetatable({pcall = function() return {0, 0} end}, {__index = redis})\n" + source("open"))
			t.Cleanup(func() { openScript = rueidis.NewLuaScript(source("open")) })
			return testserver.Redis(t)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			server := c.start(t)
			_, err := Opener(at(server.Address()))(context.Background())
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "expected Redis 5 or later") {
				t.Errorf("open says %v, want %q in it", err, c.says)
			}
			if size := server.Must(t, "DBSIZE"); size != ":0" {
				t.Errorf("there are %s keys", size)
			}
		})
	}
}
