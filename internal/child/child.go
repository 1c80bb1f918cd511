// Package child starts processes for tests. They end with the process that started them, even if
// that is killed.
package child

import "os/exec"

// Start starts a process, which leads a group of its own. What is left of the group is killed when
// this process has ended, however that happened. [Wait] must wait for it.
func Start(cmd *exec.Cmd) error {
	lead(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	return tell("start %d\n", cmd.Process.Pid)
}

// Wait waits for a process that [Start] has started.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	_ = tell("end %d\n", cmd.Process.Pid)
	return err
}

// RemoveFolder has a folder removed when this process has ended, if it is still there.
func RemoveFolder(path string) error { return tell("folder %s\n", path) }
