// Package child starts processes for tests and finds ports for them. Processes end with the process
// that started them, even if that is killed.
package child

import "os/exec"

// Start starts a process in a group shared with all others that Start has started. The process and
// its children are killed when this process ends, for whatever reason.
func Start(cmd *exec.Cmd) error {
	if err := join(cmd); err != nil {
		return err
	}
	return cmd.Start()
}

// Wait waits for a process that [Start] has started.
func Wait(cmd *exec.Cmd) error { return cmd.Wait() }

// RemoveFolder schedules a folder for removal when this process ends, if it still exists.
func RemoveFolder(path string) error { return removeFolder(path) }
