package identity

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func newSecret(t testing.TB, text string) *Secret {
	t.Helper()
	s, err := NewSecret([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	oneText   = strings.Repeat("one secret ", 3)
	otherText = strings.Repeat("another one ", 3)
)

func TestNamesDependOnSecretScopeAndKey(t *testing.T) {
	s := newSecret(t, oneText)
	name := s.Hash(1, "key")
	if name != newSecret(t, oneText).Hash(1, "key") {
		t.Error("the same secret gives another name")
	}
	seen := map[[16]byte]string{name: "the first"}
	for what, other := range map[string][16]byte{
		"another secret": newSecret(t, otherText).Hash(1, "key"),
		"another scope":  s.Hash(2, "key"),
		"another key":    s.Hash(1, "yek"),
		"a shorter key":  s.Hash(1, "ke"),
		"no key":         s.Hash(1, ""),
		"a longer key":   s.Hash(1, "key\x00"),
		"a long key":     s.Hash(1, strings.Repeat("key", 1000)),
	} {
		if twin, ok := seen[other]; ok {
			t.Errorf("%s has the name of %s", what, twin)
		}
		seen[other] = what
	}
}

func TestNamesDoNotShowTheirKeys(t *testing.T) {
	name := newSecret(t, oneText).Hash(0, "aaaaaaaaaaaaaaaa")
	if strings.Contains(string(name[:]), "aa") {
		t.Errorf("%q shows the key", name)
	}
}

func TestNamingAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes sync.Pool forget at random")
	}
	s := newSecret(t, oneText)
	key := strings.Repeat("k", 100)
	if n := testing.AllocsPerRun(100, func() { s.Hash(1, key) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// An older text only verifies: values derived from it come after those derived from the one in use,
// and names at rest ignore it.
func TestOlderSecretsVerifyOnly(t *testing.T) {
	rotated, err := NewSecret([]byte(otherText), []byte(oneText))
	if err != nil {
		t.Fatal(err)
	}
	if rotated.Hash(1, "key") != newSecret(t, otherText).Hash(1, "key") {
		t.Error("names at rest are not those of the secret in use")
	}
	keys := rotated.Derive("one purpose")
	want := append(newSecret(t, otherText).Derive("one purpose"), newSecret(t, oneText).Derive("one purpose")...)
	if !slices.EqualFunc(keys, want, bytes.Equal) {
		t.Errorf("got %x, want %x", keys, want)
	}
	if bytes.Equal(keys[0], rotated.Derive("another")[0]) {
		t.Error("two purposes have one key")
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	if _, err := NewSecret(make([]byte, MinSecret-1)); err == nil {
		t.Error("a secret of 31 bytes was taken")
	}
}

func TestSecretFileIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "tally.key")
	names := make([][16]byte, 20)
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() {
			s, err := OpenSecret(path)
			if err != nil {
				t.Error(err)
				return
			}
			names[i] = s.Hash(1, "key")
		})
	}
	wg.Wait()
	for _, name := range names {
		if name != names[0] {
			t.Fatal("two that made the file at once have different secrets")
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
}

func TestSecretFileOfTheOperator(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(oneText + "\r\n\n" + otherText + "\n\n")
	s, err := OpenSecret(path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Hash(1, "key") != newSecret(t, strings.TrimSpace(oneText)).Hash(1, "key") {
		t.Error("the secret is not the first line")
	}
	for _, bad := range []string{
		"", "short\n", "\n" + oneText, oneText + "\nshort\n",
		strings.Repeat(oneText+"\n", MaxSecrets+1), strings.Repeat("x", maxSecretFile+1),
	} {
		write(bad)
		if _, err := OpenSecret(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %v, want an error that names the file", bad, err)
		}
	}
	if _, err := OpenSecret(t.TempDir()); err == nil {
		t.Error("a folder was taken for a secret")
	}
}

func TestKeepMakesTheFileAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "tally.key")
	secret, err := NewSecret(bytes.TrimSpace([]byte(otherText)), bytes.TrimSpace([]byte(oneText)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := secret.Keep(path); err != nil {
			t.Fatal(err)
		}
	}
	again, err := OpenSecret(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(again.texts, secret.texts, bytes.Equal) {
		t.Errorf("got %q, want %q", again.texts, secret.texts)
	}
	if err := newSecret(t, oneText).Keep(path); err != nil {
		t.Fatal(err)
	}
	if now, err := OpenSecret(path); err != nil || now.Hash(1, "key") != secret.Hash(1, "key") {
		t.Errorf("a file that was there was changed (%v)", err)
	}
}
