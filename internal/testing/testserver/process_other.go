//go:build !linux

package testserver

import "syscall"

func asNobody() *syscall.SysProcAttr { return nil }

func giveAway(string) error { return nil }

func killAll(int) {}

func pauseAll(int) {}

func resumeAll(int) {}
