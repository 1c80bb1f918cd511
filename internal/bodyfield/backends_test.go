package bodyfield

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Programs that read forms and JSON: each gets a list of [form, JSON] on its standard input, and answers with
// the texts that it reads as the field `user` of each, however deep.
var backends = map[string][]string{
	"PHP": {"php", "-d", "max_input_vars=100000", "-r", `
		function texts($v) { if (is_array($v) || is_object($v)) { $all = []; foreach ($v as $e) $all = array_merge($all, texts($e)); return $all; }
			return $v === null ? [] : [is_bool($v) ? ($v ? "true" : "false") : (is_float($v) && is_finite($v) ? json_encode($v) : (string)$v)]; }
		$out = [];
		foreach (json_decode(stream_get_contents(STDIN)) as [$form, $json]) {
			parse_str($form, $post); $body = json_decode($json, true);
			$out[] = [texts($post["user"] ?? null), is_array($body) ? texts($body["user"] ?? null) : []];
		}
		echo json_encode($out, JSON_INVALID_UTF8_SUBSTITUTE);`},
	"Node": {"node", "-e", `
		const texts = v => v === null || v === undefined ? [] : typeof v === "object" ? Object.values(v).flatMap(texts) : [String(v)];
		let parsers = [require("querystring").parse];
		try { const qs = require("qs"); parsers.push(s => qs.parse(s), s => qs.parse(s, {allowDots: true, delimiter: /[&;]/})) } catch {}
		const list = JSON.parse(require("fs").readFileSync(0));
		console.log(JSON.stringify(list.map(([form, json]) => {
			let body; try { body = JSON.parse(json) } catch {}
			return [parsers.flatMap(p => texts(p(form).user)), body && typeof body === "object" ? texts(body.user) : []];
		})));`},
	"Python": {"python3", "-c", `
import json, sys
from urllib.parse import parse_qsl
def texts(v):
    if isinstance(v, dict): v = list(v.values())
    if isinstance(v, list): return [t for e in v for t in texts(e)]
    if isinstance(v, bool): return ["true" if v else "false"]
    return [] if v is None else [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v)]
out = []
for form, body in json.load(sys.stdin):
    try: body = json.loads(body)
    except ValueError: body = None
    pairs = parse_qsl(form, keep_blank_values=True, errors="replace")
    out.append([[v for k, v in pairs if k in ("user", "user[]")], texts(body.get("user")) if isinstance(body, dict) else []])
print(json.dumps(out))`},
	"Rack": {"ruby", "-e", `
		require "json"; require "rack"
		def texts(v) v = v.values if v.is_a?(Hash); return v.flat_map { |e| texts(e) } if v.is_a?(Array); v.nil? ? [] : [v.is_a?(Float) && v.finite? && v == v.to_i ? v.to_i.to_s : v.to_s] end
		print JSON.generate(JSON.parse(STDIN.read).map { |form, json|
			post = (Rack::Utils.parse_nested_query(form) rescue {})
			body = (JSON.parse(json) rescue nil)
			[texts(post["user"]).map { |t| t.dup.force_encoding("UTF-8").scrub }, body.is_a?(Hash) ? texts(body["user"]) : []] })`},
}

// spellings are bodies in which some program may read the account victim.
var spellings = [][2]string{
	{"user=victim", `{"user":"victim"}`},
	{"user=other&user=victim", `{"user":"other","user":"victim"}`},
	{"user=victim&user=other", `{"user":"victim","user":"other"}`},
	{"user[]=victim", `{"user":["victim"]}`},
	{"user[x]=victim", `{"user":{"x":"victim"}}`},
	{"user[x][y][]=victim", `{"user":[[{"x":["victim"]}]]}`},
	{"user=other&user[]=victim", `{"user":{"$ne":null,"$eq":"victim"}}`},
	{"user[]=other&user=victim", `{"user":null,"user":"victim"}`},
	{"[user]=victim", `{"USER":"victim"}`},
	{"user]=victim", `{"User":"victim"}`},
	{"[[user]]=victim", `{"\u0075ser":"victim"}`},
	{"user[=victim", `{"user":"\u0076ictim"}`},
	{"user%5B%5D=victim", `{"user":" victim "}`},
	{"+user=victim", `{"user":"victim\u0000"}`},
	{"%20user=victim", `{"user":"victim\ud800"}`},
	{"user+=victim", `{"user":"victim\u200b"}`},
	{"user%00=victim", `{"user":12,"user":12.0}`},
	{"user%00x=victim", `{"user":true}`},
	{"%75ser=%76ictim", "\ufeff" + `{"user":"victim"}`},
	{"%2575ser=victim", `{"user":"victim"}x`},
	{"us%er=victim", `{"user":"victim",}`},
	{"user=victim%", `{"user":"victim"/**/}`},
	{"user=vic%zztim", `{'user':'victim'}`},
	{"user=victim%ff", `{"user":NaN}`},
	{"user=victim%00", "{\"user\":\"vic\ttim\"}"},
	{"x=1;user=victim", `[{"user":"victim"}]`},
	{"user=victim;x=1", `{"x":{"user":"other"},"user":"victim"}`},
	{"x=1&+user=victim", `{"user":"victim","x":"\"user\":\"other\""}`},
	{"=user=victim", `"user"`},
	{"&&user=victim", `{}`},
	{"?user=victim", `{"user":1e2}`},
	{"user=", `{"user":""}`},
	{"user", `{"user":100000000000000000000}`},
	{"user=victim=x", `{"user":-0}`},
	{"User=other&user=victim", `{"user":[]}`},
	{"user.x=victim", `{"user.x":"other"}`},
	{"us%C5%BFer=other&user=victim", `{"u\u017fer":"other","user":"victim"}`},
	{"_user=other&user=victim", `{"user":"victim"}`},
	{"user=victim", `{"user":-1e400}`},
}

// sameValue reports whether two texts are alike for a key, or one number.
func sameValue(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return strings.TrimSpace(a) == strings.TrimSpace(b) || errX == nil && errY == nil && x == y
}

// Whatever account a program reads in a body, the body counts for that account, or is refused. The programs
// are processes of their own.
func TestBodiesCountForWhatBackendsRead(t *testing.T) {
	in, _ := json.Marshal(spellings)
	for name, command := range backends {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skip(command[0], "isn't installed")
			}
			run := exec.Command(command[0], command[1:]...)
			run.Stdin, run.Stderr = strings.NewReader(string(in)), os.Stderr
			out, err := run.Output()
			if err != nil && name == "Rack" {
				t.Skip("rack isn't installed:", err)
			}
			var read [][2][]string
			if err := json.Unmarshal(out, &read); err != nil || len(read) != len(spellings) {
				t.Fatalf("%v: %s", err, out)
			}
			for i, sent := range spellings {
				for j, placeholder := range []string{Form + "user", JSON + "user"} {
					f, _ := NewField(placeholder)
					got := Read([]Field{f}, Type(int(IsForm)+j), nil, sent[j], "")[0]
					t.Logf("%-40s %s reads %q, we %q %v", sent[j], name, read[i][j], got.Texts, got.Err)
					for _, text := range read[i][j] {
						if got.Err == nil && !slices.ContainsFunc(got.Texts, func(s string) bool { return sameValue(s, text) }) {
							t.Errorf("%s: %s reads %q, and it counts for %q", sent[j], name, text, got.Texts)
						}
					}
				}
			}
		})
	}
}
