//go:build unix

package child

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// script keeps the list of groups and folders. Its input ends when the process has that writes it.
const script = `
groups= folders=
while read -r what which; do
	case $what in
	start) groups="$groups $which" ;;
	end)
		left=
		for group in $groups; do [ "$group" = "$which" ] || left="$left $group"; done
		groups=$left ;;
	folder) folders="$folders$which
" ;;
	esac
done
for group in $groups; do kill -9 "-$group"; done
IFS='
'
for try in 1 2 3; do rm -rf -- $folders && break; sleep 1; done
`

// keeper is a process that ends and removes what is left. It is told by a pipe, of which only this
// process has the other end.
var keeper = sync.OnceValues(func() (*os.File, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdin = in
	lead(cmd) // no signal from a terminal is for it
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("a process that ends the children of the test: %w", err)
	}
	return out, nil
})

func tell(format string, what any) error {
	out, err := keeper()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, format, what)
	return err
}

// lead has a process lead a group of its own.
func lead(cmd *exec.Cmd) {
	attributes := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attributes = *cmd.SysProcAttr
	}
	attributes.Setpgid = !attributes.Setsid
	cmd.SysProcAttr = &attributes
}
