package sqlite

import (
	"errors"
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
)

// A fold adds the records of some segments of the journal to the tables. It takes several segments,
// because more rows share pages then, and goes through the keys in order, in several transactions. Each
// transaction notes the progress. So every record is added once, whichever processes fold, and whenever
// one of them dies (decision 81).

// progress says which records of the journal are in the tables: all records up to the generation
// folded, and of the records up to the generation upto those whose keys have a prefix less than below.
//
// Invariant: below is 0 unless a fold of the segments between folded and upto has begun.
type progress struct {
	folded, upto uint32
	below        int
}

// prefixes is the number of prefixes of keys. Keys are hashes, so each prefix has about as many keys.
const prefixes = 1 << 10

// prefixOf returns the prefix of a key, its first ten bits.
func prefixOf(key *[16]byte) int { return int(key[0])<<2 | int(key[1])>>6 }

// has reports whether the tables have the records of a key in a segment.
func (p progress) has(generation uint32, key [16]byte) bool {
	return generation <= p.folded || generation <= p.upto && prefixOf(&key) < p.below
}

// begun reports whether a fold of some segments has begun. After a loss of power the segments of such a
// fold may be gone, because the journal isn't synced.
func (p progress) begun(segments []*journal.Segment) bool {
	return p.below > 0 && len(segments) > 0 && segments[0].Generation() <= p.upto
}

// batch returns the segments of the next fold out of those that are not folded completely: the segments
// of a fold that has begun, or else at most most of the next sealed ones.
func (p progress) batch(segments []*journal.Segment, most int) []*journal.Segment {
	begun, n := p.begun(segments), 0
	for n < len(segments) && segments[n].Sealed() {
		if begun && segments[n].Generation() > p.upto || !begun && n == most {
			break
		}
		n++
	}
	return segments[:n]
}

// foldSegments returns the maximum number of segments of a fold.
func foldSegments(j *journal.Journal) int { return max(min(4, j.Places()/8), 1) }

// newest returns the generation of the newest sealed segment, or 0.
func newest(segments []*journal.Segment) (generation uint32) {
	for _, s := range segments {
		if s.Sealed() {
			generation = s.Generation()
		}
	}
	return generation
}

// hurriedRows is about how many records one transaction folds while a caller waits for it.
const hurriedRows = 8192

// A fold takes tens of milliseconds of a processor. Go preempts a goroutine only every 10 ms, so requests
// would wait for it. A patient fold, for which no caller waits, works for some 200 µs at a time and rests
// in between for about as long.
const (
	patientRows = 64  // folded by one transaction
	easyRows    = 512 // read from the journal at a time
	restFor     = 300 * time.Microsecond
)

// fold has the records of some segments on their way to the tables.
type fold struct {
	segments []*journal.Segment
	runs     []run    // the records of each segment
	done     progress // the expected progress of the database
	read     bool     // the runs are complete
	damaged  int      // the number of damaged records
	limits   knownLimits

	raw, part []journal.Record // of one segment, and of one transaction
}

// run has the records of a segment, sorted by the prefixes of their keys. Records with one prefix are in
// the order in which they were added.
type run struct {
	records []journal.Record
	ends    [prefixes]int // the end of each prefix's records
}

// begin makes f the fold of some segments.
func (f *fold) begin(done progress, segments []*journal.Segment) {
	f.segments, f.done, f.read, f.damaged, f.limits.known = segments, done, false, 0, nil
}

// follow makes f continue at the progress of the database. It reports whether that is possible: either
// nothing has changed, or another process has continued the same fold.
func (f *fold) follow(done progress) bool {
	if done != f.done && (done.folded != f.done.folded || done.upto != f.last() || !done.begun(f.segments)) {
		return false
	}
	f.done = done
	return true
}

// last returns the generation of the last segment.
func (f *fold) last() uint32 { return f.segments[len(f.segments)-1].Generation() }

// readAll reads the records of all segments with a method of [journal.Segment]. It calls rest between
// parts of the work.
func (f *fold) readAll(read func(s *journal.Segment, from, to int, f func(int, *journal.Record)) (damaged int,
	err error), rest func()) error {
	for len(f.runs) < len(f.segments) {
		f.runs = append(f.runs, run{})
	}
	for i, segment := range f.segments {
		f.raw = f.raw[:0]
		for from, n := 0, segment.Len(); from < n; from += easyRows {
			rest()
			damaged, err := read(segment, from, min(from+easyRows, n),
				func(_ int, r *journal.Record) { f.raw = append(f.raw, *r) })
			if err != nil {
				return err
			}
			f.damaged += damaged
		}
		rest()
		f.runs[i].sort(f.raw)
	}
	f.read = true
	return nil
}

// sort sets the records of a run, and sorts them by prefix.
func (r *run) sort(records []journal.Record) {
	r.ends = [prefixes]int{}
	for i := range records {
		r.ends[prefixOf(&records[i].Key)]++
	}
	sum := 0
	for prefix, n := range r.ends {
		r.ends[prefix] = sum // the place of the next record with this prefix
		sum += n
	}
	if cap(r.records) < sum {
		r.records = make([]journal.Record, sum)
	}
	r.records = r.records[:sum]
	for i := range records {
		end := &r.ends[prefixOf(&records[i].Key)]
		r.records[*end] = records[i]
		*end++
	}
}

// withPrefix returns the records of keys with a prefix.
func (r *run) withPrefix(prefix int) []journal.Record {
	from := 0
	if prefix > 0 {
		from = r.ends[prefix-1]
	}
	return r.records[from:r.ends[prefix]]
}

// next returns about rows records of the next keys, and the progress once they are folded. It returns all
// records of each of these keys, in the order in which they were added.
func (f *fold) next(rows int) ([]journal.Record, progress) {
	f.part = f.part[:0]
	below := 0
	if f.done.begun(f.segments) {
		below = f.done.below
	}
	for ; below < prefixes && len(f.part) < rows; below++ {
		for i := range f.segments {
			f.part = append(f.part, f.runs[i].withPrefix(below)...)
		}
	}
	if below == prefixes {
		return f.part, progress{folded: f.last()}
	}
	return f.part, progress{f.done.folded, f.last(), below}
}

// folds brings the records of a journal to the tables.
type folds struct {
	tx      *transactions
	options *Options
	periods *periods

	// The lock of transactions guards these.
	folding folding
	hurried fold // one that a caller waits for
	apart   bool // the caller holds periods.reading

	patient patient
}

// patient has the state of patient folds. Its lock is taken before that of the write connection.
type patient struct {
	lock     sleeplock.Lock
	fold     fold
	sealedAt time.Time // when a segment was last sealed because of its age
}

// foldSome folds sealed segments. If old is set, it folds all of them, and seals the current segment
// first unless it did so lately. Otherwise it leaves fewer segments than a whole fold for later.
func (fs *folds) foldSome(a *alone, old bool) {
	if a == nil {
		return
	}
	fs.patient.lock.Lock()
	defer fs.patient.lock.Unlock()
	if old && time.Since(fs.patient.sealedAt) >= foldEvery {
		fs.patient.sealedAt = time.Now()
		a.journal.Seal()
	}
	least := 1
	if !old {
		least = foldSegments(a.journal)
	}
	// After an error the next call retries. Meanwhile the charges stay in the journal, which has room for a while.
	_ = fs.foldSealed(a, least)
}

// foldForSweep folds all records that exist before a sweep. No request waits for it.
func (fs *folds) foldForSweep(a *alone) error {
	fs.patient.lock.Lock()
	defer fs.patient.lock.Unlock()
	a.journal.Seal()
	return fs.foldSealed(a, 1)
}

// foldSealed folds sealed segments patiently, except for segments that are sealed meanwhile, because there
// may always be more. Each fold has at least least segments. The caller holds the lock of patient.
func (fs *folds) foldSealed(a *alone, least int) error {
	last := newest(a.journal.Segments(a.folded.Load()))
	for a.folded.Load() < last {
		if more, err := fs.foldPatiently(a, least); err != nil || !more {
			return err
		}
	}
	return nil
}

// foldPatiently folds the next segments, if at least least are sealed, and reports whether there may be
// more. It locks the write connection only for short transactions, and rests in between unless the
// journal fills up. The caller holds the lock of patient.
func (fs *folds) foldPatiently(a *alone, least int) (more bool, err error) {
	f := &fs.patient.fold
	if err := fs.beginPatiently(a, f); err != nil || len(f.segments) < least {
		return false, err
	}
	rest := func() { // filling also notes how full the journal is
		if !a.filling() {
			fs.options.rest(restFor)
		}
	}
	// If another process folds and erases the segments meanwhile, the progress is not the expected one.
	if err := f.readAll((*journal.Segment).Read, rest); err != nil {
		return false, err
	}
	for over := false; !over; {
		if over, err = fs.foldPart(a, f); err != nil {
			return false, err
		}
		rest()
	}
	return true, nil
}

// beginPatiently begins a fold of the next segments, or of none.
func (fs *folds) beginPatiently(a *alone, f *fold) error {
	fs.tx.mu.Lock()
	defer fs.tx.mu.Unlock()
	f.segments = nil
	if fs.tx.closed || !fs.periods.lasts(a) {
		return nil
	}
	id, done, err := fs.periods.journalStateLocked()
	if err != nil || id != a.journal.ID() {
		return fs.tx.place.failed(err)
	}
	f.begin(done, done.batch(a.journal.Segments(done.folded), foldSegments(a.journal)))
	return errors.Join(fs.settle(f), a.journal.Err())
}

// settle waits until all records of a fold are written.
func (fs *folds) settle(f *fold) error {
	for _, segment := range f.segments {
		if err := fs.periods.journal.Settle(segment); err != nil {
			return err
		}
	}
	return nil
}

// foldPart adds the next records of a patient fold to the tables, and reports whether the fold is over.
func (fs *folds) foldPart(a *alone, f *fold) (over bool, err error) {
	fs.tx.mu.Lock()
	defer fs.tx.mu.Unlock()
	if fs.tx.closed || !fs.periods.lasts(a) {
		return true, nil
	}
	over, err = fs.foldPartLocked(f, patientRows)
	return over, fs.tx.place.failed(wrap("fold", err))
}

// makeRoom folds some records if the journal has little room left, so that claims are not faster than
// the database for long.
func (fs *folds) makeRoom(a *alone) error {
	if !a.crowded.Load() {
		return nil
	}
	fs.tx.mu.Lock()
	defer fs.tx.mu.Unlock()
	if fs.tx.closed || fs.periods.alone.Load() != a {
		return nil
	}
	_, err := fs.hurryLocked(math.MaxUint32)
	return fs.tx.place.failed(err)
}

// foldAllLocked folds all earlier records, so that a transaction finds them in the tables.
func (fs *folds) foldAllLocked() error {
	if !fs.periods.unfolded {
		return nil
	}
	alone := fs.periods.alone.Load() != nil
	if alone {
		fs.periods.journal.Seal()
	} else {
		fs.periods.journal.Disown()
	}
	_, done, err := fs.periods.journalStateLocked()
	if err != nil {
		return err
	}
	fs.hurried.segments = nil
	last := newest(fs.periods.journal.Segments(done.folded)) // charges at once may add more
	for over := false; !over; {
		if over, err = fs.hurryLocked(last); err != nil {
			return err
		}
	}
	if err := fs.periods.journal.Err(); err != nil {
		return err // unreadable records are lost: the caller must open the database again
	}
	fs.periods.unfolded = alone
	return nil
}

// foldRestLocked is foldAllLocked for a caller that holds periods.reading, so that there are no readers of segments.
func (fs *folds) foldRestLocked() error {
	fs.apart = true
	defer func() { fs.apart = false }()
	return fs.foldAllLocked()
}

// hurryLocked folds some of the sealed records up to a generation, and reports whether there are none left.
func (fs *folds) hurryLocked(last uint32) (over bool, err error) {
	id, done, err := fs.periods.journalStateLocked()
	if err != nil || id != fs.periods.journal.ID() || done.folded >= last {
		return true, err
	}
	f := &fs.hurried
	if len(f.segments) == 0 || !f.follow(done) {
		f.begin(done, done.batch(fs.periods.journal.Segments(done.folded), foldSegments(fs.periods.journal)))
		if len(f.segments) == 0 {
			return true, nil
		}
		if err := fs.settle(f); err != nil {
			return false, err
		}
	}
	_, err = fs.foldPartLocked(f, hurriedRows)
	return false, err
}

// foldPartLocked adds about rows records of a fold to the tables, and reports whether the fold is over:
// all its records are in the tables, or other processes have continued it.
func (fs *folds) foldPartLocked(f *fold, rows int) (over bool, err error) {
	next, stale := progress{}, false
	err = fs.tx.doLocked(func() (written int64, err error) {
		id, done, err := fs.periods.readState()
		if stale = err == nil && (id != fs.periods.journal.ID() || !f.follow(done)); err != nil || stale {
			return 0, err
		}
		if !f.read { // the segments are not folded, so no process has erased them
			if err := f.readAll((*journal.Segment).ReadPending, func() {}); err != nil {
				return 0, err
			}
		}
		var records []journal.Record
		records, next = f.next(rows)
		return fs.folding.run(&f.limits, records, next)
	})
	if err != nil || stale {
		f.segments = nil
		return stale, err
	}
	if f.done = next; next.below > 0 {
		return false, nil
	}
	segments, damaged := f.segments, f.damaged
	*f = fold{} // up to 4 MiB, which the next fold allocates again in less time than one of its rows takes
	if damaged > 0 {
		fs.options.notify(Notice{Damaged: damaged, Path: fs.options.Path})
	}
	return true, fs.dropLocked(segments)
}

// dropLocked overwrites folded segments and frees them for reuse. So keys that are deleted from the
// database remain in no file.
func (fs *folds) dropLocked(segments []*journal.Segment) (err error) {
	a, last := fs.periods.alone.Load(), segments[len(segments)-1].Generation()
	if a != nil {
		if !fs.apart {
			fs.periods.reading.Lock() // until readers of the segments have finished
			defer fs.periods.reading.Unlock()
		}
		a.folded.Store(last)
	}
	for _, segment := range segments {
		err = errors.Join(err, fs.periods.journal.Erase(segment))
	}
	if a != nil {
		fs.periods.journal.Free(last)
		a.filling()
	}
	return err
}

// filling reports whether more than half of the journal is not folded. It also notes whether there is
// little room left.
func (a *alone) filling() bool {
	n, places := len(a.journal.Segments(a.folded.Load())), a.journal.Places()
	a.crowded.Store(n > places-max(places/crowdedShare, 1))
	return n > places/2
}
