package engine // fleet

import (
	"errors"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// poller asks the store what other processes changed, on its own goroutine, so that claims wait
// neither for the round trip nor for the search for the clients to be read again. The committer says
// when to ask, and receives the reply.
type poller struct {
	committer *committer
	asks      int           // for the goroutine only: how many questions were asked
	notes     notes         // likewise
	asked     chan question // holds one at most
	heard     chan reply    // likewise, for the committer
	tasks     chan *task    // to put notes
	begun     chan struct{} // closed when the first question is dealt with

	mu    sync.Mutex
	names map[storage.Key]struct{} // guarded by mu: names of clients to be read again
	woken chan struct{}            // holds one token when there are any

	stop <-chan struct{} // closed to stop the goroutine
	done chan struct{}   // closed when it has ended
}

// question is a request to a store for news.
type question struct {
	store *opened
	seen  storage.Seen
}

// reply is the store's answer.
type reply struct {
	question
	news storage.News
	err  error
}

func newPoller(m *committer, stop <-chan struct{}) poller {
	return poller{
		committer: m, asked: make(chan question, 1), heard: make(chan reply, 1), woken: make(chan struct{}, 1),
		tasks: make(chan *task), begun: make(chan struct{}),
		stop: stop, done: make(chan struct{}),
	}
}

// loop runs until stop is closed.
func (p *poller) loop() {
	defer close(p.done)
	for {
		select {
		case q := <-p.asked:
			p.ask(q)
		case t := <-p.tasks:
			t.answer(t.do())
		case <-p.woken:
			p.reread(p.take())
		case <-p.stop:
			return
		}
	}
}

func (p *poller) ask(q question) {
	q.seen.Notes = p.notesSeen(q.store.network)
	ctx, cancel := p.committer.conn.call()
	defer cancel()
	a := reply{question: q}
	a.news, a.err = q.store.network.News(ctx, q.seen)
	select {
	case p.heard <- a:
	case <-p.stop:
	}
	if a.err == nil && q.seen.Notes >= 0 {
		p.takeNotes(q.store.network, a.news)
	}
	p.asks++
	if p.asks == 1 {
		close(p.begun)
	}
	p.join(a)
}

// join registers this machine again as a user of a store on a network, from time to time and when
// the number of machines has changed.
func (p *poller) join(a reply) {
	conn := &p.committer.conn
	if a.err != nil || !conn.onNetwork.Load() {
		return
	}
	regular := p.asks%joinEvery == 1
	if regular || a.news.Processes != 0 && int64(a.news.Processes) != conn.processes() {
		_ = p.committer.conn.join() // if it fails, the janitor's next join does as well
	}
	if regular {
		p.forgetNotes()
	}
}

// askEvery is how long a machine makes no call to a store on a network before it asks for the time.
const askEvery = 5 * time.Second

// joinEvery is the number of questions between two registrations of a machine with a store on a
// network.
const joinEvery = 16

// look makes the poller ask the store for changes by other processes, and gives back units that
// they may be waiting for. From a store on one machine it takes the resets.
func (cm *committer) look() {
	if cm.degraded.Load() {
		return
	}
	cm.leases.noticeOthers()
	cm.leases.takeBack()
	cm.leases.resume()
	cm.queue.hurry()
	store := cm.conn.store.Load()
	if cm.conn.onNetwork.Load() && cm.clock.Elapsed()-cm.conn.stamp.Elapsed > int64(askEvery) {
		cm.beginAsking() // so that this machine stays a witness of the time
	}
	if cm.conn.network() == nil {
		cm.noticeLoss(cm.eraser.takeResets(nil)) // if this fails otherwise, so does the next claim
		return
	}
	select {
	case cm.poller.asked <- question{store, storage.Seen{Resets: cm.conn.resets.Load(), Changes: cm.changes}}:
	default: // the last question has no answer yet
	}
}

// noticeLoss degrades if an error says that the store has lost writes or is damaged. While there are no claims,
// nobody else may notice.
func (cm *committer) noticeLoss(err error) {
	if errors.Is(err, storage.ErrLostWrites) || errors.Is(err, storage.ErrCorrupt) {
		cm.degrade(err)
	}
}

// hear handles a reply from the store.
func (cm *committer) hear(a reply) {
	switch {
	case a.store != cm.conn.store.Load() || cm.degraded.Load():
	case a.err != nil:
		cm.noticeLoss(a.err)
	default:
		if a.seen.Resets == cm.conn.resets.Load() { // otherwise a claim has found them meanwhile
			cm.eraser.forgetResets(a.news.Resets, nil)
		}
		cm.changes = a.news.Newest
		cm.poller.add(a.news.Changed)
	}
}

// beginNews learns the newest change of a record, unless the store continues one whose changes are
// known. Memory must know it before it reads records.
func (cm *committer) beginNews(continues bool) error {
	network := cm.conn.network()
	if network == nil || continues && cm.changes >= 0 {
		return nil
	}
	ctx, cancel := cm.conn.call()
	defer cancel()
	news, err := network.News(ctx, storage.Seen{Resets: cm.conn.newest, Changes: -1, Notes: -1})
	cm.changes = news.Newest
	return err
}

// add schedules the records of clients to be read again. If too many are scheduled already, records
// are read with the next claim of their client.
func (p *poller) add(changed []storage.Client) {
	if len(changed) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == nil {
		p.names = make(map[storage.Key]struct{})
	}
	for _, client := range changed {
		if len(p.names) >= 2*storage.MaxChanges {
			break
		}
		p.names[client.Key] = struct{}{}
		if client.Former != (storage.Key{}) {
			p.names[client.Former] = struct{}{}
		}
	}
	put(p.woken)
}

// take returns the scheduled names, and empties the schedule.
func (p *poller) take() map[storage.Key]struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := p.names
	p.names = nil
	return names
}

// reread makes the open batch read the records of clients with some names in the store.
func (p *poller) reread(names map[storage.Key]struct{}) {
	p.committer.table.each(func(c cell) {
		if c.client() != nil && isNamed(c, names) {
			p.committer.queue.join(func(b *batch) { b.readCellLocked(c) })
		}
	})
}

// isNamed reports whether the name under which a client's record was read is in names.
func isNamed(c cell, names map[storage.Key]struct{}) bool {
	c.Lock()
	defer c.Unlock()
	_, named := names[c.known.name]
	return named
}
