package caddytest

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// recipe is a config of examples/recipes, as a user would paste it, with what stands behind it and the traffic
// that it is for (decision 100).
type recipe struct {
	name     string              // of the Caddyfile and of its page
	file     string              // the Caddyfile, below examples and without extension, if it is no recipe
	backends map[string]standIn  // by address in the config
	running  map[string]string   // the addresses of real software, by address in the config
	files    map[string]string   // in /etc/caddy, by name
	imports  []string            // files of examples in /etc/caddy
	env      []string            // NAME=value
	edit     func(string) string // changes the Caddyfile, unless it is nil
	visitor  string              // the address of who types the page's commands, 198.51.100.99 if it is empty
	traffic  []wave              // one after the other
	after    func(*recipeServer) // what else must be so
	goesOn   bool                // whether the traffic goes on from the page's commands
	instead  []wave              // of its commands without PROOF, if they start dozens of curl and the traffic goes on from them
	inside   bool                // whether the backends are in Caddy, and what is sent to it begins there
	doors    []door              // that the backends have, unless it is empty
}

// standIn answers as the software behind a recipe does, by pattern of [http.ServeMux].
// It answers 404 to everything else.
type standIn map[string]http.HandlerFunc

// asked is what Caddy itself asks about a domain, and not by a handler that has stand-ins.
const asked = "127.0.0.1:9123"

// always answers with one status.
func always(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
	}
}

// tokens answers a question that has used so many.
func tokens(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"{\"usage\":{\"total_tokens\":1}}"}}],"usage":{"total_tokens":%d}}`, n)
	}
}

// streamed is tokens in a stream of events, compressed for whoever asks for that: a client of Go does by
// itself, and reads it.
func streamed(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		to, flush := io.Writer(w), w.(http.Flusher).Flush
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			compressed := gzip.NewWriter(w)
			defer compressed.Close()
			to, flush = compressed, func() {
				compressed.Flush()
				w.(http.Flusher).Flush()
			}
		}
		for range 3 {
			fmt.Fprint(to, "event: response.output_text.delta\ndata: {\"delta\":\"Hello\"}\n\n")
			flush()
		}
		fmt.Fprintf(to, "event: response.completed\ndata: {\"response\":{\"usage\":{\"total_tokens\":%d}}}\n\n", n)
	}
}

// password answers by whether the right password is in the body, or in the
// Authorization field.
func password(right, wrong int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, basic, _ := r.BasicAuth()
		if strings.Contains(string(body), rightPassword) || basic == rightPassword {
			w.WriteHeader(right)
		} else {
			w.WriteHeader(wrong)
		}
	}
}

const rightPassword = "wonderland"

// endsWith answers a call of gRPC with a status in its trailers, or one of gRPC-Web with one in its body: right for
// the right password, a field.
func endsWith(right, wrong string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind := r.Header.Get("Content-Type")
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusOK)
		status := right
		if r.Header.Get("Password") != rightPassword {
			status = wrong
		}
		if !strings.HasPrefix(kind, "application/grpc-web") {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
			return
		}
		trailers := "grpc-status:" + status + "\r\n"
		frames := []byte("\x00\x00\x00\x00\x01m\x80\x00\x00\x00" + string(rune(len(trailers))) + trailers)
		if strings.Contains(kind, "-text") {
			frames = []byte(base64.StdEncoding.EncodeToString(frames))
		}
		w.Write(frames)
	}
}

// names answers for a server that authenticates: with the user that the cookie names, in
// a header field, or that nobody is signed in.
func names(field string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session, err := r.Cookie("session")
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set(field, session.Value)
	}
}

func (s standIn) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handler := range s {
		mux.HandleFunc(pattern, handler)
	}
	return mux
}

// start starts the software, and returns its address.
func (s standIn) start(t *testing.T) string {
	server := httptest.NewUnstartedServer(s.mux())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// wave is n requests from an address, all of which get one status.
type wave struct {
	from   string
	n      int
	line   string // method, URL and body; {n} is the number of the request
	want   int
	fields []string // "Name: value"
	refill int      // above 0: requests follow until one is refused, by a bucket that is refilled by this many a second
}

// send is a wave for a table.
func send(from string, n int, line string, want int, fields ...string) wave {
	return wave{from: from, n: n, line: line, want: want, fields: fields}
}

// sendBeyond is a wave that uses up a token bucket of n units, and goes on until a request
// is refused.
func sendBeyond(from string, n, refill int, line string, want int, fields ...string) wave {
	return wave{from: from, n: n, line: line, want: want, fields: fields, refill: refill}
}

// recipeServer is a Caddy that runs a recipe.
type recipeServer struct {
	*server
	recipe  recipe
	secure  *tls.Config             // of clients
	hosts   []string                // that need a certificate
	clients map[string]*http.Client // by address
}

// startRecipe starts Caddy with a recipe.
func startRecipe(t *testing.T, r recipe) *recipeServer {
	t.Helper()
	s := newRecipeServer(t, r)
	s.start()
	return s
}

// newRecipeServer prepares a Caddy with a recipe as it stands, but for ports, files, the
// certificates and the addresses of the backends. Clients say with the PROXY protocol
// which address they have.
func newRecipeServer(t *testing.T, r recipe) *recipeServer {
	t.Helper()
	s := &recipeServer{server: newServer(t, "", r.env...), recipe: r, clients: make(map[string]*http.Client)}
	s.secure = &tls.Config{InsecureSkipVerify: true}
	if !proof.IsOn() { // a handshake takes less of the processors when it resumes a session, or makes one key
		s.secure.ClientSessionCache, s.secure.CurvePreferences = tls.NewLRUClientSessionCache(0), []tls.CurveID{tls.X25519}
	}
	text := readSample(t, "../examples/"+cmp.Or(r.file, "recipes/"+r.name)+".Caddyfile")
	if r.edit != nil {
		text = r.edit(text)
	}
	for address, b := range r.backends {
		if r.inside && address != asked {
			continue
		}
		text = replaceInExample(t, text, address, b.start(t))
	}
	for address, running := range r.running {
		text = replaceInExample(t, text, address, running)
	}
	if socket := "unix//run/caddy/admin.sock"; strings.Contains(text, socket) { // Caddy accepts other hosts on a socket
		text = strings.NewReplacer("admin "+socket, "", socket, s.admin, "header_up Host 127.0.0.1", "header_up Host "+s.admin).Replace(text)
	}
	for name, content := range r.files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range r.imports {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(readSample(t, "../examples/"+name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, _, err := adaptCaddyfile([]byte(s.inFolder(text)), map[string]any{"filename": r.name})
	if err != nil {
		t.Fatal(err)
	}
	s.setConfig(s.fit(config))
	s.hosts = sitesOfRecipe.FindAllString(text, -1)
	t.Cleanup(func() {
		for _, client := range s.clients {
			client.CloseIdleConnections()
		}
	})
	return s
}

// start starts Caddy and waits until it has a certificate for each site.
func (s *recipeServer) start() {
	s.t.Helper()
	s.server.start()
	for _, host := range s.hosts {
		waitFor(s.t, "the certificate of "+host, func() bool { return s.shakesHands(person, host) })
	}
}

// shakesHands reports whether Caddy has a certificate of a host for the client with an address.
func (s *recipeServer) shakesHands(from, host string) bool {
	c, err := s.connect(s.t.Context(), from, "443")
	if err != nil {
		return false
	}
	defer c.Close()
	return tls.Client(c, &tls.Config{ServerName: host, InsecureSkipVerify: true}).Handshake() == nil
}

// inFolder has a text name files in the server's folder instead of those of the system.
func (s *recipeServer) inFolder(text string) string {
	folder := filepath.ToSlash(s.dir) + "/"
	return strings.NewReplacer("/var/log/caddy/", folder, "/etc/caddy/", folder).Replace(text)
}

// sitesOfRecipe finds the hosts that a recipe needs a certificate for.
var sitesOfRecipe = regexp.MustCompile(`(?m)^[\w.-]+\.example\.com\b`)

// fit returns a config that this machine can run: with free ports, certificates of its
// own, and a store with time.
func (s *recipeServer) fit(config []byte) string {
	s.t.Helper()
	var c map[string]any
	if err := json.Unmarshal(config, &c); err != nil {
		s.t.Fatal(err)
	}
	set(c, s.admin, "admin", "listen")
	set(c, false, "admin", "config", "persist")
	set(c, false, "apps", "pki", "certificate_authorities", "local", "install_trust")
	demanded := dig(c, "apps", "tls", "automation")["on_demand"] != nil
	set(c, []any{map[string]any{"on_demand": demanded, "issuers": []any{map[string]any{"module": "internal"}}}}, "apps", "tls", "automation", "policies")
	set(c, "1m", "apps", "rate_limit", "store_timeout")
	for _, each := range dig(c, "apps", "http", "servers") {
		server := each.(map[string]any)
		port, wrappers := s.port, []any{map[string]any{"wrapper": "proxy_protocol", "allow": []any{"127.0.0.1/32"}}}
		own, _ := server["listener_wrappers"].([]any)
		wrappers = append(wrappers, own...)
		if fmt.Sprint(server["listen"]) == "[:443]" {
			port = s.tls
			if len(own) == 0 {
				wrappers = append(wrappers, map[string]any{"wrapper": "tls"})
			}
		}
		server["listen"], server["listener_wrappers"], server["protocols"] = []any{"127.0.0.1:" + port}, wrappers, []any{"h1", "h2"}
		set(server, true, "automatic_https", "disable_redirects")
	}
	if s.recipe.inside {
		useStandIns(c, map[string]any{"protocol": "caddytest", "recipe": s.recipe.name, "doors": s.recipe.doors})
	}
	fitted, err := json.Marshal(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.ReplaceAll(string(fitted), `":443"`, `":`+s.tls+`"`)
}

// set sets a value in nested objects, which it makes where they are missing.
func set(object map[string]any, value any, path ...string) {
	last := len(path) - 1
	dig(object, path[:last]...)[path[last]] = value
}

// dig returns the object at a path, which it makes if it is missing.
func dig(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = make(map[string]any)
			object[name] = inner
		}
		object = inner
	}
	return object
}

// connect connects to the port of the running Caddy that stands for one of the recipe's
// (443, or another) as a client with an address.
func (s *recipeServer) connect(ctx context.Context, from, port string) (net.Conn, error) {
	to := s.port
	if port == "443" {
		to = s.tls
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+to)
	if err != nil {
		return nil, err
	}
	family := "TCP4"
	if strings.Contains(from, ":") {
		family = "TCP6"
	}
	_, err = fmt.Fprintf(c, "PROXY %s %s %[2]s 50000 %s\r\n", family, from, port)
	return c, err
}

// client returns the client with an address.
func (s *recipeServer) client(from string) *http.Client {
	if s.clients[from] == nil {
		client := newClient()
		transport := client.Transport.(*http.Transport)
		transport.ExpectContinueTimeout = patience
		transport.ForceAttemptHTTP2 = true // as browsers do
		transport.TLSClientConfig = s.secure.Clone()
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			return s.connect(ctx, from, port)
		}
		s.clients[from] = client
	}
	return s.clients[from]
}

// send sends a wave, several requests at once, and checks the answers.
func (s *recipeServer) send(w wave) {
	s.t.Helper()
	begin, last := time.Now(), w.n
	if s.recipe.inside {
		last = 1
	}
	try := func(n int) (answer, error) {
		r, err := requestOf(w.line, w.fields, n)
		if err != nil {
			return answer{}, err
		}
		return do(s.client(w.from), r)
	}
	s.client(w.from) // before several ask for it
	wrong, first := inTurns(1, last, w.want, try)
	if last < w.n && wrong == 0 {
		wrong, first = s.sendInside(w)
	}
	if wrong > 0 {
		s.t.Errorf("%d of %d × %s from %s don't get %d, the first got %s", wrong, w.n, w.line, w.from, w.want, first)
	}
	for more := 0; w.refill > 0; more++ {
		a, err := try(0)
		if err == nil && a.status == http.StatusTooManyRequests {
			break
		}
		if float64(more) > float64(w.refill)*(time.Since(begin).Seconds()+1) {
			s.t.Errorf("%d × %s from %s are more than a bucket of %d and %d a second, and none is refused", w.n+more, w.line, w.from, w.n, w.refill)
			break
		}
	}
}

// inTurns sends the requests with numbers from first to last, several at once. It returns how many
// answers have another status, and the first of these.
func inTurns(first, last, want int, try func(n int) (answer, error)) (wrong int, got string) {
	numbers := make(chan int)
	var mu sync.Mutex
	var senders sync.WaitGroup
	for range min(last-first+1, 4) {
		senders.Go(func() {
			for n := range numbers {
				a, err := try(n)
				if err == nil && a.status == want {
					continue
				}
				mu.Lock()
				if wrong++; wrong == 1 {
					got = fmt.Sprintf("%d %v %v %s", a.status, err, a.header, a.body)
				}
				mu.Unlock()
			}
		})
	}
	for n := first; n <= last; n++ {
		numbers <- n
	}
	close(numbers)
	senders.Wait()
	return wrong, got
}

// requestOf returns a request of a wave, by its number. The body `zeros 5` is five zeros, and
// `zeros` some, of which it doesn't say how many.
func requestOf(line string, fields []string, n int) (*http.Request, error) {
	number := strings.NewReplacer("{n}", fmt.Sprint(n))
	method, rest, _ := strings.Cut(number.Replace(line), " ")
	target, body, _ := strings.Cut(rest, " ")
	var content io.Reader
	length := int64(len(body))
	if _, err := fmt.Sscanf(body, "zeros %d", &length); err == nil {
		content = io.LimitReader(zeros{}, length)
	} else if body == "zeros" {
		content, length = io.LimitReader(zeros{}, 1000), -1
	} else if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, target, content)
	if err != nil {
		return nil, err
	}
	r.ContentLength = length
	for _, field := range fields {
		name, value, _ := strings.Cut(number.Replace(field), ": ")
		r.Header.Add(name, value)
	}
	return r, nil
}

// fencedBlock is a block of a page, with its language.
var fencedBlock = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// commandsIn returns what a page has its reader type, each with the output that is shown
// right behind it.
func commandsIn(page string) (commands [][2]string) {
	blocks := fencedBlock.FindAllStringSubmatchIndex(page, -1)
	for i, b := range blocks[:max(len(blocks)-1, 0)] {
		next := blocks[i+1]
		if page[b[2]:b[3]] == "sh" && page[next[2]:next[3]] == "text" && strings.TrimSpace(page[b[1]:next[0]]) == "" {
			commands = append(commands, [2]string{page[b[4]:b[5]], page[next[4]:next[5]]})
		}
	}
	return commands
}

// try runs what the page of the recipe has its reader type, as a client with an address
// of its own, and compares the output with the one shown. Commands that start dozens of curl run
// with PROOF only, as do those after them.
func (s *recipeServer) try(page string) {
	s.t.Helper()
	commands := commandsIn(page)
	for _, program := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			s.t.Logf("%s is missing, so the commands of the page are not tried", program)
			return
		}
	}
	rc := "insecure\nhttp1.1\n" // curl 7.88 may take the end of an HTTP/2 request that was refused for an error
	for _, port := range []string{"443", "8080", "8081"} {
		rc += fmt.Sprintf("connect-to = \":%s:%s\"\n", port, s.forward(cmp.Or(s.recipe.visitor, "198.51.100.99"), port))
	}
	if err := os.WriteFile(filepath.Join(s.dir, ".curlrc"), []byte(rc), 0o600); err != nil {
		s.t.Fatal(err)
	}
	for _, command := range commands {
		if strings.Contains(command[0], "$(seq ") && !proof.IsOn() {
			return
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", s.inFolder(command[0]))
		cmd.Dir, cmd.Env = s.dir, append([]string{"CURL_HOME=" + s.dir}, s.env...)
		out, err := cmd.CombinedOutput()
		if err != nil || !shows(command[1], string(out)) {
			s.t.Errorf("%s\nthe page shows\n%s\nand it is (%v)\n%s", command[0], command[1], err, out)
		}
	}
}

// shows reports whether a page shows an output, whatever white space is at the ends of
// lines. On the page, … stands for anything.
func shows(page, output string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(trimLines(page)), "…", ".*")
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(trimLines(output))
}

func trimLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	return strings.Join(lines, "\n")
}

// forward listens for connections that it hands on to a port of the recipe as those of
// a client with an address, and returns where.
func (s *recipeServer) forward(from, port string) string {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	var all sync.WaitGroup
	s.t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer in.Close()
				out, err := s.connect(s.t.Context(), from, port)
				if err != nil {
					return
				}
				defer out.Close()
				defer context.AfterFunc(s.t.Context(), func() { in.Close() })() // browsers keep connections
				deadline := time.Now().Add(patience)
				in.SetDeadline(deadline)
				out.SetDeadline(deadline)
				all.Go(func() {
					io.Copy(out, in)
					out.(*net.TCPConn).CloseWrite()
				})
				io.Copy(in, out)
			})
		}
	})
	return listener.Addr().String()
}
