package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// remedies are remedies for errors of the server, by their beginnings.
var remedies = []struct{ begins, remedy string }{
	{"READONLY", "this server is a replica: name the primary, or sentinels"},
	{"OOM", "the server's memory is full: raise maxmemory there"},
	{"NOAUTH", "the server wants a password: write it into the URL, redis://:{env.REDIS_PASSWORD}@host"},
	{"WRONGPASS", "check user and password"},
	{"NOPERM", "the user lacks a right there: give it those that docs/fleets.md lists"},
	{"MISCONF", "the server can't save to its disk"},
	{"NOREPLICAS", "too few replicas follow the server"},
}

// explain puts a remedy before an error.
func explain(err error) error {
	if err == nil {
		return nil
	}
	for _, r := range remedies {
		if strings.HasPrefix(err.Error(), r.begins) {
			return fmt.Errorf("%s: %w", r.remedy, err)
		}
	}
	return err
}

// explainSilence puts before an error of connecting what to look at if what listens there doesn't answer
// as a Redis does. A server that speaks TLS does so to a client that doesn't, and the other way round.
func (o Options) explainSilence(err error) error {
	switch {
	case err == nil || !isNoRedis(err):
		return err
	case o.TLS != nil:
		return fmt.Errorf("no Redis has answered with TLS; check host and port, and write redis:// for a server without TLS: %w", err)
	}
	return fmt.Errorf("no Redis has answered; check host and port, and write rediss:// for a server with TLS: %w", err)
}

// isNoRedis reports whether an error of connecting is one that is seen where no Redis answers.
func isNoRedis(err error) bool {
	for _, silence := range []error{io.EOF, syscall.ECONNRESET, context.DeadlineExceeded} {
		if errors.Is(err, silence) {
			return true
		}
	}
	return strings.HasPrefix(err.Error(), "received unknown message type")
}

// isAnswer reports whether an error is one that the server sent.
func isAnswer(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// refusals are how errors begin with which a server refuses a call before it has done anything.
// After others a script may have done a part, which isn't undone.
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
