package caddytest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// followProbe stands for a handler that somebody wants to know about.
type followProbe struct {
	Name string `json:"name"`
}

func (followProbe) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.follow_probe", New: func() caddy.Module { return new(followProbe) }}
}

func (p *followProbe) ServeHTTP(http.ResponseWriter, *http.Request, caddyhttp.Handler) error {
	panic("following serves nothing")
}

func init() {
	caddy.RegisterModule(followProbe{})
	httpcaddyfile.RegisterHandlerDirective("follow_probe", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return &followProbe{strings.Join(h.RemainingArgs(), " ")}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("follow_probe", httpcaddyfile.After, "basic_auth")
}

// followSite has handlers to come to on several ways.
const followSite = `
{
	admin off
	auto_https off
}
&(shared) {
	follow_probe shared
}
http://one.example.com {
	@secret path /secret/*
	redir /old /new
	rewrite /short /long/way
	vars who me
	handle /api/* {
		follow_probe api
		reverse_proxy 127.0.0.1:9
	}
	handle_path /below/* {
		follow_probe below
		invoke shared
		respond hello
	}
	handle {
		forward_auth 127.0.0.1:9 {
			uri /auth
		}
		basic_auth @secret {
			user $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
		}
		@me vars {http.vars.who} me
		follow_probe @me rest
		file_server
	}
}
http://two.example.com {
	route {
		respond /first gone
		follow_probe two
	}
}`

// provisionedServers returns the servers of a Caddyfile, provisioned.
func provisionedServers(t *testing.T, text string) map[string]*caddyhttp.Server {
	t.Helper()
	adapter := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}
	config, _, err := adapter.Adapt([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	var parsed caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &parsed); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&parsed)
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*caddyhttp.App).Servers
}

func TestFollowVisitsWhatARequestReaches(t *testing.T) {
	server := provisionedServers(t, followSite)["srv0"]
	for target, want := range map[string]string{
		"http://one.example.com/api/x":       "api /api/x, reverse_proxy",
		"http://one.example.com/below/x?y=1": "below /x?y=1, shared /x?y=1, static_response",
		"http://one.example.com/short":       "rest /long/way, file_server",
		"http://one.example.com/secret/x":    "rest /secret/x, file_server",
		"http://one.example.com/old":         "static_response",
		"http://two.example.com/x":           "two /x, ",
		"http://two.example.com/first":       "static_response",
		"http://other.example.com/x":         "",
	} {
		var way []string
		r := httptest.NewRequest(http.MethodGet, target, nil)
		answers, err := routing.Follow(server, r, func(h caddyhttp.MiddlewareHandler, r *http.Request) bool {
			if p, ok := h.(*followProbe); ok {
				way = append(way, p.Name+" "+r.URL.RequestURI()+", ")
			}
			return true
		})
		if got := strings.Join(way, "") + answers; err != nil || got != want {
			t.Errorf("%s: came to %q, %v; want %q", target, got, err, want)
		}
	}
}

func TestFollowEndsWhereItIsTold(t *testing.T) {
	server := provisionedServers(t, followSite)["srv0"]
	visits := 0
	answers, err := routing.Follow(server, httptest.NewRequest(http.MethodGet, "http://one.example.com/below/x", nil), func(h caddyhttp.MiddlewareHandler, _ *http.Request) bool {
		if _, ok := h.(*followProbe); ok {
			visits++
			return false
		}
		return true
	})
	if visits != 1 || answers != "" || err != nil {
		t.Errorf("%d visits, %q, %v", visits, answers, err)
	}
}

func TestFollowEndsInARouteThatInvokesItself(t *testing.T) {
	server := provisionedServers(t, `
{
	admin off
	auto_https off
}
&(again) {
	invoke again
}
http://one.example.com {
	invoke again
}`)["srv0"]
	if answers, err := routing.Follow(server, httptest.NewRequest(http.MethodGet, "http://one.example.com/", nil), nil); answers != "" || err != nil {
		t.Errorf("%q, %v", answers, err)
	}
}
