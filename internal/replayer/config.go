package replayer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// Config is a config that is provisioned but not started. It decides about requests of the past.
type Config struct {
	servers map[string]*caddyhttp.Server
	run     *enforce.Config
	folder  string // the config's files, until Close
}

// object is a value of JSON.
type object = map[string]any

// Load reads and provisions a config file, without a server's side effects: it logs, stores and
// opens nothing, and needs no certificates.
func Load(file, adapter string) (*Config, error) {
	caddy.BufferedLog() // captures log lines until the config's own logs are open
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, errors.New("there is no config: name one with --config")
	}
	return LoadJSON(text)
}

// LoadJSON is Load for the JSON of a config.
func LoadJSON(text []byte) (*Config, error) {
	caddy.BufferedLog()
	folder, err := os.MkdirTemp("", "caddy-replay-")
	if err != nil {
		return nil, err
	}
	c := &Config{folder: folder}
	if err := c.provision(text); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close removes the files that the config has written.
func (c *Config) Close() { os.RemoveAll(c.folder) }

// Advice returns the warnings about the config.
func (c *Config) Advice() []advice.Advice { return c.run.Advice.All() }

// Replay decides about the requests of a log, once.
func (c *Config) Replay(ctx context.Context, log *accesslog.Merger, o replay.Options) (*replay.Report, error) {
	judge := newJudge(c)
	o.Connections = len(c.run.Doors) > 0
	report, err := replay.Run(ctx, log, judge, o)
	return report, errors.Join(err, judge.close())
}

func (c *Config) provision(text []byte) error {
	quiet, err := quietConfig(text, c.folder)
	if err != nil {
		return err
	}
	var config caddy.Config
	if err := json.Unmarshal(quiet, &config); err != nil {
		return fmt.Errorf("reading the config: %w", err)
	}
	ctx, err := caddy.ProvisionContext(&config)
	if err != nil {
		return err
	}
	sites, err := ctx.AppIfConfigured("http")
	if err != nil {
		return errors.New("the config has no sites")
	}
	c.servers = sites.(*caddyhttp.App).Servers
	app, err := ctx.App(names.App)
	if err != nil {
		return err
	}
	c.run = app.(interface{ Enforcer() *enforce.Config }).Enforcer()
	if store, ok := c.run.Store.(*stores.Memory); ok {
		store.Isolate()
	}
	return nil
}

// quietConfig returns a config without effects outside the process.
func quietConfig(text []byte, folder string) ([]byte, error) {
	var config object
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	delete(config, "admin")
	config["logging"] = object{"logs": object{"default": object{"writer": object{"output": "discard"}}}}
	config["storage"] = object{"module": "file_system", "root": folder}
	apps := child(config, "apps")
	delete(apps, "tls")
	delete(apps, "pki")
	limits := child(apps, names.App)
	limits["store"] = object{"engine": "memory", "max_size": int64(maxMemory)}
	limits["disable_history"] = true
	delete(limits, "decision_log")
	delete(limits, "secret_file")
	for _, server := range child(child(apps, "http"), "servers") {
		server, _ := server.(object)
		policies, _ := server["tls_connection_policies"].([]any)
		for _, policy := range policies {
			if policy, ok := policy.(object); ok {
				delete(policy, "client_authentication") // it reads certificates
			}
		}
	}
	return json.Marshal(config)
}

// maxMemory is no bound: counts expire over time, and refusals for lack of memory would only make a
// replay wrong.
const maxMemory = 1 << 50

// child returns the object in another one, adding it if necessary.
func child(parent object, name string) object {
	in, ok := parent[name].(object)
	if !ok {
		in = make(object)
		parent[name] = in
	}
	return in
}
