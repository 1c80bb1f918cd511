package caddytest

import (
	"strings"
	"testing"
)

// What is wrong with one option names the line of it, and not that of its block.
func TestErrorsOfAnOptionNameItsLine(t *testing.T) {
	noData(t)
	zone := func(lines string) string { return inZone("shadow\n\t\t\t" + lines + "\n\t\t\tscope site") }
	app := func(lines string) string {
		return "{\n\trate_limit {\n\t\tstore memory\n" + lines + "\n\t}\n}\n" + inZone("limit 5/1m")
	}
	for name, input := range map[string]string{
		"placeholder of a key":     zone("per key {http.request.header}\n\t\t\tlimit 5/1m"),
		"key without placeholder":  zone("per key remote_ip\n\t\t\tlimit 5/1m"),
		"key in mholt's word":      zone("key {http.request.remote}\n\t\t\tlimit 5/1m"),
		"path without slash":       zone("match path login\n\t\t\tlimit 5/1m"),
		"prefix":                   zone("ipv4_prefix 33\n\t\t\tlimit 5/1m"),
		"matcher of a cost":        zone("cost 2 path login\n\t\t\tlimit 5/1m"),
		"exempt":                   inDirective("log_key\n\t\tlog_ip\n\t\texempt path health\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}"),
		"trap":                     inDirective("log_key\n\t\tlog_ip\n\t\ttrap path health\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}"),
		"max_keys":                 app("\t\thistory off\n\t\tmax_keys 10\n\t\tstore_timeout 1s"),
		"ipv6_prefix":              app("\t\thistory off\n\t\tipv6_prefix 129\n\t\tstore_timeout 1s"),
		"lifetime of sessions":     app("\t\tsession {\n\t\t\tlifetime 1s\n\t\t\tpath /a/\n\t\t}"),
		"fingerprints of pressure": app("\t\tpressure {\n\t\t\tfingerprints 32\n\t\t}"),
		"name of a page":           app("\t\tpage {\n\t\t\tname " + strings.Repeat("x", 101) + "\n\t\t\tcontact x\n\t\t}"),
		"header of API keys":       app("\t\tapi_keys {\n\t\t\tfrom header \"X Key\"\n\t\t\tfrom bearer\n\t\t}"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := load(t, input); err == nil || !strings.HasSuffix(err.Error(), ", at Caddyfile:5") {
				t.Errorf("%s\nerror: %v, want one at line 5", input, err)
			}
		})
	}
}
