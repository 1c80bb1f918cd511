package identity

import (
	"os"
	"path/filepath"
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
	name := s.Name(1, "key")
	if name != newSecret(t, oneText).Name(1, "key") {
		t.Error("the same secret gives another name")
	}
	seen := map[[16]byte]string{name: "the first"}
	for what, other := range map[string][16]byte{
		"another secret": newSecret(t, otherText).Name(1, "key"),
		"another scope":  s.Name(2, "key"),
		"another key":    s.Name(1, "yek"),
		"a shorter key":  s.Name(1, "ke"),
		"no key":         s.Name(1, ""),
		"a longer key":   s.Name(1, "key\x00"),
		"a long key":     s.Name(1, strings.Repeat("key", 1000)),
	} {
		if twin, ok := seen[other]; ok {
			t.Errorf("%s has the name of %s", what, twin)
		}
		seen[other] = what
	}
}

func TestNamesDoNotShowTheirKeys(t *testing.T) {
	name := newSecret(t, oneText).Name(0, "aaaaaaaaaaaaaaaa")
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
	if n := testing.AllocsPerRun(100, func() { s.Name(1, key) }); n > 0 {
		t.Errorf("%v allocations", n)
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
			names[i] = s.Name(1, "key")
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
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Where files can't have two names, the secret is written in place.
func TestSecretFileWithoutLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.key")
	for range 2 {
		if err := makeSecretInPlace(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenSecret(path); err != nil {
		t.Error(err)
	}
}

func TestSecretFileOfTheOperator(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(oneText + "\r\nsecond line\n")
	s, err := OpenSecret(path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name(1, "key") != newSecret(t, strings.TrimSpace(oneText)).Name(1, "key") {
		t.Error("the secret is not the first line")
	}
	for _, bad := range []string{"", "short\n", "\n" + oneText, strings.Repeat("x", maxSecretFile+1)} {
		write(bad)
		if _, err := OpenSecret(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %v, want an error that names the file", bad, err)
		}
	}
	if _, err := OpenSecret(t.TempDir()); err == nil {
		t.Error("a folder was taken for a secret")
	}
}
