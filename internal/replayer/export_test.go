package replayer

import (
	"context"
	"errors"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/replay"
)

// Judged replays a log and calls seen with each verdict, which is valid until seen returns.
func (c *Config) Judged(log *accesslog.Merger, seen func(*accesslog.Record, *replay.Verdict)) error {
	judge := newJudge(c)
	_, err := replay.Run(context.Background(), log, listener{judge, seen}, replay.Options{})
	return errors.Join(err, judge.close())
}

// listener is a judge whose verdicts a test sees.
type listener struct {
	*judge
	seen func(*accesslog.Record, *replay.Verdict)
}

// Judge implements replay.Judge.
func (l listener) Judge(r *accesslog.Record, now int64, v *replay.Verdict) {
	l.judge.Judge(r, now, v)
	l.seen(r, v)
}
