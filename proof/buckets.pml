/* Leases of a token bucket: a lease drains after the units that its own holder has spent, or keeps its worth
   for some time because it is charged as of the end of that time. Machines claim, spend, give back, renew
   and crash; calls are lost, repeated or stay unanswered; clocks differ by a tick.

   Checked: a bucket that counts only what is admitted never has more than B units. So in any time of
   length t at most B + t are admitted, as a unit is refilled in each tick.

   Left out: parts of a unit, clocks that are further apart (MaxSkew), amounts that change, pending requests
   (limiter.Held), and that a waiting request may spend as of its batch. A decision takes one step.

   Go: limiter: Bucket.claim, Bucket.drained, Bucket.inUseAt, Bucket.asOf, Bucket.lasting, Limit.MaxLasts,
   Lease.drained, Lease.Worth, Lease.SpendWorth, Lease.Take, Lease.joinBucket, Lease.remember
   Go: internal/engine: leases.deliver, leases.undo, leases.keepLocked, batch.renewLocked, writer.lastsOf

   Share: -DK=2
   Mutant: NODRAIN    a lease doesn't drain
   Mutant: OTHERS -DK=4 a lease drains only after the units of all holders
   Mutant: LASTS      a lease keeps its worth while the bucket drains
   Mutant: ASOF       a bucket whose time is later than a claim's counts as if it had drained
   Mutant: GIVEALL    drained units are given back
   Mutant: TWICE      a call that arrives twice takes effect twice
   Mutant: UNSURE     a lease is kept although the call that gave it back may have taken effect */
#define B 3    /* units: the burst */
#define T 4    /* ticks in all */
#define M 2    /* machines */
#define LAST 1 /* ticks that a lease may keep its worth */
#ifndef K
#define K 3    /* calls of all machines */
#endif
typedef Lease { byte units; byte at; byte used; byte spent };
byte now, at, units, level; /* the bucket in the store; the units in a bucket of what was admitted */
Lease cell[M], back[M], grant[M], old, late;
byte call[M], want[M], lasts[M], calls; /* call: 0 none, 1 under way, 2 done and not answered */
byte d, e, outside, was;

inline clear(l) { l.units = 0; l.at = 0; l.used = 0; l.spent = 0 }
inline copy(to, from) { to.units = from.units; to.at = from.at; to.used = from.used; to.spent = from.spent }
inline drain(l, t) { /* Lease.drained */
	if
	:: t > l.at ->
		d = t - l.at;
		e = (d > l.spent -> d - l.spent : 0);
#ifdef OTHERS
		e = (d > l.used - l.units -> d - (l.used - l.units) : 0);
#endif
		l.used = (l.used > d -> l.used - d : 0);
		l.spent = (l.spent > d -> l.spent - d : 0);
#ifndef NODRAIN
		l.units = (l.units > e -> l.units - e : 0);
#endif
		l.used = (l.used < l.units -> l.units : l.used);
		l.at = t; d = 0; e = 0
	:: else -> skip
	fi
}
inline remember(l, n) { /* Lease.remember */
	outside = l.used - l.units;
	l.spent = (n > l.spent -> (n < outside -> n : outside) : l.spent); outside = 0
}
inline join(m, young) { /* Lease.joinBucket; young is overwritten */
	if
	:: cell[m].at + cell[m].used == 0 -> copy(cell[m], young)
	:: else ->
		copy(old, cell[m]);
		if
		:: old.at < young.at -> drain(old, young.at)
		:: else -> drain(young, old.at); copy(late, young); copy(young, old); copy(old, late);
			young.used = (old.used > young.used -> old.used : young.used)
		fi;
		outside = young.used - young.units;
		young.units = young.units + (old.units < outside -> old.units : outside);
		remember(young, old.spent);
		copy(cell[m], young); clear(old); clear(late); was = 0; outside = 0
	fi
}
inline inUse(u, t) { e = u + (t > now -> t - now : 0) } /* Bucket.inUseAt */

inline apply(m) { /* Bucket.claim */
	if :: now > at -> d = now - at; units = (units > d -> units - d : 0); at = now :: else -> skip fi;
	copy(late, back[m]);
#ifndef GIVEALL
	drain(late, at);
#endif
	units = (units > late.units -> units - late.units : 0);
	inUse(units, at);
#ifdef ASOF
	e = units;
#endif
	e = (e < B -> B - e : 0); /* free */
	clear(grant[m]);
	grant[m].units = (want[m] < e -> want[m] : e);
	if
	:: lasts[m] > 0 && grant[m].units > 1 && now + lasts[m] > at ->
		d = now + lasts[m] - at;
		was = (units > d -> units - d : 0);
		inUse(was, now + lasts[m]);
		if :: e + grant[m].units <= B -> units = was; at = now + lasts[m]; drain(late, at) :: else -> skip fi
	:: else -> skip
	fi;
	units = units + grant[m].units;
	grant[m].at = at; grant[m].used = units;
#ifdef LASTS
	grant[m].at = (grant[m].units > 1 -> now + LAST : grant[m].at);
#endif
	remember(grant[m], late.spent);
	clear(late); d = 0; e = 0; was = 0; call[m] = 2
}
inline done(m) { call[m] = 0; want[m] = 0; lasts[m] = 0; clear(back[m]); clear(grant[m]) }

inline spend(m, t) {
	drain(cell[m], t);
	if
	:: cell[m].units > 0 -> cell[m].units--; cell[m].spent++; level++; assert(level <= B)
	:: else -> skip
	fi
}

proctype Machine(byte m) {
	do
	:: atomic { call[m] == 0 && calls < K -> calls++; call[m] = 1;
			if :: want[m] = 0 :: want[m] = 1 :: want[m] = 3; if :: lasts[m] = LAST :: skip fi fi;
			if
			:: cell[m].units > 0 -> copy(back[m], cell[m]); cell[m].used = cell[m].used - cell[m].units; cell[m].units = 0 /* Lease.Take */
			:: true /* a renewal */
			fi }
	:: d_step { call[m] == 1 -> apply(m) }
#ifdef TWICE
	:: d_step { call[m] == 2 -> apply(m) }
#endif
	:: d_step { call[m] == 2 -> join(m, grant[m]); done(m) }
	:: d_step { call[m] == 1 -> /* it was not sent */
			if :: back[m].used > 0 -> join(m, back[m]) :: else -> skip fi; done(m) }
	:: d_step { call[m] > 0 -> /* the outcome stays unknown */
#ifdef UNSURE
			if :: back[m].used > 0 -> join(m, back[m]) :: else -> skip fi;
#endif
			done(m) }
	:: d_step { cell[m].units > 0 -> spend(m, now) }
	:: d_step { cell[m].units > 0 -> spend(m, now + 1) } /* its clock is ahead */
	:: d_step { cell[m].units > 0 -> clear(cell[m]) } /* a crash: another machine goes on */
	od
}

proctype Clock() { do :: d_step { now + 1 < T -> now++; level = (level > 0 -> level - 1 : 0) } :: break od }

init { atomic { run Machine(0); run Machine(1); run Clock() } }
