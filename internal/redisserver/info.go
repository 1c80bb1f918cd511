package redisserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MustInfo returns a section of what the server says of itself.
func (s *Server) MustInfo(t testing.TB, section string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "INFO %s\r\n", section)
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	length, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "$")))
	if err != nil {
		t.Fatalf("INFO %s: %s", section, line)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(reader, text); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
