//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// A setup is what a machine is told first.
type setup struct {
	Way     string
	Address string // of Redis
	Folder  string // with the secret of all machines
	Machine int    // its number
	Keys    int    // in rotation
	Amount  int64  // of the limit
	Window  time.Duration
	Timeout time.Duration // how long this module's way waits for Redis
}

// childFlag is how a program is called to be a machine.
const childFlag = "-child"

func isChild() bool { return len(os.Args) > 1 && os.Args[1] == childFlag }

// child is the program of a machine. It reads a setup and then loads, and answers each with a
// report, until there are no more.
func child() int {
	err := serve(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout))
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "machine:", err)
		return 1
	}
	return 0
}

func serve(in *json.Decoder, out *json.Encoder) error {
	var s setup
	if err := in.Decode(&s); err != nil {
		return err
	}
	w, err := newWay(s)
	if err != nil {
		return errors.Join(err, out.Encode(report{Failure: err.Error()}))
	}
	defer w.close()
	if err := out.Encode(report{}); err != nil {
		return err
	}
	var clients []client
	for {
		var l load
		if err := in.Decode(&l); err != nil {
			return err
		}
		for len(clients) < l.Goroutines {
			clients = append(clients, client{newKeyer(s.Machine, len(clients), s.Keys), w.decider()})
		}
		if err := out.Encode(send(context.Background(), clients[:l.Goroutines], l)); err != nil {
			return err
		}
	}
}
