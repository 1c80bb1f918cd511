//go:build !unix

package child

import "os/exec"

// Elsewhere, only tests that run to their end leave nothing behind.

func join(*exec.Cmd) error { return nil }

func removeFolder(string) error { return nil }
