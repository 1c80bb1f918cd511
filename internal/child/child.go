// Package child starts processes for tests. They end with the process that started them, even if
// that is killed.
package child

import "os/exec"

// Start starts a process, and what it starts is killed with it when this process has ended, however
// that happened. It is in a group of processes with all others that Start has started.
func Start(cmd *exec.Cmd) error {
	if err := join(cmd); err != nil {
		return err
	}
	return cmd.Start()
}

// Wait waits for a process that [Start] has started.
func Wait(cmd *exec.Cmd) error { return cmd.Wait() }

// RemoveFolder has a folder removed when this process has ended, if it is still there.
func RemoveFolder(path string) error { return removeFolder(path) }
