package testserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

// ErrMissing is the error for a server that isn't installed.
var ErrMissing = errors.New("not installed")

// Password is the password of every server, and User the name of its administrator.
const (
	User     = "tally"
	Password = "the-pass.word"
)

// Server is a server that was started.
type Server struct {
	Port   string
	Env    []string // additional environment, from the next Start on
	Folder string
	ready  string // the text of the log line of a server that is ready
	args   []string
	dsn    func(s *Server, port string) string

	privileged bool // it may run as root

	command *exec.Cmd   // nil while the server is stopped
	lines   chan string // of its log, until it ends
}

// Address returns the address of the server, with its port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", s.Port) }

// DSN returns the data source name of the server. port is that of the server, or of a proxy before
// it.
func (s *Server) DSN(port string) string { return s.dsn(s, port) }

// startFor is the longest start of a server.
const startFor = 30 * time.Second

// Start starts the server, or restarts it after Kill.
func (s *Server) Start() error {
	s.command = exec.Command(s.args[0], s.args[1:]...)
	s.command.Dir = s.Folder
	s.command.Env = append(os.Environ(), s.Env...)
	if !s.privileged {
		s.command.SysProcAttr = asNobody()
	}
	output, input, err := os.Pipe()
	if err != nil {
		return err
	}
	s.command.Stdout, s.command.Stderr = input, input
	err = child.Start(s.command)
	_ = input.Close()
	if err != nil {
		_ = output.Close()
		return err
	}
	s.lines = make(chan string, 1000)
	go s.read(output)
	return s.await()
}

// read reads the log until the server and all of its children have ended. It drops lines that no
// caller waits for.
func (s *Server) read(output io.ReadCloser) {
	lines := s.lines
	defer close(lines)
	defer output.Close()
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		select {
		case lines <- scanner.Text():
		default:
		}
	}
}

func (s *Server) await() error {
	var log []string
	late := time.After(startFor)
	for {
		select {
		case line, ok := <-s.lines:
			if log = append(log, line); strings.Contains(line, s.ready) {
				return nil
			}
			if !ok {
				return fmt.Errorf("%s ended: %w\n%s", s.args[0], errors.Join(errors.New("not ready"), s.command.Wait()), strings.Join(log, "\n"))
			}
		case <-late:
			return fmt.Errorf("%s was not ready after %v\n%s", s.args[0], startFor, strings.Join(log, "\n"))
		}
	}
}

// Kill ends the server at once, like a loss of power, except that the system still writes its
// buffers to the disk.
func (s *Server) Kill() {
	if s.command == nil {
		return
	}
	killAll(s.command.Process.Pid)
	_ = s.command.Wait()
	for range s.lines { // until its children have ended, too
	}
	s.command = nil
}

// Pause stops all processes of the server, so that they answer nothing until Resume.
func (s *Server) Pause() { pauseAll(s.command.Process.Pid) }

// Resume continues the processes.
func (s *Server) Resume() { resumeAll(s.command.Process.Pid) }

// Save copies the data of a killed server, replacing an earlier copy.
func (s *Server) Save() error {
	return errors.Join(os.RemoveAll(s.saved()), run(s.Folder, "cp", "-a", s.data(), s.saved()))
}

// Restore replaces the data of a killed server with the copy.
func (s *Server) Restore() error {
	return errors.Join(os.RemoveAll(s.data()), run(s.Folder, "cp", "-a", s.saved(), s.data()))
}

func (s *Server) data() string  { return filepath.Join(s.Folder, "data") }
func (s *Server) saved() string { return filepath.Join(s.Folder, "saved") }

// Close kills the server and removes its folder.
func (s *Server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.Folder)
}

// newFolder makes a folder owned by the server's user.
func newFolder(name string) (string, error) {
	folder, err := os.MkdirTemp("", name)
	if err != nil {
		return "", err
	}
	return folder, errors.Join(child.RemoveFolder(folder), giveAway(folder))
}

// run runs a command as the server's user.
func run(folder string, name string, args ...string) error {
	command := exec.Command(name, args...)
	command.Dir = folder
	command.SysProcAttr = asNobody()
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := child.Start(command)
	if err == nil {
		err = child.Wait(command)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, &output)
	}
	return nil
}

// find returns the path of a program, or ErrMissing.
func find(name string, elsewhere ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range elsewhere {
		if paths, _ := filepath.Glob(filepath.Join(pattern, name)); len(paths) > 0 {
			return paths[len(paths)-1], nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, ErrMissing)
}
