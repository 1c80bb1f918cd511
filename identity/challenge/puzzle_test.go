package challenge

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

var (
	t0    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	home  = []byte("the network of the client")
	other = []byte("the network of another")
)

const (
	site          = "example.com"
	oneSecret     = "one secret of at least 32 characters"
	anotherSecret = "another one of at least 32 characters"
)

func newSetter(t testing.TB, difficulty int, secrets ...string) *Setter {
	t.Helper()
	var older [][]byte
	for _, text := range secrets[1:] {
		older = append(older, []byte(text))
	}
	secret, err := identity.NewSecret([]byte(secrets[0]), older...)
	if err != nil {
		t.Fatal(err)
	}
	s := New(secret, difficulty)
	s.random = rand.NewChaCha8([32]byte{1})
	return s
}

func set(s *Setter) Puzzle { return s.Set(t0, site, home) }

// solve returns numbers that solve a puzzle, and as many that don't.
func solve(p Puzzle) (solution, wrong string) {
	var numbers []string
	bad := ""
	for n := uint64(0); len(numbers) < p.Numbers || bad == ""; n++ {
		text := fmt.Sprintf("%016x", n)
		if earned(p.Text, [8]byte(mustHex(text))) < p.Zeros {
			bad = text
		} else if len(numbers) < p.Numbers {
			numbers = append(numbers, text)
		}
	}
	solution = strings.Join(numbers, "")
	numbers[len(numbers)-1] = bad
	slices.Sort(numbers)
	return solution, strings.Join(numbers, "")
}

func mustHex(text string) []byte {
	number, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return number
}

func TestPuzzle(t *testing.T) {
	s := newSetter(t, 8, oneSecret)
	p := set(s)
	if len(p.Text) != PuzzleSize || p.Numbers != 16 || p.Zeros != 4 {
		t.Errorf("got %+v", p)
	}
	solution, wrong := solve(p)
	if _, err := s.Check(t0, site, home, p.Text, solution); err != nil {
		t.Errorf("the solution: %v", err)
	}
	if _, err := s.Check(t0, site, home, p.Text, wrong); err != ErrUnsolved {
		t.Errorf("another number: %v, want %v", err, ErrUnsolved)
	}
	first := solution[:NumberSize]
	for what, twice := range map[string]string{
		"one number 16 times":  strings.Repeat(first, 16),
		"one number twice":     first + solution[:len(solution)-NumberSize],
		"in descending order":  solution[NumberSize:2*NumberSize] + first + solution[2*NumberSize:],
		"and again at the end": solution[NumberSize:] + first,
	} {
		if _, err := s.Check(t0, site, home, p.Text, twice); err != ErrUnsolved {
			t.Errorf("%s: %v, want %v", what, err, ErrUnsolved)
		}
	}
}

// The work depends on the difficulty only, for every number of parts.
func TestSplit(t *testing.T) {
	for difficulty := MinDifficulty; difficulty <= MaxDifficulty; difficulty++ {
		numbers, zeros := split(difficulty)
		if numbers<<zeros != 1<<difficulty || zeros < 1 || numbers > 16 || difficulty > 4 && numbers < 16 {
			t.Errorf("difficulty %d: %d numbers of %d zeros", difficulty, numbers, zeros)
		}
	}
}

// The value that is stored to accept a puzzle once depends on the puzzle, and not on the solution.
func TestNonces(t *testing.T) {
	s := newSetter(t, 1, oneSecret)
	p, second := set(s), set(s)
	nonces := make(map[[NonceSize]byte]bool)
	for n := range 16 {
		if solved, err := s.Check(t0, site, home, p.Text, fmt.Sprintf("%016x", n)); err == nil {
			nonces[solved] = true
		}
	}
	if len(nonces) != 1 {
		t.Errorf("one puzzle has %d nonces", len(nonces))
	}
	solution, _ := solve(second)
	if solved, _ := s.Check(t0, site, home, second.Text, solution); nonces[solved] {
		t.Error("two puzzles have one nonce")
	}
}

func TestPuzzlesOfOthers(t *testing.T) {
	s := newSetter(t, 4, oneSecret)
	p := set(s)
	solution, _ := solve(p)
	for _, c := range []struct {
		what    string
		setter  *Setter
		age     time.Duration
		site    string
		network []byte
		want    error
	}{
		{"in time", s, DefaultLifetime - time.Second, site, home, nil},
		{"too late", s, DefaultLifetime, site, home, ErrExpired},
		{"another site", s, 0, "example.org", home, ErrForeign},
		{"another network", s, 0, site, other, ErrForeign},
		{"no network", s, 0, site, nil, ErrForeign},
		{"another secret", newSetter(t, 4, anotherSecret), 0, site, home, ErrForeign},
		{"a rotated secret", newSetter(t, 4, anotherSecret, oneSecret), 0, site, home, nil},
		{"a raised difficulty", newSetter(t, 20, oneSecret), 0, site, home, nil},
	} {
		if _, err := c.setter.Check(t0.Add(c.age), c.site, c.network, p.Text, solution); err != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
}

func TestEveryBitOfAPuzzleCounts(t *testing.T) {
	s := newSetter(t, 1, oneSecret)
	p := set(s)
	solution, _ := solve(p)
	for i := range PuzzleSize * 8 {
		flipped := []byte(p.Text)
		flipped[i/8] ^= 1 << (i % 8)
		if _, err := s.Check(t0, site, home, string(flipped), solution); err != ErrMalformed && err != ErrForeign {
			t.Errorf("bit %d: %v", i, err)
		}
	}
}

func TestMalformedPuzzles(t *testing.T) {
	s := newSetter(t, 1, oneSecret)
	p := set(s)
	solution, _ := solve(p)
	for _, c := range [][2]string{
		{"", ""}, {p.Text, ""}, {"", solution}, {p.Text + "A", solution}, {p.Text[1:], solution},
		{p.Text[:PuzzleSize-1] + "\n", solution}, {strings.Repeat("\n", PuzzleSize), solution},
		{p.Text, solution[1:]}, {p.Text, solution + "0"}, {p.Text, "-" + solution[1:]}, {p.Text, "0x" + solution[2:]},
		{p.Text, strings.Repeat("0", 1<<20)}, {strings.Repeat("A", 1<<20), solution},
	} {
		if _, err := s.Check(t0, site, home, c[0], c[1]); err != ErrMalformed {
			t.Errorf("%.100q, %.100q: %v, want %v", c[0], c[1], err, ErrMalformed)
		}
	}
}

// Whatever is sent, it is accepted only if it is the puzzle that was set, in
// time, with a number that earns it.
//
// The secret is this target's own: go test keeps inputs from one run to the next, and
// with a shared secret a puzzle that another version of this package set is genuine.
// A new version of puzzles needs a new secret here.
func FuzzCheck(f *testing.F) {
	s := newSetter(f, 8, "secret of FuzzCheck, puzzles of version 2")
	p := set(s)
	solution, wrong := solve(p)
	f.Add(p.Text, solution, site, int64(0))
	f.Add(p.Text, wrong, site, int64(DefaultLifetime))
	f.Add(p.Text[:PuzzleSize-1]+"\n", solution+" ", "", int64(-1))
	f.Fuzz(func(t *testing.T, puzzle, number, where string, age int64) {
		_, err := s.Check(t0.Add(time.Duration(age)), where, home, puzzle, number)
		if err != nil {
			return
		}
		if puzzle != p.Text || where != site || age >= int64(DefaultLifetime) || check(puzzle, number, 16, 4) != nil {
			t.Errorf("%q with %q for %q at %v was accepted", puzzle, number, where, age)
		}
	})
}

func BenchmarkSet(b *testing.B) {
	s := newSetter(b, 0, oneSecret)
	b.ReportAllocs()
	for b.Loop() {
		s.Set(t0, site, home)
	}
}

func BenchmarkCheck(b *testing.B) {
	s := newSetter(b, 4, oneSecret)
	p := set(s)
	solution, _ := solve(p)
	b.ReportAllocs()
	for b.Loop() {
		s.Check(t0, site, home, p.Text, solution)
	}
}

// A phone that makes 85 000 tries a second, a twentieth of a usual one, solves a puzzle of any difficulty in time.
func TestSlowPhonesHaveTime(t *testing.T) {
	for difficulty := MinDifficulty; difficulty <= MaxDifficulty; difficulty++ {
		p := set(newSetter(t, difficulty, oneSecret))
		needs := time.Duration(float64(p.Numbers) * float64(int64(1)<<p.Zeros) / 85_000 * float64(time.Second))
		if has := lifetime(difficulty); has < needs || has > MaxLifetime || difficulty <= DefaultDifficulty && has != DefaultLifetime {
			t.Errorf("difficulty %d: it needs %v and has %v", difficulty, needs, has)
		}
	}
}
