package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// The kinds of answers over HTTP.
const (
	OK    Kind = iota // the status is 200
	Other             // any other
)

// HTTP returns clients that each send requests over a connection of its own. The function appends a
// request to a buffer. close closes the connections.
func HTTP(connections int, dial func() (net.Conn, error), request func(buffer []byte, number int64) []byte) (clients []Client, closeAll func(), err error) {
	var conns []net.Conn
	closeAll = func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	for range connections {
		conn, err := dial()
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		conns = append(conns, conn)
		clients = append(clients, overConnection(conn, request))
	}
	return clients, closeAll, nil
}

func overConnection(conn net.Conn, request func(buffer []byte, number int64) []byte) Client {
	var buffer []byte
	reader := bufio.NewReader(conn)
	return func(_ context.Context, number int64) (Kind, error) {
		buffer = request(buffer[:0], number)
		_, failed := conn.Write(buffer)
		status, err := readAnswer(reader)
		if err = errors.Join(failed, err); err != nil || status != http.StatusOK {
			return Other, err
		}
		return OK, nil
	}
}

// readAnswer reads an HTTP/1.1 answer whose body has a Content-Length, and returns its
// status. net/http does the same with many allocations, which the server would pay for
// where both share a machine.
func readAnswer(r *bufio.Reader) (status int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if status, err = parseStatus(line); err != nil {
		return 0, err
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	_, err = r.Discard(length)
	return status, err
}

// parseStatus reads a status line: "HTTP/1.1 200 OK".
func parseStatus(line []byte) (int, error) {
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	status, err := strconv.Atoi(string(code))
	if err != nil || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return 0, fmt.Errorf("expected a status line of HTTP/1.1, got %q", line)
	}
	return status, nil
}
