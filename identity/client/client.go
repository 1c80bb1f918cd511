package client

import (
	"net/netip"
	"slices"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/session"
)

// Evidence is the data of a request about its sender. Methods are only called if no better way has
// identified the client.
type Evidence interface {
	// Service returns the tier of the operator's own service that sent the request.
	Service() (tier string, ok bool)
	// APIKey returns the name of the client with the request's API key, or "".
	APIKey() (name string)
	// Network returns the network of the request's address, which is not valid if the address can't be
	// read, and whether the client may have chosen the address.
	Network() (network netip.Prefix, claimed bool)
	// Session returns the session if it is valid in a network, and whether the request has one that was
	// tampered with.
	Session(network []byte) (s session.Session, ok, forged bool)
	// Hints returns the header fields about the browser, and the initiator of the request.
	Hints() identity.Hints
}

// Client is the identified sender of a request. The zero value is an unidentified one.
type Client struct {
	Kind identity.Kind
	Key  []byte // of its counts

	Session   session.Session // if Kind is [identity.Session]
	Forged    bool            // it has a session that was tampered with
	CrossSite bool            // another site made its browser send the request

	Network netip.Prefix // set by Locate; not valid if the address can't be read
	Claimed bool         // it may have chosen its address, for which no violations are recorded

	record      recordOf
	located     bool
	otherSize   uint8                         // the size of the second key in room, or 0
	networkSize uint8                         // the size of the third key in room, or 0
	room        [2*keyRoom + networkRoom]byte // Key, the other key and the network's, to avoid allocations
}

// recordOf says under which of a client's keys its record is.
type recordOf uint8

const (
	recordOfNone  recordOf = iota
	recordOfKey            // Key; the other key may contain it
	recordOfOther          // the other key, which Key contains
)

// The sizes of keys. The key of a fingerprint is the longest, except for names of API keys, which are
// allocated if they are longer.
const (
	networkRoom = 1 + 1 + 16
	keyRoom     = networkRoom + identity.FingerprintSize
)

// ways are the ways to identify clients. The first one that applies counts.
var ways = [...]func(*Client, Evidence) bool{byService, byAPIKey, bySession, byUnknown, byFingerprint}

// Identify identifies the client.
func (c *Client) Identify(evidence Evidence) {
	for _, way := range ways {
		if way(c, evidence) {
			return
		}
	}
}

// Subject returns the key of the client's record, or nil if no violations are recorded for it.
func (c *Client) Subject() []byte {
	switch c.record {
	case recordOfKey:
		return c.Key
	case recordOfOther:
		return c.other()
	}
	return nil
}

// Parent returns the key that contains the subject, or nil if there is none.
func (c *Client) Parent() []byte {
	switch {
	case c.otherSize == 0:
		return nil
	case c.record == recordOfOther:
		return c.Key
	}
	return c.other()
}

// NetworkKey returns the key of all clients in the client's network. Locate must have been called.
func (c *Client) NetworkKey() []byte { return slices.Clip(c.room[2*keyRoom:][:c.networkSize]) }

// Locate sets the network of the client.
func (c *Client) Locate(evidence Evidence) {
	if c.located {
		return
	}
	c.located = true
	c.Network, c.Claimed = evidence.Network()
	key := c.room[2*keyRoom : 2*keyRoom]
	if c.Network.IsValid() {
		key = identity.AppendPrefix(append(key, identity.TagNetwork), c.Network)
	} else {
		key = append(key, identity.TagUnknown)
	}
	c.networkSize = uint8(len(key))
}

// NetworkID returns the form of the network that sessions and challenges are bound to.
func (c *Client) NetworkID() []byte { return c.NetworkKey()[1:] }

// IsVerified reports whether the client is verified, and in the network in which it was verified.
func (c *Client) IsVerified() bool { return c.Kind.Verified() && !c.Session.Elsewhere }

func byService(c *Client, evidence Evidence) bool {
	tier, ok := evidence.Service()
	if ok {
		c.set(identity.APIKey, append(c.key(identity.TagService), tier...))
	}
	return ok
}

func byAPIKey(c *Client, evidence Evidence) bool {
	name := evidence.APIKey()
	if name == "" {
		return false
	}
	c.set(identity.APIKey, append(c.key(identity.TagAPIKey), name...))
	c.record = recordOfKey
	return true
}

// bySession counts by the session. Violations of requests that other sites made its browser send are
// recorded for a part of it only.
func bySession(c *Client, evidence Evidence) (ok bool) {
	c.Locate(evidence)
	if c.Session, ok, c.Forged = evidence.Session(c.NetworkID()); !ok {
		return false
	}
	c.set(identity.Session, append(c.key(identity.TagSession), c.Session.ID[:]...))
	c.record = recordOfKey
	if initiator := evidence.Hints().Initiator; initiator.IsOther() {
		c.CrossSite = true
		c.record = recordOfOther
		c.setOther(append(append(c.otherRoom(), c.Key...), byte(initiator)))
	}
	return true
}

func byUnknown(c *Client, evidence Evidence) bool {
	c.Locate(evidence)
	if c.Network.IsValid() {
		return false
	}
	c.set(identity.Unknown, c.NetworkKey())
	return true
}

// byFingerprint counts by the browser's header fields, within its network. All clients of a network without
// such fields are one client.
func byFingerprint(c *Client, evidence Evidence) bool {
	c.Locate(evidence)
	hints, kind := evidence.Hints(), identity.Fingerprint
	if hints.SayNothing() {
		kind = identity.ByPrefix
	}
	c.set(kind, identity.AppendFingerprint(c.key(identity.TagFingerprint), c.Network, hints))
	if c.Claimed {
		return true
	}
	c.record = recordOfKey
	if hints.Initiator != identity.OwnSite {
		c.setOther(identity.AppendFingerprint(append(c.otherRoom(), identity.TagFingerprint), c.Network, hints.Own()))
	}
	return true
}

func (c *Client) set(kind identity.Kind, key []byte) { c.Kind, c.Key = kind, key }

// key returns the beginning of the client's key, with room for the rest.
func (c *Client) key(tag byte) []byte { return append(c.room[:0:keyRoom], tag) }

// other returns the key that contains Key, or that Key contains.
func (c *Client) other() []byte { return slices.Clip(c.room[keyRoom:][:c.otherSize]) }

func (c *Client) otherRoom() []byte { return c.room[keyRoom : keyRoom : 2*keyRoom] }

// setOther sets the other key, which is in its place in room.
func (c *Client) setOther(key []byte) { c.otherSize = uint8(len(key)) }
