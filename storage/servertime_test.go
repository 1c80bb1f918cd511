package storage

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// server is a server whose clock can be set, and the correction kept by its store.
type server struct {
	true   int64 // the time that has really passed
	wrong  int64 // by how much the clock is ahead of it
	kept   ServerTime
	latest int64
}

// machine is a caller with a steady clock of its own.
type machine struct {
	Witness
	steadyFrom, wallWrong int64
	source                byte
}

func (s *server) tell(m *machine) Time {
	asked := Reading{Wall: s.true + m.wallWrong, Steady: m.steadyFrom + s.true, Source: Source{m.source}}
	for {
		answer := s.kept.Tell(s.true+s.wrong, s.latest, m.Witness, asked, 0)
		if answer.Correct {
			s.kept = answer.Correction
			m.Witness = Witness{}
			continue
		}
		s.latest = answer.Now
		m.Witness = s.kept.Witness(answer.Time, asked, 0)
		return answer.Time
	}
}

// While machines call more often than every 10 seconds, the time advances with their steady clocks
// within the slew, whatever happens to the server's clock, and never runs backwards.
func TestServerTimeGoesOn(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &server{true: 1_800_000_000e9}
		machines := []*machine{{source: 1}, {source: 2, steadyFrom: 77e9}, {source: 3, steadyFrom: -5e9}}
		began := s.true
		first := s.tell(machines[0]).Now
		before := first
		for range 2000 {
			s.true += random.Int64N(int64(3 * time.Second))
			if random.IntN(50) == 0 {
				by := int64(4*ServerTrust) + random.Int64N(int64(100*24*time.Hour))>>random.IntN(40)
				if s.wrong += by; random.IntN(2) == 0 {
					s.wrong -= 2 * by
				}
			}
			// The one that asked last knows best; any other may have been silent for long.
			for _, i := range random.Perm(len(machines))[:1+random.IntN(3)] {
				m := machines[i]
				if !m.any || s.true-(m.steady-m.steadyFrom) > int64(witnessFor) {
					m = machines[0]
				}
				now := s.tell(m).Now
				if now < before {
					t.Fatalf("seed %d: the time went back by %v", seed, time.Duration(before-now))
				}
				before = now
			}
			s.tell(machines[0])
			passed := s.true - began
			if gained := before - first - passed; max(gained, -gained) > passed/Slew+int64(2000*time.Microsecond) {
				t.Fatalf("seed %d: in %v the time gained %v", seed, time.Duration(passed), time.Duration(gained))
			}
		}
	}
}

// The difference of a clock that was set heals at the rate of the slew.
func TestServerTimeHeals(t *testing.T) {
	s, m := &server{true: 1_800_000_000e9}, &machine{source: 1}
	s.tell(m)
	s.wrong = int64(-3 * time.Second)
	if answer := s.tell(m); answer.Apart != s.wrong {
		t.Fatalf("the server's clock is said to be %v ahead, want %v", time.Duration(answer.Apart), time.Duration(s.wrong))
	}
	for range 3 * Slew / 5 {
		s.true += int64(5 * time.Second)
		s.tell(m)
	}
	s.true += int64(5 * time.Second)
	if answer := s.tell(m); answer.Now != s.true+s.wrong || answer.Apart != 0 {
		t.Errorf("%v after it has healed the time is %v off", 3*Slew*time.Second, time.Duration(answer.Now-s.true-s.wrong))
	}
}

// If no machine has read the time lately, and the wall clock of the caller agrees with the
// server's, the caller was paused. Then the server's clock is trusted, but the time never runs
// backwards.
func TestServerTimeWithoutWitness(t *testing.T) {
	const hour = int64(time.Hour)
	s, m := &server{true: 1_800_000_000e9}, &machine{source: 1}
	before := s.tell(m).Now
	s.true += hour
	s.wrong, m.wallWrong = hour, hour
	if got := s.tell(m).Now; got != before+2*hour {
		t.Errorf("set ahead in an hour of silence: %v passed", time.Duration(got-before))
	}
	s.true += hour
	s.wrong, m.wallWrong = -10*hour, -10*hour
	at := s.tell(m).Now
	if at != before+2*hour {
		t.Errorf("set back in an hour of silence: %v passed", time.Duration(at-before))
	}
	s.true += int64(time.Minute)
	if got := s.tell(m).Now - at; got < int64(59*time.Second) {
		t.Errorf("a minute later, %v passed: the time stands still", time.Duration(got))
	}
}

// A server that comes back after a while with another clock doesn't take the time along if neither
// clock of a machine confirms it.
func TestServerTimeAfterAnOutage(t *testing.T) {
	const hour = int64(time.Hour)
	for _, wrong := range []int64{-1000 * hour, -hour, hour, 3 * hour, 10000 * hour} {
		s, m := &server{true: 1_800_000_000e9}, &machine{source: 1}
		before := s.tell(m).Now
		s.true += hour
		s.wrong = wrong
		if off := s.tell(m).Now - before - hour; max(off, -off) > int64(time.Second) {
			t.Errorf("set by %v in an outage of an hour, the time is off by %v", time.Duration(wrong), time.Duration(off))
		}
	}
}

// A machine adopts another one's correction, so that two machines that disagree don't set the time
// to and fro.
func TestServerTimeIsNotSetToAndFro(t *testing.T) {
	s, a, b := &server{true: 1_800_000_000e9}, &machine{source: 1}, &machine{source: 2}
	s.tell(a)
	s.tell(b)
	corrections, kept := 0, s.kept
	for range 1000 {
		s.true += int64(time.Second)
		a.steadyFrom -= int64(3 * time.Second) // its clock stands still now and then
		s.tell(a)
		s.tell(b)
		if s.kept != kept {
			kept = s.kept
			corrections++
		}
	}
	if off := s.latest - s.true; corrections > 0 && max(off, -off) > int64(2*ServerTrust) {
		t.Errorf("%d corrections lead %v away", corrections, time.Duration(off))
	}
}

// For any correction and witness nothing overflows, and the time never runs backwards.
func FuzzServerTime(f *testing.F) {
	f.Add(int64(0), int64(0), int64(1e18), int64(0), int64(1e18), int64(0), int64(0), int64(1e9))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, ahead, since, clock, last, was, apart, steady, later int64) {
		k := ServerTime{Ahead: ahead, Since: since}
		w := k.Witness(Time{Now: min(max(was, 0), lastTime), Apart: min(max(apart, -int64(Heals)), int64(Heals))}, Reading{Steady: steady}, 0)
		answer := k.Tell(clock, last, w, Reading{Steady: later}, 0)
		if answer.Now < min(max(last, firstTime), lastTime) || answer.Now > lastTime {
			t.Fatalf("%+v tells %+v, the last was %d", k, answer, last)
		}
		if !answer.Correct {
			return
		}
		again := answer.Correction.Tell(clock, last, Witness{}, Reading{}, 0)
		if again.Correct || again.Now != answer.Now {
			t.Fatalf("%+v is corrected to %+v, and that tells %+v", k, answer, again)
		}
	})
}
