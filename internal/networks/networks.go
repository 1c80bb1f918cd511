// Package networks finds the country and the autonomous system (AS) of an address in local files,
// in the format of MaxMind: those of MaxMind, IPinfo, DB-IP and others. It asks no service.
package networks

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/oschwald/maxminddb-golang/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/carried"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Files are the files of a config. Their methods may be called from any number of goroutines.
type Files []*file

// file is a file in memory, read again after it changes.
type file struct {
	*textfile.File[table]
	end  context.CancelFunc // ends the goroutine
	done sync.WaitGroup     // for the goroutine to end
}

// files are those in use by any config, by their paths. A reload keeps the last good version.
var files = caddy.NewUsagePool()

const (
	// lookEvery is how often a file is checked for changes.
	lookEvery = 10 * time.Second
	// maxSize bounds the memory of a file.
	maxSize = 512 << 20
)

// Acquire opens files. One that is in use already is read again if it has changed; if it can't be
// used then, its last good version stays in force, and that is logged. After an error nothing is
// open.
func Acquire(paths []string) (Files, error) {
	var list Files
	for _, path := range paths {
		f, err := acquire(path)
		if err != nil {
			list.Release()
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

func acquire(path string) (*file, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	value, inUse, err := files.LoadOrNew(path, func() (caddy.Destructor, error) { return open(path) })
	if err != nil {
		return nil, err
	}
	f := value.(*file)
	if inUse {
		f.Reload()
	}
	return f, nil
}

// Release gives up the files. A file that no config uses is closed.
func (f Files) Release() {
	for _, f := range f {
		_, _ = files.Delete(f.Path()) // returns no error
	}
}

// open reads a file, which must exist, and begins to watch it.
func open(path string) (*file, error) {
	log := caddy.Log().Named("rate_limit").With(zap.String("file", path))
	read, err := textfile.Open(textfile.Options[table]{
		Prefix: "networks", Path: path, MaxSize: maxSize, Required: true, Parse: parse,
		Changed: func(_ *table, err error) {
			if err != nil {
				log.Warn("the file of networks can't be used; its last good version stays in force", zap.Error(err))
				return
			}
			log.Info("the file of networks was read again")
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	f := &file{File: read, end: end}
	f.done.Go(func() { f.watch(ctx) })
	return f, nil
}

// watch reads the file again when it has changed: a large one takes too long for a request.
func (f *file) watch(ctx context.Context) {
	for {
		select {
		case <-time.After(lookEvery):
			f.Look()
		case <-ctx.Done():
			return
		}
	}
}

// Destruct implements caddy.Destructor. It ends watching the file.
func (f *file) Destruct() error {
	f.end()
	f.done.Wait()
	return nil
}

// Country returns the country of an address, such as "DE" (ISO 3166-1), or "" if it isn't known.
func (f Files) Country(addr netip.Addr) string { return f.find(addr, countryOf) }

// ASN returns the autonomous system of an address, such as "AS64496", or "" if it isn't known.
func (f Files) ASN(addr netip.Addr) string { return f.find(addr, asnOf) }

// find returns the first value for an address, or for the IPv4 address that it carries, by which it is
// counted.
func (f Files) find(addr netip.Addr, valueOf func(maxminddb.Result) string) string {
	addr = carried.Of(addr)
	for _, f := range f {
		if value := valueOf(f.Value().reader.Lookup(addr)); value != "" {
			return value
		}
	}
	return ""
}

// HaveCountries reports whether a file has countries.
func (f Files) HaveCountries() bool { return f.have(func(t *table) bool { return t.countries }) }

// HaveASNs reports whether a file has autonomous systems.
func (f Files) HaveASNs() bool { return f.have(func(t *table) bool { return t.asns }) }

func (f Files) have(what func(*table) bool) bool {
	for _, f := range f {
		if what(f.Value()) {
			return true
		}
	}
	return false
}

// table is the content of a file.
type table struct {
	reader          *maxminddb.Reader
	countries, asns bool
}

// sampled is how many networks of a file are examined for what it has.
const sampled = 1000

// parse examines a file. One without countries and autonomous systems is another kind of file.
func parse(text []byte) (*table, error) {
	reader, err := maxminddb.OpenBytes(text)
	if err != nil {
		return nil, fmt.Errorf("it is no file in the format of MaxMind (.mmdb), or a part of one: %w", err)
	}
	t, n := &table{reader: reader}, 0
	for network := range reader.Networks() {
		t.countries = t.countries || countryOf(network) != ""
		t.asns = t.asns || asnOf(network) != ""
		if n++; n == sampled || network.Err() != nil {
			break
		}
	}
	if !t.countries && !t.asns {
		return nil, fmt.Errorf("it has neither countries nor autonomous systems: its type is %.50q",
			reader.Metadata.DatabaseType)
	}
	return t, nil
}

// countryOf returns the country of a network: `country.iso_code` of MaxMind, or `country_code` or
// `country` of IPinfo.
func countryOf(network maxminddb.Result) string {
	for _, path := range [][]any{{"country", "iso_code"}, {"country_code"}, {"country"}} {
		var code string
		if network.DecodePath(&code, path...) == nil && IsCountry(code) {
			return code
		}
	}
	return ""
}

// asnOf returns the autonomous system of a network: `autonomous_system_number` of MaxMind, or `asn`
// of IPinfo.
func asnOf(network maxminddb.Result) string {
	var number uint32
	if network.DecodePath(&number, "autonomous_system_number") == nil && number > 0 {
		return "AS" + strconv.FormatUint(uint64(number), 10)
	}
	var text string
	if network.DecodePath(&text, "asn") == nil {
		asn, _ := ParseASN(text)
		return asn
	}
	return ""
}

// IsCountry reports whether a text is the code of a country, such as "DE".
func IsCountry(code string) bool {
	return len(code) == 2 && 'A' <= min(code[0], code[1]) && max(code[0], code[1]) <= 'Z'
}

// ParseASN returns the one spelling of an autonomous system, such as "AS64496", whose number may
// also stand alone.
func ParseASN(text string) (asn string, ok bool) {
	digits := strings.TrimPrefix(strings.ToUpper(text), "AS")
	number, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || number == 0 {
		return "", false
	}
	return "AS" + strconv.FormatUint(number, 10), true
}
