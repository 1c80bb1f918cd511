package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// node is a server of a cluster.
type node struct {
	*testserver.RedisServer
	id string
}

// ask sends a command, given as words with spaces between.
func (n *node) ask(t *testing.T, command string, more ...string) rueidis.RedisMessage {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{n.Address()}, ForceSingleClient: true, DisableCache: true, AlwaysRESP2: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	words := append(strings.Fields(command), more...)
	answer, err := client.Do(context.Background(), client.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return answer
}

// startCluster starts three primaries, the first of which has the keys of the store, and a replica
// of the first. Fewer primaries can't detect a failure.
func startCluster(t *testing.T) (primaries [3]*node, replica *node) {
	t.Helper()
	nodes := make([]*node, 4)
	var group sync.WaitGroup
	for i := range nodes {
		group.Go(func() {
			nodes[i] = &node{RedisServer: testserver.Redis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000")}
		})
	}
	group.Wait()
	for i, n := range nodes {
		n.id = n.text(t, "CLUSTER MYID")
		host, port, _ := net.SplitHostPort(nodes[0].Address())
		if i > 0 {
			n.ask(t, "CLUSTER MEET", host, port, nodes[0].Bus)
		}
	}
	slot := slotOf(t, nodes[0])
	nodes[0].ask(t, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", slot, slot+1)) // a node without any becomes a replica
	nodes[1].ask(t, fmt.Sprintf("CLUSTER ADDSLOTSRANGE 0 %d", slot-1))
	nodes[2].ask(t, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d 16383", slot+2))
	for i, n := range nodes {
		waitUntil(t, "the cluster to be ready", func() bool {
			return strings.Contains(n.text(t, "CLUSTER INFO"), "cluster_state:ok") && strings.Count(n.text(t, "CLUSTER NODES"), "connected") >= 4
		})
		if i == 3 {
			n.ask(t, "CLUSTER REPLICATE", nodes[0].id)
		}
	}
	waitUntil(t, "the replica to follow", func() bool {
		return strings.Contains(nodes[3].MustInfo(t, "replication"), "master_link_status:up")
	})
	return [3]*node(nodes[:3]), nodes[3]
}

func (n *node) text(t *testing.T, command string) string {
	t.Helper()
	answer := n.ask(t, command)
	text, err := answer.ToString()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return text
}

func slotOf(t *testing.T, n *node) int64 {
	t.Helper()
	answer := n.ask(t, "CLUSTER KEYSLOT", defaultPrefix)
	slot, err := answer.ToInt64()
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

func newEngine(t *testing.T, o Options) *engine.Engine {
	t.Helper()
	e := engine.New(engine.Options{Open: Opener(o), StoreTimeout: 20 * time.Second, Remote: true, Name: nameOf})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.Close(ctx)
	})
	<-e.Ready()
	return e
}

// use makes a number of requests, and returns how many are admitted.
func use(t *testing.T, e *engine.Engine, limit *engine.Limit, requests int) (admitted int) {
	t.Helper()
	for range requests {
		d := e.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: []byte("everybody"), Cost: 1}})
		if d.Degraded {
			t.Fatal("a decision was made without the server")
		}
		if d.Allowed {
			admitted++
		}
	}
	return admitted
}

// Several machines use a store in a cluster. Its slot moves to another node and back, and then its
// primary is killed.
func TestClusterOfFour(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped: it takes some ten seconds")
	}
	primaries, replica := startCluster(t)
	t.Run("Bans", func(t *testing.T) {
		wantOneBanned(t, opened(t, Options{Addresses: []string{primaries[1].Address()}, Prefix: "{bans}"}))
	})
	t.Run("SlotMigration", func(t *testing.T) { testSlotMigration(t, primaries) })
	t.Run("Failover", func(t *testing.T) { testClusterFailover(t, primaries, replica) })
}

// The primary with the counts is killed while its replica lags, and the replica is promoted. The
// machines notice this and charge their known usage, which is all that was admitted in the lost
// time. So together they admit no more than the limit. The return of the old primary changes
// nothing.
func testClusterFailover(t *testing.T, primaries [3]*node, replica *node) {
	const amount, kept, lost = 1000, 300, 200
	l, err := limiter.New(limiter.Params{Amount: amount, Window: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	limit := &engine.Limit{ID: 3, Rate: l}
	o := Options{Addresses: []string{primaries[1].Address(), primaries[2].Address()}, Timeout: 10 * time.Second}
	engines := []*engine.Engine{newEngine(t, o), newEngine(t, o)}
	admitted := use(t, engines[0], limit, kept/2) + use(t, engines[1], limit, kept/2)
	old := primaries[0]
	leaveBehind(t, old.RedisServer, replica.RedisServer)
	admitted += use(t, engines[0], limit, lost/2) + use(t, engines[1], limit, lost/2)
	for _, e := range engines { // what it admits may be charged since before
		use(t, e, &engine.Limit{ID: 2, Rate: l}, 1)
	}
	old.Kill()
	replica.ask(t, "CLUSTER FAILOVER FORCE")
	recovered := func() {
		t.Helper()
		for _, e := range engines {
			waitUntil(t, "the engines to notice, and to use the new primary", func() bool {
				stats := e.Stats(context.Background())
				return stats.LostWrites == 1 && !stats.Degraded
			})
		}
	}
	recovered()
	old.Run(t)
	waitUntil(t, "the old primary to follow", func() bool {
		return strings.Contains(old.MustInfo(t, "replication"), "role:slave")
	})
	recovered()
	for range amount {
		admitted += use(t, engines[0], limit, 1) + use(t, engines[1], limit, 1)
	}
	if admitted > amount || admitted < amount*3/4 { // a part is lost with the leases of both
		t.Errorf("%d of %d were admitted", admitted, amount)
	}
}

// leaveBehind stops the replication for good, once the replica has all writes.
func leaveBehind(t *testing.T, primary, replica *testserver.RedisServer) {
	t.Helper()
	waitUntil(t, "the replica to have all", func() bool {
		offset := func(s *testserver.RedisServer) string {
			return line(s.MustInfo(t, "replication"), "master_repl_offset")
		}
		return offset(primary) == offset(replica)
	})
	primary.Must(t, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
	primary.Must(t, "CLIENT", "KILL", "TYPE", "replica")
	waitUntil(t, "the replica to fall behind", func() bool {
		return strings.Contains(replica.MustInfo(t, "replication"), "master_link_status:down")
	})
}

// line returns the value of a line of INFO.
func line(info, name string) string {
	_, after, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(after, "\r")
	return value
}

// The slot of the store moves to another node and back, key by key, while machines use it. Each
// claim is charged once or fails without effect, and none has an unknown outcome.
func testSlotMigration(t *testing.T, primaries [3]*node) {
	slot, l := fmt.Sprint(slotOf(t, primaries[0])), yearly(t)
	open := Opener(Options{Addresses: []string{primaries[2].Address()}, Timeout: 10 * time.Second})
	stores := []*Store{openedBy(t, open), openedBy(t, open)}
	granted, refused := int64(0), 0
	claim := func() {
		t.Helper()
		for _, s := range stores {
			switch used, err := charge(context.Background(), s, l, 1); {
			case err == nil:
				if granted++; used != granted {
					t.Fatalf("%d units are in use, want %d", used, granted)
				}
			case errors.Is(err, storage.ErrUnknownOutcome), errors.Is(err, storage.ErrLostWrites), errors.Is(err, errBroken):
				t.Fatal(err)
			default:
				refused++
			}
		}
	}
	move := func(from, to *node) {
		t.Helper()
		claim()
		to.ask(t, "CLUSTER SETSLOT "+slot+" IMPORTING", from.id)
		from.ask(t, "CLUSTER SETSLOT "+slot+" MIGRATING", to.id)
		host, port, _ := net.SplitHostPort(to.Address())
		for {
			claim()
			list := from.ask(t, "CLUSTER GETKEYSINSLOT "+slot+" 1")
			keys, err := list.AsStrSlice()
			if err != nil {
				t.Fatal(err)
			}
			if len(keys) == 0 {
				break
			}
			from.ask(t, "MIGRATE", host, port, keys[0], "0", "5000")
		}
		for _, n := range []*node{to, from, primaries[2]} {
			n.ask(t, "CLUSTER SETSLOT "+slot+" NODE", to.id)
			claim()
		}
	}
	move(primaries[0], primaries[1])
	mustCharge(t, stores[0], l, 0)
	move(primaries[1], primaries[0])
	if used := mustCharge(t, openedBy(t, open), l, 1); used != granted+1 {
		t.Errorf("%d units are in use, want %d", used, granted+1)
	}
	if granted < 10 || refused == 0 {
		t.Errorf("%d claims were granted and %d refused while the slot moved", granted, refused)
	}
}
