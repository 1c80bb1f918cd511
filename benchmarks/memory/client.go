//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

const (
	connections = 32
	pipelined   = 16 // requests that are sent before their answers are read
)

// send asks with the keys that next returns until it returns none, over some
// connections, and counts the answers by status. It costs little, so that Caddy
// has the processors.
func send(address string, next func() (key string, ok bool)) (answers map[int]int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers = make(map[int]int)
	for range connections {
		wg.Go(func() {
			statuses, failed := sendOver(address, next)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
			for status, n := range statuses {
				answers[status] += n
			}
		})
	}
	wg.Wait()
	return answers, err
}

func sendOver(address string, next func() (key string, ok bool)) (statuses map[int]int, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	w, r := bufio.NewWriter(conn), bufio.NewReader(conn)
	statuses = make(map[int]int)
	for more := true; more; {
		waiting := 0
		for waiting < pipelined && more {
			var key string
			if key, more = next(); more {
				fmt.Fprintf(w, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Key: %s\r\n\r\n", key)
				waiting++
			}
		}
		if err := w.Flush(); err != nil {
			return statuses, err
		}
		for range waiting {
			answer, err := http.ReadResponse(r, nil)
			if err != nil {
				return statuses, err
			}
			answer.Body.Close() // reads what is left of it
			statuses[answer.StatusCode]++
		}
	}
	return statuses, nil
}
