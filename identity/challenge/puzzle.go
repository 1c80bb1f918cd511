package challenge

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/internal/keyed"
)

// Bounds of [Options].
const (
	DefaultDifficulty = 18 // under a second on a computer, some on an old phone
	MinDifficulty     = 1
	MaxDifficulty     = 28 // minutes

	DefaultLifetime = 5 * time.Minute
	MinLifetime     = 10 * time.Second
	MaxLifetime     = time.Hour
)

// Why a puzzle is not solved.
var (
	ErrMalformed = errors.New("challenge: not a puzzle of this version with a number")
	ErrForeign   = errors.New("challenge: not set for this site and network under a key in use")
	ErrExpired   = errors.New("challenge: expired")
	ErrUnsolved  = errors.New("challenge: the number is not a solution")
)

// Options are what a [Setter] can be told. The zero value is usable.
type Options struct {
	// Difficulty is how many zero bits a solution has. 0 is DefaultDifficulty.
	Difficulty int

	// Lifetime is how long there is to solve a puzzle. 0 is DefaultLifetime.
	Lifetime time.Duration

	// Random makes nonces. nil is crypto/rand.
	Random io.Reader
}

// Setter sets puzzles and checks solutions. It may be used from any number of
// goroutines.
type Setter struct {
	ring keyed.Ring
	o    Options
}

// New returns a setter under keys that are derived from a secret.
func New(secret *identity.Secret, o Options) (*Setter, error) {
	o.Difficulty = cmp.Or(o.Difficulty, DefaultDifficulty)
	o.Lifetime = cmp.Or(o.Lifetime, DefaultLifetime)
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Difficulty < MinDifficulty || o.Difficulty > MaxDifficulty {
		return nil, fmt.Errorf("challenge: difficulty must be between %d and %d, got %d", MinDifficulty, MaxDifficulty, o.Difficulty)
	}
	if o.Lifetime < MinLifetime || o.Lifetime > MaxLifetime {
		return nil, fmt.Errorf("challenge: lifetime must be between %v and %v, got %v", MinLifetime, MaxLifetime, o.Lifetime)
	}
	keys, err := secret.Derive("challenges")
	if err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	return &Setter{ring: keyed.NewRing(keys), o: o}, nil
}

// Where the fields of a puzzle begin.
const (
	keyAt        = 1
	expiresAt    = keyAt + keyed.IDSize
	difficultyAt = expiresAt + 4
	nonceAt      = difficultyAt + 1
	macAt        = nonceAt + NonceSize
	puzzleSize   = macAt + keyed.Size
)

const version = 1

// NonceSize is the length of a puzzle's nonce in bytes.
const NonceSize = 18

// Sizes of texts, in characters: a puzzle, and the hexadecimal digits of the
// number that solves it.
const (
	PuzzleSize   = puzzleSize / 3 * 4
	SolutionSize = 16
)

// encoding writes a puzzle. Its bytes fill its characters, so there is no rest of
// bits that could be anything.
var encoding = base64.RawURLEncoding

// Puzzle is a puzzle to be solved.
type Puzzle struct {
	Text       string // PuzzleSize characters
	Difficulty int    // in leading zero bits
	Expires    time.Time
}

// Set makes a puzzle for a client of a network. The network is as
// [identity.AppendPrefix] writes it, and empty where there is none. An error is
// one of the random source.
func (s *Setter) Set(now time.Time, site string, network []byte) (Puzzle, error) {
	var p [puzzleSize]byte
	p[0] = version
	copy(p[keyAt:], s.ring[0].ID[:])
	expires := now.Add(s.o.Lifetime).Unix()
	binary.BigEndian.PutUint32(p[expiresAt:], uint32(expires))
	p[difficultyAt] = byte(s.o.Difficulty)
	if _, err := io.ReadFull(s.o.Random, p[nonceAt:macAt]); err != nil {
		return Puzzle{}, fmt.Errorf("challenge: random nonce: %w", err)
	}
	sum := sign(s.ring[0], &p, site, network)
	copy(p[macAt:], sum[:])
	return Puzzle{encoding.EncodeToString(p[:]), s.o.Difficulty, time.Unix(expires, 0)}, nil
}

func sign(key keyed.Key, p *[puzzleSize]byte, site string, network []byte) [keyed.Size]byte {
	return key.Start().Text("puzzle").Fixed(p[:macAt]).Text(site).Bytes(network).Sum()
}

// Solved is a puzzle that was solved. Each is to be accepted once: keep the nonce
// until the puzzle expires.
type Solved struct {
	Nonce   [NonceSize]byte
	Expires time.Time
}

// Check tells whether a number solves a puzzle that was set for a client of a
// network, or why not: one of the errors of this package.
func (s *Setter) Check(now time.Time, site string, network []byte, puzzle, solution string) (Solved, error) {
	var p [puzzleSize]byte
	var number [SolutionSize / 2]byte
	if !decode(&p, &number, puzzle, solution) {
		return Solved{}, ErrMalformed
	}
	if !s.signed(&p, site, network) {
		return Solved{}, ErrForeign
	}
	expires := time.Unix(int64(binary.BigEndian.Uint32(p[expiresAt:])), 0)
	if !now.Before(expires) {
		return Solved{}, ErrExpired
	}
	if zeros(puzzle, number) < int(p[difficultyAt]) {
		return Solved{}, ErrUnsolved
	}
	return Solved{[NonceSize]byte(p[nonceAt:]), expires}, nil
}

func decode(p *[puzzleSize]byte, number *[SolutionSize / 2]byte, puzzle, solution string) bool {
	if len(puzzle) != PuzzleSize || len(solution) != SolutionSize {
		return false
	}
	n, err := encoding.Decode(p[:], []byte(puzzle))
	if err != nil || n != len(p) || p[0] != version {
		return false
	}
	_, err = hex.Decode(number[:], []byte(solution))
	return err == nil
}

// signed tells whether a puzzle was set by this setter's keys.
func (s *Setter) signed(p *[puzzleSize]byte, site string, network []byte) bool {
	for _, key := range s.ring {
		if key.ID != [keyed.IDSize]byte(p[keyAt:]) {
			continue
		}
		if sum := sign(key, p, site, network); hmac.Equal(sum[:], p[macAt:]) {
			return true
		}
	}
	return false
}

// zeros returns how many zero bits a number earns, at most 64.
func zeros(puzzle string, number [SolutionSize / 2]byte) int {
	sum := sha256.Sum256(append([]byte(puzzle), number[:]...))
	return bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:]))
}
