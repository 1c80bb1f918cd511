package tally

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/lint"
	"github.com/caddy-tally/caddy-tally/internal/names"
)

// Permission limits how many new certificates are obtained on demand, usually per client and per
// registered domain. It counts in named zones as the handler `http.handlers.rate_limit` does, and keeps
// the counts as durably. A name that has a certificate in Caddy's storage uses up nothing, and is always
// permitted, so that it is loaded and renewed. Zones see the name as the host of a request.
type Permission struct {
	config.Permission

	run     *enforce.Handler
	other   caddytls.OnDemandPermission // nil if there is none
	storage certmagic.Storage

	logger   *zap.Logger
	logged   atomic.Int64 // when a refused name was logged, in seconds
	unlogged atomic.Int64 // names refused since
}

func init() {
	caddy.RegisterModule(new(Permission))
}

// CaddyModule returns the Caddy module information.
func (*Permission) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.permission.rate_limit", New: func() caddy.Module { return new(Permission) }}
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	permission rate_limit {
//		permission <module...>
//		zone <name> {
//			per   ip|network|domain|...
//			limit <n>/<duration> ...
//		}
//	}
//
// It has the options of the directive rate_limit.
func (p *Permission) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return p.Unmarshal(d, unnamedMatchers(d))
}

// Provision implements caddy.Provisioner.
func (p *Permission) Provision(ctx caddy.Context) error {
	app, err := ctx.App(names.App)
	if err != nil {
		return fmt.Errorf("getting rate_limit app: %w", err)
	}
	p.storage, p.logger = ctx.Storage(), ctx.Logger()
	compiler := app.(*App).compiler
	if p.run, p.other, err = p.Compile(ctx, compiler); err != nil {
		return err
	}
	return lint.Permission(ctx, compiler, &p.Permission, p.other != nil, p.run)
}

// CertificateAllowed implements caddytls.OnDemandPermission.
func (p *Permission) CertificateAllowed(ctx context.Context, name string) error {
	if p.other != nil {
		if err := p.other.CertificateAllowed(ctx, name); err != nil {
			return err
		}
	}
	if p.isStored(ctx, name) {
		return nil
	}
	host := name
	if strings.Contains(name, ":") {
		host = "[" + name + "]"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/", nil)
	if err != nil {
		return fmt.Errorf("%w: %w", caddytls.ErrPermissionDenied, err)
	}
	r.RemoteAddr = sender(ctx)
	w, passed := unread{make(http.Header)}, false
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	err = p.run.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		passed = true
		return nil
	}))
	switch {
	case err != nil:
		return fmt.Errorf("limits on new certificates: %w", err)
	case !passed:
		p.logRefused(name)
		return fmt.Errorf("%s: %w: the limits on new certificates are used up", name, caddytls.ErrPermissionDenied)
	}
	return nil
}

// logRefused logs a name that gets no certificate: one a second, because clients invent names.
func (p *Permission) logRefused(name string) {
	now, last := time.Now().Unix(), p.logged.Load()
	if now == last || !p.logged.CompareAndSwap(last, now) {
		p.unlogged.Add(1)
		return
	}
	p.logger.Info("no certificate: the limits on new certificates are used up", zap.String("domain", name),
		zap.Int64("not_logged", p.unlogged.Swap(0)))
}

// sender returns the address of the client whose handshake needs a certificate. That of a QUIC packet may be forged,
// since no reply has confirmed it yet: all such clients are one, whose address nobody has.
func sender(ctx context.Context) string {
	hello, ok := ctx.Value(certmagic.ClientHelloInfoCtxKey).(*tls.ClientHelloInfo)
	if ok && hello != nil && hello.Conn != nil && strings.HasPrefix(hello.Conn.RemoteAddr().Network(), "tcp") {
		return hello.Conn.RemoteAddr().String()
	}
	// the sender of a datagram can be forged (decision 160)
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0).String()
}

// isStored reports whether any issuer's certificate for a name, or for all names beside it, is in the
// storage, as far as that can be read.
func (p *Permission) isStored(ctx context.Context, name string) bool {
	issuers, err := p.storage.List(ctx, path.Dir(certmagic.StorageKeys.CertsPrefix("any")), false)
	if err != nil {
		return false // none has been obtained yet, or none can be: obtaining needs the storage, too
	}
	_, domain, _ := strings.Cut(name, ".")
	for _, issuer := range issuers {
		for _, stored := range []string{name, "*." + domain} {
			// Exists also reports true if a storage fails, as that of files does for names that are too long.
			if _, err := p.storage.Stat(ctx, certmagic.StorageKeys.SiteCert(path.Base(issuer), stored)); err == nil {
				return true
			}
		}
	}
	return false
}

// Cleanup undoes Provision.
func (p *Permission) Cleanup() error {
	if p.run != nil {
		p.run.Cleanup()
	}
	return nil
}

// unread is the answer to a request that nobody sent.
type unread struct{ header http.Header }

func (w unread) Header() http.Header       { return w.header }
func (unread) Write(p []byte) (int, error) { return len(p), nil }
func (unread) WriteHeader(int)             {}

// Interface guards
var (
	_ caddy.Provisioner           = (*Permission)(nil)
	_ caddy.CleanerUpper          = (*Permission)(nil)
	_ caddyfile.Unmarshaler       = (*Permission)(nil)
	_ caddytls.OnDemandPermission = (*Permission)(nil)
)
