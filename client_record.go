package tally

import (
	"math"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// record returns what memory knows of what the client has done, or nil. While it is
// banned for what it is a part of, that is what counts.
func (c *client) record() *reputation.Record {
	instance := c.app.use()
	if instance == nil || c.subject == nil {
		return nil
	}
	if c.subject.Parent != nil {
		record := instance.engine.CachedRecord(engine.Client{Key: c.subject.Parent.Key})
		if record != nil && record.Banned(instance.engine.Now()) {
			return record
		}
	}
	return instance.engine.CachedRecord(engine.Client{Key: c.subject.Key})
}

// maxUnverifiedPoints is how many points a session lacks at most for what was done by a
// client that is not verified: others in its network who look the same have the same
// record, and a session is their way out of it. It leaves 60 % of the limits.
const maxUnverifiedPoints = 50

// passRecordTo gives a session that the client has earned the client's record: all that
// its score lacks, or if it is not verified, up to maxStrangersPoints, and as many if
// it is banned.
func (c *client) passRecordTo(to session.Session) {
	points := c.inheritedPoints()
	if points == 0 || c.app.Reputation.isOff() {
		return
	}
	c.app.punish(&engine.Client{Key: append([]byte{identity.TagSession}, to.ID[:]...)}, reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Inherited},
		Points:    points,
	})
}

// inheritedPoints returns how many points a session lacks that the client earns: for the
// worst that is known of it and of what it is a part of, so that nobody leaves a
// record behind by saying that another site has sent the solution.
func (c *client) inheritedPoints() (points int) {
	c.app.decide(c.http.Context(), c.subject, nil) // so that memory knows its records
	instance := c.app.use()
	for of := c.subject; of != nil && instance != nil; of = of.Parent {
		if record := instance.engine.CachedRecord(engine.Client{Key: of.Key}); record != nil {
			points = max(points, c.bequest(record, instance.engine.Now()))
		}
	}
	return points
}

// bequest returns how many points a session lacks for one record of who earns it.
func (c *client) bequest(record *reputation.Record, now int64) int {
	switch {
	case c.Kind.Verified():
		return missingPoints(record, now)
	case record.Banned(now):
		return maxUnverifiedPoints
	}
	return min(missingPoints(record, now), maxUnverifiedPoints)
}

// missingPoints returns how many whole points a score lacks.
func missingPoints(record *reputation.Record, now int64) int {
	return int(math.Round(reputation.Best - record.Score(now)))
}
