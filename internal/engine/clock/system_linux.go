package clock

import (
	"crypto/sha256"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-tally/caddy-tally/storage"
)

// bootSource returns the identity of the clock of bootTime: the machine's clock since its start, as
// seen in a time namespace (time_namespaces(7)). Every process there reads the same one.
func bootSource() (source storage.Source, shared bool) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || bootTime() == 0 || isVirtual() {
		return privateSource(), false
	}
	namespace, _ := os.Readlink("/proc/self/ns/time") // there is none before Linux 5.6
	sum := sha256.Sum256(append(boot, namespace...))
	copy(source[:], sum[:])
	return source, true
}

// isVirtual reports whether the time of Go is not the machine's, as in tests with virtual time.
func isVirtual() bool {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts)
	return err != nil || time.Since(time.Unix(ts.Unix())).Abs() > time.Second
}

// bootTime returns the nanoseconds since the machine was started, including sleep; 0 if they are
// unavailable.
func bootTime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
