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

// HTTP sends a load to an address, over as many connections. request appends a request to a buffer.
// Answers are OK if their status is 200, and Other otherwise.
func HTTP(ctx context.Context, address string, connections int, l Load, request func(buffer []byte, number int64) []byte) (Report, error) {
	var clients []Client
	for range connections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return Report{}, err
		}
		defer conn.Close()
		clients = append(clients, overConnection(conn, request))
	}
	return Run(ctx, l, clients)
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
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	if status, err = strconv.Atoi(string(code)); err != nil || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return 0, fmt.Errorf("expected a status line of HTTP/1.1, got %q", line)
	}
	length := 0
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		name, value, more := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		if !more {
			break
		}
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	_, err = r.Discard(length)
	return status, err
}
