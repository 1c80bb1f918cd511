package caddytest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/caddy-tally/caddy-tally/internal/crawler"
	"github.com/caddy-tally/caddy-tally/internal/testing/networkstest"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// Addresses of clients.
const (
	person   = "203.0.113.10"
	neighbor = "203.0.113.20"
	attacker = "203.0.113.66"
)

// worker is what Cloudflare says of requests of other customers' Workers.
const worker = "CF-Connecting-IP: 2a06:98c0:3600::103"

// A crawler that DNS confirms.
const (
	crawlerAddress = "198.51.100.66"
	googlebot      = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
)

// crawlerDNS is the DNS of all Caddys that are these tests.
type crawlerDNS struct{}

func init() { crawler.DNS = crawlerDNS{} }

// LookupAddr implements crawler.Resolver.
func (crawlerDNS) LookupAddr(_ context.Context, addr string) ([]string, error) {
	if addr != crawlerAddress {
		return []string{"host.example."}, nil
	}
	return []string{"crawl-66-249-66-1.googlebot.com."}, nil
}

// LookupNetIP implements crawler.Resolver.
func (crawlerDNS) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(crawlerAddress)}, nil
}

// alerts are the messages of the recipe block-lists, which alertServer receives.
var (
	alerts      = make(chan string, 100)
	alertServer = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		alerts <- r.Header.Get("Title") + ": " + string(text)
	}))
)

// The types of bodies.
const (
	inForm = "Content-Type: application/x-www-form-urlencoded"
	inJSON = "Content-Type: application/json"
)

// visitorFields are fields by which a visitor chooses what an answer is like.
var visitorFields = []string{
	"Accept: application/problem+json", "Accept: application/json", "Accept: text/html", "Accept: application/grpc", "Accept-Language: de", "User-Agent: curl", "Range: bytes=0-0",
	"If-None-Match: *", "If-Match: x", "If-Modified-Since: Sat, 28 Nov 2026 00:00:00 GMT", "If-Range: x", "Content-Type: application/grpc", "X-HTTP-Method-Override: GET", "X-HTTP-Method: GET",
	"Sec-Fetch-Mode: navigate", "Early-Data: 1", "TE: trailers", "Accept-Encoding: gzip", "Content-Type: application/problem+json", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "Origin: null",
}

var withPassword = signedIn("alice", rightPassword)

var recipes = []recipe{{
	name: "jellyfin",
	backends: map[string]standIn{"127.0.0.1:8096": {
		"POST /Users/AuthenticateByName":           password(200, 401),
		"POST /emby/Users/AuthenticateByName":      password(200, 401),
		"POST /Users/AuthenticateWithQuickConnect": password(200, 401),
		"GET /QuickConnect/Connect":                always(200),
		"GET /web/":                                always(200),
		"GET /System/Info/Public":                  always(200),
		"GET /Users/{user}/Items":                  always(200),
		"GET /Items/{item}/Images/Primary":         always(200),
		"GET /videos/{item}/hls1/main/{segment}":   always(200),
		"POST /Sessions/Playing/Progress":          always(204),
	}},
	traffic: []wave{
		send(person, 60, "GET https://jellyfin.example.com/web/{n}.chunk.js", 200),
		send(person, 1, "GET https://jellyfin.example.com/System/Info/Public", 200),
		send(person, 2, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"alice","Pw":"mistyped"}`, 401),
		send(person, 1, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"alice","Pw":"wonderland"}`, 200),
		send(person, 60, "GET https://jellyfin.example.com/QuickConnect/Connect?secret=a", 200), // a television asks until the code is accepted
		send(person, 600, "GET https://jellyfin.example.com/Items/{n}/Images/Primary?maxHeight=300", 200),
		send(person, 300, "GET https://jellyfin.example.com/videos/a/hls1/main/{n}.ts", 200),
		send(person, 60, "POST https://jellyfin.example.com/Sessions/Playing/Progress {}", 204),
		send(attacker, 10, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"alice","Pw":"guess {n}"}`, 401),
		send(attacker, 20, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"alice","Pw":"wonderland"}`, 429),
		send(attacker, 5, `POST https://jellyfin.example.com/users/authenticatebyname {"Username":"alice","Pw":"wonderland"}`, 429),
		send(attacker, 5, `POST https://jellyfin.example.com/emby/Users/AuthenticateByName {"Username":"alice","Pw":"wonderland"}`, 429),
		send(attacker, 10, "GET https://jellyfin.example.com/Items/{n}/Images/Primary", 200),
		send(neighbor, 1, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"bob","Pw":"wonderland"}`, 200),
	},
}, {
	name: "nextcloud",
	backends: map[string]standIn{"127.0.0.1:11000": {
		"POST /login":                                             always(303),
		"POST /index.php/login":                                   always(303),
		"POST /login/v2/poll":                                     always(404), // until the user has signed in
		"POST /s/{token}/authenticate/{redirect}":                 always(303),
		"POST /index.php/s/{token}/authenticate/{redirect}":       always(303),
		"PROPFIND /remote.php/dav/files/{path...}":                password(207, 401),
		"GET /remote.php/dav/files/{path...}":                     password(200, 401),
		"PUT /remote.php/dav/files/{path...}":                     password(201, 401),
		"MKCOL /remote.php/dav/uploads/{path...}":                 password(201, 401),
		"PUT /remote.php/dav/uploads/{path...}":                   password(201, 401),
		"MOVE /remote.php/dav/uploads/{path...}":                  password(201, 401),
		"GET /ocs/v2.php/apps/notifications/api/v2/notifications": password(200, 401),
		"GET /status.php":                                         always(200),
		"GET /apps/files/":                                        always(200),
	}},
	traffic: []wave{
		send(person, 60, "POST https://cloud.example.com/login/v2/poll token=a", 404),
		send(person, 2, "POST https://cloud.example.com/login user=alice&password=mistyped", 303),
		send(person, 300, "GET https://cloud.example.com/apps/files/", 200),
		send(person, 1, "PROPFIND https://cloud.example.com/remote.php/dav/files/alice/", 401), // a client learns that it needs a password
		send(person, 1000, "PROPFIND https://cloud.example.com/remote.php/dav/files/alice/{n}/", 207, withPassword, "Depth: 1"),
		send(person, 500, "PUT https://cloud.example.com/remote.php/dav/files/alice/{n}.jpg photo", 201, withPassword),
		send(person, 1, "MKCOL https://cloud.example.com/remote.php/dav/uploads/alice/film", 201, withPassword),
		send(person, 200, "PUT https://cloud.example.com/remote.php/dav/uploads/alice/film/{n} chunk", 201, withPassword),
		send(person, 1, "MOVE https://cloud.example.com/remote.php/dav/uploads/alice/film/.file", 201, withPassword, "Destination: /remote.php/dav/files/alice/film.mkv"),
		send(person, 60, "GET https://cloud.example.com/ocs/v2.php/apps/notifications/api/v2/notifications", 200, withPassword),
		send(attacker, 10, "POST https://cloud.example.com/login user=alice&password={n}", 303),
		send(attacker, 10, "POST https://cloud.example.com/login user=alice&password={n}", 429),
		send(attacker, 10, "POST https://cloud.example.com/index.php/login user=alice&password={n}", 429),
		send(attacker, 10, "POST https://cloud.example.com/index.php/s/abc/authenticate/showShare password={n}", 429),
		sendBeyond(attacker, 2000, 100, "PROPFIND https://cloud.example.com/remote.php/dav/files/alice/", 401),
		send(neighbor, 1, "POST https://cloud.example.com/login user=bob&password=wonderland", 303),
	},
}, {
	name: "forgejo",
	backends: map[string]standIn{"127.0.0.1:3000": {
		"POST /user/login":                            password(303, 200),
		"POST /user/two_factor":                       always(303),
		"GET /alice/tool":                             always(200),
		"GET /alice/tool/archive/{path...}":           always(200),
		"GET /alice/tool/blame/{path...}":             always(200),
		"GET /alice/tool/compare/{path...}":           always(200),
		"GET /alice/tool/commits/{path...}":           always(200),
		"GET /alice/tool/src/branch/{path...}":        always(200),
		"GET /alice/tool/src/commit/{path...}":        always(200),
		"GET /alice/tool.git/info/refs":               always(200),
		"POST /alice/tool.git/git-upload-pack":        always(200),
		"POST /alice/tool.git/git-receive-pack":       password(200, 401),
		"POST /alice/tool.git/info/lfs/objects/batch": password(200, 401),
		"GET /api/v1/user":                            password(200, 401),
		"GET /assets/{path...}":                       always(200),
	}},
	traffic: []wave{
		send(person, 2, "POST https://git.example.com/user/login user_name=alice&password=mistyped", 200),
		send(person, 1, "POST https://git.example.com/user/login user_name=alice&password=wonderland", 303),
		send(person, 300, "GET https://git.example.com/assets/{n}.js", 200),
		send(person, 200, "GET https://git.example.com/alice/tool/src/branch/main/{n}.go", 200),
		send(person, 20, "GET https://git.example.com/alice/tool/commits/branch/main?page={n}", 200),
		send(person, 200, "GET https://git.example.com/alice/tool.git/info/refs?service=git-upload-pack", 200),
		send(person, 200, "POST https://git.example.com/alice/tool.git/git-upload-pack want", 200),
		send(person, 20, "POST https://git.example.com/alice/tool.git/git-receive-pack pack", 200, withPassword),
		send(person, 40, "POST https://git.example.com/alice/tool.git/info/lfs/objects/batch {}", 200, withPassword),
		send(attacker, 10, "POST https://git.example.com/user/login user_name=alice&password={n}", 200),
		send(attacker, 10, "POST https://git.example.com/user/login user_name=alice&password=wonderland", 429),
		send(attacker, 10, "POST https://git.example.com/user/two_factor passcode={n}", 429),
		send(person, 300, "GET https://git.example.com/api/v1/user", 200, withPassword),
		send(attacker, 60, "GET https://git.example.com/api/v1/user", 401, "Authorization: basic YWxpY2U6Z3Vlc3M="),
		send(attacker, 10, "GET https://git.example.com/api/v1/user", 429, "Authorization: Basic YWxpY2U6Z3Vlc3M="),
		send("198.18.5.1", 60, "GET https://git.example.com/alice/tool/archive/{n}.tar.gz", 200), // one crawler
		send("198.18.5.1", 10, "GET https://git.example.com/alice/tool/compare/{n}...main", 429),
		send("198.18.5.1", 5, "GET https://git.example.com/alice/tool", 200),
		send(neighbor, 30, "GET https://git.example.com/alice/tool/blame/branch/main/{n}.go", 200),
	},
}, {
	name: "vaultwarden",
	backends: map[string]standIn{"127.0.0.1:8000": {
		"POST /identity/connect/token":     password(200, 400),
		"POST /identity/accounts/prelogin": always(200),
		"POST /api/accounts/password-hint": always(200),
		"POST /api/sends/access/{id}":      password(200, 400),
		"POST /admin":                      password(303, 401),
		"GET /api/sync":                    always(200),
		"GET /api/accounts/revision-date":  always(200),
		"PUT /api/ciphers/{id}":            always(200),
		"GET /icons/{domain}/icon.png":     always(200),
		"GET /app/{file}":                  always(200),
	}},
	traffic: []wave{
		send(person, 5, "POST https://vault.example.com/identity/accounts/prelogin {}", 200),
		send(person, 2, "POST https://vault.example.com/identity/connect/token grant_type=password&username=alice&password=mistyped", 400),
		send(person, 15, "POST https://vault.example.com/identity/connect/token grant_type=refresh_token&refresh_token=wonderland", 200), // as many devices
		send(person, 30, "GET https://vault.example.com/api/sync", 200),
		send(person, 400, "GET https://vault.example.com/icons/{n}.example.org/icon.png", 200),
		send(person, 100, "PUT https://vault.example.com/api/ciphers/{n} {}", 200),
		send(attacker, 20, "POST https://vault.example.com/identity/connect/token grant_type=password&username=alice&password={n}", 400),
		send(attacker, 20, "POST https://vault.example.com/identity/connect/token grant_type=password&username=alice&password=wonderland", 429),
		send(attacker, 5, "POST https://vault.example.com/admin token={n}", 429),
		send(attacker, 5, "POST https://vault.example.com/api/accounts/password-hint {}", 429),
		send(attacker, 5, "POST https://vault.example.com/api/sends/access/abc {}", 429),
		send(attacker, 5, "GET https://vault.example.com/api/sync", 200),
		send(neighbor, 1, "POST https://vault.example.com/identity/connect/token grant_type=password&username=bob&password=wonderland", 200),
	},
}, {
	name: "immich",
	backends: map[string]standIn{"127.0.0.1:2283": {
		"POST /api/auth/login":                password(201, 401),
		"POST /api/auth/session/unlock":       password(204, 401),
		"GET /api/shared-links/me":            always(200),
		"GET /api/assets/{id}/thumbnail":      always(200),
		"GET /api/assets/{id}/video/playback": always(206),
		"POST /api/assets":                    always(201),
		"POST /api/assets/bulk-upload-check":  always(200),
		"GET /api/server/ping":                always(200),
	}},
	traffic: []wave{
		send(person, 2, `POST https://photos.example.com/api/auth/login {"password":"mistyped"}`, 401),
		send(person, 1, `POST https://photos.example.com/api/auth/login {"password":"wonderland"}`, 201),
		send(person, 800, "GET https://photos.example.com/api/assets/{n}/thumbnail?size=preview", 200),
		send(person, 100, "GET https://photos.example.com/api/assets/{n}/video/playback", 206, "Range: bytes=0-"),
		send(person, 10, "POST https://photos.example.com/api/assets/bulk-upload-check {}", 200),
		send(person, 500, "POST https://photos.example.com/api/assets photo", 201),
		send(neighbor, 50, "GET https://photos.example.com/api/shared-links/me?key=a", 200),
		send(attacker, 5, `POST https://photos.example.com/api/auth/login {"password":"{n}"}`, 401),
		send(attacker, 5, "GET https://photos.example.com/api/shared-links/me?key=a&password={n}", 200),
		send(attacker, 10, "GET https://photos.example.com/api/shared-links/me?key=a&%70assword={n}", 429),
		send(attacker, 10, `POST https://photos.example.com/api/auth/login {"password":"wonderland"}`, 429),
		send(attacker, 5, `POST https://photos.example.com/api/auth/session/unlock {"pinCode":"{n}"}`, 429),
		send(attacker, 5, "GET https://photos.example.com/api/server/ping", 200),
	},
}, {
	name: "wordpress",
	backends: map[string]standIn{"127.0.0.1:8080": {
		"GET /":                                    always(200),
		"POST /{$}":                                always(200),
		"POST /wp-login.php":                       password(302, 200),
		"GET /wp-login.php":                        always(200),
		"POST /xmlrpc.php":                         always(200),
		"POST /wp-comments-post.php":               always(302),
		"POST /wp-admin/admin-ajax.php":            always(200),
		"GET /wp-content/{path...}":                always(200),
		"GET /wp-json/wp/v2/users":                 always(200),
		"POST /wp-json/wp/v2/posts/{id}/autosaves": always(200),
	}},
	traffic: []wave{
		send(person, 300, "GET https://blog.example.com/wp-content/uploads/{n}.jpg", 200),
		send(person, 100, "GET https://blog.example.com/?p={n}", 200),
		send(person, 10, "GET https://blog.example.com/?s=caddy", 200),
		send(person, 3, "POST https://blog.example.com/wp-comments-post.php comment=nice", 302),
		send(neighbor, 2, "POST https://blog.example.com/wp-login.php log=alice&pwd=mistyped", 200),
		send(neighbor, 1, "POST https://blog.example.com/wp-login.php log=alice&pwd=wonderland", 302),
		send(neighbor, 120, "POST https://blog.example.com/wp-admin/admin-ajax.php action=heartbeat", 200),
		send(neighbor, 60, "POST https://blog.example.com/wp-json/wp/v2/posts/1/autosaves {}", 200),
		send(attacker, 10, "POST https://blog.example.com/wp-login.php log=alice&pwd={n}", 200),
		send(attacker, 10, "POST https://blog.example.com/wp-login.php log=alice&pwd=wonderland", 429),
		send(attacker, 5, "POST https://blog.example.com//WP-LOGIN.php/x log=alice&pwd=wonderland", 429),
		send(attacker, 20, "POST https://blog.example.com/xmlrpc.php <methodCall/>", 200),
		send(attacker, 10, "POST https://blog.example.com/xmlrpc.php <methodCall/>", 429),
		send(attacker, 30, "GET https://blog.example.com/wp-json/wp/v2/users", 200),
		send(attacker, 10, "GET https://blog.example.com/?s={n}", 429),
		send(attacker, 5, "GET https://blog.example.com/search/{n}", 429),
		send(attacker, 5, "GET https://blog.example.com/?rest_route=/wp/v2/users/{n}", 429),
		send(attacker, 5, "GET https://blog.example.com/wp-json/wp/v2/posts?search={n}", 429),
		send("198.18.6.1", 120, "POST https://blog.example.com/ s={n}", 200),
		send("198.18.6.1", 10, "POST https://blog.example.com/ s={n}", 429),
		send("198.18.6.1", 5, "GET https://blog.example.com/wp-json/wp/v2/posts", 429),
		send("198.18.6.1", 5, "GET https://blog.example.com/?p={n}", 200),
		send(attacker, 5, "GET https://blog.example.com/", 200),
		send(attacker, 1, "GET https://blog.example.com/wp-config.php.bak", 429),
		send(attacker, 5, "GET https://blog.example.com/", 429), // for an hour
	},
}, {
	name: "failed-logins",
	backends: map[string]standIn{
		"127.0.0.1:3000": {"POST /login": password(303, 401), "POST /api/login": password(200, 403), "/": always(200)},
		"127.0.0.1:3001": {"/": always(200)},
	},
	traffic: []wave{
		send(person, 30, "POST https://app.example.com/login password=wonderland", 303),
		send(person, 2, "POST https://app.example.com/login password=mistyped", 401),
		send(person, 1, "POST https://app.example.com/login password=wonderland", 303),
		send(person, 100, "GET https://app.example.com/{n}", 200),
		send(attacker, 3, "POST https://app.example.com/login password=guess{n}", 401),
		send(attacker, 2, `POST https://app.example.com/api/login {"password":"guess{n}"}`, 403),
		send(attacker, 5, "POST https://app.example.com/login password=wonderland", 429),
		send(attacker, 5, `POST https://app.example.com/api/login {"password":"wonderland"}`, 429),
		send(attacker, 50, "GET https://app.example.com/{n}", 200),
		send(person, 1, "POST https://app.example.com/login password=wonderland", 303),
		send(person, 3, "GET https://files.example.com/", 401),
		send(person, 2, "GET https://files.example.com/", 401, "Authorization: Basic YWxpY2U6Z3Vlc3M="),
		send(person, 300, "GET https://files.example.com/{n}", 200, withPassword),
		send(attacker, 20, "GET https://files.example.com/", 401, "Authorization: Basic YWxpY2U6Z3Vlc3M="),
		send(attacker, 5, "GET https://files.example.com/", 429, "Authorization: Basic YWxpY2U6Z3Vlc3M="),
		send(attacker, 5, "GET https://files.example.com/", 429, withPassword),
		send(neighbor, 30, "GET https://files.example.com/{n}", 200, withPassword),
	},
}, {
	name:     "accounts",
	backends: map[string]standIn{"127.0.0.1:3000": {"POST /login": password(303, 401), "/": always(200)}},
	traffic: []wave{
		send(person, 30, "POST https://app.example.com/login user=alice&password=wonderland", 303, inForm),
		send(person, 2, "POST https://app.example.com/login user=alice&password=mistyped", 401, inForm),
		send("198.18.1.1", 3, "POST https://app.example.com/login user=bob&password=guess{n}", 401, inForm),
		send("198.18.2.1", 2, "POST https://app.example.com/login user=Bob&password=guess{n}", 401, inForm),
		send("198.18.3.1", 5, "POST https://app.example.com/login x=1&user[]=+BOB&password=guess{n}", 429, inForm),
		send("198.18.4.1", 5, `POST https://app.example.com/login {"user":"bob"}`, 415, inJSON),
		send("198.18.5.1", 5, "POST https://app.example.com/login password=guess{n}", 429, inForm),
		send("198.18.6.1", 5, "POST https://app.example.com/login user=bob%zz&password=guess{n}", 400, inForm),
		send(attacker, 20, "POST https://app.example.com/login user=name{n}&password=guess", 401, inForm),
		send(attacker, 5, "POST https://app.example.com/login user=name{n}&password=guess", 429, inForm),
		send(person, 3, "POST https://app.example.com/login user=alice&password=wonderland", 303, inForm),
		send(person, 50, "GET https://app.example.com/{n}", 200),
	},
}, {
	name: "methods",
	backends: map[string]standIn{
		"127.0.0.1:3000": {"POST /mcp": always(200)}, "127.0.0.1:3001": {"POST /graphql": always(200)},
	},
	traffic: []wave{
		send(person, 30, `POST https://mcp.example.com/mcp {"id":{n},"method":"tools/call"}`, 200, inJSON),
		send(person, 200, `POST https://mcp.example.com/mcp {"id":{n},"method":"ping"}`, 200, inJSON),
		send(attacker, 29, `POST https://mcp.example.com/mcp {"id":{n},"method":"tools/call"}`, 200, inJSON),
		send(attacker, 1, `POST https://mcp.example.com/mcp [{"method":"ping"},{"method":"tools/call"}]`, 200, inJSON),
		send(attacker, 5, `POST https://mcp.example.com/mcp {"Method":"tools/call"}`, 429, inJSON),
		send(attacker, 5, `POST https://mcp.example.com/mcp {"method":"tools/call","method":"ping"}`, 429, inJSON),
		send(attacker, 5, `POST https://mcp.example.com/mcp {"method":"tools/call"`, 400, inJSON),
		send(attacker, 200, `POST https://mcp.example.com/mcp {"method":"ping"}`, 200, inJSON),
		send(person, 400, `POST https://graphql.example.com/graphql {"operationName":"List"}`, 200, inJSON),
		send(attacker, 30, `POST https://graphql.example.com/graphql {"operationName":"Export"}`, 200, inJSON),
		send(attacker, 5, `POST https://graphql.example.com/graphql {"operationName":"Export"}`, 429, inJSON),
	},
}, {
	name:     "basic-auth",
	backends: map[string]standIn{"127.0.0.1:3000": {"/": always(200)}},
	goesOn:   true,
	traffic: []wave{
		send(person, 100, "GET https://files.example.com/{n}", 200, withPassword),
		send(attacker, 20, "GET https://files.example.com/", 401, "Authorization: Basic YWxpY2U6Z3Vlc3M="),
		send(attacker, 20, "GET https://files.example.com/", 429, withPassword),
		send("198.18.7.1", 300, "GET https://files.example.com/", 401),
		send("198.18.7.1", 20, "GET https://files.example.com/", 429),
		send(neighbor, 250, "GET https://files.example.com/{n}", 200, withPassword), // who was told the password
		send("203.0.113.30", 149, "GET https://files.example.com/{n}", 200, withPassword),
		send("203.0.113.40", 20, "GET https://files.example.com/{n}", 429, withPassword),
	},
}, {
	name: "authelia",
	backends: map[string]standIn{
		"127.0.0.1:9091": {
			"POST /api/firstfactor":       password(200, 401),
			"POST /api/secondfactor/totp": password(200, 401),
			"GET /api/state":              always(200),
			"GET /static/{file}":          always(200),
			"GET /api/authz/forward-auth": names("Remote-User"),
		},
		"127.0.0.1:3000": {"/": always(200)},
	},
	traffic: []wave{
		send(person, 60, "GET https://auth.example.com/static/{n}.js", 200),
		send(person, 30, "GET https://auth.example.com/api/state", 200),
		send(person, 2, `POST https://auth.example.com/api/firstfactor {"password":"mistyped"}`, 401),
		send(person, 1, `POST https://auth.example.com/api/firstfactor {"password":"wonderland"}`, 200),
		send(person, 200, "GET https://app.example.com/{n}", 200, "Cookie: session=alice"),
		send(neighbor, 200, "GET https://app.example.com/{n}", 200, "Cookie: session=bob"),
		send(attacker, 20, `POST https://auth.example.com/api/firstfactor {"password":"{n}"}`, 401),
		send(attacker, 20, `POST https://auth.example.com/api/firstfactor {"password":"wonderland"}`, 429),
		send(attacker, 20, `POST https://auth.example.com/api/secondfactor/totp {"token":"{n}"}`, 429),
		send(attacker, 300, "GET https://app.example.com/{n}", 200, "Cookie: session=mallory"),
		send(attacker, 20, "GET https://app.example.com/{n}", 429, "Cookie: session=mallory", "Remote-User: {n}"),
		send("203.0.113.67", 20, "GET https://app.example.com/{n}", 429, "Cookie: session=mallory"), // from elsewhere
		send(attacker, 500, "GET https://app.example.com/{n}", 401, "Remote-User: alice"),
		send(person, 50, "GET https://app.example.com/{n}", 200, "Cookie: session=alice"),
	},
}, {
	name: "authentik",
	backends: map[string]standIn{
		"127.0.0.1:9000": {
			"POST /api/v3/flows/executor/{flow}/":    always(200),
			"GET /api/v3/flows/executor/{flow}/":     always(200),
			"GET /static/{file}":                     always(200),
			"GET /outpost.goauthentik.io/auth/caddy": names("X-Authentik-Uid"),
			"GET /outpost.goauthentik.io/callback":   always(302),
		},
		"127.0.0.1:3000": {"/": always(200)},
	},
	traffic: []wave{
		send(person, 60, "GET https://auth.example.com/static/{n}.js", 200),
		send(person, 20, "GET https://auth.example.com/api/v3/flows/executor/default-authentication-flow/", 200),
		send(person, 8, `POST https://auth.example.com/api/v3/flows/executor/default-authentication-flow/ {"uid_field":"alice"}`, 200),
		send(person, 5, "GET https://app.example.com/outpost.goauthentik.io/callback", 302),
		send(person, 200, "GET https://app.example.com/{n}", 200, "Cookie: session=alice"),
		send(attacker, 40, `POST https://auth.example.com/api/v3/flows/executor/default-authentication-flow/ {"password":"{n}"}`, 200),
		send(attacker, 20, `POST https://auth.example.com/api/v3/flows/executor/default-authentication-flow/ {"password":"{n}"}`, 429),
		send(attacker, 20, `POST https://auth.example.com/api/v3/flows/executor/another-flow/ {"password":"{n}"}`, 429),
		send(attacker, 300, "GET https://app.example.com/{n}", 200, "Cookie: session=mallory"),
		send(attacker, 20, "GET https://app.example.com/{n}", 429, "Cookie: session=mallory", "X-Authentik-Uid: {n}"),
		send(attacker, 500, "GET https://app.example.com/{n}", 401, "X-Authentik-Uid: alice"),
	},
}, {
	name:     "api-keys",
	backends: map[string]standIn{"127.0.0.1:3000": {"/v1/": always(200), "GET /docs/{page}": always(200)}},
	files: map[string]string{"api_keys": `salt d882fede5cf991b06d22aecb614e8e152e7038fec0c635c7e79414ed805ede04
acme paid d3729bcb87c68dff70ff5882a1c62688af714db490a588b39fe2d64319578420
guest free 793b07e645e76b0d09ab32700abbc58cbdaf79fbe4c90aad645bd596a525009b
`},
	env: []string{"KEY=tally_KOOMYNXECEIDMH64USVY4ZMORR"},
	traffic: []wave{
		send(person, 60, "GET https://api.example.com/v1/time", 200),
		send(person, 10, "GET https://api.example.com/v1/time", 429),
		send(person, 100, "GET https://api.example.com/docs/{n}", 200),
		send(person, 60, "GET https://api.example.com/v1/time", 200, "X-Api-Key: tally_O3BUXQUIM3GXTWU3COJHFFKFED"),
		send(person, 10, "GET https://api.example.com/v1/time", 429, "X-Api-Key: tally_O3BUXQUIM3GXTWU3COJHFFKFED"),
		send(neighbor, 400, "GET https://api.example.com/v1/time", 200, "X-Api-Key: tally_KOOMYNXECEIDMH64USVY4ZMORR"),
		send(neighbor, 8, "GET https://api.example.com/v1/export/{n}", 200, "X-Api-Key: tally_KOOMYNXECEIDMH64USVY4ZMORR"),
		send(attacker, 30, "GET https://api.example.com/v1/time", 403, "X-Api-Key: guess-{n}"),
		send(attacker, 5, "GET https://api.example.com/v1/time", 400, "X-Api-Key: a", "X-Api-Key: b"),
	},
}, {
	name:     "uploads",
	backends: map[string]standIn{"127.0.0.1:3000": {"PUT /upload/{file}": always(201), "GET /": always(200)}},
	traffic: []wave{
		send(person, 10, "PUT https://upload.example.com/upload/{n} zeros 10000000", 201, "Expect: 100-continue"),
		send(person, 200, "GET https://upload.example.com/?{n}", 200),
		send(attacker, 4, "PUT https://upload.example.com/upload/{n} zeros 120000000", 201, "Expect: 100-continue"),
		send(attacker, 1, "PUT https://upload.example.com/upload/{n} zeros 30000000", 429, "Expect: 100-continue"),
		send(attacker, 1, "PUT https://upload.example.com/upload/{n} zeros 10000000", 201, "Expect: 100-continue"),
		send(attacker, 1, "PUT https://upload.example.com/upload/{n} zeros 10000001", 429, "Expect: 100-continue"),
		send(attacker, 5, "PUT https://upload.example.com/upload/{n} zeros", 403), // over HTTP/2
		send(attacker, 30, "GET https://upload.example.com/?{n}", 200),
		send(neighbor, 100, "PUT https://upload.example.com/upload/{n} zeros 1", 201),
		send(neighbor, 5, "PUT https://upload.example.com/upload/{n} zeros 1", 429),
	},
}, {
	name:     "exports",
	backends: map[string]standIn{"127.0.0.1:3000": {"GET /export/{name}": always(200), "GET /": always(200)}},
	traffic: []wave{
		send(person, 30, "GET https://app.example.com/export/{n}", 200),
		send(person, 5, "GET https://app.example.com/export/{n}", 429), // more than an hour's
		send(person, 100, "GET https://app.example.com/{n}", 200),
		send(neighbor, 20, "GET https://app.example.com/export/{n}", 200),
	},
}, {
	name:   "applications",
	goesOn: true,
	traffic: []wave{
		send(person, 1, "GET http://decisions.example.com:8080/mails", 204, "X-User: 7", "X-Units: 97"),
		send(person, 1, "GET http://decisions.example.com:8080/mails", 429, "X-User: 7", "X-Units: 4"),
		send(person, 1, "GET http://decisions.example.com:8080/mails", 204, "X-User: 7", "X-Units: 3"),
		send(person, 20, `POST http://decisions.example.com:8080/rate_limit/charge/mails {"client":"key:8","units":50,"id":"same"}`, 200, inJSON),
		send(person, 1, "GET http://decisions.example.com:8080/mails", 204, "X-User: 8", "X-Units: 50"),
		send(person, 1, "GET http://decisions.example.com:8080/mails", 429, "X-User: 8"),
		send(person, 1, `POST http://decisions.example.com:8080/rate_limit/charge/others {"client":"key:8","units":1}`, 404, inJSON),
		send(person, 1, `POST http://decisions.example.com:8080/rate_limit/charge/mails/../../ban {"client":"key:8"}`, 404, inJSON),
		send(person, 1, `POST http://decisions.example.com:8080/rate_limit/ban {"client":"key:8"}`, 404, inJSON),
		send(person, 1, "GET http://decisions.example.com:8080/config/", 404),
		send(person, 1, "GET http://decisions.example.com:8080/rate_limit/charge/mails", 404),
	},
}, {
	name: "nginx",
	after: func(s *recipeServer) {
		site := standIn{"/": always(http.StatusOK)}.start(s.t)
		config := replaceInExample(s.t, readSample(s.t, "../examples/recipes/nginx.conf"), "127.0.0.1:8081", s.forward("127.0.0.1", "8081"))
		port := startNginx(s.t, config, site)
		for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
			counted := []string{"POST /login", "POST /LOGIN", "POST /index.php/login", "POST /%6Cogin?a=b", "POST /login.php"}
			refused := slices.Concat(counted, slices.Repeat([]string{"POST /login"}, len(visitorFields)), []string{"POST //login", "POST /x/../login", "GET /login?_method=POST"})
			for i, line := range slices.Concat(counted, refused, slices.Repeat([]string{"GET /login", "POST /", "GET /logins"}, 8)) {
				method, path, _ := strings.Cut(line, " ")
				r, err := http.NewRequest(method, "http://127.0.0.1:"+port+path, nil)
				if err != nil {
					s.t.Fatal(err)
				}
				fields := []string{"X-Forwarded-For: 203.0.113.1", "X-Original-URI: /", "X-Original-Method: GET"}
				if i >= 2*len(counted) && i < 2*len(counted)+len(visitorFields) {
					fields = append(fields, visitorFields[i-2*len(counted)])
				}
				a, err := do(clientAt(s.t, from), r, fields...)
				want, refused := http.StatusOK, i >= len(counted) && i < len(counted)+len(refused)
				if refused {
					want = http.StatusTooManyRequests
				}
				if err != nil || a.status != want || (a.header.Get("Retry-After") != "") != refused {
					s.t.Errorf("request %d from %s, %s, %q: %d %v, %v", i, from, line, fields, a.status, a.header, err)
				}
			}
		}
	},
}, {
	name: "forward-auth",
	traffic: []wave{
		send(person, 3, "GET http://127.0.0.1:8081/", 200, "X-Forwarded-Method: POST", "X-Forwarded-Uri: /login", "X-Forwarded-For: 203.0.113.1"),
		send(person, 2, "GET http://127.0.0.1:8081/", 200, "X-Forwarded-Method: POST", "X-Forwarded-Uri: /%6Cogin/?next=/", "X-Forwarded-For: 203.0.113.1"),
		send(person, 2, "GET http://127.0.0.1:8081/", 429, "X-Forwarded-Method: POST", "X-Forwarded-Uri: //login", "X-Forwarded-For: 203.0.113.1"),
		send(person, 20, "GET http://127.0.0.1:8081/", 200, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /login", "X-Forwarded-For: 203.0.113.1"),
	},
	after: func(s *recipeServer) {
		for _, field := range visitorFields[:len(visitorFields)-3] { // Traefik itself writes X-Forwarded-…
			s.send(send(person, 1, "GET http://127.0.0.1:8081/", 429, "X-Forwarded-Method: POST", "X-Forwarded-Uri: /login", "X-Forwarded-For: 203.0.113.1", field))
			s.send(send(person, 1, "GET http://127.0.0.1:8081/", 200, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /login", "X-Forwarded-For: 203.0.113.1", strings.Replace(field, "GET", "HEAD", 1)))
		}
		// without two lines, for Envoy
		text := readSample(s.t, "../examples/recipes/forward-auth.Caddyfile")
		for _, line := range []string{"	method {header.X-Forwarded-Method}\n", "	rewrite {header.X-Forwarded-Uri}?\n"} {
			text = replaceInExample(s.t, text, line, "")
		}
		envoy := newServer(s.t, strings.Replace(withPatience(replaceInExample(s.t, text, "http://:8081", "http://:{$PORT}")), "{\n", "{\nadmin {$ADMIN}\n", 1))
		envoy.start()
		for i := range 10 {
			a := envoy.send(http.MethodPost, "/login", "X-Forwarded-For: 203.0.113.2", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /")
			if want := i < 5; a.isAllowed(s.t) != want {
				s.t.Errorf("request %d of Envoy: %+v", i, a)
			}
		}
	},
}, {
	name:     "docker-labels",
	backends: map[string]standIn{"127.0.0.1:3000": {"POST /login": always(401), "GET /": always(200)}},
	traffic: []wave{
		send(attacker, 10, "POST https://app.example.com/login", 401),
		send(attacker, 5, "POST https://app.example.com/login", 429),
		send(person, 100, "GET https://app.example.com/{n}", 200),
	},
	after: func(s *recipeServer) {
		if got, want := caddyfileOfLabels(readSample(s.t, "../examples/recipes/docker-labels.yaml")), withoutHead(readSample(s.t, "../examples/recipes/docker-labels.Caddyfile")); got != want {
			s.t.Errorf("the labels become\n%s\nwant\n%s", got, want)
		}
	},
}, {
	name:     "llm",
	backends: map[string]standIn{"127.0.0.1:8000": {"POST /v1/chat/completions": tokens(1000), "POST /v1/responses": streamed(1000), "GET /v1/models": always(200)}},
	traffic: []wave{
		send("198.18.7.1", 10, `POST https://llm.example.com/v1/chat/completions {"max_tokens":1,"stream":true}`, 200, inJSON),
		send("198.18.7.1", 1, `POST https://llm.example.com/v1/chat/completions {"max_tokens":1}`, 429, inJSON),
		send(person, 9, `POST https://llm.example.com/v1/chat/completions {"max_tokens":100}`, 200, inJSON),
		send(person, 100, "GET https://llm.example.com/v1/models", 200),
		send(attacker, 5, `POST https://llm.example.com/v1/chat/completions {"max_tokens":1}`, 200, inJSON),
		send(attacker, 5, `POST https://llm.example.com/v1/responses {"max_tokens":1,"stream":true}`, 200, inJSON, "Accept-Encoding: gzip"),
		send(attacker, 5, `POST https://llm.example.com/v1/chat/completions {"max_tokens":1}`, 429, inJSON),
		send(neighbor, 2, `POST https://llm.example.com/v1/chat/completions {"max_tokens":4000}`, 200, inJSON),
		send(neighbor, 2, `POST https://llm.example.com/v1/chat/completions {"max_tokens":4000,"max_tokens":1}`, 200, inJSON),
		send(neighbor, 1, `POST https://llm.example.com/v1/chat/completions {"max_tokens":`, 400, inJSON),
	},
	after: func(s *recipeServer) { // other names for the most tokens
		for i, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
			r, err := s.client(fmt.Sprintf("198.18.8.%d", i)).Post("https://llm.example.com/v1/responses", "application/json", strings.NewReader(`{"`+name+`":4000}`))
			if err != nil {
				s.t.Fatal(err)
			}
			r.Body.Close()
			if left := r.Header.Get("RateLimit"); !strings.HasPrefix(left, `"tokens";r=6000;`) {
				s.t.Errorf("%s: got %q, want 6000 left", name, left)
			}
		}
	},
}, {
	name: "grpc",
	backends: map[string]standIn{"127.0.0.1:50051": {
		"POST /accounts.v1.Accounts/SignIn": endsWith("0", "16"),
		"POST /notes.v1.Notes/List":         endsWith("0", "0"),
	}},
	traffic: []wave{
		send(person, 500, "POST https://grpc.example.com/notes.v1.Notes/List", 200, "Content-Type: application/grpc"),
		send(attacker, 600, "POST https://grpc.example.com/notes.v1.Notes/List", 200, "Content-Type: application/grpc"),
		send(attacker, 5, "POST https://grpc.example.com/notes.v1.Notes/List", 429), // not gRPC
		send("198.18.9.1", 10, "POST https://grpc.example.com/accounts.v1.Accounts/SignIn", 200, "Content-Type: application/grpc-web+proto", "Password: "+rightPassword),
		send("198.18.9.1", 5, "POST https://grpc.example.com/accounts.v1.Accounts/SignIn", 200, "Content-Type: application/grpc-web+proto", "Accept-Encoding: gzip"),
		send("198.18.9.1", 16, "POST https://grpc.example.com/accounts.v1.Accounts/SignIn", 429, "Content-Type: application/grpc-web+proto", "Password: "+rightPassword),
		send("198.18.9.2", 5, "POST https://grpc.example.com/accounts.v1.Accounts/SignIn", 200, "Content-Type: application/grpc-web-text"),
		send("198.18.9.2", 5, "POST https://grpc.example.com/accounts.v1.Accounts/SignIn", 429, "Content-Type: application/grpc-web-text"),
	},
	after: func(s *recipeServer) {
		sign := func(from, password string) codes.Code {
			conn, err := grpc.NewClient("passthrough:///grpc.example.com:443", grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.connect(ctx, from, "443") }))
			if err != nil {
				s.t.Fatal(err)
			}
			defer conn.Close()
			ctx := metadata.AppendToOutgoingContext(s.t.Context(), "password", password)
			return status.Code(conn.Invoke(ctx, "/accounts.v1.Accounts/SignIn", new(grpc_testing.Empty), new(grpc_testing.Empty)))
		}
		for range 10 {
			if got := sign(person, rightPassword); got != codes.Internal { // the stand-in sends no message, but OK
				s.t.Errorf("the right password ends with %v", got)
			}
		}
		for range 5 {
			if got := sign(neighbor, "guess"); got != codes.Unauthenticated {
				s.t.Errorf("a wrong password ends with %v", got)
			}
		}
		for _, password := range []string{"guess", rightPassword} {
			if got := sign(neighbor, password); got != codes.ResourceExhausted {
				s.t.Errorf("after five wrong passwords, %q ends with %v", password, got)
			}
		}
	},
}, {
	name: "git",
	backends: map[string]standIn{"127.0.0.1:3000": {
		"GET /alice/{repo}/info/refs":         always(200),
		"POST /alice/{repo}/git-upload-pack":  always(200),
		"POST /alice/{repo}/git-receive-pack": password(200, 401),
		"GET /alice/{repo}":                   always(200),
	}},
	traffic: []wave{
		send(person, 300, "GET https://code.example.com/alice/tool{n}.git/info/refs?service=git-upload-pack", 200),
		send(person, 600, "POST https://code.example.com/alice/tool{n}.git/git-upload-pack want", 200),
		send(person, 20, "POST https://code.example.com/alice/tool.git/git-receive-pack pack", 401), // without a password, at first
		send(person, 40, "POST https://code.example.com/alice/tool.git/git-receive-pack pack", 200, withPassword),
		send(neighbor, 20, "POST https://code.example.com/alice/tool.git/git-receive-pack pack", 401, "Authorization: Basic YWxpY2U6Z3Vlc3M="),
		send(neighbor, 5, "POST https://code.example.com/alice/tool.git/git-receive-pack pack", 429, withPassword),
		sendBeyond(attacker, 1000, 20, "POST https://code.example.com/alice/tool.git/git-upload-pack want", 200),
		send(attacker, 5, "GET https://code.example.com/alice/tool", 200),
	},
}, {
	name: "caldav",
	backends: map[string]standIn{"127.0.0.1:5232": {
		"PROPFIND /alice/{path...}": password(207, 401),
		"REPORT /alice/{path...}":   password(207, 401),
		"PUT /alice/{path...}":      password(201, 401),
	}},
	traffic: []wave{
		send(person, 10, "PROPFIND https://dav.example.com/alice/", 401), // without a password, at first
		send(person, 50, "PROPFIND https://dav.example.com/alice/", 207, withPassword),
		send(person, 1500, "PUT https://dav.example.com/alice/work/{n}.ics entry", 201, withPassword),
		send(person, 50, "REPORT https://dav.example.com/alice/work/", 207, withPassword),
		send(neighbor, 20, "PROPFIND https://dav.example.com/alice/", 401, "Authorization: Basic YWxpY2U6Z3Vlc3M="),
		send(neighbor, 5, "PROPFIND https://dav.example.com/alice/", 429, withPassword),
		sendBeyond(attacker, 2000, 20, "PROPFIND https://dav.example.com/alice/", 401),
	},
}, {
	name:     "wiki",
	backends: map[string]standIn{"127.0.0.1:8080": {"/": always(200)}},
	instead: []wave{
		send("198.51.100.99", 120, "GET https://wiki.example.com/w/index.php?title=Page&oldid={n}", 200),
		send("198.51.100.99", 5, "GET https://wiki.example.com/w/index.php?title=Page&oldid={n}", 429),
	},
	traffic: []wave{
		send(person, 100, "GET https://wiki.example.com/wiki/Page{n}", 200),
		send(person, 5, "GET https://wiki.example.com/wiki/Page?action=history", 429),
		send(person, 50, "POST https://wiki.example.com/w/api.php action=edit", 200),
		send(attacker, 120, "GET https://wiki.example.com/wiki/Page{n}", 200),
		send(attacker, 5, "GET https://wiki.example.com/wiki/Page{n}", 429),
		send(attacker, 5, "GET https://wiki.example.com/WIKI//Special:AllPages", 429),
		send(neighbor, 60, "GET https://wiki.example.com/w/index.php?title=Special:RecentChanges&feed=atom", 200),
		send(neighbor, 5, "GET https://wiki.example.com/feed.php", 429),
	},
}, {
	name:     "shop",
	backends: map[string]standIn{"127.0.0.1:8080": {"/": always(200)}},
	instead: []wave{
		send("198.51.100.99", 120, "GET https://shop.example.com/shop/?filter_color=red&min_price={n}", 200),
		send("198.51.100.99", 5, "GET https://shop.example.com/shop/?filter_color=red&min_price={n}", 429),
	},
	traffic: []wave{
		send(person, 100, "GET https://shop.example.com/product/{n}/", 200),
		send(person, 5, "GET https://shop.example.com/shop/?filter_color=red", 429),
		send(person, 20, "POST https://shop.example.com/?wc-ajax=checkout a=b", 200),
		send(attacker, 120, "GET https://shop.example.com/product-category/{n}/", 200),
		send(attacker, 5, "GET https://shop.example.com/product-category/{n}/", 429),
	},
}, {
	name:     "mirror",
	backends: map[string]standIn{"127.0.0.1:8080": {"GET /debian/{path...}": always(200)}},
	traffic: []wave{
		send(person, 20, "GET https://mirror.example.com/debian/dists/stable/InRelease", 200),
		send(person, 2900, "GET https://mirror.example.com/debian/pool/main/p/p{n}.deb", 200),
		sendBeyond(attacker, 3000, 50, "GET https://mirror.example.com/debian/pool/main/p/p.deb", 200),
		send(neighbor, 100, "GET https://mirror.example.com/debian/pool/main/p/p{n}.deb", 200),
	},
}, {
	name:     "cloudflare",
	backends: map[string]standIn{"127.0.0.1:3000": {"/": always(200)}},
	traffic: []wave{
		send("173.245.48.9", 200, "GET https://shop.example.com/{n}", 200, "CF-Connecting-IP: "+person, "X-Forwarded-For: "+person),
		send("173.245.48.9", 200, "GET https://shop.example.com/{n}", 200, "CF-Connecting-IP: "+neighbor), // the same machine of Cloudflare
		send("2606:4700::9", 90, "GET https://shop.example.com/{n}", 200, "CF-Connecting-IP: "+person),
		send("173.245.48.9", 300, "GET https://shop.example.com/{n}", 200, "X-Forwarded-For: 192.0.2.{n}", "CF-Connecting-IP: "+attacker),
		send("173.245.48.9", 20, "GET https://shop.example.com/{n}", 429, "X-Forwarded-For: 192.0.2.{n}, 198.51.100.1", "CF-Connecting-IP: "+attacker),
		send("172.64.0.9", 20, "GET https://shop.example.com/{n}", 429, "X-Forwarded-For: "+neighbor, "CF-Connecting-IP: "+attacker),
		send("172.64.0.9", 20, "GET https://shop.example.com/{n}", 429, "CF-Connecting-IP: 192.0.2.{n}", "CF-Connecting-IP: "+attacker),
		send("2a06:98c0::9", 300, "GET https://shop.example.com/{n}", 200, "X-Forwarded-For: 192.0.2.{n}", worker), // strangers' programs at Cloudflare
		send("172.64.0.9", 20, "GET https://shop.example.com/{n}", 429, "X-Forwarded-For: 192.0.2.{n}", worker),
		send("198.51.100.7", 300, "GET https://shop.example.com/{n}", 200, "X-Forwarded-For: 192.0.2.{n}"), // not by Cloudflare
		send("198.51.100.7", 20, "GET https://shop.example.com/{n}", 429, "X-Forwarded-For: 192.0.2.{n}", "CF-Connecting-IP: 192.0.2.{n}"),
	},
}, {
	name:     "tunnel",
	visitor:  "127.0.0.1",
	backends: map[string]standIn{"127.0.0.1:3000": {"/": always(200)}},
	traffic: []wave{
		send("127.0.0.1", 250, "GET http://app.example.com:8080/{n}", 200, "X-Forwarded-For: "+person),
		send("127.0.0.1", 250, "GET http://app.example.com:8080/{n}", 200, "X-Forwarded-For: "+neighbor),
		send("127.0.0.1", 300, "GET http://app.example.com:8080/{n}", 200, "X-Forwarded-For: 192.0.2.{n}, "+attacker),
		send("127.0.0.1", 20, "GET http://app.example.com:8080/{n}", 429, "X-Forwarded-For: 192.0.2.{n}, "+attacker),
	},
}, {
	name:     "block-lists",
	goesOn:   true,
	files:    map[string]string{"blocked.txt": "# Scrapers of this week\n" + attacker + "\n198.51.100.128/25 # a data center\n192.168.0.0/16\n"},
	backends: map[string]standIn{"127.0.0.1:3000": {"/": always(200)}},
	running:  map[string]string{"127.0.0.1:8090": alertServer.Listener.Addr().String()},
	traffic: []wave{
		send(person, 500, "GET https://www.example.com/{n}", 200),
		send("192.168.1.20", 10, "GET https://www.example.com/{n}", 200),
		send(attacker, 10, "GET https://www.example.com/{n}", 429),
		send("198.51.100.200", 10, "GET https://www.example.com/{n}", 429),
		send("198.51.100.20", 10, "GET https://www.example.com/{n}", 200),
		send(neighbor, 1, "GET https://www.example.com/.env", 429),
		send(neighbor, 10, "GET https://www.example.com/{n}", 429),
	},
	after: func(s *recipeServer) {
		select {
		case text := <-alerts:
			if !strings.HasPrefix(text, "Rate limiter: A client was banned for 60 minutes (trap). ") || !strings.HasSuffix(text, " Network: 198.51.100.0/24.") {
				s.t.Errorf("the message is %q", text)
			}
		case <-time.After(patience):
			s.t.Error("there is no message")
		}
	},
}, {
	name:     "before-tls",
	files:    map[string]string{"blocked.txt": attacker + "\n198.51.100.128/25 # a data center\n"},
	backends: map[string]standIn{"127.0.0.1:3000": {"/": always(200)}},
	traffic: []wave{
		send(person, 500, "GET https://www.example.com/{n}", 200),
	},
	after: func(s *recipeServer) {
		opens := func(from string) bool { return s.shakesHands(from, "www.example.com") }
		for _, from := range []string{attacker, "198.51.100.200"} {
			if opens(from) {
				s.t.Errorf("%s shakes hands", from)
			}
		}
		for n := range 65 {
			if opens(neighbor) != (n < 60) {
				s.t.Errorf("connection %d of a neighbor: shakes hands %v", n, n >= 60)
			}
		}
	},
}, {
	name:     "certificates",
	backends: map[string]standIn{"127.0.0.1:3000": {"/": always(200)}, asked: {"/known-domain": knowsDomain}},
	after: func(s *recipeServer) {
		obtains := func(from, format string, args ...any) bool {
			return s.shakesHands(from, fmt.Sprintf(format, args...))
		}
		for i := range 12 {
			if obtains(attacker, "unknown%d.invalid", i) {
				s.t.Error("a domain that the application doesn't know has a certificate")
			}
			if got := obtains(attacker, "www.customer%d.test", i); got != (i < 10) {
				s.t.Errorf("new name %d of a client: %v", i, got)
			}
			if !obtains(person, "www.customer0.test") {
				s.t.Error("a name with a certificate has none any more")
			}
		}
		for i := range 22 {
			if got := obtains(fmt.Sprint("2001:db8:1:", i, "::1"), "shop%d.example.co.uk", i); got != (i < 20) {
				s.t.Errorf("new name %d of a domain: %v", i, got)
			}
		}
		lines := s.logLines("no certificate: the limits on new certificates are used up")
		if !slices.ContainsFunc(lines, func(line map[string]any) bool {
			return line["domain"] == "www.customer10.test" || line["not_logged"] != 0.
		}) {
			s.t.Errorf("the log names these domains without a certificate: %v", lines)
		}
		s.server.stop()
		s.server.start()
		if obtains(attacker, "www.another.test") || obtains(person, "more.example.co.uk") {
			s.t.Error("the limits begin anew after a restart")
		}
		if !obtains(attacker, "shop3.example.co.uk") || !obtains(person, "www.another.test") {
			s.t.Error("a name with a certificate, or the first of a client, has none after a restart")
		}
	},
}, {
	name:     "lan",
	backends: map[string]standIn{"127.0.0.1:3000": {"/": always(200)}},
	traffic: []wave{
		send("192.168.1.20", 500, "GET https://home.example.com/{n}", 200),
		send("fd00::20", 500, "GET https://home.example.com/{n}", 200),
		send("192.0.2.7", 500, "GET https://home.example.com/", 200),
		send(person, 200, "GET https://home.example.com/{n}", 200),
		send(attacker, 300, "GET https://home.example.com/{n}", 200),
		send(attacker, 20, "GET https://home.example.com/{n}", 429, "X-Forwarded-For: 192.168.1.20"),
		send(attacker, 20, "GET https://home.example.com/healthz/../{n}", 429),
		send(attacker, 5, "GET https://home.example.com/healthz", 200),
	},
}, {
	name:     "cors",
	backends: map[string]standIn{"127.0.0.1:3000": {"/v1/": always(200)}},
	traffic: []wave{
		send(person, 50, "OPTIONS https://api.example.com/v1/notes", 204, "Origin: https://app.example.com", "Access-Control-Request-Method: POST"),
		send(person, 50, "POST https://api.example.com/v1/notes {}", 200, "Origin: https://app.example.com"),
		send(attacker, 60, "POST https://api.example.com/v1/notes {}", 200, "Origin: https://app.example.com"),
		send(attacker, 10, "POST https://api.example.com/v1/notes {}", 429, "Origin: https://app.example.com"),
		send(attacker, 5, "PROPFIND https://api.example.com/v1/notes", 429),
		send(attacker, 5, "OPTIONS https://api.example.com/v1/notes", 429, "X-HTTP-Method-Override: POST"),
		send(attacker, 10, "OPTIONS https://api.example.com/v1/notes", 204, "Origin: https://app.example.com"),
		send(neighbor, 300, "OPTIONS https://api.example.com/v1/{n}", 204),
		send(neighbor, 10, "OPTIONS https://api.example.com/v1/{n}", 429),
		send(neighbor, 10, "POST https://api.example.com/v1/notes {}", 200),
	},
}, {
	name:     "sites",
	backends: map[string]standIn{"127.0.0.1:3000": {"POST /login": password(200, 401), "GET /": always(200)}},
	traffic: []wave{
		send(person, 5, "POST https://one.example.com/login wonderland", 200),
		send(person, 5, "POST https://two.example.com/login wonderland", 200),
		send(person, 10, "POST https://three.example.com/login wonderland", 200),
		send(person, 10, "POST https://four.example.com/login wonderland", 200),
		send(person, 100, "GET https://one.example.com/", 200),
		send(person, 100, "GET https://three.example.com/", 200),
		send(attacker, 10, "POST https://one.example.com/login {n}", 401),
		send(attacker, 10, "POST https://two.example.com/login {n}", 429),
		send(attacker, 10, "POST https://three.example.com/login {n}", 401),
		send(attacker, 10, "POST https://three.example.com/login {n}", 429),
		send(attacker, 10, "POST https://four.example.com/login {n}", 401),
	},
}, {
	name:     "firewall",
	backends: map[string]standIn{"127.0.0.1:3000": {"POST /login": password(200, 401), "GET /": always(200)}},
	traffic: []wave{
		send(person, 5, "POST https://www.example.com/login wonderland", 200),
		send(person, 100, "GET https://www.example.com/{n}", 200),
		send(attacker, 10, "POST https://www.example.com/login {n}", 401),
		send(attacker, 30, "POST https://www.example.com/login {n}", 429),
	},
	after: func(s *recipeServer) {
		found := map[any]int{}
		for _, line := range decisions(s.t, filepath.Join(s.dir, "rate_limit.log")) {
			found[line["client_ip"]]++
		}
		if found[attacker] != 30 || found[person] != 0 {
			s.t.Errorf("the log has refusals of %v, want 30 of %s and none of %s", found, attacker, person)
		}
	},
}, {
	name:   "networks",
	goesOn: true,
	files: map[string]string{
		"GeoLite2-Country.mmdb": string(networkstest.File("GeoLite2-Country", map[string]networkstest.Record{
			person + "/32":    {"country": networkstest.Record{"iso_code": "AT"}},
			"198.51.100.0/24": {"country": networkstest.Record{"iso_code": "US"}},
		})),
		"GeoLite2-ASN.mmdb": string(networkstest.File("GeoLite2-ASN", map[string]networkstest.Record{
			person + "/32":    {"autonomous_system_number": uint32(64496)},
			"198.51.100.0/24": {"autonomous_system_number": uint32(64500)},
		})),
	},
	backends: map[string]standIn{"127.0.0.1:3000": {"GET /": always(200)}},
	traffic: []wave{
		send("198.51.100.1", 120, "GET https://www.example.com/{n}", 200),
		send("198.51.100.2", 120, "GET https://www.example.com/{n}", 200),
		send("198.51.100.3", 59, "GET https://www.example.com/{n}", 200), // with the visitor of the page, the provider has used up its 300
		send("198.51.100.3", 20, "GET https://www.example.com/{n}", 429),
		send("198.51.100.4", 20, "GET https://www.example.com/{n}", 429),
		send(person, 120, "GET https://www.example.com/{n}", 200),
		send(attacker, 120, "GET https://www.example.com/{n}", 200), // in no file
		send(attacker, 20, "GET https://www.example.com/{n}", 429),
	},
	after: func(s *recipeServer) {
		s.wantCommand(s.t, 0, []string{"ban", "asn:64500"}, "asn:64500 is banned")
		s.send(send("198.51.100.9", 1, "GET https://www.example.com/", 429))
		s.send(send(neighbor, 1, "GET https://www.example.com/", 200))
		s.wantCommand(s.t, 0, []string{"unban", "asn:64500"}, "asn:64500 is no longer banned")
	},
}, {
	name:     "search-engines",
	backends: map[string]standIn{"127.0.0.1:3000": {"GET /": always(200)}},
	traffic: []wave{
		send(person, 60, "GET https://www.example.com/{n}", 200),
		send(attacker, 60, "GET https://www.example.com/{n}", 200, "User-Agent: "+googlebot),
		send(attacker, 30, "GET https://www.example.com/{n}", 429, "User-Agent: "+googlebot),
		send(crawlerAddress, 1, "GET https://www.example.com/", 200, "User-Agent: "+googlebot), // begins the look-up
	},
	after: func(s *recipeServer) {
		if !s.recipe.inside {
			return // a Caddy without the DNS of this test
		}
		crawl := func() int {
			r, _ := requestOf("GET https://www.example.com/", []string{"User-Agent: " + googlebot}, 0)
			a, err := do(s.client(crawlerAddress), r)
			if err != nil {
				s.t.Fatal(err)
			}
			return a.status
		}
		for n, passed := 0, 0; passed < 100; n++ { // more than pass without a confirmation
			if passed++; crawl() != 200 {
				passed = 0
			}
			if n == 20_000 {
				s.t.Fatal("the crawler is never confirmed")
			}
		}
	},
}, {
	name:     "programs",
	goesOn:   true,
	backends: map[string]standIn{"127.0.0.1:3000": {"/": always(200)}},
	imports:  []string{"programs.Caddyfile"},
	traffic: []wave{ // the page's commands have used up the pages
		send(person, 1, "GET https://www.example.com/", 429),
		send(person, 10, "GET https://www.example.com/blog/feed", 200),
		send(person, 5, "GET https://www.example.com/comments/feed/", 200),
		send(person, 5, "GET https://www.example.com/2026/11/a-post/feed/", 200),
		send(person, 20, "GET https://www.example.com/atom.xml", 200),
		send(person, 20, "GET https://www.example.com/rss/{n}", 200),
		send(person, 1, "GET https://www.example.com/feed.xml", 429), // 60 in all
		send(person, 1, "GET https://www.example.com/FEED/../page", 429),
		send(person, 60, "POST https://www.example.com/webhooks/github {}", 200), // nobody has signed them
		send(person, 5, "POST https://www.example.com/webhooks/github {}", 429),
		send(person, 5, "POST https://www.example.com/comment {}", 429, "X-Hub-Signature-256: sha256=00"),
		send(person, 50, "POST https://www.example.com/webhooks/github {}", 200, "X-Hub-Signature-256: sha256=00"),
		send(person, 50, "POST https://www.example.com/hooks/1 {}", 200, "X-Gitea-Signature: 00"),
		send(person, 50, "POST https://www.example.com/webhook {}", 200, "X-Gitlab-Token: a"),
		send(person, 50, "POST https://www.example.com/webhooks/stripe {}", 200, "Stripe-Signature: t=1"),
		send(person, 35, "POST https://www.example.com/webhooks/1 {}", 200, "Webhook-Signature: v1,00"),
		send(person, 5, "POST https://www.example.com/webhooks/1 {}", 429, "Webhook-Signature: v1,00"),
		send(neighbor, 5, "GET https://www.example.com/page", 429, "X-Hub-Signature-256: sha256=00"),
		send(neighbor, 60, "GET https://www.example.com/readyz", 200),
		send(neighbor, 5, "GET https://www.example.com/ping", 429),
		send(neighbor, 300, "GET https://www.example.com/.well-known/acme-challenge/{n}", 200),
		send(attacker, 5, "GET https://www.example.com/.well-known/acme-challenge/{n}", 429),
		send(attacker, 5, "GET https://www.example.com/.well-known/acme-challenge/..%2f..%2fpage", 429),
		send(neighbor, 60, "GET https://www.example.com/robots.txt", 200, "User-Agent: facebookexternalhit/1.1"),
		send(neighbor, 5, "GET https://www.example.com/oembed?url=x", 429, "User-Agent: facebookexternalhit/1.1"),
		send(neighbor, 1, "GET https://www.example.com/page", 429, "User-Agent: facebookexternalhit/1.1"),
		sendBeyond(neighbor, 3000, 50, "GET https://www.example.com/v2/alice/tool/blobs/{n}", 200),
		send(attacker, 5, "GET https://www.example.com/pool/main/g/gcc/libstdc%2b%2b6_12%7erc1_amd64.deb", 200), // as apt writes it
	},
}, {
	name:     "ai-crawlers",
	backends: map[string]standIn{"127.0.0.1:3000": {"GET /": always(200)}},
	instead: []wave{
		send("198.51.100.99", 30, "GET https://wiki.example.com/page/{n}", 200, "User-Agent: Mozilla/5.0; compatible; GPTBot/1.2; +https://openai.com/gptbot"),
		send("198.51.100.99", 3, "GET https://wiki.example.com/page/{n}", 429, "User-Agent: Mozilla/5.0; compatible; GPTBot/1.2; +https://openai.com/gptbot"),
		send("198.51.100.99", 1, "GET https://wiki.example.com/page/1", 200),
	},
	traffic: []wave{
		send(person, 100, "GET https://wiki.example.com/page/{n}", 200, "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
		send(person, 300, "GET https://wiki.example.com/assets/{n}.png", 200, "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
		send(neighbor, 60, "GET https://wiki.example.com/page/{n}", 200, "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
		send("198.18.0.1", 20, "GET https://wiki.example.com/page/{n}", 429, "User-Agent: Mozilla/5.0 (compatible; ClaudeBot/1.0; +claudebot@anthropic.com)"), // GPTBot has used them up
		send("198.18.0.2", 20, "GET https://wiki.example.com/page/{n}", 429, "User-Agent: CCBot/2.0 (https://commoncrawl.org/faq/)"),
		send("198.18.0.1", 20, "GET https://wiki.example.com/robots.txt", 200, "User-Agent: CCBot/2.0 (https://commoncrawl.org/faq/)"),
		send(attacker, 120, "GET https://wiki.example.com/page/{n}", 200, "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0"),
		send(attacker, 20, "GET https://wiki.example.com/page/{n}", 429, "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0", "Accept: text/html"),
	},
	after: func(s *recipeServer) {
		r, _ := requestOf("GET https://wiki.example.com/", []string{"User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0", "Accept: text/html"}, 0)
		a, err := do(s.client(attacker), r)
		if err != nil || !strings.Contains(a.body, "/.well-known/rate-limit/") {
			s.t.Errorf("the refusal isn't the page with the puzzle: %v: %s", err, a.body)
		}
		for n := 0; ; n++ { // as the page says: many networks are refused in the end, each of which asks once
			r, _ := requestOf("GET https://wiki.example.com/page/1", []string{"User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0", "Accept: text/html"}, 0)
			a, err := do(s.client(fmt.Sprintf("198.18.%d.%d", 10+n/250, 1+n%250)), r)
			if err != nil || n == 20_000 {
				s.t.Fatalf("request %d of a flood: %v, %d", n, err, a.status)
			}
			if a.status == 429 {
				if !strings.Contains(a.body, "/.well-known/rate-limit/") {
					s.t.Errorf("the refusal isn't the page with the puzzle: %s", a.body)
				}
				break
			}
		}
	},
}}

// Every recipe lets normal use through entirely, and refuses what its page says. The
// commands on the page show what it says they show; without PROOF those of an eighth of the pages are tried.
func TestRecipes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	for i, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.inside = hasInside()
			s := startRecipe(t, r)
			waves := r.traffic
			if len(r.instead) > 0 && !proof.IsOn() {
				waves = append(slices.Clone(r.instead), waves...)
			} else if i%8 == 0 || r.goesOn || proof.IsOn() {
				s.try(readSample(t, "../docs/recipes/"+r.name+".md"))
			}
			for _, w := range waves {
				s.send(w)
			}
			if r.after != nil {
				r.after(s)
			}
		})
	}
}

// The limits for hours and days of recipes hold as well: a client that keeps to the
// shorter ones is refused in the end.
func TestRecipesLimitLongAttacks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	for _, tt := range []struct {
		name         string
		each, rounds int
		line         string
		want         int
	}{
		{"jellyfin", 10, 6, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Pw":"{n}"}`, 401},
		{"nextcloud", 10, 6, "POST https://cloud.example.com/login password={n}", 303},
		{"forgejo", 10, 6, "POST https://git.example.com/user/login password={n}", 200},
		{"vaultwarden", 20, 5, "POST https://vault.example.com/identity/connect/token password={n}", 400},
		{"immich", 10, 6, `POST https://photos.example.com/api/auth/login {"password":"{n}"}`, 401},
		{"wordpress", 10, 6, "POST https://blog.example.com/wp-login.php pwd={n}", 200},
	}[:min(proof.Times(1, 6), 6)] {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(recipes, func(r recipe) bool { return r.name == tt.name })
			s := newRecipeServer(t, recipes[i])
			clock := shift(s.server)
			s.start()
			for range tt.rounds {
				s.send(send(attacker, tt.each, tt.line, tt.want))
				s.send(send(attacker, 1, tt.line, 429))
				clock.pass(6 * time.Minute)
			}
			s.send(send(attacker, 1, tt.line, 429))
			s.send(send(person, 1, tt.line, tt.want))
		})
	}
}

// Every Caddyfile of examples/recipes has a page that shows it, a line in the index of
// recipes, and traffic.
func TestRecipesHavePages(t *testing.T) {
	t.Parallel()
	index := readSample(t, "../docs/recipes/README.md")
	tested := make(map[string]bool)
	for _, r := range recipes {
		tested[r.name] = true
	}
	for _, path := range glob(t, "../examples/recipes/*.Caddyfile") {
		name := strings.TrimSuffix(filepath.Base(path), ".Caddyfile")
		if !tested[name] {
			t.Errorf("%s: there is no recipe %q in the test", path, name)
		}
		if !strings.Contains(index, "]("+name+".md)") {
			t.Errorf("docs/recipes/README.md doesn't list %s.md", name)
		}
		page := readSample(t, "../docs/recipes/"+name+".md")
		if shown, want := firstBlock(page), withoutHead(readSample(t, path)); shown != want {
			t.Errorf("docs/recipes/%s.md: the first block must be examples/recipes/%[1]s.Caddyfile, got\n%s\nwant\n%s", name, shown, want)
		}
		if len(commandsIn(page)) == 0 {
			t.Errorf("docs/recipes/%s.md doesn't show how to see that it works: expected a block ```sh with a block ```text behind it", name)
		}
		if !strings.Contains(page, "](../../examples/recipes/"+name+".Caddyfile)") {
			t.Errorf("docs/recipes/%s.md: there is no link to the Caddyfile", name)
		}
	}
	if files := glob(t, "../examples/recipes/*.Caddyfile"); len(files) != len(recipes) {
		t.Errorf("there are %d recipes in the test, and %d files", len(recipes), len(files))
	}
}

// The recipes for software go together in one Caddyfile, as on a server at home. Their
// global options are the same.
func TestRecipesForSoftwareGoTogether(t *testing.T) {
	noData(t)
	var all strings.Builder
	const global = "{\n\trate_limit {\n\t\tsession\n\t}\n}\n\n"
	all.WriteString(global)
	for _, name := range []string{"forgejo", "wiki", "shop", "mirror", "jellyfin", "nextcloud", "vaultwarden", "immich", "wordpress", "basic-auth", "uploads", "lan", "cors"} {
		all.WriteString(strings.Replace(readSample(t, "../examples/recipes/"+name+".Caddyfile"), global, "", 1))
	}
	warnings, err := load(t, all.String())
	if err != nil || len(warnings) > 0 {
		t.Errorf("%v, warned of %+v", err, warnings)
	}
}

// knowsDomain is an application that knows all domains but some.
func knowsDomain(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.FormValue("domain"), ".invalid") {
		w.WriteHeader(http.StatusNotFound)
	}
}

func firstBlock(page string) string {
	if m := sampleFence.FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return ""
}

// withoutHead returns a Caddyfile without the comment it begins with.
func withoutHead(text string) string {
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// The files of the pages about systemd and Compose hold what the pages say of them.
func TestDeploymentFiles(t *testing.T) {
	t.Parallel()
	for file, lines := range map[string][]string{
		"compose/compose.yaml":      {"- caddy_data:/data", "caddy_data:", "- ./Caddyfile:/etc/caddy/Caddyfile:ro", "stop_grace_period: 30s"},
		"compose/trio/compose.yaml": {"build: ..", "- caddy_data:/data", "- ./Caddyfile:/etc/caddy/Caddyfile:ro", "stop_grace_period: 30s"},
		"compose/Dockerfile":        {"RUN GOTOOLCHAIN=auto xcaddy build --with github.com/caddy-tally/caddy-tally", "COPY --from=builder /usr/bin/caddy /usr/bin/caddy"},
		"systemd/caddy.service":     {"StateDirectory=caddy", "ProtectSystem=strict", "Type=notify"},
	} {
		text := readSample(t, "../examples/"+file)
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(line) + `( #.*)?$`).MatchString(text) {
				t.Errorf("examples/%s: there is no line %q", file, line)
			}
		}
	}
	if block := firstBlock(readSample(t, "../docs/recipes/compose.md")); block != withoutHead(readSample(t, "../examples/compose/Caddyfile")) {
		t.Errorf("docs/recipes/compose.md shows another Caddyfile than examples/compose:\n%s", block)
	}
	trio, services := readSample(t, "../examples/compose/trio/Caddyfile"), readComposition(t, "../examples/compose/trio/compose.yaml").Services
	for _, name := range []string{"nextcloud", "vaultwarden", "jellyfin"} {
		site := regexp.MustCompile(`(reverse_proxy) [\d.]+`).ReplaceAllString(withoutHead(readSample(t, "../examples/recipes/"+name+".Caddyfile")), "$1 "+name)
		site = strings.NewReplacer("nextcloud:11000", "nextcloud:80", "vaultwarden:8000", "vaultwarden:80").Replace(site)
		if _, ok := services[name]; !ok || !strings.Contains(trio, site) {
			t.Errorf("examples/compose/trio lacks the service, or the site\n%s", site)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing")
	}
	// It looks for the binary, which need not be there.
	unit := filepath.Join(t.TempDir(), "caddy.service")
	text := replaceInExample(t, readSample(t, "../examples/systemd/caddy.service"), "/usr/local/bin/caddy", "/bin/true")
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "caddy.service:") {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=25", unit).CombinedOutput(); err != nil {
		t.Errorf("the unit is exposed to more than 2.5 of 10: %v: %s", err, out)
	}
}

// caddyfileOfLabels returns the site of a container's labels, by the rules of caddy-docker-proxy: dots nest, a
// number after _ only keeps labels apart, and options are sorted.
func caddyfileOfLabels(compose string) string {
	type block struct {
		value  string
		nested map[string]*block
	}
	root := &block{nested: make(map[string]*block)}
	for line := range strings.Lines(compose) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		words := strings.Split(key, ".")
		if !ok || words[0] != "caddy" {
			continue
		}
		at := root
		for _, word := range words[1:] {
			if at.nested[word] == nil {
				at.nested[word] = &block{nested: make(map[string]*block)}
			}
			at = at.nested[word]
		}
		at.value = strings.ReplaceAll(strings.Trim(value, `"`), "{{upstreams 3000}}", "127.0.0.1:3000")
	}
	var write func(name string, b *block, indent string) string
	write = func(name string, b *block, indent string) string {
		text := indent + strings.TrimSpace(name+" "+b.value)
		if len(b.nested) == 0 {
			return text + "\n"
		}
		text += " {\n"
		for _, option := range slices.Sorted(maps.Keys(b.nested)) {
			name, _, _ := strings.Cut(option, "_0")
			name, _, _ = strings.Cut(name, "_1")
			text += write(name, b.nested[option], indent+"\t")
		}
		return text + indent + "}\n"
	}
	return write("", root, "")
}
