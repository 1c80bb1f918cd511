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

// remedies are remedies for errors of the server, by the prefixes of the errors.
var remedies = []struct{ begins, remedy string }{
	{"READONLY", "this server is a replica: name the primary, or sentinels"},
	{"OOM", "the server's memory is full: raise maxmemory there"},
	{"NOAUTH", "the server wants a password: write it into the URL, redis://:{env.REDIS_PASSWORD}@host"},
	{"WRONGPASS", "check user and password"},
	{"NOPERM", "the user lacks a right there: give it those that docs/servers.md lists"},
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

// explainSilence puts a remedy before a connection error that shows that no Redis answers, for example
// because only one of client and server uses TLS.
func (o Options) explainSilence(err error) error {
	switch {
	case err == nil || !isNoRedis(err):
		return err
	case o.TLS != nil:
		return fmt.Errorf(
			"no Redis has answered with TLS; check host and port, and write redis:// for a server without TLS: %w", err)
	}
	return fmt.Errorf("no Redis has answered; check host and port, and write rediss:// for a server with TLS: %w", err)
}

// isNoRedis reports whether a connection error is typical of a server that is no Redis.
func isNoRedis(err error) bool {
	for _, silence := range []error{io.EOF, syscall.ECONNRESET, context.DeadlineExceeded} {
		if errors.Is(err, silence) {
			return true
		}
	}
	return strings.HasPrefix(err.Error(), "received unknown message type")
}

// isAnswer reports whether the server sent an error.
func isAnswer(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// refusals are the prefixes of errors with which a server refuses a call before it has done anything.
// After other errors a script may have stopped halfway, and its changes aren't undone.
var refusals = []string{
	"NOSCRIPT", "OOM", "READONLY", "MISCONF", "NOREPLICAS", "LOADING", "BUSY", "MASTERDOWN",
	"NOAUTH", "WRONGPASS", "NOPERM", "CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT",
}

// wasRefused reports whether an error of the server means that it has done nothing.
func wasRefused(err error) bool {
	word, _, _ := strings.Cut(err.Error(), " ")
	return slices.Contains(refusals, word)
}

// wasNotSent reports whether a call failed before anything was sent.
func wasNotSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
