package apikeys

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Holder is the owner of a key.
type Holder struct {
	Name string
	Tier string
	// Expires is the end of the key's validity. The zero time means never.
	Expires time.Time
}

// isExpired reports whether the key is no longer valid.
func (holder *Holder) isExpired(now time.Time) bool {
	return !holder.Expires.IsZero() && !now.Before(holder.Expires)
}

// Set has the keys of one version of a file. It doesn't change, and may be used from any number of goroutines. A nil
// Set has no keys.
type Set struct {
	macs    sync.Pool // of *mac
	clients map[sum]*Holder
}

type sum [sha256.Size]byte

// mac is a keyed hash with buffers for input and output, so that hashing allocates nothing.
type mac struct {
	hash.Hash
	key [MaxKey]byte
	sum sum
}

// MaxKey is the maximum length of a key in Find. Our keys are much shorter.
const MaxKey = 256

// Find returns the client of a valid key, or nil. Its duration reveals nothing about the keys: they are compared by a
// hash that clients can't compute.
func (s *Set) Find(key string, now time.Time) *Holder {
	if s == nil || len(s.clients) == 0 || len(key) > MaxKey {
		return nil
	}
	m := s.macs.Get().(*mac)
	m.Reset()
	m.Write(m.key[:copy(m.key[:], key)])
	m.Sum(m.sum[:0])
	client := s.clients[m.sum]
	s.macs.Put(m)
	if client == nil || client.isExpired(now) {
		return nil
	}
	return client
}

// TierOf returns the tier of a client's valid keys, or "" if it has none.
func (s *Set) TierOf(name string, now time.Time) string {
	if s != nil {
		for _, client := range s.clients {
			if client.Name == name && !client.isExpired(now) {
				return client.Tier
			}
		}
	}
	return ""
}

// Tiers returns the number of valid keys of each tier.
func (s *Set) Tiers(now time.Time) map[string]int {
	tiers := make(map[string]int)
	if s != nil {
		for _, client := range s.clients {
			if !client.isExpired(now) {
				tiers[client.Tier]++
			}
		}
	}
	return tiers
}

// AddNames adds the names of all keys to a set of names, also those of keys that have expired.
func (s *Set) AddNames(to map[string]bool) {
	if s != nil {
		for _, client := range s.clients {
			to[client.Name] = true
		}
	}
}

// newSet returns an empty set for hashes under a salt.
func newSet(salt []byte) *Set {
	s := &Set{clients: make(map[sum]*Holder)}
	s.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, salt)} }
	return s
}

// Parse parses the text of a file. The keys must have one of the tiers, unless tiers is nil. Errors name the line.
func Parse(text []byte, tiers []string) (*Set, error) {
	p := parser{tiers: tiers, lines: make(map[sum]int), first: make(map[string]firstLine)}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if err := p.line(n, strings.Fields(string(line))); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if p.set == nil {
		return nil, fmt.Errorf("there is no line `%s …`, which a file of keys begins with", saltWord)
	}
	return p.set, nil
}

// parser has the state of parsing a file.
type parser struct {
	tiers []string
	set   *Set
	lines map[sum]int          // the line of each hash
	first map[string]firstLine // the first line of each name
}

// firstLine is the first line with a name, and the tier of the key in it.
type firstLine struct {
	line int
	tier string
}

func (p *parser) line(n int, fields []string) error {
	switch {
	case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		return nil
	case len(fields) == 2 && fields[0] == saltWord:
		return p.salt(fields[1])
	case p.set == nil:
		return fmt.Errorf("a key comes before the line `%s …`, which a file of keys begins with", saltWord)
	}
	if err := checkWords(fields); err != nil {
		return err
	}
	client, err := clientOf(fields)
	if err != nil {
		return err
	}
	return p.key(n, client, fields[2])
}

// untilWord precedes the time at which a key expires.
const untilWord = "until"

// checkWords returns an error if a line has the wrong number of words for a key.
func checkWords(fields []string) error {
	if len(fields) != 3 && (len(fields) != 5 || fields[3] != untilWord) {
		return fmt.Errorf("has %d words, expected three: name, tier and hash; or %s and a time behind them",
			len(fields), untilWord)
	}
	return nil
}

// clientOf parses the client in the words of a line.
func clientOf(fields []string) (*Holder, error) {
	c := &Holder{Name: fields[0], Tier: fields[1]}
	if len(fields) < 5 {
		return c, nil
	}
	var err error
	if c.Expires, err = textfile.ParseTime(fields[4]); err != nil {
		return nil, fmt.Errorf("%s: %w", untilWord, err)
	}
	return c, nil
}

// saltWord begins the line with the salt.
const saltWord = "salt"

func (p *parser) salt(text string) error {
	salt, err := hex.DecodeString(text)
	switch {
	case p.set != nil:
		return errors.New("a second salt; each file of keys has its own, and one can't be appended to another")
	case err != nil || len(salt) < 16:
		return errors.New("the salt must be at least 32 hexadecimal digits")
	}
	p.set = newSet(salt)
	return nil
}

func (p *parser) key(n int, client *Holder, text string) error {
	if err := client.check(p.tiers); err != nil {
		return err
	}
	hash, err := parseHash(text)
	if err != nil {
		return err
	}
	if other, ok := p.lines[hash]; ok {
		return fmt.Errorf("the hash is that of line %d", other)
	}
	first, ok := p.first[client.Name]
	if ok && first.tier != client.Tier {
		return fmt.Errorf("%s has the tier %s here and %s in line %d; a name has one", client.Name, client.Tier,
			first.tier, first.line)
	}
	if !ok {
		p.first[client.Name] = firstLine{n, client.Tier}
	}
	p.lines[hash] = n
	p.set.clients[hash] = client
	return nil
}

// parseHash parses the hash of a key.
func parseHash(text string) (hash sum, err error) {
	if len(text) != hex.EncodedLen(len(hash)) {
		return hash, fmt.Errorf("the hash must have %d hexadecimal digits, got %d characters",
			hex.EncodedLen(len(hash)), len(text))
	}
	if _, err := hex.Decode(hash[:], []byte(text)); err != nil {
		return hash, errors.New("the hash must be hexadecimal digits")
	}
	return hash, nil
}

// check returns an error if the holder is invalid.
func (holder *Holder) check(tiers []string) error {
	if err := CheckName(holder.Name); err != nil {
		return err
	}
	if err := CheckTier(holder.Tier); err != nil {
		return err
	}
	if err := textfile.CheckTime(holder.Expires); err != nil {
		return fmt.Errorf("%s: %w", holder.Name, err)
	}
	if tiers != nil && !slices.Contains(tiers, holder.Tier) {
		return fmt.Errorf("%s has the tier %q, which is none of those configured: %s; name one of them, or add the tier to the config", holder.Name, holder.Tier, strings.Join(tiers, ", "))
	}
	return nil
}
