package mysql

import (
	"context"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// On a server whose sessions begin without autocommit, the writes of one machine are visible to
// another one that has read before.
func TestServersWithoutAutocommit(t *testing.T) {
	proof.Only(t)
	server := kind.Server(t)
	set := func(statement string) {
		if err := kind.Exec(server.DSN(server.Port), statement); err != nil {
			t.Fatal(err)
		}
	}
	set("SET GLOBAL autocommit = OFF")
	defer set("SET GLOBAL autocommit = ON")
	open, ctx := kind.Place(t, server, server.Port, kind.Options()), context.Background()
	var stores [2]*sqlstore.Store
	for i := range stores {
		s, err := open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores[i] = s.(*sqlstore.Store)
		if news, err := stores[i].News(ctx, storage.Seen{}); err != nil || len(news.Notes) > 0 {
			t.Fatalf("the news of a new store are %+v (%v)", news, err)
		}
	}
	if _, err := stores[0].SwapValue(ctx, "name", nil, []byte("value")); err != nil {
		t.Fatal(err)
	}
	if values, err := stores[1].Values(ctx); err != nil || string(values["name"]) != "value" {
		t.Errorf("the other machine has the values %q (%v)", values, err)
	}
	if err := stores[0].PutNotes(ctx, []storage.Note{{Version: 1}}, false); err != nil {
		t.Fatal(err)
	}
	if news, err := stores[1].News(ctx, storage.Seen{}); err != nil || len(news.Notes) != 1 {
		t.Errorf("the other machine knows of the notes %+v (%v)", news.Notes, err)
	}
}
