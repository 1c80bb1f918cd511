package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// readProcessors returns how long the processors were busy, and how long they existed, in ticks
// since the machine was started.
func readProcessors() (busy, all uint64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 6 || string(fields[0]) != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %q, not with the sum of all processors", line)
	}
	for i, field := range fields[1:min(len(fields), 9)] { // guests' time is included in users' time
		n, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		if all += n; i != 3 && i != 4 { // idle, and waiting for a disk
			busy += n
		}
	}
	return busy, all, nil
}
