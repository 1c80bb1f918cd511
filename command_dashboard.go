package tally

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/dashboard"
)

// dashboardCommand returns `caddy rate-limit dashboard`.
func dashboardCommand(at *adminEndpoint) *cobra.Command {
	var readOnly bool
	var port uint16
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Shows the dashboard in a browser on this machine",
		Long: `Serves the dashboard of a running Caddy to a browser on this machine, until Ctrl-C,
and prints the address to open. The address works once; the browser that opened
it stays in.

From afar, run it on the server over ssh, which forwards the port:

  ssh -t -L 8042:127.0.0.1:8042 server caddy rate-limit dashboard --port 8042

Then open the address on your own machine. Others who are logged in on the server
can't get in: they don't have the address.

What is done here is noted in the audit as done by "admin".`,
		Example: "  caddy rate-limit dashboard --read-only",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("got %q: expected caddy rate-limit dashboard", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmp.Or(cmd.Context(), context.Background()), os.Interrupt, syscall.SIGTERM)
			defer stop()
			service, err := at.connect(cmd)
			if err != nil {
				return err
			}
			if _, err := service.Status(ctx); err != nil {
				return err
			}
			served, err := dashboard.New(dashboard.Options{
				Service: service, Writable: !readOnly,
				Report: func(err error) { fmt.Fprintf(cmd.ErrOrStderr(), "%q\n", err.Error()) },
			})
			if err != nil {
				return err
			}
			return openDoor(ctx, cmd.OutOrStdout(), dashboard.NewDoor(served), port)
		},
	}
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "Show everything and change nothing")
	cmd.Flags().Uint16Var(&port, "port", 0, "The port of 127.0.0.1 to listen on; 0 chooses a free one")
	return cmd
}

// openDoor serves the dashboard on loopback until ctx ends, and prints where.
func openDoor(ctx context.Context, out io.Writer, door *dashboard.Door, port uint16) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	_, listening, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Open this address. It works once. Ctrl-C ends the dashboard.\n\n%s\n", door.URL(listening))
	return door.Serve(ctx, listener)
}
