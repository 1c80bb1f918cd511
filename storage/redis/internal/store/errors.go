package store

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// remedies are what to do about errors of the server, by how they begin.
var remedies = []struct{ begins, remedy string }{
	{"READONLY", "this server is a replica: name the primary, or sentinels"},
	{"OOM", "the server's memory is full: raise maxmemory there"},
	{"NOAUTH", "the server wants a password"},
	{"WRONGPASS", "check user and password"},
	{"NOPERM", "the user lacks a right there: give it those that docs/fleets.md lists"},
	{"MISCONF", "the server can't save to its disk"},
	{"NOREPLICAS", "too few replicas follow the server"},
}

// explain adds to an error what to do about it.
func explain(err error) error {
	if err == nil {
		return nil
	}
	for _, r := range remedies {
		if strings.HasPrefix(err.Error(), r.begins) {
			return fmt.Errorf("%w: %s", err, r.remedy)
		}
	}
	return err
}

// isAnswer reports whether an error is one that the server sent.
func isAnswer(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// refusals are how errors begin with which a server refuses a call before it has done anything.
// After others a script may have done a part: what it did is not taken back.
var refusals = []string{
	"NOSCRIPT", "OOM", "READONLY", "MISCONF", "NOREPLICAS", "LOADING", "BUSY", "MASTERDOWN",
	"NOAUTH", "WRONGPASS", "NOPERM", "CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT",
}

// wasRefused reports whether an error of the server says that it has done nothing.
func wasRefused(err error) bool {
	word, _, _ := strings.Cut(err.Error(), " ")
	return slices.Contains(refusals, word)
}

// wasNotSent reports whether a call failed before anything was sent.
func wasNotSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
