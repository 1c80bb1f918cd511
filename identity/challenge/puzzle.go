package challenge

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/bits"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/internal/keyed"
)

// The difficulty of puzzles determines the number of tries: on average 2 to the power of it.
const (
	DefaultDifficulty = 22 // a second on a computer, two or three on a phone
	MinDifficulty     = 1
	MaxDifficulty     = 28 // minutes
)

// The times for solving a puzzle of DefaultDifficulty, and any puzzle.
const (
	DefaultLifetime = 5 * time.Minute
	MaxLifetime     = time.Hour
)

// Errors of [Setter.Check].
var (
	ErrMalformed = errors.New("challenge: not a puzzle of this version with a number")
	ErrForeign   = errors.New("challenge: not set for this site and network under a key in use")
	ErrExpired   = errors.New("challenge: expired")
	ErrUnsolved  = errors.New("challenge: the number is not a solution")
)

// Setter sets puzzles and checks solutions. It may be used from any number of
// goroutines.
type Setter struct {
	ring       keyed.Ring
	difficulty int
	random     io.Reader
}

// New returns a setter under keys that are derived from a secret. The difficulty is at least MinDifficulty and at
// most MaxDifficulty; 0 is DefaultDifficulty.
func New(secret *identity.Secret, difficulty int) *Setter {
	return &Setter{
		ring: keyed.NewRing(secret.Derive("challenges")), difficulty: cmp.Or(difficulty, DefaultDifficulty),
		random: rand.Reader,
	}
}

// The offsets of the fields of a puzzle.
const (
	keyAt        = 1
	expiresAt    = keyAt + keyed.IDSize
	difficultyAt = expiresAt + 4
	nonceAt      = difficultyAt + 1
	macAt        = nonceAt + NonceSize
	puzzleSize   = macAt + keyed.Size
)

// The versions of puzzles. Those for a wait aren't solved, but submitted later: see [Wait].
const (
	version     = 2
	versionWait = 3
)

// maxNumbersBits is the binary logarithm of the maximum of numbers in a solution.
const maxNumbersBits = 4

// split returns how many numbers solve a puzzle, and how many zero bits each of them needs. Finding many easy numbers
// takes as long on average as finding a difficult one, but much less often several times as long.
func split(difficulty int) (numbers, zeros int) {
	bits := min(maxNumbersBits, difficulty-MinDifficulty)
	return 1 << bits, difficulty - bits
}

// NonceSize is the length of a puzzle's nonce in bytes.
const NonceSize = 18

// Nonce identifies a puzzle. Accept each only once: keep it for MaxLifetime.
type Nonce = [NonceSize]byte

// Sizes of texts, in characters: a puzzle, and the hexadecimal digits of one number of a solution.
const (
	PuzzleSize = puzzleSize / 3 * 4
	NumberSize = 16
)

// encoding encodes a puzzle. Its bytes fill the characters exactly, so no bits are arbitrary.
var encoding = base64.RawURLEncoding

// Puzzle is a puzzle to be solved.
type Puzzle struct {
	Text    string // PuzzleSize characters
	Numbers int    // the number of different numbers in a solution, in ascending order
	Zeros   int    // the leading zero bits that each of them needs
}

// Set makes a puzzle for a client of a network. The network has the form of [identity.AppendPrefix], and is empty if
// there is none.
func (s *Setter) Set(now time.Time, site string, network []byte) Puzzle {
	text := s.seal(version, now.Add(lifetime(s.difficulty)), byte(s.difficulty), site, network)
	numbers, zeros := split(s.difficulty)
	return Puzzle{text, numbers, zeros}
}

// lifetime returns the time for solving a puzzle: twice as long for each bit above DefaultDifficulty, since a slow
// phone must be able to solve it.
func lifetime(difficulty int) time.Duration {
	return min(DefaultLifetime<<max(difficulty-DefaultDifficulty, 0), MaxLifetime)
}

// sealed are the bytes of a puzzle.
type sealed [puzzleSize]byte

// time returns when a puzzle expires, or when a token is ready.
func (p *sealed) time() time.Time { return time.Unix(int64(binary.BigEndian.Uint32(p[expiresAt:])), 0) }

func (p *sealed) sign(key keyed.Key, site string, network []byte) [keyed.Size]byte {
	return key.Start().Text("puzzle").Fixed(p[:macAt]).Text(site).Bytes(network).Sum()
}

// Check checks the solution of a puzzle that was set for a client of a network. It returns one of the errors of this
// package. A solution has the hexadecimal digits of all numbers, one after the other.
func (s *Setter) Check(now time.Time, site string, network []byte, puzzle, solution string) (n Nonce, err error) {
	p, err := s.open(version, puzzle, site, network)
	if err != nil {
		return n, err
	}
	if !now.Before(p.time()) {
		return n, ErrExpired
	}
	numbers, zeros := split(int(p[difficultyAt]))
	if err := check(puzzle, solution, numbers, zeros); err != nil {
		return n, err
	}
	return Nonce(p[nonceAt:]), nil
}

// open decodes a puzzle of a version that was set for a client of a network.
func (s *Setter) open(version byte, puzzle, site string, network []byte) (p sealed, err error) {
	if len(puzzle) != PuzzleSize {
		return p, ErrMalformed
	}
	if n, err := encoding.Decode(p[:], []byte(puzzle)); err != nil || n != len(p) || p[0] != version {
		return p, ErrMalformed
	}
	for _, key := range s.ring {
		if key.ID != [keyed.IDSize]byte(p[keyAt:]) {
			continue
		}
		if sum := p.sign(key, site, network); hmac.Equal(sum[:], p[macAt:]) {
			return p, nil
		}
	}
	return p, ErrForeign
}

// check checks the numbers of a solution. They ascend, so all are different.
func check(puzzle, solution string, numbers, zeros int) error {
	if len(solution) != numbers*NumberSize {
		return ErrMalformed
	}
	all, err := hex.DecodeString(solution)
	if err != nil {
		return ErrMalformed
	}
	for i := range numbers {
		number := [NumberSize / 2]byte(all[i*NumberSize/2:])
		if earned(puzzle, number) < zeros ||
			i > 0 && bytes.Compare(number[:], all[(i-1)*NumberSize/2:i*NumberSize/2]) <= 0 {
			return ErrUnsolved
		}
	}
	return nil
}

// earned returns the leading zero bits of the hash of a number, at most 64.
func earned(puzzle string, number [NumberSize / 2]byte) int {
	sum := sha256.Sum256(append([]byte(puzzle), number[:]...))
	return bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:]))
}
