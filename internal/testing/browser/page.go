package browser

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// View is the configuration of a page's display.
type View struct {
	Width, Height int
	Dark          bool
	Scale         float64 // device pixels per CSS pixel; 0 means 1
	NoScript      bool
}

// Page is one tab.
type Page struct {
	t       *testing.T
	browser *Browser
	session string
	loaded  chan struct{}
	close   func()

	mu       sync.Mutex
	troubles []string
	requests []string
	frames   []frame // of a film
}

// Open opens a tab for a test.
func (b *Browser) Open(t *testing.T, v View) *Page {
	t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.must(t, "", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": b.context, "newWindow": true}, &target)
	b.must(t, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &Page{t: t, browser: b, session: attached.SessionID, loaded: make(chan struct{}, 100)}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.do(domain+".enable", map[string]any{}, nil)
	}
	p.Show(v)
	p.close = sync.OnceFunc(func() {
		_ = b.call("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil)
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.pages, p.session)
	})
	t.Cleanup(p.close)
	return p
}

// Close closes the tab, which would go on with what it does until the end of the test.
func (p *Page) Close() { p.close() }

func (c *chromium) must(t *testing.T, session, method string, params, result any) {
	t.Helper()
	if err := c.call(session, method, params, result); err != nil {
		t.Fatal(err)
	}
}

func (p *Page) do(method string, params, result any) {
	p.t.Helper()
	p.browser.must(p.t, p.session, method, params, result)
}

// Show changes the view of the page.
func (p *Page) Show(v View) {
	p.t.Helper()
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.Width, "height": v.Height, "deviceScaleFactor": max(v.Scale, 1), "mobile": v.Width < 600}, nil)
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	p.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": v.NoScript}, nil)
}

// SetZone changes the time zone of the page.
func (p *Page) SetZone(name string) {
	p.t.Helper()
	p.do("Emulation.setTimezoneOverride", map[string]any{"timezoneId": name}, nil)
}

// hear collects the page's problems and requests.
func (p *Page) hear(method string, params json.RawMessage) {
	var event struct {
		Type    string
		Request struct{ URL string }
		Args    []struct {
			Value       any
			Description string
		}
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Entry struct{ Level, Text, URL string }
		frame
		SessionID int // of the frame
	}
	if json.Unmarshal(params, &event) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Page.loadEventFired":
		select {
		case p.loaded <- struct{}{}:
		default: // nothing waits for that many
		}
	case "Network.requestWillBeSent":
		p.requests = append(p.requests, event.Request.URL)
	case "Page.screencastFrame":
		p.frames = append(p.frames, event.frame)
		_ = p.browser.send(p.session, "Page.screencastFrameAck", map[string]any{"sessionId": event.SessionID}, nil) // otherwise no further frames arrive
	case "Runtime.consoleAPICalled":
		if event.Type == "error" || event.Type == "warning" || event.Type == "assert" {
			p.troubles = append(p.troubles, fmt.Sprintf("console.%s: %v", event.Type, event.Args))
		}
	case "Runtime.exceptionThrown":
		p.troubles = append(p.troubles, event.ExceptionDetails.Text+" "+event.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		if event.Entry.Level == "error" || event.Entry.Level == "warning" {
			p.troubles = append(p.troubles, event.Entry.Text+" "+event.Entry.URL)
		}
	}
}

// Troubles returns the problems that the browser has logged.
func (p *Page) Troubles() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.troubles)
}

// Requests returns the requested addresses.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Go navigates to an address and waits until the page is loaded.
func (p *Page) Go(address string) {
	p.t.Helper()
	p.Load(func() {
		var result struct{ ErrorText string }
		p.do("Page.navigate", map[string]any{"url": address}, &result)
		if result.ErrorText != "" {
			p.t.Fatalf("%s: %s", address, result.ErrorText)
		}
	})
}

// Start navigates to an address, and doesn't wait for the page.
func (p *Page) Start(address string) error {
	return p.browser.send(p.session, "Page.navigate", map[string]any{"url": address}, nil)
}

// Load calls do, which makes the browser load a page, and waits for the page.
func (p *Page) Load(do func()) {
	p.t.Helper()
	for len(p.loaded) > 0 {
		<-p.loaded
	}
	do()
	select {
	case <-p.loaded:
	case <-time.After(patience):
		p.t.Fatalf("no page was loaded for %v", patience)
	}
}

// Eval evaluates a JavaScript expression, awaits it if it is a promise, and reads its JSON into
// result unless that is nil.
func (p *Page) Eval(expression string, result any) {
	p.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.do("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &got)
	if wrong := got.ExceptionDetails; wrong != nil {
		p.t.Fatalf("%.200s: %s %s", expression, wrong.Text, wrong.Exception.Description)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, result); err != nil {
		p.t.Fatalf("%.200s: got %s: %v", expression, got.Result.Value, err)
	}
}

// Wait waits until an expression is true. The page evaluates it after each change.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	p.Eval(strings.ReplaceAll(`new Promise((done) => {
		const look = () => { if (CONDITION) { watch.disconnect(); done(); } };
		const watch = new MutationObserver(look);
		watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		look();
	})`, "CONDITION", expression), nil)
}

// Picture returns the page as PNG: its upper part, as high as the view, or height CSS pixels unless
// that is 0.
func (p *Page) Picture(width, height int) []byte {
	p.t.Helper()
	var got struct{ Data []byte }
	params := map[string]any{"format": "png", "optimizeForSpeed": false}
	if height > 0 {
		params["captureBeyondViewport"] = true
		params["clip"] = map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
	}
	p.do("Page.captureScreenshot", params, &got)
	return got.Data
}

// Do sends a command of the DevTools protocol for the page.
func (p *Page) Do(method string, params map[string]any) {
	p.t.Helper()
	p.do(method, params, nil)
}
