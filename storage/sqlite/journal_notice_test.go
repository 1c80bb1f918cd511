package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

// A change of the journal's file is reported in the log.
func TestChangedJournalFilesAreTold(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(path, path+".old") },
		"cut":      func(path string) error { return os.Truncate(path, 1<<20) },
		"grown":    func(path string) error { return os.Truncate(path, 64<<20) },
	} {
		path := filepath.Join(t.TempDir(), "tally.db")
		notices := make(chan Notice, 10)
		s := journaled(t, Options{Path: path, Notice: func(n Notice) { notices <- n }})
		if s.Period() == 0 {
			t.Skip("there is no journal here")
		}
		if err := change(path + chargesSuffix); err != nil {
			t.Fatal(err)
		}
		if n := <-notices; !n.NewJournal || n.Cause == nil {
			t.Errorf("%s: notices are %+v", name, n)
		}
	}
}

func TestSmallJournalIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	var notices []Notice
	o := Options{Path: path, journalSizes: []journalSize{{2, 256}}, Notice: func(n Notice) { notices = append(notices, n) }}
	if s := journaled(t, o); s.Period() == 0 {
		t.Skip("there is no journal here")
	} else if err := s.Close(); err != nil || len(notices) != 0 {
		t.Fatalf("got %v, notices are %+v", err, notices)
	}
	o.journalSizes = nil
	if err := journaled(t, o).Close(); err != nil || len(notices) != 1 || !notices[0].SmallJournal {
		t.Errorf("got %v, notices are %+v", err, notices)
	}
}
