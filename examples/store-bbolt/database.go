package bboltstore

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Options say how a database is opened.
type Options struct {
	// Path is the file. It and its folder are created if they do not exist.
	Path string
	// MaxSize is the maximum size of the used part of the file in bytes. When it is reached, claims fail until a
	// sweep makes room. Zero means 1 GiB.
	MaxSize int64
	// Timeout is how long opening waits for another process that uses the file. Zero means a second.
	Timeout time.Duration
	// NoSync leaves out the fsync of commits, for tests: a loss of power can then damage the file.
	NoSync bool
}

// The buckets.
var (
	about   = []byte("about")
	counts  = []byte("counts")
	clients = []byte("clients")
	resets  = []byte("resets")
)

// list returns the bucket of a list of acts.
func list(log storage.Log) []byte { return fmt.Append(nil, "acts", log) }

// swept are the buckets with rows that expire.
var swept = []struct {
	name  []byte
	unset bool // times of rows are as if the time of the store had never been set
}{{counts, false}, {clients, true}, {resets, true}, {list(storage.Audit), false}, {list(storage.Charges), false}}

// version is that of the format. A program with another one doesn't open the file.
const version = "1"

// database is an open file.
type database struct {
	*bolt.DB
	path     string
	id       string // of the file since it was made
	openings uint64 // how often the file has been opened
	stores   int    // that use it, guarded by open

	sweeping struct { // where the next step of a sweep begins; guarded by bbolt's lock on writing
		bucket int
		after  []byte
	}
}

// open has the databases of this process, by their paths.
var open = struct {
	sync.Mutex
	databases map[string]*database
}{databases: make(map[string]*database)}

// acquire opens a database, or returns the one that is open.
func acquire(o Options) (*database, error) {
	open.Lock()
	defer open.Unlock()
	db := open.databases[o.Path]
	if db == nil {
		var err error
		if db, err = openFile(o); err != nil {
			return nil, err
		}
		open.databases[o.Path] = db
	}
	db.stores++
	return db, nil
}

// release closes the database after its last store.
func (db *database) release() error {
	open.Lock()
	defer open.Unlock()
	if db.stores--; db.stores > 0 {
		return nil
	}
	delete(open.databases, db.path)
	return db.Close()
}

func openFile(o Options) (*database, error) {
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, err
	}
	file, err := bolt.Open(o.Path, 0o600, &bolt.Options{Timeout: cmp.Or(o.Timeout, time.Second), NoSync: o.NoSync})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("another process uses %s, and a bbolt database is for one: %w", o.Path, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err,
		bolterrors.ErrChecksum):
		return nil, fmt.Errorf("%w: %w", storage.ErrForeign, err)
	case err != nil:
		return nil, err
	}
	db := &database{DB: file, path: o.Path}
	if err := file.Update(db.prepare); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return db, nil
}

// prepare makes the buckets of a new file, and counts the openings.
func (db *database) prepare(tx *bolt.Tx) (err error) {
	b := tx.Bucket(about)
	if b == nil {
		if name, _ := tx.Cursor().First(); name != nil {
			return fmt.Errorf("%w: it has the bucket %q", storage.ErrForeign, name)
		}
		for _, bucket := range swept {
			if _, err := tx.CreateBucket(bucket.name); err != nil {
				return err
			}
		}
		if b, err = tx.CreateBucket(about); err != nil {
			return err
		}
		err = errors.Join(b.Put([]byte("version"), []byte(version)), b.Put([]byte("id"), []byte(rand.Text())))
	} else if made := string(b.Get([]byte("version"))); made != version {
		err = fmt.Errorf("%w: its format has the version %q, expected %q", storage.ErrForeign, made, version)
	}
	if err == nil {
		db.id = string(b.Get([]byte("id")))
		db.openings, err = b.NextSequence()
	}
	return err
}

// never is the expiry of rows that don't expire.
const never = 1<<63 - 1

// read decodes a row, and returns the time when it expires. A damaged row counts as none.
func read(row []byte, value any) (expires int64, found bool) {
	if len(row) < 8 || json.Unmarshal(row[8:], value) != nil {
		return 0, false
	}
	return expiresOf(row), true
}

func expiresOf(row []byte) int64 { return int64(binary.BigEndian.Uint64(row)) }

// put writes a row, unless it is there already.
func (c *call) put(bucket, key []byte, value any, expires int64) {
	text, err := json.Marshal(value)
	b, row := c.Bucket(bucket), append(binary.BigEndian.AppendUint64(nil, uint64(expires)), text...)
	if err == nil && !bytes.Equal(b.Get(key), row) {
		c.changed = true
		err = b.Put(key, row)
	}
	c.err = cmp.Or(c.err, err)
}

// remove deletes a row, and reports whether there was one.
func (c *call) remove(bucket, key []byte) (found bool) {
	b := c.Bucket(bucket)
	if found = b.Get(key) != nil; found {
		c.changed = true
		c.err = cmp.Or(c.err, b.Delete(key))
	}
	return found
}

// number returns a key whose order is that of numbers.
func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)^1<<63) }
