package client

import (
	"net/netip"
	"slices"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/session"
)

// Evidence is the data of a request about its sender. Nothing is asked for that a better way
// has made needless.
type Evidence interface {
	// Service returns the tier of the operator's own service that has sent the request.
	Service() (tier string, ok bool)
	// APIKey returns the name of the client that the request's API key belongs to, or "".
	APIKey() (name string)
	// Network returns the network that the request comes from, which is not valid if its
	// address can't be read, and whether the client may have chosen the address.
	Network() (network netip.Prefix, claimed bool)
	// Session returns the session that is valid in a network, and whether the request has
	// one that was tampered with.
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
	CrossSite bool            // another site had its browser send the request

	Network netip.Prefix // once located; not valid if the address can't be read
	Claimed bool         // it may have chosen its address: nothing is held against that

	record      recordOf
	located     bool
	otherSize   uint8                         // of the key in the room behind Key's, or 0
	networkSize uint8                         // of the key in the last room, or 0
	room        [2*keyRoom + networkRoom]byte // of the keys, so that they take no memory of their own
}

// recordOf is which of a client's keys its record is kept under.
type recordOf uint8

const (
	recordOfNone  recordOf = iota
	recordOfKey            // Key, which may be a part of the other key
	recordOfOther          // the other key, which is a part of Key
)

// The room that keys need. That of a fingerprint is the longest but for names of API keys,
// for which memory is found.
const (
	networkRoom = 1 + 1 + 16
	keyRoom     = networkRoom + identity.FingerprintSize
)

// ways are how clients are told apart. The first that applies counts.
var ways = [...]func(*Client, Evidence) bool{byService, byAPIKey, bySession, byUnknown, byFingerprint}

// Identify identifies the client.
func (c *Client) Identify(by Evidence) {
	for _, way := range ways {
		if way(c, by) {
			return
		}
	}
}

// Subject returns the key that the client's record is kept under, or nil if nothing is held
// against it.
func (c *Client) Subject() []byte {
	switch c.record {
	case recordOfKey:
		return c.Key
	case recordOfOther:
		return c.other()
	}
	return nil
}

// Parent returns the key that the subject is a part of, or nil if it is a part of none.
func (c *Client) Parent() []byte {
	switch {
	case c.otherSize == 0:
		return nil
	case c.record == recordOfOther:
		return c.Key
	}
	return c.other()
}

// NetworkKey returns the key of all clients in the client's network, once it is located.
func (c *Client) NetworkKey() []byte { return slices.Clip(c.room[2*keyRoom:][:c.networkSize]) }

// Locate settles which network the client is in.
func (c *Client) Locate(by Evidence) {
	if c.located {
		return
	}
	c.located = true
	c.Network, c.Claimed = by.Network()
	key := c.room[2*keyRoom : 2*keyRoom]
	if c.Network.IsValid() {
		key = identity.AppendPrefix(append(key, identity.TagNetwork), c.Network)
	} else {
		key = append(key, identity.TagUnknown)
	}
	c.networkSize = uint8(len(key))
}

// NetworkID returns the network as sessions and challenges are bound to it.
func (c *Client) NetworkID() []byte { return c.NetworkKey()[1:] }

// IsVerified reports whether the client can't choose who it is, and is where it was
// verified.
func (c *Client) IsVerified() bool { return c.Kind.Verified() && !c.Session.Elsewhere }

func byService(c *Client, by Evidence) bool {
	tier, ok := by.Service()
	if ok {
		c.set(identity.APIKey, append(c.key(identity.TagService), tier...))
	}
	return ok
}

func byAPIKey(c *Client, by Evidence) bool {
	name := by.APIKey()
	if name == "" {
		return false
	}
	c.set(identity.APIKey, append(c.key(identity.TagAPIKey), name...))
	c.record = recordOfKey
	return true
}

// bySession counts by the session. What other sites have its browser send is held against
// a part of it only.
func bySession(c *Client, by Evidence) (ok bool) {
	c.Locate(by)
	if c.Session, ok, c.Forged = by.Session(c.NetworkID()); !ok {
		return false
	}
	c.set(identity.Session, append(c.key(identity.TagSession), c.Session.ID[:]...))
	c.record = recordOfKey
	if initiator := by.Hints().Initiator; initiator.IsOther() {
		c.CrossSite = true
		c.record = recordOfOther
		c.setOther(append(append(c.otherRoom(), c.Key...), byte(initiator)))
	}
	return true
}

func byUnknown(c *Client, by Evidence) bool {
	c.Locate(by)
	if c.Network.IsValid() {
		return false
	}
	c.set(identity.Unknown, c.NetworkKey())
	return true
}

// byFingerprint counts by what the browser sends of itself, within its network. All in a
// network that send nothing are one client.
func byFingerprint(c *Client, by Evidence) bool {
	c.Locate(by)
	hints, kind := by.Hints(), identity.Fingerprint
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

// other returns the key that Key is a part of, or that is a part of Key.
func (c *Client) other() []byte { return slices.Clip(c.room[keyRoom:][:c.otherSize]) }

func (c *Client) otherRoom() []byte { return c.room[keyRoom : keyRoom : 2*keyRoom] }

// setOther notes the other key, which was made in its room.
func (c *Client) setOther(key []byte) { c.otherSize = uint8(len(key)) }
