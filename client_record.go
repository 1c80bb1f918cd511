package tally

import (
	"math"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// record returns the client's record as far as memory has it, or nil. While the parent of its
// subject is banned, it returns the parent's.
func (c *client) record() *reputation.Record {
	instance := c.app.use()
	if instance == nil || c.subject == nil {
		return nil
	}
	if c.subject.Parent != nil {
		record := instance.Engine.CachedRecord(engine.Client{Key: c.subject.Parent.Key})
		if record != nil && record.Banned(instance.Engine.Now()) {
			return record
		}
	}
	return instance.Engine.CachedRecord(engine.Client{Key: c.subject.Key})
}

// maxUnverifiedPoints is the most that a session lacks because of an unverified client's
// record. Everybody in a network who sends the same header fields has that record, and a
// session is their way out of it. A session that lacks this much has 60 % of the limits.
const maxUnverifiedPoints = 50

// passRecordTo takes points off the score of a session that the client has earned: all that
// the client's own score lacks if it is verified, else up to maxUnverifiedPoints.
func (c *client) passRecordTo(to session.Session) {
	points := c.inheritedPoints()
	if points == 0 || !c.app.scores {
		return
	}
	c.app.punish(&engine.Client{Key: append([]byte{identity.TagSession}, to.ID[:]...)}, reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Inherited},
		Points:    points,
	})
}

// inheritedPoints returns how many points a session of the client lacks. The worse of two
// records counts, the subject's and its parent's. Otherwise a client could leave its record
// behind with a header field that says another site has sent the solution.
func (c *client) inheritedPoints() (points int) {
	c.app.decide(c.http.Context(), c.subject, nil) // so that memory knows its records
	instance := c.app.use()
	for of := c.subject; of != nil && instance != nil; of = of.Parent {
		if record := instance.Engine.CachedRecord(engine.Client{Key: of.Key}); record != nil {
			points = max(points, c.bequest(record, instance.Engine.Now()))
		}
	}
	return points
}

// bequest returns how many points a session of the client lacks because of one record.
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
