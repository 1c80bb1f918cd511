//go:build unix

package child

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// script runs until its input ends, which is when the process that writes it ends. Then it ends the
// members of a group and their children in other groups, such as those of a Postgres server: they
// end by themselves, but not while they are stopped. Finally it unmounts everything in the
// registered folders, and removes them.
const script = `
folders=
while read -r folder; do folders="$folders$folder
"; done
apart=$(ps -A -o pid= -o ppid= -o pgid= | awk -v g="$1" '
{ parent[$1] = $2; group[$1] = $3 }
END { for (pid in parent) if (group[pid] != g && group[parent[pid]] == g) print pid }')
kill -9 "-$1" $apart
IFS='
'
for folder in $folders; do
	grep -F " $folder/" /proc/mounts | while IFS=' ' read -r _ disk _; do umount -l "$disk"; done
done 2>/dev/null
for try in 1 2 3; do rm -rf -- $folders && break; sleep 1; done
`

// keeper is a process that cleans up. It is controlled by a pipe. Only this process has the other
// end, and for a moment the processes that it is about to start: when the pipe ends they are in the
// group.
type keeper struct {
	group int
	input *os.File
}

var running = sync.OnceValues(func() (k keeper, err error) {
	leader, _, err := background("cat") // does nothing but keep the group alive
	if err != nil {
		return k, err
	}
	_, input, err := background("sh", "-c", script, "sh", strconv.Itoa(leader))
	return keeper{leader, input}, err
})

// background starts a process that leads a group, so that no signal from a terminal reaches it,
// with a pipe as its input.
func background(program string, args ...string) (pid int, input *os.File, err error) {
	in, input, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer in.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.SysProcAttr = in, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("a process that ends the children of the test: %w", err)
	}
	inputs = append(inputs, input)
	return cmd.Process.Pid, input, nil
}

// inputs stay open as long as this process runs.
var inputs []*os.File

// join makes a process start in the group that keeper ends.
func join(cmd *exec.Cmd) error {
	k, err := running()
	if err != nil {
		return err
	}
	attributes := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attributes = *cmd.SysProcAttr
	}
	attributes.Setpgid, attributes.Pgid = true, k.group
	cmd.SysProcAttr = &attributes
	return nil
}

func removeFolder(path string) error {
	k, err := running()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(k.input, path)
	return err
}
