//go:build !unix

package child

import "os/exec"

// Elsewhere, only tests that run to their end leave nothing behind.

func tell(string, any) error { return nil }

func lead(*exec.Cmd) {}
