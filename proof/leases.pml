/* Leases of a sliding limit: machines claim units of slots, spend them, give them back, renew their lease
   and crash. Calls are lost, repeated, answered late or not at all. Clocks differ by a slot.

   Checked: no W+1 slots in a row, which a window of W slots touches, have more than L admitted units.

   Left out: how large a claim is, several keys in a call, resets, requests that are pending, outages
   (fleet.pml), leases that are spread (spread.pml), names of keys (names.pml). A decision reads the time
   and spends in one step.
   Allows: A crash over-blocks a little.

   Go: limiter: Limit.Claim, State.giveBack, State.used, Limit.share, Lease.Worth, Lease.Take, Lease.Join, calendar.Oldest
   Go: internal/engine: batch.claimLocked, batch.renewLocked, leases.deliver, leases.giveLeaseLocked,
   leases.undo, leases.keepLocked, request.decideSlowly
   Go: internal/engine/clock: Clock.Now

   Share: -DT=3
   Mutant: TWICE      a call that arrives twice takes effect twice
   Mutant: UNSURE     a lease is kept although the call that gave it back may have taken effect
   Mutant: SHORT      the store forgets the oldest slot of a window
   Mutant: NEWEST     the store doesn't count units that are charged to later slots
   Mutant: LATE       a machine's time may be behind the store's
   Mutant: SPENDING   units that are being given back can be spent
   Mutant: FORGET     spent units of a later slot are given back with the others
   Mutant: JOIN       a lease takes the slot of a later grant, with its older units
   Without: STALL     a decision reads the time in one slot and spends in the next */
#define L 2 /* units */
#define W 1 /* slots of a window */
#define K 2 /* calls of each machine */
#define M 2 /* machines */
#ifndef T
#define T 4 /* slots in all */
#endif
byte now, used[T], adm[T]; /* the store's slot; charged and admitted units */
typedef Lease { byte units; byte at; byte spent };
Lease cell[M], give[M], back[M], grant[M]; /* held; to be given back; given back by the call; granted */
byte call[M], want[M], ahead[M], calls[M], asOf[M]; /* call: 0 none, 1 under way, 2 done and not answered */
byte i, sum, slot, free;

inline clear(l) { l.units = 0; l.at = 0; l.spent = 0 }
inline copy(to, from) { to.units = from.units; to.at = from.at; to.spent = from.spent }

inline admit(s) {
	adm[s] = adm[s] + 1;
	i = 0;
	do
	:: i + W < T ->
		sum = 0; slot = i;
		do :: slot <= i + W -> sum = sum + adm[slot]; slot++ :: else -> break od;
		assert(sum <= L); i++
	:: else -> break
	od;
	i = 0; sum = 0; slot = 0
}
inline apply(m) { /* State.claim */
	used[back[m].at] = used[back[m].at] - back[m].units;
	if
	:: back[m].at > now ->
		used[back[m].at] = used[back[m].at] - back[m].spent;
#ifndef FORGET
		used[now] = used[now] + back[m].spent
#endif
	:: else -> skip
	fi;
	sum = 0; slot = (now >= W -> now - W : 0);
#ifdef SHORT
	slot = (now >= W -> now - W + 1 : 0);
#endif
	do
#ifdef NEWEST
	:: slot <= now ->
#else
	:: slot < T ->
#endif
		sum = sum + used[slot]; slot++
	:: else -> break
	od;
	free = (sum < L -> L - sum : 0);
	grant[m].units = (want[m] < free -> want[m] : free);
	grant[m].at = (grant[m].units == 0 -> 0 : (now + ahead[m] < T -> now + ahead[m] : now));
	used[grant[m].at] = used[grant[m].at] + grant[m].units;
	asOf[m] = now; call[m] = 2; i = 0; sum = 0; slot = 0; free = 0
}

inline done(m) { call[m] = 0; want[m] = 0; ahead[m] = 0; asOf[m] = 0; clear(back[m]); clear(grant[m]) }
inline deliver(m) { /* leases.deliver, Lease.Join */
	if
	:: grant[m].units == 0 -> skip
	:: grant[m].units > 0 && cell[m].units + cell[m].spent > 0 && cell[m].at == grant[m].at ->
		cell[m].units = cell[m].units + grant[m].units
	:: grant[m].units > 0 && cell[m].units + cell[m].spent > 0 && cell[m].at > grant[m].at -> copy(give[m], grant[m])
	:: else ->
#ifdef JOIN
		grant[m].units = grant[m].units + cell[m].units;
#else
		copy(give[m], cell[m]);
#endif
		copy(cell[m], grant[m])
	fi;
	if /* a waiting request spends as of the batch */
	:: cell[m].units > 0 && cell[m].at >= asOf[m] -> cell[m].units--; cell[m].spent++; admit(asOf[m])
	:: true
	fi;
	done(m)
}

proctype Machine(byte m) {
	do
	:: d_step { call[m] == 0 && calls[m] < K && now < T - 1 -> calls[m]++; call[m] = 1 };
		atomic {
			if :: want[m] = 0 :: want[m] = 1 :: want[m] = 2; if :: ahead[m] = 1 :: skip fi fi;
			if /* what was to be given back, the lease, or nothing: a renewal */
			:: give[m].units + give[m].spent > 0 -> copy(back[m], give[m]); clear(give[m])
			:: give[m].units + give[m].spent == 0 && cell[m].units > 0 -> copy(back[m], cell[m]);
#ifndef SPENDING
				clear(cell[m])
#endif
			:: give[m].units + give[m].spent == 0
			fi
		}
	:: d_step { call[m] == 1 -> apply(m) }
#ifdef TWICE
	:: d_step { call[m] == 2 && back[m].units <= used[back[m].at] -> apply(m) }
#endif
	:: atomic { call[m] == 2 -> deliver(m) }
	:: d_step { call[m] == 1 && give[m].units + give[m].spent == 0 -> /* it was not sent: keepLocked */
			if :: cell[m].units + cell[m].spent == 0 -> copy(cell[m], back[m]) :: else -> copy(give[m], back[m]) fi;
			done(m) }
	:: d_step { call[m] > 0 -> /* the outcome stays unknown */
#ifdef UNSURE
			if :: cell[m].units + cell[m].spent == 0 -> copy(cell[m], back[m]) :: else -> skip fi;
#endif
			done(m) }
	:: atomic { cell[m].units > 0 && (cell[m].at > now /* its clock is ahead */ || cell[m].at == now
#ifdef LATE
			|| cell[m].at + 1 == now
#endif
			) -> cell[m].units--; cell[m].spent++;
#ifdef STALL
			if :: now + 1 < T -> admit(now + 1) :: else -> skip fi
#else
			admit(now)
#endif
		}
	:: d_step { cell[m].units + give[m].units > 0 -> clear(cell[m]); clear(give[m]) } /* a crash: another machine goes on */
	od
}

proctype Clock() { do :: d_step { now + 1 < T -> now++ } :: break od }

init { atomic { i = 0; do :: i < M -> run Machine(i); i++ :: else -> break od; i = 0; run Clock() } }
