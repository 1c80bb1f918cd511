package testserver

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// nobody is the user that runs servers if this process is root. Servers refuse to run as root.
const nobody = 65534

// asNobody returns the attributes for starting a server.
func asNobody() *syscall.SysProcAttr {
	attributes := new(syscall.SysProcAttr)
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return attributes
}

func giveAway(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(path, nobody, nobody)
}

// killAll kills a process and its children, each of which may be in a group of its own.
func killAll(pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP) // so that it starts no further children
	signalAll(pid, syscall.SIGKILL)
}

func pauseAll(pid int)  { signalAll(pid, syscall.SIGSTOP) }
func resumeAll(pid int) { signalAll(pid, syscall.SIGCONT) }

// signalAll sends a signal to a process and its children.
func signalAll(pid int, signal syscall.Signal) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, after, _ := bytes.Cut(stat, []byte(") "))
		fields := bytes.Fields(after)
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(pid) && child > 0 {
			_ = syscall.Kill(child, signal)
		}
	}
	_ = syscall.Kill(pid, signal)
}
