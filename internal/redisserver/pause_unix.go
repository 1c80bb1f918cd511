//go:build unix

package redisserver

import (
	"syscall"
	"testing"
)

// Pause stops the server's process, which answers nothing until Resume.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume has the server's process go on.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
