package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

var (
	//go:embed assets
	assetFiles embed.FS
	//go:embed pages
	pageFiles embed.FS
)

// asset is a file that pages load.
type asset struct {
	kind    string
	content []byte
	version string // changes with the content
}

// assets are the files by the last segment of their path.
var assets = sync.OnceValue(func() map[string]asset {
	return map[string]asset{
		"style.css": readAsset("style.css", "text/css; charset=utf-8"),
		"live.js":   readAsset("live.js", "text/javascript; charset=utf-8"),
		"icon.svg":  readAsset("icon.svg", "image/svg+xml"),
		"uplot.js":  readAsset("uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8"),
		"uplot.css": readAsset("uplot/uPlot.min.css", "text/css; charset=utf-8"),
	}
})

func readAsset(path, kind string) asset {
	content, err := assetFiles.ReadFile("assets/" + path)
	if err != nil {
		panic(err) // the file is embedded
	}
	sum := sha256.Sum256(content)
	return asset{kind: kind, content: content, version: hex.EncodeToString(sum[:6])}
}

// assetURL returns the relative URL of a file, which changes with its content.
func assetURL(name string) string { return name + "?v=" + assets()[name].version }

// serveAsset answers with a file that browsers may cache: new content has a new URL.
func (v *visit) serveAsset(a asset) {
	if v.r.Method != http.MethodGet && v.r.Method != http.MethodHead {
		v.w.Header().Set("Allow", "GET, HEAD")
		v.fail(operator.Errorf(http.StatusMethodNotAllowed, "Use GET."))
		return
	}
	v.w.Header().Set("Content-Type", a.kind)
	if v.r.URL.Query().Get("v") == a.version {
		v.w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	http.ServeContent(v.w, v.r, "", time.Time{}, bytes.NewReader(a.content))
}

// templates are the pages with their layout. They are parsed on first use, because most Caddys show
// none.
var templates = sync.OnceValue(parseTemplates)

func parseTemplates() map[string]*template.Template {
	layout := template.Must(template.New("").Funcs(functions).ParseFS(pageFiles, "pages/layout.html",
		"pages/parts.html"))
	parsed := make(map[string]*template.Template)
	for _, name := range []string{"now", "requests", "clients", "bans", "history", "audit", "health", "explain",
		"done", "error"} {
		parsed[name] = template.Must(template.Must(layout.Clone()).ParseFS(pageFiles, "pages/"+name+".html"))
	}
	return parsed
}
