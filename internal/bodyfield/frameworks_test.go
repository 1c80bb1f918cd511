package bodyfield

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Frameworks that read requests: each gets a list of [Content-Type, query, body] on its standard input, and answers
// with the texts that it reads as `user` and as `session.user` of each. With exit status 3 it isn't installed.
var frameworks = map[string][]string{
	"Laravel": {"php", "-r", `
		if (!is_file($file = "/usr/share/php/Illuminate/Http/autoload.php")) exit(3);
		require $file;
		function texts($v) { if (is_array($v) || is_object($v)) { $all = []; foreach ($v as $e) $all = array_merge($all, texts($e)); return $all; }
			return $v === null ? [] : [is_bool($v) ? ($v ? "true" : "false") : (is_float($v) && is_finite($v) ? json_encode($v) : (string)$v)]; }
		$out = [];
		foreach (json_decode(stream_get_contents(STDIN)) as [$type, $query, $body]) {
			$post = []; parse_str($query, $get);
			if (strtolower(preg_split("/[;, ]/", $type)[0]) === "application/x-www-form-urlencoded") parse_str($body, $post); // as PHP does
			$r = Illuminate\Http\Request::createFromBase(new Symfony\Component\HttpFoundation\Request($get, $post, [], [], [], ["REQUEST_METHOD" => "POST", "CONTENT_TYPE" => $type, "QUERY_STRING" => $query], $body));
			$out[] = [texts($r->input("user")), texts($r->input("session.user"))];
		}
		echo json_encode($out, JSON_INVALID_UTF8_SUBSTITUTE);`},
	"Express": {"node", "--no-deprecation", "-e", `
		let express; try { express = require("express") } catch { process.exit(3) }
		const texts = v => v === null || v === undefined || v === true ? [] : typeof v === "object" ? Object.values(v).flatMap(texts) : [String(v)];
		const http = require("http"), app = express();
		app.use(express.json(), express.urlencoded({extended: true}));
		app.use((q, s) => s.json([[...texts(q.param("user")), ...texts(q.query.user)], [q.body, q.query].flatMap(v => texts(v && v.session && v.session.user))]));
		app.use((err, q, s, next) => s.json([[], []]));
		const server = app.listen(0, "127.0.0.1", async () => {
			const out = [];
			for (const [type, query, body] of JSON.parse(require("fs").readFileSync(0)))
				out.push(await new Promise((ok, no) => {
					const r = http.request({port: server.address().port, method: "POST", path: "/?" + query, headers: {"content-type": type}}, s => {
						let text = ""; s.on("data", d => text += d).on("end", () => ok(JSON.parse(text)));
					});
					r.on("error", no); r.end(body);
				}));
			console.log(JSON.stringify(out)); process.exit();
		});`},
	"Rails": {"ruby", "-e", `
		require "json"
		begin require "action_controller" rescue LoadError exit 3 end
		def texts(v)
			v = v.to_unsafe_h if v.is_a?(ActionController::Parameters)
			v = v.values if v.is_a?(Hash)
			return v.flat_map { |e| texts(e) } if v.is_a?(Array)
			v.nil? ? [] : [v.is_a?(Float) && v.finite? && v == v.to_i ? v.to_i.to_s : v.to_s]
		end
		class SessionsController < ActionController::API
			wrap_parameters :session, include: [:user, :email], format: [:json]
			def index
				session = params[:session]
				render json: [texts(params[:user]), texts(session.respond_to?(:key?) ? session[:user] : nil)]
			end
		end
		print JSON.generate(JSON.parse(STDIN.read).map { |type, query, body|
			env = Rack::MockRequest.env_for("/?" + query, method: "POST", "CONTENT_TYPE" => type, input: body)
			JSON.parse(SessionsController.action(:index).call(env)[2].each.to_a.join) rescue [[], []]
		})`},
	"Django": {"/usr/bin/python3", "-c", `
import json, sys
try:
    import django
    from django.conf import settings
    from django.test import RequestFactory
except ImportError:
    sys.exit(3)
settings.configure(DEFAULT_CHARSET="utf-8")
django.setup()
def texts(v):
    if isinstance(v, dict): v = list(v.values())
    if isinstance(v, list): return [t for e in v for t in texts(e)]
    if isinstance(v, bool): return ["true" if v else "false"]
    return [] if v is None else [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v)]
out = []
for kind, query, body in json.load(sys.stdin):
    r = RequestFactory().generic("POST", "/?" + query, body, content_type=kind)
    try: user = [r.POST.get("user"), r.GET.get("user")]
    except Exception: user = []
    session = None
    if r.content_type == "application/json":
        try:
            parsed = json.loads(r.body)
            user.append(parsed.get("user"))
            session = parsed.get("session")
        except Exception: pass
    out.append([texts(user), texts(session.get("user") if isinstance(session, dict) else None)])
print(json.dumps(out))`},
}

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

// received are requests in which some framework may read the account victim: type, query, body.
var received = [][3]string{
	{typeJSON, "user=victim", `{"User":"junk"}`},
	{typeJSON, "user=victim", `{}`},
	{typeJSON, "user=victim", ``},
	{typeForm, "", `user[]x=junk]=victim`},
	{typeForm, "user%5B%5Dx=junk%5d=victim", ``},
	{typeForm, "session[user]x=junk[]=victim", ``},
	{typeForm, "", `session[user][]victim;+user=junk;[user]=victim`},
	{typeJSON, "user[x]=victim", `{"user":"junk"}`},
	{typeJSON, "session[user]=victim", `{"user":"junk"}`},
	{typeJSON, "session%5Buser%5D[]=victim", `{"Session":{"user":"junk"}}`},
	{typeJSON, "", `{"Session":{"user":"junk"},"user":"victim"}`},
	{typeJSON, "", `{"user":{"x":"victim"}}`},
	{typeJSON, "user=victim", `[]`},
	{typeJSON, "user=victim", `{"user":null}`},
	{typeForm, "user=victim", "user=junk"},
	{typeForm + `; x="/json"`, "", `{"a":"&user=junk&","user":"victim"}`},
	{typeForm + `; a/json=b`, "", `{"a":"&user=junk&","user":"victim"}`},
	{typeForm + `; x=a+json`, "", `{"a":"&user=junk&","user":"victim"}`},
	{typeForm + `; charset=utf-8; x="text/json"`, "", `{"a":"&user=junk&","user":"victim"}`},
	{typeForm + ` application/json`, "", `{"a":"&user=junk&","user":"victim"}`},
	{typeForm + `, application/json`, "", `{"a":"&user=junk&","user":"victim"}`},
	{strings.ToUpper(typeForm) + `;X=/json`, "", `{"a":"&user=junk&","user":"victim"}`},
	{typeJSON + `; x=` + typeForm, "", `{"user":"junk","a":"&user=victim&"}`},
	{typeJSON + `; odata.metadata=minimal`, "", `{"user":"victim"}`},
	{typeJSON, "", `{"user":12345678901234567}`},
	{typeJSON, "user=12345678901234567", `{"user":"12345678901234568"}`},
	{"text/plain", "user=victim", "x"},
	{"", "user=victim", ""},
}

// randomRequests are requests of pieces that programs may read differently.
func randomRequests(random *rand.Rand, n int) (all [][3]string) {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	value := func() string { return pick("victim", "junk", "other", "7", "") }
	name := func() string {
		return pick("user", "User", "session", "Session", "session[user]", "user[]", "user[x]", "session[user][]", "Session[user]", "[user]", "%75ser", "session.user", "session[User]", "+user", "x")
	}
	form := func() string {
		var pairs []string
		for range random.IntN(4) {
			pairs = append(pairs, name()+pick("=", "=", "=", "")+value())
		}
		return strings.Join(pairs, pick("&", "&", "&", ";"))
	}
	var object func(depth int) string
	object = func(depth int) string {
		var pairs []string
		for range random.IntN(4) {
			inner := pick(`"`+value()+`"`, `"`+value()+`"`, "7", "null", "true", `["`+value()+`"]`, `"&user=`+value()+`&"`)
			if depth > 0 && random.IntN(2) == 0 {
				inner = object(depth - 1)
			}
			pairs = append(pairs, `"`+pick("user", "User", "session", "Session", "x", `\u0075ser`, "user ")+`":`+inner)
		}
		return "{" + strings.Join(pairs, ",") + "}"
	}
	for range n {
		kind := pick(typeJSON, typeJSON, typeForm, strings.ToUpper(typeForm), typeJSON+"; charset=utf-8", "text/plain", "application/vnd.api+json", "")
		if random.IntN(3) == 0 {
			kind += pick(";", "; ", ",", " ") + pick("x", "charset", `x/json`) + pick("=", "") + pick(`"/json"`, "/json", "+json", typeForm, typeJSON, "utf-8", "text/json", `"a;/json"`, "")
		}
		all = append(all, [3]string{kind, form(), pick(object(2), object(2), form(), "["+object(1)+"]", "")})
	}
	return all
}

// Whatever account a framework reads in a request, in its query or its body, the request counts for that account, or
// is refused.
func TestRequestsCountForWhatFrameworksRead(t *testing.T) {
	seed := rand.Uint64()
	requests := append(received[:len(received):len(received)], randomRequests(rand.New(rand.NewPCG(seed, 1)), 400)...)
	in, _ := json.Marshal(requests)
	for name, command := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skip(command[0], "isn't installed")
			}
			run := exec.Command(command[0], command[1:]...)
			run.Stdin, run.Env = strings.NewReader(string(in)), append(os.Environ(), "NODE_PATH=/usr/share/nodejs")
			out, err := run.Output()
			if run.ProcessState.ExitCode() == 3 {
				t.Skip("it isn't installed")
			}
			var read [][2][]string
			if json.Unmarshal(out, &read) != nil || len(read) != len(requests) {
				t.Fatalf("%v: %s", err, out)
			}
			known, found := 0, 0
			for i, sent := range requests {
				for j, placeholders := range [][]string{{Form + "user", JSON + "user"}, {Form + "session[user]", JSON + "session.user"}} {
					for _, placeholder := range placeholders {
						f, _ := NewField(placeholder)
						kind, err := TypeOf(http.Header{"Content-Type": {sent[0]}})
						if sent[2] == "" {
							kind, err = Empty, nil
						}
						got := Read([]Field{f}, kind, err, sent[2], sent[1])[0]
						if got.Err == nil {
							known, found = known+1, found+len(read[i][j])
						}
						for _, text := range read[i][j] {
							if got.Err == nil && text != "" && !slices.ContainsFunc(got.Texts, func(s string) bool { return sameValue(s, text) }) {
								t.Errorf("seed %d: %q: %s reads %q, and %s is %q", seed, sent, name, text, placeholder, got.Texts)
							}
						}
					}
				}
			}
			if known < 400 || found < 50 {
				t.Errorf("of %d requests %d fields were known, in which %s found %d values: expected more", len(requests), known, name, found)
			}
		})
	}
}
