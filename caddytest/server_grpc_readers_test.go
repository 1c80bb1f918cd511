package caddytest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A service that decides for another proxy is asked about calls of gRPC too, in every way that a proxy may ask. The
// proxy takes a 200 for a yes, so a refusal isn't one.
func TestDecisionsAboutCallsOfGRPC(t *testing.T) {
	t.Parallel()
	const ask = "https://localhost:{$TLS} {\nuri /\ntransport http {\ntls_insecure_skip_verify\n}\n"
	s := startCaddy(t, options("rate_limit {\nstore_timeout 1m\napi_keys\n}\nhttp_port {$OTHER}\nhttps_port {$TLS}\nservers {\nprotocols h1 h2 h2c\n}\n")+site(`
	@asked header Variant asked*
	forward_auth @asked `+ask+`}
	@posted header Variant posted*
	forward_auth @posted `+ask+`method POST
	}
	@own header Variant own*
	reverse_proxy @own https://localhost:{$TLS} {
		transport http {
			tls_insecure_skip_verify
		}
		@good status 2xx
		handle_response @good {
			reverse_proxy h2c://{$UPSTREAM}
		}
	}
	reverse_proxy h2c://{$UPSTREAM}
	`)+`https://localhost:{$TLS} {
	tls internal
	@forwarded header X-Forwarded-Method *
	method @forwarded {header.X-Forwarded-Method}
	rewrite @forwarded {header.X-Forwarded-Uri}
	@proxied header Variant *-proxied
	@others not header Variant *-proxied
	route {
		rate_limit @proxied {
			zone proxied {
				per key {header.Variant}
				limit 2/1h
			}
		}
		reverse_proxy @proxied {$YES}
		rate_limit @others {
			zone keys {
				match header Variant *-keys
				per api_key
				limit 100/1h
			}
			zone asked {
				per key {header.Variant}
				limit 2/1h
			}
		}
		respond 200
	}
}
`, "UPSTREAM="+serveGRPC(t), "YES="+standIn{"/": always(http.StatusOK)}.start(t))
	client := dialGRPC(t, s.port, insecure.NewCredentials())
	call := func(variant string) codes.Code {
		_, err := callsGRPC["no body"](metadata.AppendToOutgoingContext(t.Context(), "variant", variant), client) // some proxies hand the body to the service
		return status.Code(err)
	}
	waitFor(t, "the sites", func() bool { return call("asked-first") == codes.OK })
	for _, variant := range []string{"asked", "posted", "own", "asked-proxied", "posted-proxied"} {
		for n := range 6 {
			if got := call(variant); (got == codes.OK) != (n < 2) {
				t.Errorf("%s: call %d ends with %v", variant, n, got)
			}
		}
	}
	for _, variant := range []string{"asked-keys", "posted-keys", "own-keys"} {
		if got := call(variant); got == codes.OK {
			t.Errorf("%s: a call without an API key passes", variant)
		}
	}
}

// Only what is surely a call of gRPC, by a client that reads trailers, is refused with status 200.
func TestRequestsThatClaimToBeOfGRPC(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient+"http_port {$OTHER}\nhttps_port {$TLS}\nservers {\nprotocols h1 h2 h2c\n}\n")+site("respond hello")+`https://localhost:{$TLS} {
	tls internal
	rewrite /posted /other
	method /other POST
	handle /respond {
		rate_limit {
			zone respond {
				limit 1/1h
				cost 2
			}
		}
		respond 200
	}
	handle {
		rate_limit {
			zone z {
				limit 1/1h
				cost 2
			}
		}
		reverse_proxy 127.0.0.1:1
	}
}
`)
	const kind, trailers = "Content-Type: application/grpc", "TE: trailers"
	type request struct {
		what, method, path string
		fields             []string
		h1, grpc           bool
	}
	tests := []request{
		{"a call", "POST", "/", []string{kind, trailers}, false, true},
		{"a call of protobuf", "POST", "/", []string{kind + "+proto", trailers}, false, true},
		{"by HTTP/1.1", "POST", "/", []string{kind, trailers}, true, false},
		{"a GET", "GET", "/", []string{kind, trailers}, false, false},
		{"a GET that a handler makes a POST", "GET", "/posted", []string{kind, trailers}, false, false},
		{"without TE", "POST", "/", []string{kind}, false, false},
		{"gRPC-Web", "POST", "/", []string{kind + "-web", trailers}, false, false},
		{"gRPC-Web as text", "POST", "/", []string{kind + "-web-text", trailers}, false, false},
		{"JSON", "POST", "/", []string{"Content-Type: application/json", trailers}, false, false},
		{"asked by Traefik, which keeps the method", "POST", "/", []string{kind, trailers, "X-Forwarded-Method: POST", "X-Forwarded-Uri: /"}, false, false},
		{"asked by another proxy", "POST", "/", []string{kind, trailers, "X-Original-URL: https://a/"}, false, false},
		{"asked by nginx", "POST", "/", []string{kind, trailers, "X-Original-URI: /"}, false, false},
		{"asked by Envoy with all fields, where nothing can answer gRPC", "POST", "/respond", []string{kind, trailers, "X-Request-Id: 1"}, false, false},
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	for range 200 { // whoever asks in whatever way, where nothing can answer gRPC
		fields := []string{"Content-Type: " + pick("application/grpc", "application/grpc+proto", "application/grpc-web", "application/json"), pick(trailers, "X-Nothing: "),
			"Accept: " + pick("*/*", "application/grpc", "application/problem+json", "text/html"), "X-HTTP-Method-Override: " + pick("POST", "GET"),
			pick("X-Forwarded-For", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Original-Uri", "Grpc-Timeout", "X-Request-Id") + ": POST", pick("Grpc-Status: 0", "Range: bytes=0-0", "If-None-Match: *")}
		tests = append(tests, request{fmt.Sprint("seed ", seed), pick("POST", "POST", "GET", "HEAD", "PUT"), "/respond", fields, random.IntN(3) == 0, false})
	}
	one, two := newClient(), newClient()
	for _, client := range []*http.Client{one, two} {
		transport := client.Transport.(*http.Transport)
		transport.ForceAttemptHTTP2, transport.TLSClientConfig = client == two, &tls.Config{InsecureSkipVerify: true}
	}
	for _, test := range tests {
		client := two
		if test.h1 {
			client = one
		}
		var a answer
		waitFor(t, "the site", func() bool {
			r, err := http.NewRequest(test.method, "https://localhost:"+s.tls+test.path, bytes.NewReader(make([]byte, 5)))
			if err != nil {
				t.Fatal(err)
			}
			a, err = do(client, r, test.fields...)
			return err == nil
		})
		if got := a.header.Get("Grpc-Status"); (a.status == http.StatusOK) != test.grpc || (got == "7") != test.grpc || !test.grpc && a.status != http.StatusForbidden {
			t.Errorf("%s, %s %s %q: got %d, status of gRPC %q, %q", test.what, test.method, test.path, test.fields, a.status, got, a.body)
		}
	}
}

// Whatever surrounds a handler that refuses a call of gRPC sees the status of HTTP: zones that count by it, Caddy's
// access log and metrics, and directives that look at answers. The client gets its status of gRPC.
func TestHandlersAroundSeeTheStatusOfARefusedCall(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]string{
		"alone":                "",
		"header":               "header >X-A b\nheader ?X-C d\n",
		"encode":               "encode {\nminimum_length 1\nmatch {\nstatus 2xx 4xx\n}\n}\n",
		"header around encode": "header >X-A b\nencode {\nminimum_length 1\nmatch {\nstatus 2xx 4xx\n}\n}\nheader -Server\n",
		"push":                 "push /x\nheader -Server\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startCaddy(t, options("rate_limit {\nstore_timeout 1m\napi_keys\n}\nmetrics\nservers {\nprotocols h1 h2 h2c\n}\n")+site(`
	log {
		output stderr
		format json
	}
	route {
		rate_limit {
			zone failed {
				match not header Unlimited *
				limit 3/1h
				count status 401
			}
			zone passed {
				limit 1/1h
				count status 200
			}
		}
		`+around+`
		rate_limit {
			zone keys {
				per api_key
				limit 100/1h
			}
		}
		reverse_proxy h2c://{$UPSTREAM}
	}
	`), "UPSTREAM="+serveGRPC(t))
			client := dialGRPC(t, s.port, insecure.NewCredentials())
			for i, want := range []codes.Code{codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated, codes.ResourceExhausted} {
				for _, kind := range []string{"unary", "a long body"}[:1+i%2] {
					if _, err := callsGRPC[kind](metadata.AppendToOutgoingContext(t.Context(), "unlimited", "yes"), client); status.Code(err) != codes.Unauthenticated {
						t.Errorf("%s, %d: got %v", kind, i, err)
					}
				}
				if _, err := callsGRPC["unary"](t.Context(), client); status.Code(err) != want {
					t.Errorf("call %d ends with %v, want %v", i, err, want)
				}
			}
			var logged []float64
			for _, line := range s.logLines("handled request") {
				n, _ := line["status"].(float64)
				logged = append(logged, n)
			}
			if len(logged) != 10 || logged[9] != 429 || len(slices.DeleteFunc(slices.Clone(logged), func(n float64) bool { return n != 401 })) != 9 {
				t.Errorf("the access log has the statuses %v", logged)
			}
			page, err := s.askAdmin(http.MethodGet, "/metrics")
			const counted = `caddy_http_request_duration_seconds_count{code=`
			if err != nil || strings.Contains(page.body, counted+`"200"`) || !strings.Contains(page.body, counted+`"401"`) || !strings.Contains(page.body, counted+`"429"`) {
				t.Errorf("Caddy's metrics lack the statuses: %v", err)
			}
		})
	}
}
