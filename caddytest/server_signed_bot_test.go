package caddytest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// signedBy returns the header fields of a bot's signature for a path, valid from and to so many
// seconds from now.
func (s *server) signedBy(key ed25519.PrivateKey, path string, from, to int64) []string {
	now := time.Now().Unix()
	id := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + publicOf(key) + `"}`))
	agent := `"https://bot.example"`
	input := fmt.Sprintf(`("@authority" "@path" "signature-agent");created=%d;keyid=%q;alg="ed25519";expires=%d;nonce="x";tag="web-bot-auth"`,
		now+from, base64.RawURLEncoding.EncodeToString(id[:]), now+to)
	base := fmt.Sprintf("\"@authority\": 127.0.0.1:%s\n\"@path\": %s\n\"signature-agent\": %s\n\"@signature-params\": %s", s.port, path, agent, input)
	return []string{
		"Signature-Agent: " + agent, "Signature-Input: sig1=" + input,
		"Signature: sig1=:" + base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(base))) + ":",
	}
}

func publicOf(key ed25519.PrivateKey) string {
	return base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
}

// What a bot has signed is exempt, whatever rewrites it. Everybody else is limited, and so is whoever
// copies a signature that has expired, is for another path or of another key.
func TestSignedBotsAreExempt(t *testing.T) {
	t.Parallel()
	s := newServer(t, options(patient+trusting)+site(`rewrite /old /new
	rate_limit {
		exempt signed_bot {$FILE} crawler
		zone pages {
			limit 3/1h
		}
	}
	respond {uri}`))
	bot := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	stranger := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	file := filepath.Join(s.dir, "bots.json")
	keys := fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "crawler", "x": %q}]}`, publicOf(bot))
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "FILE="+file)
	s.start()
	want := func(passed int, client int, path string, fields []string) {
		t.Helper()
		s.wantPassed(passed, 6, path, append(fields, from(client))...)
	}
	const hour = 3600
	want(6, 1, "/a", s.signedBy(bot, "/a", -5, hour))
	want(6, 1, "/old", s.signedBy(bot, "/old", -5, hour))
	want(3, 1, "/a", nil) // nothing was counted
	want(3, 2, "/a", s.signedBy(bot, "/a", -hour, -120))
	want(3, 3, "/a", s.signedBy(bot, "/a", 120, hour))
	want(3, 4, "/b", s.signedBy(bot, "/a", -5, hour))
	want(3, 5, "/a", s.signedBy(stranger, "/a", -5, hour))
	want(3, 6, "/old", s.signedBy(bot, "/new", -5, hour))
}
